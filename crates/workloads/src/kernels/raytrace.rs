//! The ray tracer: balls that mirror each other above a floor. A task is a block of pixels, and every ray takes its
//! number from a counter that all threads share behind one lock, as in SPLASH-2's `raytrace`, whose contention comes
//! from there.

use super::guarded::Guarded;
use super::tasks::Tasks;
use super::vector::Vector;
use super::{on_threads, Config};
use crate::random::Random;
use crate::Mutex;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const WIDTH: usize = 320;
/// Of an image of scale 1.
const HEIGHT: usize = 120;
/// Pixels in a block.
const BLOCK: usize = 16;
const BALLS: usize = 40;
/// A ray is mirrored so often at most.
const DEPTH: u32 = 4;

struct Ball {
    centre: Vector,
    radius: f64,
    brightness: f64,
    /// Share of the light that it mirrors.
    mirrors: f64,
}

struct Scene {
    balls: Vec<Ball>,
    light: Vector,
}

impl Scene {
    fn new() -> Self {
        let mut random = Random::seeded(1, 0);
        let mut between =
            |low: f64, high: f64| low + (high - low) * f64::from(random.below(1 << 20)) / f64::from(1 << 20);
        let ball = |_| {
            let radius = between(0.2, 0.6);
            let centre = Vector([between(-4.0, 4.0), radius, between(2.0, 9.0)]);
            Ball { centre, radius, brightness: between(0.3, 1.0), mirrors: between(0.0, 0.8) }
        };
        Self { balls: (0..BALLS).map(ball).collect(), light: Vector([-5.0, 8.0, -3.0]) }
    }

    /// The first ball that the ray meets, and how far away; a direction has length 1.
    fn ball(&self, from: Vector, towards: Vector) -> Option<(f64, &Ball)> {
        let distance = |ball: &Ball| {
            let offset = ball.centre - from;
            let along = offset.dot(towards);
            let inside = ball.radius * ball.radius - (offset.dot(offset) - along * along);
            Some(along - inside.max(0.0).sqrt()).filter(|distance| inside > 0.0 && *distance > 1e-6)
        };
        let met = self.balls.iter().filter_map(|ball| Some((distance(ball)?, ball)));
        met.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The brightness that a ray sees.
    fn trace(&self, from: Vector, towards: Vector, depth: u32) -> f64 {
        // The floor is where the height is 0: a chequered one.
        let floor = (towards.0[1] < 0.0).then(|| -from.0[1] / towards.0[1]);
        let (distance, normal, brightness, mirrors, at) = match (self.ball(from, towards), floor) {
            (Some((distance, ball)), floor) if floor.is_none_or(|floor| distance < floor) => {
                let at = from + towards * distance;
                (distance, (at - ball.centre).unit(), ball.brightness, ball.mirrors, at)
            }
            (_, Some(distance)) => {
                let at = from + towards * distance;
                let is_dark = (at.0[0].floor() + at.0[2].floor()).rem_euclid(2.0) == 0.0;
                (distance, Vector([0.0, 1.0, 0.0]), if is_dark { 0.2 } else { 0.8 }, 0.1, at)
            }
            _ => return 0.5 + 0.5 * towards.0[1],
        };
        let to_light = (self.light - at).unit();
        let is_lit = self.ball(at, to_light).is_none();
        let light = if is_lit { normal.dot(to_light).max(0.0) } else { 0.0 };
        let own = brightness * (0.2 + 0.8 * light) / (1.0 + 0.01 * distance);
        if depth == 0 {
            return own;
        }
        let mirrored = towards - normal * (2.0 * normal.dot(towards));
        own * (1.0 - mirrors) + mirrors * self.trace(at, mirrored, depth - 1)
    }

    /// The brightness of a pixel, from 0 to 255.
    fn pixel(&self, number: usize, height: usize) -> u32 {
        let across = (number % WIDTH) as f64 / WIDTH as f64 - 0.5;
        let up = 0.4 - 0.8 * (number / WIDTH) as f64 / height as f64;
        let towards = Vector([across, up, 0.8]).unit();
        (self.trace(Vector([0.0, 1.2, -2.0]), towards, DEPTH) * 255.0).clamp(0.0, 255.0) as u32
    }
}

/// Stands in a pixel once for each time that it was computed.
const COMPUTED: u32 = 1 << 16;

/// The pixels, none of which was computed.
fn blank(pixels: usize) -> Vec<AtomicU32> {
    (0..pixels).map(|_| AtomicU32::new(0)).collect()
}

/// Computes the pixels of a block; `count` counts a ray.
fn block(scene: &Scene, image: &[AtomicU32], height: usize, task: usize, count: &mut dyn FnMut()) {
    for (number, pixel) in image.iter().enumerate().skip(task * BLOCK).take(BLOCK) {
        count();
        let before = pixel.load(Relaxed);
        pixel.store(before + COMPUTED + scene.pixel(number, height), Relaxed);
    }
}

/// What is there in the end.
fn check(scene: &Scene, image: &[AtomicU32], height: usize, rays: usize) -> String {
    let pixels = image.len();
    assert!(rays == pixels, "{rays} rays were counted for {pixels} pixels");
    for (number, pixel) in image.iter().enumerate() {
        let value = pixel.load(Relaxed);
        assert!(value / COMPUTED == 1, "pixel {number} was computed {} times", value / COMPUTED);
        // A part again, by one thread.
        assert!(number % 101 != 0 || value % COMPUTED == scene.pixel(number, height), "pixel {number} is wrong");
    }
    let sum: u64 = image.iter().map(|pixel| u64::from(pixel.load(Relaxed) % COMPUTED)).sum();
    format!("{rays} rays, mean brightness {:.3}", sum as f64 / pixels as f64)
}

/// Renders the image.
pub fn run<H: Deref<Target: Mutex> + Send + Sync>(config: Config, make: impl Fn() -> H) -> String {
    let height = HEIGHT * config.scale as usize;
    let scene = Scene::new();
    let image = blank(WIDTH * height);
    let rays = Guarded::new(make(), 0_usize);
    let tasks = Tasks::new(config.threads, image.len() / BLOCK, make);
    on_threads(config.threads, &|thread| {
        let mut own = tasks.own();
        while let Some(task) = tasks.take(thread, &mut own) {
            block(&scene, &image, height, task, &mut || rays.with(&mut own, |rays| *rays += 1));
        }
    });
    check(&scene, &image, height, rays.into_data())
}

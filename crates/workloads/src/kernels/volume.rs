//! The volume renderer: views of a cloud from several sides, one after another. A task is a small block of pixels,
//! through which rays are followed until the cloud lets no more light through, so that tasks differ in length and
//! threads take from each other's queues, as in SPLASH-2's `volrend`.

use super::tasks::Tasks;
use super::vector::Vector;
use super::{on_threads, Config};
use crate::random::Random;
use crate::Mutex;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Voxels along each edge of the cloud.
const EDGE: usize = 64;
/// Pixels along each edge of a view.
const VIEW: usize = 96;
/// Pixels in a block.
const BLOCK: usize = 4;
/// Views of scale 1.
const VIEWS: usize = 6;
const BLOBS: usize = 6;
/// Where so little light is left a ray ends.
const DARK: f64 = 0.02;

/// How dense the cloud is in each voxel, from 0 to 1.
struct Cloud(Vec<f64>);

impl Cloud {
    fn new() -> Self {
        let mut random = Random::seeded(2, 0);
        let mut place = || 16.0 + f64::from(random.below(32));
        let blobs: Vec<(Vector, f64)> =
            (0..BLOBS).map(|_| (Vector([place(), place(), place()]), place() / 4.0)).collect();
        let density = |voxel: usize| {
            let at = Vector([voxel % EDGE, voxel / EDGE % EDGE, voxel / EDGE / EDGE].map(|part| part as f64));
            let of = |(centre, radius): &(Vector, f64)| {
                let offset = at - *centre;
                (1.0 - offset.dot(offset).sqrt() / radius).max(0.0)
            };
            blobs.iter().map(of).sum::<f64>().min(1.0)
        };
        Self((0..EDGE * EDGE * EDGE).map(density).collect())
    }

    fn density(&self, at: Vector) -> Option<f64> {
        let mut index = 0;
        for part in at.0.into_iter().rev() {
            if !(0.0..EDGE as f64).contains(&part) {
                return None;
            }
            index = index * EDGE + part as usize;
        }
        Some(self.0[index])
    }

    /// The brightness of a pixel of a view, from 0 to 255.
    fn pixel(&self, view: usize, number: usize) -> u32 {
        let (sine, cosine) = (view as f64 * 0.35).sin_cos();
        let (towards, across) = (Vector([sine, 0.0, cosine]), Vector([cosine, 0.0, -sine]));
        let middle = EDGE as f64 / 2.0;
        let place = |pixel: usize| (pixel as f64 / VIEW as f64 - 0.5) * EDGE as f64 * 1.4;
        let up = Vector([0.0, place(number / VIEW), 0.0]);
        let start = Vector([middle; 3]) + across * place(number % VIEW) + up;
        let (mut light, mut seen) = (1.0, 0.0);
        for step in 0..2 * EDGE {
            let at = start + towards * (step as f64 - EDGE as f64);
            let Some(density) = self.density(at) else { continue };
            let held = light * density * 0.15;
            seen += held * (0.4 + 0.6 * at.0[1] / EDGE as f64);
            light -= held;
            if light < DARK {
                break;
            }
        }
        (seen * 255.0).clamp(0.0, 255.0) as u32
    }
}

/// Stands in a pixel once for each time that it was computed.
const COMPUTED: u32 = 1 << 16;

/// The pixels of a view, none of which was computed.
fn blank() -> Vec<AtomicU32> {
    (0..VIEW * VIEW).map(|_| AtomicU32::new(0)).collect()
}

/// Computes the pixels of a block.
fn block(cloud: &Cloud, image: &[AtomicU32], view: usize, task: usize) {
    for (number, pixel) in image.iter().enumerate().skip(task * BLOCK).take(BLOCK) {
        let before = pixel.load(Relaxed);
        pixel.store(before + COMPUTED + cloud.pixel(view, number), Relaxed);
    }
}

/// The brightness of a view's pixels, added up.
fn check(cloud: &Cloud, image: Vec<AtomicU32>, view: usize) -> u64 {
    let mut sum = 0;
    for (number, pixel) in image.into_iter().map(AtomicU32::into_inner).enumerate() {
        assert!(pixel / COMPUTED == 1, "pixel {number} was computed {} times", pixel / COMPUTED);
        // A part again, by one thread.
        assert!(number % 101 != 0 || pixel % COMPUTED == cloud.pixel(view, number), "pixel {number} is wrong");
        sum += u64::from(pixel % COMPUTED);
    }
    sum
}

/// Renders the views.
pub fn run<H: Deref<Target: Mutex> + Send + Sync>(config: Config, make: impl Fn() -> H) -> String {
    let views = VIEWS * config.scale as usize;
    let cloud = Cloud::new();
    let mut sum = 0;
    for view in 0..views {
        let image = blank();
        let tasks = Tasks::new(config.threads, image.len() / BLOCK, &make);
        on_threads(config.threads, &|thread| {
            let mut own = tasks.own();
            while let Some(task) = tasks.take(thread, &mut own) {
                block(&cloud, &image, view, task);
            }
        });
        sum += check(&cloud, image, view);
    }
    format!("{views} views, mean brightness {:.3}", sum as f64 / (views * VIEW * VIEW) as f64)
}

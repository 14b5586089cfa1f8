//! A sheet of paper to draw on, in units that an SVG viewer shows as one pixel each.
//!
//! Everything is drawn in a grid [`FINE`] times as fine. An SVG keeps the grid; a PNG is reduced by two, which smooths
//! the edges and leaves two pixels for each unit.

use crate::look::{Look, Theme};
use crate::Format;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{register_font, FontStyle, FontTransform};
use std::sync::Once;

/// Grid lines per unit.
const FINE: f64 = 4.0;

/// A point or a distance, in units; y grows downwards.
pub type Point = (f64, f64);

/// A colour, and how much it covers what lies below it (1: completely).
#[derive(Clone, Copy)]
pub struct Ink(pub RGBColor, pub f64);

/// Text and the frame.
pub const BLACK: Ink = Ink(RGBColor(30, 30, 30), 1.0);
/// Second to the data: titles of axes, reference lines.
pub const GREY: Ink = Ink(RGBColor(95, 95, 95), 1.0);
/// Lines of the grid.
pub const PALE: Ink = Ink(RGBColor(226, 226, 226), 1.0);
/// The paper.
pub const WHITE: Ink = Ink(RGBColor(255, 255, 255), 1.0);
/// Data that stands back.
pub const FADED: Ink = Ink(RGBColor(188, 188, 188), 1.0);

/// Eight colours that colour-blind readers tell apart (Okabe and Ito, 2008; their yellow is too pale for lines).
pub const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(140, 80, 40),
];

/// A colour on white paper, and the one that stands for it on dark paper.
const IN_THE_DARK: [(RGBColor, RGBColor); 13] = [
    (WHITE.0, RGBColor(24, 26, 30)),
    (BLACK.0, RGBColor(230, 230, 230)),
    (GREY.0, RGBColor(168, 170, 174)),
    (PALE.0, RGBColor(52, 55, 61)),
    (FADED.0, RGBColor(92, 96, 103)),
    (COLOURS[0], RGBColor(60, 140, 220)),
    (COLOURS[1], RGBColor(236, 112, 30)),
    (COLOURS[2], RGBColor(18, 176, 132)),
    (COLOURS[3], RGBColor(219, 142, 184)),
    (COLOURS[4], RGBColor(238, 172, 32)),
    (COLOURS[5], RGBColor(130, 208, 250)),
    (COLOURS[6], RGBColor(240, 240, 240)),
    (COLOURS[7], RGBColor(196, 132, 86)),
];

/// The height of ordinary text.
pub const TEXT: f64 = 13.0;

/// Which side of a text its position is.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// Its left end.
    Left,
    /// Its middle.
    Middle,
    /// Its right end.
    Right,
}

/// What a picture is drawn on, as SVG or as PNG.
pub trait Paper {
    /// Joined points.
    fn line(&self, points: &[Point], ink: Ink, width: f64);
    /// The inside of a closed line.
    fn area(&self, points: &[Point], ink: Ink);
    /// The inside of a rectangle between two corners, in whole lines of the grid.
    fn tile(&self, from: Point, to: Point, ink: Ink);
    /// A circle: its inside, or its line.
    fn circle(&self, centre: Point, radius: f64, ink: Ink, width: Option<f64>);
    /// Text; the position is in the middle of its height.
    fn text(&self, text: &str, at: Point, anchor: Anchor, size: f64, ink: Ink, upwards: bool);

    /// Broken lines.
    fn dashes(&self, from: Point, to: Point, ink: Ink) {
        let length = (to.0 - from.0).hypot(to.1 - from.1).max(1e-9);
        let at = |along: f64| {
            let share = (along / length).min(1.0);
            (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share)
        };
        let (dash, period) = (6.0, 10.0);
        for index in 0..(length / period).ceil() as usize {
            let start = index as f64 * period;
            self.line(&[at(start), at(start + dash)], ink, 1.25);
        }
    }
}

/// How long a text is.
pub fn length(text: &str, size: f64) -> f64 {
    know_font();
    let font = ("sans-serif", size * FINE).into_font();
    f64::from(sure(font.box_size(text)).0) / FINE
}

fn know_font() {
    static FONT: Once = Once::new();
    FONT.call_once(|| {
        let known = register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular());
        assert!(known.is_ok(), "the built-in font is one");
    });
}

/// Draws a picture of this size and gives its file's bytes.
pub fn render(size: Point, look: Look, draw: impl Fn(&dyn Paper)) -> Vec<u8> {
    know_font();
    let (width, height) = ((size.0 * FINE) as u32, (size.1 * FINE) as u32);
    let dark = look.theme == Theme::Dark;
    match look.format {
        Format::Svg => {
            let mut text = String::new();
            let area = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
            draw(&Sheet { area, sag: 0.0, dark });
            let own = format!("<svg width=\"{width}\" height=\"{height}\"");
            let shown = format!("<svg width=\"{}\" height=\"{}\"", size.0, size.1);
            let text = text.replacen(&own, &shown, 1);
            // The font that lengths were measured with, or one of equal widths.
            let text = text.replace("font-family=\"sans-serif\"", "font-family=\"DejaVu Sans, Verdana, sans-serif\"");
            let style = if look.theme == Theme::Auto { style_in_the_dark() } else { String::new() };
            text.replacen(">\n", &format!(">\n{style}"), 1).into_bytes()
        }
        Format::Png => {
            let mut pixels = vec![255; (width * height * 3) as usize];
            let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
            draw(&Sheet { area, sag: 0.11, dark });
            encode(&halve(&pixels, width as usize), width / 2, height / 2)
        }
    }
}

/// Makes a reader whose system is dark see dark paper.
fn style_in_the_dark() -> String {
    let code = |RGBColor(r, g, b): RGBColor| format!("#{r:02X}{g:02X}{b:02X}");
    let rules = IN_THE_DARK.map(|(light, dark)| {
        let (light, dark) = (code(light), code(dark));
        format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}\n")
    });
    format!("<style>@media (prefers-color-scheme: dark) {{\n{}}}</style>\n", rules.concat())
}

/// Each pixel of the result is the mean of four.
fn halve(pixels: &[u8], width: usize) -> Vec<u8> {
    let rows: Vec<&[u8]> = pixels.chunks_exact(width * 3).collect();
    let mut half = Vec::with_capacity(pixels.len() / 4);
    for pair in rows.chunks_exact(2) {
        for column in (0..width * 3).step_by(6) {
            for byte in column..column + 3 {
                let sum: u16 = pair.iter().map(|row| u16::from(row[byte]) + u16::from(row[byte + 3])).sum();
                half.push((sum / 4) as u8);
            }
        }
    }
    half
}

fn encode(pixels: &[u8], width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(pixels));
    assert!(written.is_ok(), "a picture in memory can be written");
    bytes
}

fn fine(point: Point) -> (i32, i32) {
    ((point.0 * FINE).round() as i32, (point.1 * FINE).round() as i32)
}

/// Drawing in memory cannot fail.
fn sure<T, E: std::fmt::Debug>(result: Result<T, E>) -> T {
    result.expect("drawing in memory")
}

struct Sheet<B: DrawingBackend> {
    area: DrawingArea<B, Shift>,
    /// How far text has to be lowered to be in the middle, in heights of the text.
    sag: f64,
    dark: bool,
}

impl<B: DrawingBackend> Sheet<B> {
    fn colour(&self, Ink(colour, share): Ink) -> RGBAColor {
        let dark = IN_THE_DARK.iter().find(|(light, _)| self.dark && *light == colour);
        dark.map_or(colour, |(_, dark)| *dark).mix(share)
    }

    fn style(&self, ink: Ink, width: Option<f64>) -> ShapeStyle {
        match width {
            Some(width) => self.colour(ink).stroke_width((width * FINE).round().max(1.0) as u32),
            None => self.colour(ink).filled(),
        }
    }
}

impl<B: DrawingBackend> Paper for Sheet<B> {
    fn line(&self, points: &[Point], ink: Ink, width: f64) {
        let points: Vec<(i32, i32)> = points.iter().map(|point| fine(*point)).collect();
        sure(self.area.draw(&PathElement::new(points, self.style(ink, Some(width)))));
    }

    fn area(&self, points: &[Point], ink: Ink) {
        let points: Vec<(i32, i32)> = points.iter().map(|point| fine(*point)).collect();
        sure(self.area.draw(&Polygon::new(points, self.style(ink, None))));
    }

    fn tile(&self, from: Point, to: Point, ink: Ink) {
        sure(self.area.draw(&Rectangle::new([fine(from), fine(to)], self.style(ink, None))));
    }

    fn circle(&self, centre: Point, radius: f64, ink: Ink, width: Option<f64>) {
        let radius = (radius * FINE).round() as i32;
        sure(self.area.draw(&Circle::new(fine(centre), radius, self.style(ink, width))));
    }

    fn text(&self, text: &str, at: Point, anchor: Anchor, size: f64, ink: Ink, upwards: bool) {
        let side = match anchor {
            Anchor::Left => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::Right => HPos::Right,
        };
        let sag = self.sag * size;
        let at = if upwards { (at.0 + sag, at.1) } else { (at.0, at.1 + sag) };
        let font = ("sans-serif", size * FINE).into_font();
        let font = if upwards { font.transform(FontTransform::Rotate270) } else { font };
        let style = font.color(&self.colour(ink)).pos(Pos::new(side, VPos::Center));
        sure(self.area.draw_text(text, &style, fine(at)));
    }
}

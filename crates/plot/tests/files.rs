//! What is in the files.

use lockswap_plot::{Axis, Chart, Format, Groups, HeatMap, Look, Mark, Reference, Row, Rows, Series, Theme};

fn chart() -> Chart {
    let mut chart = Chart::new("Title & more", Axis::log("threads"), Axis::linear("M ops/s"));
    chart.series.push(Series::new("a<b", [(1.0, 2.0), (2.0, 3.0)]).with_band([(1.0, 1.5, 2.5), (2.0, 2.0, 4.0)]));
    chart.references.push(Reference::vertical(1.5, "here"));
    chart.marks.push(Mark::new(2.0, 3.0, "the knee"));
    chart
}

fn map(side: usize) -> HeatMap {
    HeatMap {
        title: "Latency".into(),
        sides: "CPU".into(),
        unit: "ns".into(),
        log: true,
        names: (0..side).map(|n| format!("cpu{n}")).collect(),
        values: (0..side * side).map(|n| (n % (side + 1) != 0).then_some(10.0 + n as f64)).collect(),
        ..HeatMap::default()
    }
}

/// Width, height and the pixels, three bytes each.
fn decode(bytes: &[u8]) -> (usize, usize, Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!(info.color_type, png::ColorType::Rgb);
    (info.width as usize, info.height as usize, pixels)
}

/// However many series there are and however long the title is: nothing is cut off, and no two series look the same.
#[test]
fn many_series_and_a_long_title_fit() {
    let mut chart = Chart::new("long ".repeat(60), Axis::linear("x"), Axis::linear("y"));
    for n in 0..60 {
        let points = [(0.0, 0.0), (1.0, f64::from(n))];
        chart.series.push(Series::new(format!("lock-{n}"), points).with_shape(lockswap_plot::Shape::Steps));
    }
    let (width, height, pixels) = decode(&chart.render(Format::Png));
    let white = |x: usize, y: usize| pixels[3 * (y * width + x)..][..3] == [255; 3];
    assert!((0..width).all(|x| (0..6).all(|n| white(x, n) && white(x, height - 1 - n))), "above and below");
    assert!((0..height).all(|y| (0..6).all(|n| white(n, y) && white(width - 1 - n, y))), "left and right");
    let text = String::from_utf8(chart.render(Format::Svg)).unwrap();
    assert!(text.contains("lock-0") && text.contains("lock-59"));
}

#[test]
fn an_svg_has_every_word_and_is_escaped() {
    let text = String::from_utf8(chart().render(Format::Svg)).unwrap();
    for word in ["Title &amp; more", "threads", "M ops/s", "a&lt;b", "here", "the knee"] {
        assert!(text.contains(word), "{word}");
    }
    assert!(text.starts_with("<svg width=\"900\" height=\"558\" viewBox=\"0 0 3600 2232\""), "{}", &text[..100]);
    assert!(text.trim_end().ends_with("</svg>"));
}

#[test]
fn a_png_has_the_same_size_twice_as_fine_and_the_colours_of_the_series() {
    let (width, height, pixels) = decode(&chart().render(Format::Png));
    assert_eq!((width, height), (1800, 1116));
    let of = |colour: [u8; 3]| pixels.chunks_exact(3).filter(|pixel| **pixel == colour).count();
    assert!(of([255, 255, 255]) > width * height / 2);
    assert!(of([0, 114, 178]) > 2000, "the line, its symbols and the legend");
    assert!(of([30, 30, 30]) > 200, "text from the built-in font");
}

#[test]
fn a_heat_map_goes_from_dark_to_bright() {
    let (.., pixels) = decode(&map(4).render(Format::Png));
    let of = |is: &dyn Fn(&[u8]) -> bool| pixels.chunks_exact(3).filter(|pixel| is(pixel)).count();
    // A cell has 128 x 128 pixels; a number and the border of its tile take some.
    let cell = 128 * 128;
    let least = of(&|pixel| pixel == [68, 1, 84]);
    assert!(least > cell * 8 / 10 && least < cell * 13 / 10, "viridis begins with the least value: {least}");
    let greatest = of(&|pixel| pixel[0] > 240 && pixel[1] > 220 && pixel[2] < 60);
    assert!(greatest > cell * 8 / 10 && greatest < cell * 13 / 10, "the greatest is yellow: {greatest}");
}

#[test]
fn a_heat_map_has_borders_frames_and_the_ends_of_its_scale() {
    let plain = map(8);
    let of = |group: fn(usize) -> usize| (0..8).map(|row| Some(group(row))).collect();
    let groups = vec![
        Groups { name: "NUMA nodes".into(), of: of(|row| row / 4) },
        Groups { name: "caches".into(), of: of(|row| row / 2) },
    ];
    let full = HeatMap { groups, route: vec![0, 3, 5, 6], footer: "lockswap 1.2.3".into(), ..plain.clone() };
    let text = String::from_utf8(full.render(Format::Svg)).unwrap();
    for word in ["Thick borders: NUMA nodes.", "Thin borders: caches.", "cpu0, cpu3, cpu5, cpu6", "lockswap 1.2.3"] {
        assert!(text.contains(word), "{word}");
    }
    assert!(text.contains("\n11\n") && text.contains("\n72\n"), "the least and the greatest value: {text}");
    let orange = |text: &str| text.split("</style>").last().map(|drawn| drawn.matches("fill=\"#D55E00\"").count());
    let plain = String::from_utf8(plain.render(Format::Svg)).unwrap();
    assert_eq!((orange(&text), orange(&plain)), (Some(4 * 4), Some(0)), "four sides of four frames");
    let small = String::from_utf8(map(2).render(Format::Svg)).unwrap();
    assert!(small.starts_with("<svg width=\"380\""), "{}", &small[..60]);
}

#[test]
fn pictures_of_nothing_and_of_extremes_are_pictures() {
    let mut odd = Chart::new("", Axis::log(""), Axis::linear(""));
    odd.series.push(Series::new("x", [(f64::NAN, 1.0), (0.0, 1.0), (1e300, f64::INFINITY), (1e-300, -1e300)]));
    odd.marks.push(Mark::new(-1.0, 0.0, "nowhere"));
    odd.references.push(Reference::horizontal(f64::NAN, "nowhere"));
    for format in [Format::Svg, Format::Png] {
        assert!(Chart::new("", Axis::linear(""), Axis::log("")).render(format).len() > 500);
        assert!(odd.render(format).len() > 500);
        for side in [0, 1, 300] {
            assert!(map(side).render(format).len() > 500);
        }
    }
}

fn ratios() -> Rows {
    let rows = vec![
        Row::new("mcs & more", 2.0).interval(1.8, 2.2).note("2.0x"),
        Row::new("ticket", 0.99).interval(0.9, 1.1).note("no difference"),
        Row::new("ttas", 0.5).interval(0.4, 0.6).note("2.0x slower"),
        Row::without_value("hapax").note("crashed"),
    ];
    Rows::ratios("A program", "times pthread", rows).footer("lockswap 1.2.3: lockswap compare")
}

fn bars() -> Rows {
    let rows = vec![Row::new("a lock with a name that is long", 3e6).note("3.0M"), Row::new("b", 2e6)];
    Rows::bars("a title ".repeat(30), "operations per second", rows).footer("a_command_without_blanks".repeat(40))
}

#[test]
fn rows_of_ratios_have_every_word_and_a_colour_for_better_worse_and_neither() {
    let text = String::from_utf8(ratios().render(Format::Svg)).unwrap();
    for word in ["mcs &amp; more", "ticket", "ttas", "hapax", "crashed", "2.0x", "times pthread", "lockswap 1.2.3"] {
        assert!(text.contains(word), "{word}");
    }
    let (.., pixels) = decode(&ratios().render(Look::new(Format::Png).width(600.0)));
    let of = |colour: [u8; 3]| pixels.chunks_exact(3).filter(|pixel| **pixel == colour).count();
    let counts = [[0, 114, 178], [213, 94, 0], [188, 188, 188]].map(of);
    assert!(counts.iter().all(|count| *count > 200), "{counts:?}");
}

/// Whatever the width is, no picture writes over its edge.
#[test]
fn nothing_touches_the_edge_of_a_narrow_or_a_wide_picture() {
    for width in [100.0, 400.0, 900.0, 1600.0] {
        for (theme, paper) in [(Theme::Light, [255; 3]), (Theme::Dark, [24, 26, 30])] {
            let look = Look::new(Format::Png).width(width).theme(theme);
            for (name, bytes) in [
                ("ratios", ratios().render(look)),
                ("bars", bars().render(look)),
                ("chart", chart().render(look)),
                ("map", map(9).render(look)),
            ] {
                let (wide, high, pixels) = decode(&bytes);
                assert_eq!(wide, 2 * width.max(320.0) as usize, "{name}");
                let blank = |x: usize, y: usize| pixels[3 * (y * wide + x)..][..3] == paper;
                let across = (0..wide).all(|x| (0..6).all(|n| blank(x, n) && blank(x, high - 1 - n)));
                let down = (0..high).all(|y| (0..6).all(|n| blank(n, y) && blank(wide - 1 - n, y)));
                assert!(across && down, "{name}, {width} wide, {theme:?}");
            }
        }
    }
}

#[test]
fn an_svg_turns_dark_with_its_reader_unless_told_otherwise() {
    let of = |theme| String::from_utf8(ratios().render(Look::new(Format::Svg).theme(theme))).unwrap();
    assert!(of(Theme::Auto).contains("prefers-color-scheme: dark") && of(Theme::Auto).contains("fill=\"#FFFFFF\""));
    assert!(!of(Theme::Light).contains("prefers-color-scheme") && of(Theme::Light).contains("fill=\"#FFFFFF\""));
    assert!(!of(Theme::Dark).contains("prefers-color-scheme") && !of(Theme::Dark).contains("fill=\"#FFFFFF\""));
    // Each colour that is drawn has one for dark paper.
    let all = of(Theme::Auto);
    let (style, drawing) = all.split_once("</style>").unwrap();
    for colour in drawing.split("fill=\"#").skip(1).map(|rest| &rest[..6]) {
        assert!(style.contains(&format!("[fill=\"#{colour}\"]")), "{colour}");
    }
}

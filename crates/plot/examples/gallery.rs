//! Draws what the crate can draw into a folder, to look at:
//! `cargo run --release -p lockswap-plot --example gallery DIR`.

use lockswap_plot::{
    cdf, exceedance, Axis, Chart, Emphasis, Format, Groups, HeatMap, Look, Mark, Reference, Row, Rows, Series, Shape,
    Theme, Zone,
};
use std::error::Error;
use std::path::PathBuf;

/// Draws a picture with a look.
type Draw = Box<dyn Fn(Look) -> Vec<u8>>;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("name a folder")?);
    let mut pictures: Vec<(String, Draw)> = Vec::new();
    for (name, chart) in [
        ("throughput", throughput()),
        ("all", all()),
        ("swept", swept()),
        ("fairness", fairness()),
        ("slo", slo()),
        ("waits", waits()),
        ("latency", latency()),
    ] {
        println!("{}", chart.terminal(100));
        pictures.push((name.into(), Box::new(move |look| chart.render(look))));
    }
    for (name, rows) in [("ratios", ratios()), ("many-ratios", many_ratios()), ("bars", bars())] {
        println!("{}", rows.terminal(100));
        pictures.push((name.into(), Box::new(move |look| rows.render(look))));
    }
    for side in [2, 16, 64, 256] {
        let map = heat(side);
        println!("{}", map.terminal(100));
        pictures.push((format!("heat{side}"), Box::new(move |look| map.render(look))));
    }
    for (name, draw) in pictures {
        std::fs::write(folder.join(format!("{name}.svg")), draw(Format::Svg.into()))?;
        std::fs::write(folder.join(format!("{name}.png")), draw(Format::Png.into()))?;
        for width in [400.0, 1600.0] {
            let look = Look::new(Format::Png).width(width);
            std::fs::write(folder.join(format!("{name}-{width}.png")), draw(look))?;
            std::fs::write(folder.join(format!("{name}-{width}-dark.png")), draw(look.theme(Theme::Dark)))?;
        }
    }
    Ok(())
}

const FOOTER: &str =
    "lockswap 0.1.0, seed 1: lockswap sim --machine xeon-e5-2699v3 --workload kv --locks mcs_spin,cna,ron \
                      --threads 1,2,4,8,16,36,70 --seeds 5 --plot throughput=cna.svg";

fn ratios() -> Rows {
    let rows = vec![
        Row::new("cna", 1.32).interval(1.25, 1.39).note("+32 %"),
        Row::new("mcs_spin", 1.18).interval(1.1, 1.24).note("+18 %"),
        Row::new("ron", 1.06).interval(0.98, 1.13).note("no difference"),
        Row::new("pthread", 1.0).emphasis(Emphasis::Baseline).note("baseline"),
        Row::new("ticket", 0.81).interval(0.75, 2.9).note("-19 %"),
        Row::new("c-bo-mcs_spin", 0.44).interval(0.41, 0.46).note("2.3 times slower"),
        Row::without_value("ttas").note("crashed: signal 11 (SIGSEGV)"),
        Row::without_value("hapax").note("ran longer than 60 s"),
    ];
    Rows::ratios("./server --threads 8", "throughput, times pthread (above 1 is better)", rows).footer(FOOTER)
}

fn many_ratios() -> Rows {
    let row = |n: i32| {
        let value = 1.07f64.powi(n - 25);
        Row::new(format!("lock-{n}"), value).interval(value * 0.95, value * 1.06).note(format!("{value:.2}x"))
    };
    Rows::ratios("All locks", "time, times pthread (below 1 is better)", (0..52).map(row).collect()).lower_is_better()
}

fn bars() -> Rows {
    let locks = [("cna", 5.2e6), ("mcs_spin", 4.1e6), ("ticket", 1.3e6), ("pthread", 2.4e6), ("ttas", 0.4e6)];
    let row = |(name, value): (&str, f64)| {
        Row::new(name, value).interval(0.9 * value, 1.07 * value).note(format!("{:.1}M", value / 1e6))
    };
    let title = "Throughput of kv with 36 threads on 2 Xeon E5-2699 v3, simulated";
    Rows::bars(title, "operations per second", locks.map(row).to_vec()).footer(FOOTER)
}

const THREADS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

/// A curve that starts with a jump, as those of one thread do.
fn curve(name: &str, start: f64, fall: f64) -> Series {
    let at = |t: f64| if t == 1.0 { 40.0 } else { start / t.powf(fall) + 0.3 };
    Series::new(name, THREADS.map(|t| (t, at(t)))).with_band(THREADS.map(|t| (t, at(t) * 0.93, at(t) * 1.08)))
}

fn throughput() -> Chart {
    let x = Axis::log("threads").ticks(THREADS);
    let title = "Throughput of kv (keys=4096, ncs=1us) on 2 Xeon E5-2699 v3, simulated";
    let mut chart = Chart::new(title, x, Axis::log("million operations per second"));
    let locks = [
        ("ticket", 9.5, 0.75),
        ("mcs_spin", 9.0, 0.3),
        ("cna", 9.0, 0.2),
        ("ron", 8.4, 0.17),
        ("ttas", 9.6, 0.9),
        ("shfllock", 9.2, 0.22),
        ("pthread", 8.0, 0.5),
    ];
    chart.series.extend(locks.map(|(name, start, fall)| curve(name, start, fall)));
    chart.references.push(Reference::vertical(36.0, "one socket"));
    chart.footer = FOOTER.into();
    chart
}

fn all() -> Chart {
    let x = Axis::log("threads").ticks(THREADS);
    let mut chart = Chart::new("Throughput of all locks", x, Axis::log("million operations per second"));
    for n in 0..45 {
        let name = if n == 0 { "45 others" } else { "" };
        let mut series = curve(name, 9.0 - 0.05 * f64::from(n), 0.3 + 0.02 * f64::from(n)).faded();
        series.band.clear();
        chart.series.push(series);
    }
    for (n, name) in ["cna", "hmcs", "shfllock", "c-bo-mcs_spin", "mcs_spin"].into_iter().enumerate() {
        chart.series.push(curve(name, 9.0, 0.1 + 0.01 * n as f64));
    }
    chart.series.push(curve("futex (baseline)", 7.0, 0.5).coloured(6));
    chart.footer = FOOTER.into();
    chart
}

fn swept() -> Chart {
    let x = Axis::log("threads").ticks(THREADS);
    let mut chart = Chart::new("Throughput of kv, swept", x, Axis::log("million operations per second"));
    chart.styles = ["ncs=0ns", "ncs=1us", "ncs=10us"].map(str::to_owned).to_vec();
    for (number, lock) in ["mcs_spin", "cna", "ticket"].into_iter().enumerate() {
        for style in 0..3 {
            let name = if style == 0 { lock } else { "" };
            let start = 3.0 * (1 + style) as f64;
            chart.series.push(curve(name, start, 0.2 + 0.15 * number as f64).coloured(number).dashed(style));
        }
    }
    chart.footer = FOOTER.into();
    chart
}

fn fairness() -> Chart {
    let x = Axis::log("threads").ticks(THREADS);
    let y = Axis::linear("share of the busier half of the threads").range(0.48, 1.02);
    let mut chart = Chart::new("Fairness of kv on 2 Xeon E5-2699 v3, simulated", x, y.ticks([0.5, 0.6, 0.8, 1.0]));
    chart.zones.push(Zone::horizontal(0.48, 0.55, "fair"));
    for (name, slope) in [("mcs_spin", 0.001), ("ticket", 0.0005), ("cna", 0.06), ("ttas", 0.03)] {
        chart.series.push(Series::new(name, THREADS.map(|t| (t, 0.5 + slope * t.log2()))));
    }
    chart
}

fn slo() -> Chart {
    let mut chart = Chart::new(
        "What a target is worth: ./server --epochs",
        Axis::log("target").time(),
        Axis::linear("epochs 1 per second").from_zero(),
    );
    let points = (0..12).map(|n| 10_000.0 * 1.6f64.powi(n)).map(|slo| (slo, 2.1e6 - 6e9 / (slo + 3000.0)));
    let points: Vec<(f64, f64)> = points.collect();
    chart.zones.push(Zone::vertical(f64::MIN_POSITIVE, 24_000.0, "not met"));
    chart.marks.push(Mark::new(points[4].0, points[4].1, "knee, 65.5 us"));
    let band = points.iter().map(|(x, y)| (*x, y * 0.97, y * 1.04)).collect::<Vec<_>>();
    chart.series.push(Series::new("asl", points).with_band(band));
    chart.references.push(Reference::horizontal(1.35e6, "mcs_spin"));
    chart.references.push(Reference::horizontal(2.09e6, "no target"));
    chart.footer = FOOTER.into();
    chart
}

fn waits() -> Chart {
    let y = Axis::log("waits that are longer (%)").range(1e-3, 100.0).ticks([100.0, 10.0, 1.0, 0.1, 0.01, 0.001]);
    let mut chart = Chart::new("Waits of kv with 36 threads, simulated", Axis::log("length of a wait").time(), y);
    for (name, scale) in [("mcs_spin", 3_000.0), ("cna", 20_000.0), ("ttas", 90_000.0)] {
        let samples: Vec<f64> = (1..100_000).map(|n| scale * (1.0 - 2.0 * (1.0 - f64::from(n) / 1e5).ln())).collect();
        let mut series = exceedance(name, &samples);
        series.points.iter_mut().for_each(|point| point.1 *= 100.0);
        chart.series.push(series);
    }
    chart.references.push(Reference::horizontal(1.0, "P99"));
    chart.references.push(Reference::horizontal(0.1, "P99.9"));
    chart.footer = FOOTER.into();
    chart
}

fn latency() -> Chart {
    let mut chart =
        Chart::new("Latency of an epoch", Axis::log("latency (ns)"), Axis::linear("share of epochs").range(0.0, 1.0));
    for (name, scale) in [("little", 40_000.0), ("big", 6_000.0)] {
        let samples: Vec<f64> = (1..2000).map(|n| scale * (1.0 - (1.0 - f64::from(n) / 2000.0).ln())).collect();
        chart.series.push(cdf(name, &samples));
    }
    chart.references.push(Reference::horizontal(0.99, "P99"));
    chart.series.push(Series::new("single", [(30_000.0, 0.5)]).with_shape(Shape::Points));
    chart
}

fn heat(side: usize) -> HeatMap {
    let value = |row: usize, column: usize| match (row % (side / 2), column % (side / 2)) {
        _ if row == column => None,
        (a, b) if a == b => Some(7.6),
        (a, b) => Some(
            if a / 4 == b / 4 {
                25.0
            } else if a / 16 == b / 16 {
                117.0
            } else {
                240.0
            } + ((row * 7 + column * 7) % 11) as f64,
        ),
    };
    let groups = |name: &str, size: usize| {
        let of = (0..side).map(|row| Some(row % (side / 2) / size)).collect();
        Groups { name: name.into(), of }
    };
    HeatMap {
        title: format!("Core-to-core latency, {side} CPUs"),
        sides: "CPU".into(),
        unit: "one-way latency (ns)".into(),
        log: true,
        names: (0..side).map(|cpu| cpu.to_string()).collect(),
        values: (0..side * side).map(|index| value(index / side, index % side)).collect(),
        groups: vec![groups("NUMA nodes", 16), groups("last-level caches", 4)],
        route: (0..side / 2).flat_map(|cpu| [cpu, cpu + side / 2]).collect(),
        footer: FOOTER.into(),
        ..HeatMap::default()
    }
}

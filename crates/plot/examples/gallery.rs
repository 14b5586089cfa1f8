//! Draws what the crate can draw into a folder, to look at: `cargo run --release -p lockswap-plot --example gallery DIR`.

use lockswap_plot::{cdf, Axis, Chart, Format, HeatMap, Mark, Reference, Series, Shape};
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("name a folder")?);
    let charts = [("throughput", throughput()), ("slo", slo()), ("latency", latency())];
    for (name, chart) in charts {
        println!("{}", chart.terminal(100));
        for format in [Format::Svg, Format::Png] {
            let extension = if format == Format::Svg { "svg" } else { "png" };
            std::fs::write(folder.join(name).with_extension(extension), chart.render(format))?;
        }
    }
    for side in [2, 16, 64, 256] {
        let map = heat(side);
        println!("{}", map.terminal(100));
        std::fs::write(folder.join(format!("heat{side}.svg")), map.render(Format::Svg))?;
        std::fs::write(folder.join(format!("heat{side}.png")), map.render(Format::Png))?;
    }
    Ok(())
}

fn throughput() -> Chart {
    let threads = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
    let x = Axis::log("threads").ticks(threads);
    let mut chart =
        Chart::new("Throughput of a contended counter, 2 sockets", x, Axis::linear("throughput (M ops/s)").from_zero());
    let locks = [
        ("ticket", 9.5, 0.75),
        ("mcs_spin", 9.0, 0.3),
        ("cna", 9.0, 0.2),
        ("ron", 8.4, 0.17),
        ("ttas", 9.6, 0.9),
        ("shfllock", 9.2, 0.22),
        ("pthread", 8.0, 0.5),
    ];
    for (name, start, fall) in locks {
        let at = |t: f64| start / t.powf(fall) + 0.3;
        let series = Series::new(name, threads.map(|t| (t, at(t))));
        let series =
            if name == "cna" { series.with_band(threads.map(|t| (t, at(t) * 0.9, at(t) * 1.12))) } else { series };
        chart.series.push(series);
    }
    chart.references.push(Reference::vertical(36.0, "one socket"));
    chart
}

fn slo() -> Chart {
    let mut chart = Chart::new(
        "Epoch 1: latency and throughput by SLO",
        Axis::log("P99 of little cores (ns)"),
        Axis::linear("throughput (epochs/s)"),
    );
    let points = (0..12).map(|n| 10_000.0 * 1.6f64.powi(n)).map(|slo| (slo, 2.1e6 - 6e9 / (slo + 3000.0)));
    let points: Vec<(f64, f64)> = points.collect();
    chart.marks.push(Mark::new(points[5].0, points[5].1, "knee: SLO 105 us"));
    chart.series.push(Series::new("asl", points));
    chart.references.push(Reference::horizontal(1.35e6, "mcs_spin"));
    chart.references.push(Reference::vertical(500_000.0, "target 500 us"));
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
    HeatMap {
        title: format!("Core-to-core latency, {side} CPUs"),
        sides: "CPU".into(),
        unit: "one-way latency (ns)".into(),
        log: true,
        names: (0..side).map(|cpu| cpu.to_string()).collect(),
        values: (0..side * side).map(|index| value(index / side, index % side)).collect(),
    }
}

//! A heat map in characters.

use super::{fill, LEAST_COLUMNS};
use crate::heat_map::cell;
use crate::scale::Scale;
use crate::HeatMap;

/// From the least value to the greatest.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

/// The map in at most `columns` columns.
pub fn heat_map(map: &HeatMap, columns: usize) -> String {
    let columns = columns.max(LEAST_COLUMNS);
    let (rows, across, scale) = (map.height(), map.width(), map.scale());
    let margin = map.names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let margin = margin.max(map.sides.chars().count());
    let name =
        if map.is_square() { margin } else { map.columns.iter().map(|name| name.chars().count()).max().unwrap_or(0) };
    let room = columns - (margin + 1).min(columns / 2);
    let widest = map.shown().map(|value| cell(value).len()).max().unwrap_or(1).max(name);
    let title = if map.title.is_empty() { String::new() } else { format!("{}\n", map.title) };
    if across * (widest + 2) <= room {
        return title + &numbers(map, &scale, margin, widest) + &legend(map, &scale, columns);
    }
    let width = if across * 2 <= room { 2 } else { 1 };
    let block = across.div_ceil(room / width).max(1).next_power_of_two();
    let mut text = title + &format!("{:>margin$}\n", map.sides);
    for first in (0..rows).step_by(block) {
        let line: String = (0..across)
            .step_by(block)
            .map(|column| mean(map, first, column, block))
            .map(|v| shade(&scale, v, width))
            .collect();
        let name = map.names.get(first).map_or("", String::as_str);
        text += format!("{name:>margin$} {line}").trim_end();
        text.push('\n');
    }
    if block > 1 {
        text += &format!("a character: mean of {block} x {block} values\n");
    }
    text + &legend(map, &scale, columns)
}

/// The values, each with its shade.
fn numbers(map: &HeatMap, scale: &Scale, margin: usize, widest: usize) -> String {
    let names: String = map.column_names().iter().map(|name| format!(" {name:>widest$} ")).collect();
    let mut text = format!("{:>margin$}{}\n", map.sides, names.trim_end());
    for (row, name) in map.names.iter().enumerate() {
        let one = |column| match map.value(row, column) {
            Some(value) => format!(" {:>widest$}{}", cell(value), shade(scale, Some(value), 1)),
            None => format!(" {:widest$} ", ""),
        };
        let line: String = (0..map.width()).map(one).collect();
        text += format!("{name:>margin$}{line}").trim_end();
        text.push('\n');
    }
    text
}

fn mean(map: &HeatMap, row: usize, column: usize, block: usize) -> Option<f64> {
    let end = |start: usize, of: usize| (start + block).min(of);
    let cells = (row..end(row, map.height()))
        .flat_map(|r| (column..end(column, map.width())).filter_map(move |c| map.value(r, c)));
    let (sum, count) = cells.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn shade(scale: &Scale, value: Option<f64>, width: usize) -> String {
    let shade = value.map_or(' ', |value| {
        // A negative one becomes 0.
        let index = (scale.position(value) * SHADES.len() as f64) as usize;
        SHADES[index.min(SHADES.len() - 1)]
    });
    std::iter::repeat_n(shade, width).collect()
}

fn legend(map: &HeatMap, scale: &Scale, columns: usize) -> String {
    let (least, most) = map.ends.unwrap_or_else(|| map.range());
    if least >= most {
        return fill((least == most).then(|| format!("{}: all {}", map.unit, cell(least))), columns);
    }
    let edge = |index: usize| cell(scale.value(index as f64 / SHADES.len() as f64));
    let shades =
        SHADES.iter().enumerate().map(|(index, shade)| format!("{shade} {} to {}", edge(index), edge(index + 1)));
    fill(std::iter::once(format!("{}:", map.unit)).chain(shades), columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(side: usize) -> HeatMap {
        let value = |i: usize| (i / side != i % side).then(|| 20.0 + 5.0 * (i / side).abs_diff(i % side) as f64);
        HeatMap {
            title: "Latency".into(),
            sides: "CPU".into(),
            unit: "ns".into(),
            log: true,
            names: (0..side).map(|name| name.to_string()).collect(),
            values: (0..side * side).map(value).collect(),
            ..HeatMap::default()
        }
    }

    #[test]
    fn small_maps_show_numbers_and_large_ones_shades() {
        let text = map(4).terminal(80);
        assert!(text.contains("  1  25·       25·  30▒\n"), "{text}");
        assert!(text.contains("· 25 to ") && text.contains("to 35"), "{text}");
        let text = map(32).terminal(80);
        assert!(text.contains("·····") && text.contains("████") && !text.contains("mean"), "{text}");
    }

    #[test]
    fn a_map_is_as_wide_as_told() {
        for side in [0, 1, 2, 5, 16, 36, 64, 256, 1000] {
            for columns in [40, 80, 132] {
                let text = map(side).terminal(columns);
                assert!(text.lines().all(|line| line.chars().count() <= columns), "{side} {columns}: {text}");
            }
        }
        assert!(map(256).terminal(80).contains("a character: mean of 4 x 4 values"));
    }
}

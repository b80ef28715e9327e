//! The results as a Markdown table.

use std::fmt::Write as _;

use super::machine;
use super::results::{Outcome, Results, Row};
use super::samples::Unit;

const COLUMNS: [&str; 9] =
    ["measurement", "server", "floor", "server / floor", "p50", "p99", "max", "CPU s/1000", "peak memory"];
const EMPTY: &str = "–";

pub(super) fn markdown(results: &Results) -> String {
    let mut out = heading(results);
    let cells: Vec<_> = results.rows.iter().map(cells).collect();
    let mut widths = COLUMNS.map(width);
    for row in &cells {
        widths.iter_mut().zip(row).for_each(|(max, cell)| *max = (*max).max(width(cell)));
    }
    // Names are aligned to the left, numbers to the right.
    let rule: Vec<String> = widths
        .iter()
        .enumerate()
        .map(|(column, width)| match column {
            0 => "-".repeat(*width),
            _ => format!("{}:", "-".repeat(width - 1)),
        })
        .collect();
    push_line(&mut out, &COLUMNS.map(str::to_owned), &widths);
    push_line(&mut out, &rule, &widths);
    cells.iter().for_each(|row| push_line(&mut out, row, &widths));
    out
}

/// The machine and the conditions of the run.
fn heading(results: &Results) -> String {
    let Results { server, is_loopback, rounds, .. } = results;
    let plural = if *rounds == 1 { "" } else { "s" };
    let (model, cores, kernel) = (machine::model(), machine::processors(), machine::kernel());
    let mut out = format!("{model}, {cores} cores, Linux {kernel}, {rounds} round{plural}");
    if !is_loopback {
        write!(out, "; {server} may not be the machine of the floor")
            .expect("writing to a String cannot fail");
    }
    if machine::LIBC == "musl" {
        out += "; the floor of concurrent clients is too low: musl spawns one program at a time";
    }
    out + "\n\n"
}

fn cells(row: &Row) -> [String; COLUMNS.len()] {
    let empty = || EMPTY.to_owned();
    let summary = match &row.outcome {
        Outcome::Measured(summary) => summary,
        Outcome::Skipped(reason) => return remark(row, "skipped", reason),
        Outcome::Failed(reason) => return remark(row, "failed", reason),
    };
    let in_unit = |value: Option<f64>| value.map_or_else(empty, |value| quantity(row.unit, value));
    let seconds = |value: Option<f64>| value.map_or_else(empty, |value| quantity(Unit::Seconds, value));
    let mut server = in_unit(summary.server);
    if let Some(note) = &summary.note {
        server += &format!(" ({})", in_cell(note));
    }
    [
        row.name.to_owned(),
        server,
        in_unit(summary.floor),
        summary.ratio.map_or_else(empty, |ratio| format!("{ratio:.2}")),
        seconds(summary.p50),
        seconds(summary.p99),
        seconds(summary.max),
        summary.cpu_per_1000.map_or_else(empty, |seconds| format!("{seconds:.3}")),
        summary.peak_bytes.map_or_else(empty, |bytes| quantity(Unit::Bytes, bytes as f64)),
    ]
}

fn remark(row: &Row, label: &str, reason: &str) -> [String; COLUMNS.len()] {
    let mut cells = [EMPTY; COLUMNS.len()].map(str::to_owned);
    let [name, server, ..] = &mut cells;
    *name = row.name.to_owned();
    *server = format!("{label}: {}", in_cell(reason));
    cells
}

fn push_line(out: &mut String, cells: &[String], widths: &[usize]) {
    out.push('|');
    for (column, (cell, max)) in cells.iter().zip(widths).enumerate() {
        let padding = " ".repeat(max - width(cell));
        match column {
            0 => out.extend([" ", cell, &padding, " |"]),
            _ => out.extend([" ", &padding, cell, " |"]),
        }
    }
    out.push('\n');
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn in_cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn quantity(unit: Unit, value: f64) -> String {
    match (unit, value) {
        (Unit::Seconds, ..0.001) => format!("{:.0} µs", value * 1e6),
        (Unit::Seconds, ..1.0) => format!("{:.2} ms", value * 1e3),
        (Unit::Seconds, _) => format!("{value:.2} s"),
        (Unit::PerSecond, _) => format!("{value:.0} /s"),
        (Unit::Bytes, ..10_000.0) => format!("{value:.0} B"),
        (Unit::Bytes, _) if value < 1048576.0 => format!("{:.0} KiB", value / 1024.0),
        (Unit::Bytes, _) => format!("{:.1} MiB", value / 1048576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::results::example;

    #[track_caller]
    fn check(unit: Unit, value: f64, expected: &str) {
        assert_eq!(quantity(unit, value), expected);
    }

    #[test]
    fn quantity_has_a_suitable_unit() {
        check(Unit::Seconds, 0.000_412_4, "412 µs");
        check(Unit::Seconds, 0.0123, "12.30 ms");
        check(Unit::Seconds, 1.5, "1.50 s");
        check(Unit::PerSecond, 1234.4, "1234 /s");
        check(Unit::Bytes, 812.0, "812 B");
        check(Unit::Bytes, -12.0, "-12 B");
        check(Unit::Bytes, 20480.0, "20 KiB");
        check(Unit::Bytes, 3.5 * 1048576.0, "3.5 MiB");
    }

    #[test]
    fn table_is_aligned() {
        let text = markdown(&example());
        let (machine, table) = text.split_once("\n\n").unwrap();
        assert!(machine.contains(" 2 rounds; h:1 may not be the machine of the floor"), "{machine}");
        assert_eq!(machine.contains("musl"), machine::LIBC == "musl");
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 5);
        assert!(lines.iter().all(|line| width(line) == width(lines[0])), "{table}");
        assert!(lines[1].starts_with("| ----------- | -") && lines[1].ends_with("-: |"), "{table}");
        assert!(
            lines[2].starts_with("| one         |               500 µs (a\\|b) |     – |           1.26 |"),
            "{table}"
        );
        assert!(lines[3].contains("| skipped: no cp in the image |"), "{table}");
    }
}

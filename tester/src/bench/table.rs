//! The result, as a Markdown table for people or as one JSON object for programs.

use std::fmt::Write as _;

use super::process;
use super::samples::{Delivered, Summary, Unit};
use crate::json;

pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) outcome: Outcome,
}

pub(super) enum Outcome {
    Measured(Summary),
    /// Why it could not be measured.
    Skipped(String),
    /// What was wrong with the server.
    Failed(String),
}

pub(super) struct Result {
    pub(super) server: String,
    pub(super) is_loopback: bool,
    pub(super) rounds: usize,
    pub(super) rows: Vec<Row>,
}

const COLUMNS: [&str; 9] =
    ["what", "server", "floor", "server / floor", "p50", "p99", "max", "CPU s/1000", "peak memory"];
/// What the floor was measured with.
const LIBC: &str = if cfg!(target_env = "musl") { "musl" } else { "other" };
const NOTHING: &str = "–";

impl Result {
    pub(super) fn markdown(&self) -> String {
        let (model, kernel) = process::machine();
        let rounds = if self.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", self.rounds) };
        let mut out = format!("{model}, {} cores, Linux {kernel}, {rounds}", process::processors());
        if !self.is_loopback {
            write!(out, "; {} may be another machine than the floor's", self.server)
                .expect("a String takes any text");
        }
        if LIBC == "musl" {
            out += "; the floor of many clients is too low, since musl starts one program at a time";
        }
        out += "\n\n";
        let head = COLUMNS.map(str::to_owned);
        let cells: Vec<_> = self.rows.iter().map(Row::cells).collect();
        let mut widths = COLUMNS.map(width);
        for row in &cells {
            widths.iter_mut().zip(row).for_each(|(most, cell)| *most = (*most).max(width(cell)));
        }
        // A name begins at the left, a number ends at the right.
        let rule: Vec<String> = widths
            .iter()
            .enumerate()
            .map(|(column, width)| match column {
                0 => "-".repeat(*width),
                _ => format!("{}:", "-".repeat(width - 1)),
            })
            .collect();
        line(&mut out, &head, &widths);
        line(&mut out, &rule, &widths);
        cells.iter().for_each(|row| line(&mut out, row, &widths));
        out
    }

    pub(super) fn json(&self) -> String {
        let (model, kernel) = process::machine();
        let machine = object(&[
            ("cpu", json::string(&model)),
            ("cores", process::processors().to_string()),
            ("kernel", json::string(&kernel)),
            ("libc", json::string(LIBC)),
        ]);
        let rows: Vec<_> = self.rows.iter().map(|row| (row.name, row.json())).collect();
        let whole = object(&[
            ("machine", machine),
            ("server", json::string(&self.server)),
            ("loopback", self.is_loopback.to_string()),
            ("rounds", self.rounds.to_string()),
            ("measurements", object(&rows)),
        ]);
        whole + "\n"
    }
}

impl Row {
    fn cells(&self) -> [String; COLUMNS.len()] {
        let nothing = || NOTHING.to_owned();
        let summary = match &self.outcome {
            Outcome::Measured(summary) => summary,
            Outcome::Skipped(why) => return self.remark("skipped", why),
            Outcome::Failed(why) => return self.remark("failed", why),
        };
        let in_unit = |value: Option<f64>| value.map_or_else(nothing, |value| quantity(self.unit, value));
        let seconds = |value: Option<f64>| value.map_or_else(nothing, |value| quantity(Unit::Seconds, value));
        let mut server = in_unit(summary.server);
        if let Some(note) = &summary.note {
            server += &format!(" ({})", in_a_cell(note));
        }
        [
            self.name.to_owned(),
            server,
            in_unit(summary.floor),
            summary.ratio.map_or_else(nothing, |ratio| format!("{ratio:.2}")),
            seconds(summary.p50),
            seconds(summary.p99),
            seconds(summary.max),
            summary.cpu_per_1000.map_or_else(nothing, |seconds| format!("{seconds:.3}")),
            summary.peak_bytes.map_or_else(nothing, |bytes| quantity(Unit::Bytes, bytes as f64)),
        ]
    }

    fn remark(&self, word: &str, why: &str) -> [String; COLUMNS.len()] {
        let mut cells = [NOTHING; COLUMNS.len()].map(str::to_owned);
        let [name, server, ..] = &mut cells;
        *name = self.name.to_owned();
        *server = format!("{word}: {}", in_a_cell(why));
        cells
    }

    fn json(&self) -> String {
        let none = Summary::default();
        let (summary, skipped, failed) = match &self.outcome {
            Outcome::Measured(summary) => (summary, None, None),
            Outcome::Skipped(why) => (&none, Some(why), None),
            Outcome::Failed(why) => (&none, None, Some(why)),
        };
        let text = |text: Option<&String>| text.map_or_else(null, |text| json::string(text));
        let whole = |bytes: Option<u64>| bytes.map_or_else(null, |bytes| bytes.to_string());
        let (delivered, truncated) = match summary.delivered {
            None => (None, null()),
            Some(Delivered::All(bytes)) => (Some(bytes), "false".to_owned()),
            Some(Delivered::Truncated(bytes)) => (Some(bytes), "true".to_owned()),
        };
        let unit = match self.unit {
            Unit::Seconds => "seconds",
            Unit::PerSecond => "per second",
            Unit::Bytes => "bytes",
        };
        object(&[
            ("unit", json::string(unit)),
            ("server", number(summary.server)),
            ("floor", number(summary.floor)),
            ("ratio", number(summary.ratio)),
            ("p50_seconds", number(summary.p50)),
            ("p99_seconds", number(summary.p99)),
            ("max_seconds", number(summary.max)),
            ("floor_p99_seconds", number(summary.floor_p99)),
            ("floor_max_seconds", number(summary.floor_max)),
            ("cpu_seconds_per_1000", number(summary.cpu_per_1000)),
            ("peak_memory_bytes", whole(summary.peak_bytes)),
            ("delivered_bytes", whole(delivered)),
            ("truncated", truncated),
            ("note", text(summary.note.as_ref())),
            ("skipped", text(skipped)),
            ("failed", text(failed)),
        ])
    }
}

fn line(out: &mut String, cells: &[String], widths: &[usize]) {
    out.push('|');
    for (column, (cell, most)) in cells.iter().zip(widths).enumerate() {
        let padding = " ".repeat(most - width(cell));
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

fn in_a_cell(text: &str) -> String {
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

fn object<K: AsRef<str>>(members: &[(K, String)]) -> String {
    let members: Vec<_> =
        members.iter().map(|(key, value)| format!("{}:{value}", json::string(key.as_ref()))).collect();
    format!("{{{}}}", members.join(","))
}

fn null() -> String {
    "null".to_owned()
}

/// What is not finite has no JSON.
fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(null, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(unit: Unit, value: f64, expected: &str) {
        assert_eq!(quantity(unit, value), expected);
    }

    #[test]
    fn a_quantity_has_a_unit_that_fits() {
        check(Unit::Seconds, 0.000_412_4, "412 µs");
        check(Unit::Seconds, 0.0123, "12.30 ms");
        check(Unit::Seconds, 1.5, "1.50 s");
        check(Unit::PerSecond, 1234.4, "1234 /s");
        check(Unit::Bytes, 812.0, "812 B");
        check(Unit::Bytes, -12.0, "-12 B");
        check(Unit::Bytes, 20480.0, "20 KiB");
        check(Unit::Bytes, 3.5 * 1048576.0, "3.5 MiB");
    }

    fn result() -> Result {
        let summary = Summary {
            server: Some(0.000_5),
            ratio: Some(1.256),
            delivered: Some(Delivered::Truncated(8)),
            note: Some("a|b".to_owned()),
            ..Summary::default()
        };
        let row = |name, outcome| Row { name, unit: Unit::Seconds, outcome };
        let rows = vec![
            row("one", Outcome::Measured(summary)),
            row("two", Outcome::Skipped("no cp there".to_owned())),
            row("three", Outcome::Failed("it said \"no\"".to_owned())),
        ];
        Result { server: "h:1".to_owned(), is_loopback: false, rounds: 2, rows }
    }

    #[test]
    fn a_table_is_aligned() {
        let text = result().markdown();
        let (machine, table) = text.split_once("\n\n").unwrap();
        assert!(machine.contains(" 2 rounds; h:1 may be another machine than the floor's"), "{machine}");
        assert_eq!(machine.contains("musl"), LIBC == "musl");
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 5);
        assert!(lines.iter().all(|line| width(line) == width(lines[0])), "{table}");
        assert!(lines[1].starts_with("| ----- | -") && lines[1].ends_with("-: |"), "{table}");
        assert!(
            lines[2].starts_with("| one   |        500 µs (a\\|b) |     – |           1.26 |"),
            "{table}"
        );
        assert!(lines[3].contains("| skipped: no cp there |"), "{table}");
    }

    #[test]
    fn the_object_is_json_with_every_key() {
        let value = json::parse(result().json().as_bytes()).unwrap();
        let rows = value.get("measurements").unwrap();
        let (one, three) = (rows.get("one").unwrap(), rows.get("three").unwrap());
        assert_eq!(one.keys(), three.keys());
        assert_eq!(one.get("server"), Some(&json::Value::Number("0.0005".to_owned())));
        assert_eq!(one.get("truncated"), Some(&json::Value::Bool(true)));
        assert_eq!(one.get("floor"), Some(&json::Value::Null));
        assert_eq!(three.get("failed").unwrap().text(), Some("it said \"no\""));
        assert_eq!(number(Some(f64::NAN)), "null");
    }
}

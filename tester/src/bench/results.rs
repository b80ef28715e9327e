//! The results of a run, and their JSON.

use super::machine;
use super::samples::{Delivered, Summary, Unit};
use crate::json;

pub(super) struct Results {
    pub(super) server: String,
    pub(super) is_loopback: bool,
    pub(super) rounds: usize,
    pub(super) rows: Vec<Row>,
}

pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) outcome: Outcome,
}

pub(super) enum Outcome {
    Measured(Summary),
    /// The reason why it could not be measured.
    Skipped(String),
    /// The fault of the server.
    Failed(String),
}

impl Results {
    pub(super) fn first_failure(&self) -> Option<String> {
        self.rows.iter().find_map(|row| match &row.outcome {
            Outcome::Failed(reason) => Some(format!("{}: {reason}", row.name)),
            Outcome::Measured(_) | Outcome::Skipped(_) => None,
        })
    }

    pub(super) fn json(&self) -> String {
        let rows: Vec<_> = self.rows.iter().map(|row| (row.name, row.json())).collect();
        json::object(&[
            ("machine", machine::json()),
            ("server", json::string(&self.server)),
            ("loopback", self.is_loopback.to_string()),
            ("rounds", self.rounds.to_string()),
            ("measurements", json::object(&rows)),
        ])
    }
}

impl Row {
    fn json(&self) -> String {
        let empty = Summary::default();
        let (summary, skipped, failed) = match &self.outcome {
            Outcome::Measured(summary) => (summary, None, None),
            Outcome::Skipped(reason) => (&empty, Some(reason), None),
            Outcome::Failed(reason) => (&empty, None, Some(reason)),
        };
        let text = |text: Option<&String>| text.map_or_else(json::null, |text| json::string(text));
        let integer = |bytes: Option<u64>| bytes.map_or_else(json::null, |bytes| bytes.to_string());
        let (delivered, truncated) = match summary.delivered {
            None => (None, json::null()),
            Some(Delivered::All(bytes)) => (Some(bytes), "false".to_owned()),
            Some(Delivered::Truncated(bytes)) => (Some(bytes), "true".to_owned()),
        };
        let unit = match self.unit {
            Unit::Seconds => "seconds",
            Unit::PerSecond => "per second",
            Unit::Bytes => "bytes",
        };
        json::object(&[
            ("unit", json::string(unit)),
            ("server", json::number(summary.server)),
            ("floor", json::number(summary.floor)),
            ("ratio", json::number(summary.ratio)),
            ("p50_seconds", json::number(summary.p50)),
            ("p99_seconds", json::number(summary.p99)),
            ("max_seconds", json::number(summary.max)),
            ("floor_p99_seconds", json::number(summary.floor_p99)),
            ("floor_max_seconds", json::number(summary.floor_max)),
            ("cpu_seconds_per_1000", json::number(summary.cpu_per_1000)),
            ("peak_memory_bytes", integer(summary.peak_bytes)),
            ("delivered_bytes", integer(delivered)),
            ("truncated", truncated),
            ("note", text(summary.note.as_ref())),
            ("skipped", text(skipped)),
            ("failed", text(failed)),
        ])
    }
}

/// One row of each outcome.
#[cfg(test)]
pub(super) fn example() -> Results {
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
        row("two", Outcome::Skipped("no cp in the image".to_owned())),
        row("three", Outcome::Failed("received \"no\"".to_owned())),
    ];
    Results { server: "h:1".to_owned(), is_loopback: false, rounds: 2, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_every_key_in_every_row() {
        let value = json::parse(example().json().as_bytes()).unwrap();
        let rows = value.get("measurements").unwrap();
        let (one, three) = (rows.get("one").unwrap(), rows.get("three").unwrap());
        assert_eq!(one.keys(), three.keys());
        assert_eq!(one.get("server"), Some(&json::Value::Number("0.0005".to_owned())));
        assert_eq!(one.get("truncated"), Some(&json::Value::Bool(true)));
        assert_eq!(one.get("floor"), Some(&json::Value::Null));
        assert_eq!(three.get("failed").unwrap().text(), Some("received \"no\""));
    }

    #[test]
    fn first_failure_names_its_measurement() {
        assert_eq!(example().first_failure(), Some("three: received \"no\"".to_owned()));
    }
}

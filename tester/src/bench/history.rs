//! The history file: one JSON object per line and run. Lines are appended; the file is never rewritten.

use std::env::consts::ARCH;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::machine;
use super::results::{Outcome, Results, Row};
use crate::json;

pub(super) struct History {
    file: File,
}

impl History {
    /// Creates the file if it does not exist.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().append(true).create(true).open(path)? })
    }

    pub(super) fn append(&mut self, line: &str) -> io::Result<()> {
        self.file.write_all(format!("{line}\n").as_bytes())
    }
}

/// `date` is YYYY-MM-DD, `version` that of the server.
pub(super) fn line(results: &Results, date: &str, version: Option<&str>) -> String {
    let ratios: Vec<_> = results.rows.iter().map(|row| (row.name, json::number(ratio(row)))).collect();
    json::object(&[
        ("date", json::string(date)),
        ("version", version.map_or_else(json::null, json::string)),
        ("architecture", json::string(ARCH)),
        ("machine", machine::json()),
        ("rounds", results.rounds.to_string()),
        ("ratios", json::object(&ratios)),
    ])
}

/// Rounded to three decimals; more would only be noise in the history.
fn ratio(row: &Row) -> Option<f64> {
    match &row.outcome {
        Outcome::Measured(summary) => summary.ratio.map(|ratio| (ratio * 1000.0).round() / 1000.0),
        Outcome::Skipped(_) | Outcome::Failed(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::results::example;
    use crate::json::{Value, parse};
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn line_has_date_version_architecture_and_ratios() {
        let text = line(&example(), "2026-12-01", Some("0.1.0"));
        let begin = r#"{"date":"2026-12-01","version":"0.1.0","architecture":""#;
        assert!(text.starts_with(&format!("{begin}{ARCH}\",\"machine\":{{\"cpu\":")), "{text}");
        let end = r#""rounds":2,"ratios":{"one":1.256,"two":null,"three":null}}"#;
        assert!(text.ends_with(end) && !text.contains('\n'), "{text}");
        assert!(parse(text.as_bytes()).is_ok(), "{text}");
        let unknown = parse(line(&example(), "2026-12-01", None).as_bytes()).unwrap();
        assert_eq!(unknown.get("version"), Some(&Value::Null));
    }

    #[test]
    fn file_is_appended_to_and_never_rewritten() {
        let path = std::env::temp_dir().join(format!("tester-history-{}", std::process::id()));
        let existing = "not JSON, and \u{e9}\n";
        fs::write(&path, existing).unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        // Two runs, open at the same time.
        let (mut first, mut second) = (History::open(&path).unwrap(), History::open(&path).unwrap());
        second.append("{\"run\":2}").unwrap();
        first.append("{\"run\":1}").unwrap();
        let content = fs::read_to_string(&path).unwrap();
        let same_inode = fs::metadata(&path).unwrap().ino() == inode;
        fs::remove_file(&path).unwrap();
        assert_eq!(content, format!("{existing}{{\"run\":2}}\n{{\"run\":1}}\n"));
        assert!(same_inode, "the file was replaced");
    }
}

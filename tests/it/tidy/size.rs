//! Lengths of lines and functions.

use super::check_none;
use super::source::{Document, documents, program};

const COLUMNS: usize = 110;

#[test]
fn lines_have_at_most_110_columns() {
    check_none(&documents().iter().flat_map(long_lines).collect::<Vec<_>>());
}

#[test]
fn functions_are_short() {
    let mut lengths: Vec<usize> =
        program().flat_map(|source| source.functions().map(|function| function.lines)).collect();
    lengths.sort_unstable();
    let at = |share: usize| lengths[(lengths.len() - 1) * share / 100];
    let (median, tenth, longest) = (at(50), at(90), at(100));
    println!("{} functions: median {median}, 90 % {tenth}, longest {longest} lines", lengths.len());
    assert!(lengths.len() > 300 && median <= 6 && tenth <= 18 && longest <= 50);
}

/// Text that people write, but for vendored files.
fn is_wrapped(path: &str) -> bool {
    let endings = ["rs", "sh", "py", "md", "toml", "yaml", "yml"];
    let is_text = endings.iter().any(|ending| path.ends_with(&format!(".{ending}")));
    (is_text || path == ".ci/run" || path == "justfile") && !path.starts_with("tests/conformance/")
}

fn long_lines(document: &Document) -> Vec<String> {
    if !is_wrapped(&document.path) {
        return Vec::new();
    }
    let is_markdown = document.path.ends_with(".md");
    let (mut is_code, mut offences) = (false, Vec::new());
    for (number, line) in (1..).zip(document.text.lines()) {
        is_code ^= is_markdown && line.trim_start().starts_with("```");
        let is_row = ["|", "//! |", "/// |"].iter().any(|start| line.trim_start().starts_with(start));
        let is_free = is_code || is_row || is_markdown && is_link(line);
        let columns = line.chars().count();
        if columns > COLUMNS && !is_free {
            offences.push(format!("{}:{number}: {columns} columns", document.path));
        }
    }
    offences
}

/// A link alone on its line, `https://…`, `[1]: https://…`, `[text](https://…)`.
fn is_link(line: &str) -> bool {
    let line = line.trim_start_matches(['-', '*', ' ', '<']);
    let target = match line.strip_prefix('[').and_then(|line| line.split_once(']')) {
        Some((_, target)) => target.trim_start_matches([':', ' ', '(']),
        None => line,
    };
    target.starts_with("https://") && !target.contains(' ')
}

#[test]
fn long_lines_are_seen() {
    let check = |path: &str, text: &str, expected: usize| {
        assert_eq!(long_lines(&Document::new(path, text)).len(), expected, "{path}: {text}");
    };
    let (fits, long) = ("é".repeat(110), "a ".repeat(56));
    check("src/a.rs", &format!("{fits}\n{long}\n{long}"), 2);
    check("README.md", &format!("{fits}\n{long}\n```\n{long}\n```\n| {long} |\n{long}"), 2);
    check("docs/a.md", &format!("[1]: https://{}\n- [a]({long})", "a".repeat(110)), 1);
    check("src/a.rs", &format!("//! | {long} |\n//! {long}"), 1);
    check(".ci/run", &long, 1);
    check("tests/conformance/contract.py", &long, 0);
    check("Cargo.lock", &long, 0);
}

//! Checks the project as text: rules of style, and claims of the documentation about the code.
//!
//! Rust is parsed with `syn` and `proc-macro2`, so checks see tokens and comments. They do not see through
//! macros or renamed imports (`use x as y`); both stand out to a reader. Each file is read and parsed once.
//! At the end of each file, tests show that its checks can fail.

mod architecture;
mod docs;
mod language;
mod size;
mod source;

use source::Source;

#[track_caller]
fn check_none(offences: &[String]) {
    assert!(offences.is_empty(), "{} offences\n{}", offences.len(), offences.join("\n"));
}

/// Runs a check on every file of the program.
#[track_caller]
fn check_all(check: fn(&Source) -> Vec<String>) {
    check_none(&source::program().flat_map(check).collect::<Vec<_>>());
}

/// Runs a check on this text, as if it were a file below `src/`.
#[track_caller]
fn check_seen(check: fn(&Source) -> Vec<String>, path: &str, text: &str, expected: usize) {
    let found = check(&Source::parse(&format!("src/{path}"), text));
    assert_eq!(found.len(), expected, "{path}: {text}: {found:?}");
}

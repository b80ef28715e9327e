//! What the documents name exists: tests, files, settings, endpoints, cases.

use super::check_none;
use super::source::{Document, Source, document, documents, root};
use sandbox_runtime::api::routes;
use sandbox_runtime::config::SETTINGS;
use std::collections::{BTreeMap, BTreeSet};

const CASES: &str = "tests/CASES.md";

#[test]
fn documented_endpoints_are_those_of_the_code() {
    let written: Vec<String> = only_table("Call").into_iter().map(|row| row[0].clone()).collect();
    let coded =
        routes().map(|route| format!("`{} {}`", format!("{:?}", route.method).to_uppercase(), route.pattern));
    assert_eq!(written, coded.collect::<Vec<_>>());
}

#[test]
fn documented_settings_are_those_of_the_code() {
    let coded = SETTINGS.iter().map(|setting| {
        vec![
            format!("`{}`", setting.variable),
            setting.flag.map_or("none".to_owned(), |flag| format!("`{flag} {}`", setting.value)),
            setting.default.map_or("none".to_owned(), |default| format!("`{default}`")),
            setting.help.to_owned(),
        ]
    });
    assert_eq!(only_table("Variable"), coded.collect::<Vec<_>>());
}

#[test]
fn tests_and_files_named_in_documents_exist() {
    let (mut offences, mut named) = (Vec::new(), 0);
    for document in markdown() {
        for name in code_spans(&document.text) {
            let is_ours = ["src/", "tests/", "tester/", "fuzz/", "docs/", "kind/", ".ci/"]
                .iter()
                .any(|start| name.starts_with(start));
            if is_ours && !name.contains([' ', '*', '…', '<']) {
                named += 1;
                offences.extend(missing(name).map(|problem| format!("{}: {problem}", document.path)));
            }
        }
    }
    check_none(&offences);
    assert!(named > 50, "the documents name only {named}");
}

#[test]
fn cases_are_listed_once_and_cited() {
    let listed = document(CASES).unwrap();
    let cited = documents().iter().filter(|document| document.path != CASES);
    let mut citations = BTreeMap::new();
    for document in cited {
        for id in case_ids(&document.text) {
            citations.entry(id).or_insert(document.path.as_str());
        }
    }
    assert!(citations.len() > 150, "only {} cases are cited", citations.len());
    check_none(&case_offences(&listed.text, &citations));
}

#[test]
fn no_file_names_a_machine_or_a_registry() {
    check_none(&documents().iter().flat_map(machine_names).collect::<Vec<_>>());
}

/// The faults of a list of cases, given the first citation of each.
fn case_offences(listed: &str, citations: &BTreeMap<String, &str>) -> Vec<String> {
    let (mut offences, mut known) = (Vec::new(), BTreeSet::new());
    for section in listed.split("\n### ").skip(1) {
        let (id, body) = section.split_once('\n').unwrap_or((section, ""));
        let has = |field: &str| body.contains(&format!("\n- {field}: "));
        if !known.insert(id.to_owned()) {
            offences.push(format!("{id} is listed twice"));
        }
        let absent = ["Fault", "Request", "Expected", "Source"].into_iter().filter(|field| !has(field));
        offences.extend(absent.map(|field| format!("{id} has no {field}")));
        if citations.contains_key(id) == has("Covered") {
            offences.push(format!("{id} should be cited, or say where it is covered, and not both"));
        }
    }
    let unknown = citations.iter().filter(|(id, _)| !known.contains(*id));
    offences.extend(unknown.map(|(id, path)| format!("{path} cites {id}, which is not listed")));
    offences
}

/// Ids such as `CF-11` and `P1-03`.
fn case_ids(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    let is_id = |word: &&str| {
        word.split_once('-').is_some_and(|(kind, number)| {
            let is_kind = kind.starts_with(|c: char| c.is_ascii_uppercase())
                && kind.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
            let is_number = number.len() == 2 && number.chars().all(|c| c.is_ascii_digit());
            is_kind && matches!(kind.len(), 2 | 3) && !["UTF", "X86"].contains(&kind) && is_number
        })
    };
    words.filter(is_id).map(str::to_owned).collect()
}

fn machine_names(document: &Document) -> Vec<String> {
    // In two halves each, so that this file does not contain them.
    let names = [
        ("/wo", "rk/"),
        ("/tmp", "/wt"),
        ("crates", ".io"),
        ("pypi", ".org"),
        ("pythonhosted", ".org"),
        ("npmjs", ".org"),
        ("deb.debian", ".org"),
        ("proxy.golang", ".org"),
    ];
    let is_lock = document.path.ends_with("Cargo.lock");
    let found = names.iter().map(|(one, other)| format!("{one}{other}")).filter(|name| {
        // In the lock file it is cargo's name for its registry, with or without a mirror.
        document.text.contains(name.as_str()) && !(is_lock && name.starts_with("crates"))
    });
    found.map(|name| format!("{} names {name}", document.path)).collect()
}

/// The documents for readers; the list of cases is data.
pub(super) fn markdown() -> impl Iterator<Item = &'static Document> {
    documents().iter().filter(|document| document.path.ends_with(".md") && document.path != CASES)
}

/// The rows of the only table, in all documents, whose first column has this heading.
fn only_table(heading: &str) -> Vec<Vec<String>> {
    let head = format!("| {heading} |");
    let found: Vec<_> = markdown().filter(|document| document.text.contains(&head)).collect();
    let paths: Vec<&str> = found.iter().map(|document| document.path.as_str()).collect();
    assert_eq!(paths.len(), 1, "documents with a table that begins with {heading}: {paths:?}");
    table(&found[0].text, heading).collect()
}

/// The rows of the only Markdown table whose first column has this heading.
pub(super) fn table(text: &str, heading: &str) -> impl Iterator<Item = Vec<String>> {
    let head = format!("| {heading} |");
    let count = text.lines().filter(|line| line.starts_with(&head)).count();
    assert_eq!(count, 1, "tables that begin with {heading}");
    let lines = text.lines().skip_while(move |line| !line.starts_with(&head));
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect())
}

/// The text between backticks, outside of code blocks.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("\n```").step_by(2);
    prose.flat_map(|prose| prose.split('`').skip(1).step_by(2))
}

/// The problem with a name such as `src/http/head.rs` or `tests/it/config.rs::a_test`, if there is one.
fn missing(name: &str) -> Option<String> {
    let Some((path, test)) = name.split_once("::") else {
        return (!root().join(name).exists()).then(|| format!("there is no {name}"));
    };
    let source = document(path).filter(|_| path.ends_with(".rs")).map(Document::source);
    let is_there = source.is_some_and(|source| source.has_test(test) || is_check(source, test));
    (!is_there).then(|| format!("there is no test {name}"))
}

/// Whether it is a check of the tester: in a row of its table, behind its sentence.
fn is_check(source: &Source, name: &str) -> bool {
    source.path.starts_with("tester/") && !source.find(&format!(", {name} )")).is_empty()
}

#[test]
fn missing_names_are_seen() {
    let case = |id: &str, last: &str| {
        format!("\n### {id}\n\n- Fault: a\n- Request: b\n- Expected: c\n- Source: d\n{last}")
    };
    let cited = |ids: &[&'static str]| ids.iter().map(|id| ((*id).to_owned(), "a.rs")).collect();
    let check = |text: &str, ids: &[&'static str], expected: &[&str]| {
        assert_eq!(case_offences(text, &cited(ids)), expected);
    };
    let covered = "- Covered: there.\n";
    check(&case("CF-11", ""), &["CF-11"], &[]);
    check(&case("CF-11", covered), &[], &[]);
    let one_of_both = "CF-11 should be cited, or say where it is covered, and not both";
    check(&case("CF-11", ""), &[], &[one_of_both]);
    check(&case("CF-11", covered), &["CF-11"], &[one_of_both]);
    check(&case("CF-11", ""), &["CF-11", "CF-12"], &["a.rs cites CF-12, which is not listed"]);
    check(&[case("CF-11", ""), case("CF-11", "")].concat(), &["CF-11"], &["CF-11 is listed twice"]);
    check("\n### CF-11\n\n- Fault: a\n- Request: b\n- Source: c\n", &["CF-11"], &["CF-11 has no Expected"]);
    let ids = case_ids("// CF-11, and P1-03: UTF-16 X86-64 SHA-256 A-01 X-CF-11 CF-111 `DL-07`.");
    assert_eq!(ids.into_iter().collect::<Vec<_>>(), ["CF-11", "DL-07", "P1-03"]);

    let named = |text: &str| machine_names(&Document::new("a", text)).len();
    assert_eq!((named(&["/wo", "rk/main"].concat()), named("/workspace")), (1, 0));
    for name in ["src/log.rs::no_such_test", "src/no_such.rs", "src/no_such.rs::test", "src/log.rs::info"] {
        assert!(missing(name).is_some(), "{name}");
    }
    assert!(missing("src/log.rs::levels_have_names").is_none());
    assert!(missing("tester/src/checks/mod.rs::run_all").is_some());
    assert_eq!(
        table("| A | B |\n|---|---|\n| 1 | 2 |\n\n| C | D |\n", "A").collect::<Vec<_>>(),
        [["1", "2"]]
    );
    assert_eq!(code_spans("a `b` c\n```\nx `y\n```\n`d`").collect::<Vec<_>>(), ["b", "d"]);
}

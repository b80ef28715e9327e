//! Plain technical English: a measure of the six habits that the style guide asks writers to drop, over
//! comments and documents, and words that are banned from names and messages.
//!
//! The measure is a list of phrases, so it is a proxy: it misses many lines, and counts a few that are fine.
//! Therefore a small share is allowed.

use super::docs::markdown;
use super::source::{Document, Kind, Source, documents, sources};
use super::{check_none, check_seen};
use std::collections::BTreeMap;

/// Lines in a thousand that may show a habit.
const ALLOWED_PER_MILLE: usize = 20;

/// Each habit and its phrases. `*` is any word. `^` is the beginning of a comment or paragraph.
const HABITS: [(&str, &str); 6] = [
    (
        "clauses for nouns",
        "whatever, whoever, whichever, ^ what, what is, what was, what are, what were, what has, what have, \
         what comes, what came, what commands",
    ),
    ("tell", "tell, tells, told, telling, untold, teller, tellable"),
    (
        "people for components",
        "nobody, somebody, everybody, anybody, someone, innocent, victim, victims, convict, convicts, \
         convicted, stranger, strangers",
    ),
    ("negated nouns", "is none, are none, was none, is no *, are no *, was no *, were no *"),
    (
        "calques",
        "can not, be had, for good, as far as, comes twice, come twice, comes again, come again, besides, \
         in passing, in the making, logged are, counted are",
    ),
    (
        "one word for many things",
        "answer, answers, answered, answering, leavings, leftovers, nudge, nudges, patience, linger, \
         lingers, catch up, leader, all is well",
    ),
];

/// Phrases that are plain English, although they contain one of the others.
const FINE: &str = "there is no *, there are no *, there was no *, there were no *, is no longer, \
    is no more, is no less, is no larger, is no different, are no longer, was no longer, \
    for good measure, for good reason, group leader, session leader";

/// Words that names and messages may not contain.
const BANNED: &str = "answer, answers, answered, answering, teller, tell, tells, told, untold, tellable, \
    telling, nudge, nudges, leftovers, leavings, victim, victims, convict, convicts, convicted, innocent, \
    lack, nobody, somebody, everybody, whoever, whatever, whichever, patience, linger";

#[test]
fn language() {
    let mut folders: BTreeMap<String, Tally> = BTreeMap::new();
    let (mut total, mut habits) = (Tally::default(), [0; HABITS.len()]);
    let mut examples = Vec::new();
    for (path, number, line) in prose() {
        let shown = habits_in(&line);
        shown.iter().for_each(|habit| habits[*habit] += 1);
        total.add(!shown.is_empty());
        folders.entry(folder_of(path)).or_default().add(!shown.is_empty());
        if !shown.is_empty() {
            examples.push(format!("{path}:{number}: {}", line.trim()));
        }
    }
    println!("{}", examples.join("\n"));
    for (folder, tally) in &folders {
        println!("{folder:12} {tally}");
    }
    for ((name, _), count) in HABITS.iter().zip(habits) {
        println!("{count:5} {name}");
    }
    println!("all: {total}");
    assert!(total.lines > 3000, "only {} lines of prose", total.lines);
    assert!(total.is_allowed(), "{total}");
}

#[test]
fn names_and_messages_avoid_banned_words() {
    check_none(&sources("src/").chain(sources("tester/")).flat_map(banned_words).collect::<Vec<_>>());
}

#[derive(Default)]
struct Tally {
    lines: usize,
    with_habit: usize,
}

impl Tally {
    fn add(&mut self, has_habit: bool) {
        self.lines += 1;
        self.with_habit += usize::from(has_habit);
    }

    fn is_allowed(&self) -> bool {
        self.with_habit * 1000 < self.lines * ALLOWED_PER_MILLE
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let per_mille = self.with_habit * 1000 / self.lines.max(1);
        write!(f, "{:4} of {:5} lines, {}.{} %", self.with_habit, self.lines, per_mille / 10, per_mille % 10)
    }
}

fn folder_of(path: &str) -> String {
    let folders: Vec<&str> = path.split('/').collect();
    match folders[..] {
        [_] => ".".to_owned(),
        ["src" | "tests" | "tester", folder, _, ..] if folder != "src" => format!("{}/{folder}", folders[0]),
        [folder, ..] => folder.to_owned(),
        [] => unreachable!("no path is empty"),
    }
}

/// A line of prose: its path, its number, and its text without code in backticks. The first line of a comment
/// or paragraph begins with `^`.
type Line<'a> = (&'a str, usize, String);

/// All lines of comments and documents.
fn prose() -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for source in sources("") {
        let mut last = 0;
        for (number, text) in &source.comments {
            let start = if last + 1 == *number { "" } else { "^ " };
            last = if text.trim().is_empty() { 0 } else { *number };
            lines.push((source.path.as_str(), *number, format!("{start}{}", without_code(text))));
        }
    }
    for document in documents().iter().filter(|document| has_hash_comments(&document.path)) {
        lines.extend(hash_comments(document));
    }
    for document in markdown() {
        lines.extend(paragraphs(document));
    }
    lines.retain(|(_, _, text)| text.chars().any(char::is_alphabetic));
    lines
}

fn has_hash_comments(path: &str) -> bool {
    let endings = [".sh", ".py", ".toml", ".yaml", ".yml", ".ci/run", "justfile", "Dockerfile.scratch"];
    endings.iter().any(|ending| path.ends_with(ending)) && !path.starts_with("tests/conformance/")
}

fn hash_comments(document: &Document) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(document.text.lines()) {
        let comment = match line.trim_start().strip_prefix('#') {
            Some(text) if !text.starts_with('!') => Some(text),
            Some(_) => None,
            None => line.split_once(" # ").map(|(_, text)| text),
        };
        lines.extend(
            comment.map(|text| (document.path.as_str(), number, format!("^ {}", without_code(text)))),
        );
    }
    lines
}

/// Paragraphs, lists and tables; a heading may be a question.
fn paragraphs(document: &Document) -> Vec<Line<'_>> {
    let (mut is_code, mut lines) = (false, Vec::new());
    for (number, line) in (1..).zip(document.text.lines()) {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence && !line.starts_with('#') {
            let first = line.chars().find(|character| character.is_alphabetic());
            let is_start = first.is_some_and(char::is_uppercase) && !line.starts_with('|');
            let start = if is_start { "^ " } else { "" };
            lines.push((document.path.as_str(), number, format!("{start}{}", without_code(line))));
        }
    }
    lines
}

/// Without the text between backticks.
fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    parts.iter().step_by(2).copied().collect::<Vec<_>>().join(" ` ")
}

/// The habits that a line shows, by number.
fn habits_in(line: &str) -> Vec<usize> {
    let lower = line.to_lowercase();
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '-' | '_' | '^');
    let mut words: Vec<&str> = lower
        .split(|c| !is_part(c))
        .map(|word| word.trim_matches('\''))
        .filter(|word| !word.is_empty())
        .collect();
    // A question may begin with "what".
    if line.trim_end().ends_with('?') {
        words.retain(|word| *word != "^");
    }
    for fine in FINE.split(", ") {
        for at in occurrences(&words, fine) {
            let fixed = fine.split(' ').enumerate().filter(|(_, word)| *word != "*");
            fixed.for_each(|(offset, _)| words[at + offset] = "-");
        }
    }
    let shows = |phrases: &str| phrases.split(", ").any(|phrase| !occurrences(&words, phrase).is_empty());
    let habits = HABITS.iter().enumerate().filter(|(_, (_, phrases))| shows(phrases));
    habits.map(|(number, _)| number).collect()
}

/// Where a phrase begins.
fn occurrences(words: &[&str], phrase: &str) -> Vec<usize> {
    let wanted: Vec<&str> = phrase.split(' ').collect();
    let is_here = |window: &[&str]| window.iter().zip(&wanted).all(|(word, one)| *one == "*" || word == one);
    let windows = words.windows(wanted.len()).enumerate();
    windows.filter(|(_, window)| is_here(window)).map(|(at, _)| at).collect()
}

fn banned_words(source: &Source) -> Vec<String> {
    let mut offences = Vec::new();
    for token in source.all_tokens().iter().filter(|token| token.kind != Kind::Other) {
        let words = words_of_name(&token.text);
        let banned = words.iter().filter(|word| BANNED.split(", ").any(|banned| banned == **word));
        offences.extend(banned.map(|word| format!("{}:{}: {word}", source.path, token.line)));
        if token.kind == Kind::Text && words.windows(2).any(|pair| pair == ["can", "not"]) {
            offences.push(format!("{}:{}: can not", source.path, token.line));
        }
    }
    offences
}

/// `is_told` and `IsTold` are `is` and `told`.
fn words_of_name(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in text.chars() {
        if !c.is_alphabetic() || c.is_uppercase() && was_lower {
            words.push(String::new());
        }
        if c.is_alphabetic() {
            words.last_mut().unwrap().extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn habits_are_seen() {
    let check = |line: &str, expected: &[&str]| {
        let found: Vec<&str> = habits_in(line).into_iter().map(|number| HABITS[number].0).collect();
        assert_eq!(found, expected, "{line}");
    };
    check("Whoever waits for the response", &["clauses for nouns"]);
    check("^ What commands leave behind.", &["clauses for nouns"]);
    check("how its outcome is told", &["tell"]);
    check("Output that nobody wants", &["people for components"]);
    check("bytes that are none; a path that is no file", &["negated nouns"]);
    check("It can not be had.", &["calques"]);
    check("The answer to the group's leader", &["one word for many things"]);
    check("Nobody can be told what is there", &["clauses for nouns", "tell", "people for components"]);
    for fine in [
        "^ What does it do?",
        "There is no limit, and it is no longer open.",
        "The group leader cannot say what it wants.",
        "SO_LINGER is set; for good measure the socket is closed.",
        "^ The server somehow foretold it.",
    ] {
        check(fine, &[]);
    }
    let tally = |with_habit, lines| Tally { lines, with_habit }.is_allowed();
    assert!(tally(19, 1000) && !tally(20, 1000) && !tally(1, 1));
}

#[test]
fn prose_is_found() {
    let markdown =
        Document::new("a.md", "# What is this\nText `whatever`\n```\nwhatever\n```\n| Cell |\nmore\n");
    let found =
        |lines: Vec<Line<'_>>| lines.into_iter().map(|(_, number, text)| (number, text)).collect::<Vec<_>>();
    let expected = [(2, "^ Text  ` ".to_owned()), (6, "| Cell |".to_owned()), (7, "more".to_owned())];
    assert_eq!(found(paragraphs(&markdown)), expected);
    let script = Document::new("a.sh", "#!/bin/sh\n# one\necho $# two # three\n  #four\n");
    let expected = [(2, "^  one".to_owned()), (3, "^ three".to_owned()), (4, "^ four".to_owned())];
    assert_eq!(found(hash_comments(&script)), expected);
    let files: Vec<&str> = prose().into_iter().map(|(path, ..)| path).collect();
    for path in ["src/main.rs", "tests/it/tidy/language.rs", "README.md", ".ci/run", "Cargo.toml"] {
        assert!(files.contains(&path), "no prose of {path}");
    }
}

#[test]
fn banned_words_are_seen() {
    check_seen(banned_words, "a.rs", "struct Teller; fn is_told(isTold: X) { f(\"Nobody is told\") }", 5);
    check_seen(banned_words, "a.rs", "// told\nfn f() { g(\"it can not\") }", 1);
    check_seen(banned_words, "a.rs", "fn foretold(black: Black) { f(\"cannot\") }", 0);
    assert_eq!(words_of_name("HTTPTeller is_ToldX2"), ["httpteller", "is", "told", "x"]);
}

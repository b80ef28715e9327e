//! Splitting a command into arguments: exactly like Python's `shlex.split`, not like a shell.

use crate::python::{Numbers, evaluate};
use kit::Server;
use sandbox_runtime::api::compat::shlex::split;
use serde_json::{Value, json};

#[test]
fn split_matches_python_on_random_input() {
    let alphabet: Vec<char> =
        "''''\"\"\"\"\\\\\\\\    \t\r\n#$abcé\u{a0}\u{3000}\u{2028}\u{b}\u{c}\u{0}".chars().collect();
    let mut numbers = Numbers::new();
    let seed = numbers.0;
    let texts: Vec<String> = (0..100_000).map(|_| numbers.text(&alphabet, 24)).collect();
    let inputs: Vec<Value> = texts.iter().map(|text| json!(text)).collect();
    let Some(expected) = evaluate("words(x)", &inputs) else { return };
    let ours = |text: &String| {
        split(text).map_or_else(|error| json!(error.to_string()), |arguments| json!(arguments))
    };
    let differences: Vec<_> =
        texts.iter().zip(&expected).filter(|(text, expected)| ours(text) != **expected).collect();
    assert!(
        differences.is_empty(),
        "seed {seed}: {} differ, the first: {:?}, ours: {:?}",
        differences.len(),
        differences[0],
        ours(differences[0].0)
    );
    // The sample must contain enough valid and enough invalid strings.
    let errors = expected.iter().filter(|value| value.is_string()).count();
    println!("seed {seed}: {errors} of {} are errors", expected.len());
    assert!((10_000..90_000).contains(&errors));
}

#[test]
fn arguments_reach_the_program_unchanged() {
    let server = Server::start();
    for (command, stdout) in [
        ("printf '<%s>' a # b", "<a><#><b>"),                 // SH-01
        ("printf '<%s>' a\\\nb", "<a\nb>"),                   // SH-04
        (r#"printf %s "\d \$ \` \\ \"""#, r#"\d \$ \` \ ""#), // SH-06
        (r"printf %s '\d+|a\b'", r"\d+|a\b"),                 // SH-07
        ("printf '<%s>' a\tb\nc\rd", "<a><b><c><d>"),         // SH-13
        (
            "printf '<%s>' a\u{b}b\u{c}c\u{a0}d\u{3000}e\u{2028}f\u{feff}g",
            "<a\u{b}b\u{c}c\u{a0}d\u{3000}e\u{2028}f\u{feff}g>",
        ), // SH-14
        (r"printf '<%s>' 'it'\''s'", "<it's>"),               // SH-15
        (r"printf '<%s>' $'a\n'", r"<$a\n>"),                 // SH-16
        ("pri\"nt\"f '<%s>' hi", "<hi>"),                     // SH-17
        ("printf '<%s>' \u{1f600} '\u{fc}' \u{200b}", "<\u{1f600}><\u{fc}><\u{200b}>"), // SH-20
        ("printf '<%s>' '' \"\" ''\"\"", "<><><>"),
        ("\n printf\t'<%s>' a \r\n", "<a>"),
        ("printf '<%s>' -- --", "<--><-->"),
        ("printf '<%s>' \"a\nb\" 'c\td'", "<a\nb><c\td>"),
    ] {
        server.execute(command).check(stdout, "", 0);
    }
}

#[test]
fn invalid_or_empty_command_is_not_run() {
    let server = Server::start();
    for (command, reason) in [
        ("#comment", "[Errno 2] No such file or directory: '#comment'"), // SH-02
        (r"touch marker \", "No escaped character"),                     // SH-11
        (r#"touch marker "\""#, "No closing quotation"),                 // SH-12
        ("\\\n", r"[Errno 2] No such file or directory: '\n'"),          // SH-18
        ("touch marker 'x", "No closing quotation"),
        (r#"touch marker "\"#, "No escaped character"),
        ("touch marker \0", "embedded null byte"),
        ("\0", "embedded null byte"),
        ("'\0", "No closing quotation"),
        ("", "list index out of range"), // NF-10
        ("   ", "list index out of range"),
        ("\n\t", "list index out of range"),
        ("''", "[Errno 13] Permission denied: ''"), // NF-08
    ] {
        server.execute(command).check_not_run(reason);
    }
    assert!(!server.base().join("marker").exists());
}

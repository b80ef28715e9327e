//! Splits a command string into arguments by the rules of Python's `shlex.split(text)` (POSIX mode, comments
//! off).
//!
//! These are not a shell's rules: white space is exactly space, tab, CR and LF; `#` is an ordinary character;
//! a backslash keeps the newline after it; inside double quotes it escapes only `"` and itself.
//! `tests/it/shlex.rs` compares this file with Python's own on 100,000 generated strings.

use std::fmt;

/// Why a string cannot be split. The messages are Python's, since clients match on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    NoClosingQuotation,
    NoEscapedCharacter,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoClosingQuotation => "No closing quotation",
            Self::NoEscapedCharacter => "No escaped character",
        })
    }
}

impl std::error::Error for Error {}

/// The arguments of a command.
///
/// # Errors
/// A quotation that does not end, or a backslash at the very end.
pub fn split(text: &str) -> Result<Vec<String>, Error> {
    let mut arguments = Vec::new();
    let mut characters = text.chars();
    while let Some(first) = characters.find(|character| !is_white_space(*character)) {
        arguments.push(argument(first, &mut characters)?);
    }
    Ok(arguments)
}

fn is_white_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

/// Reads one argument, up to the white space that ends it. `''` is an empty argument.
fn argument(first: char, rest: &mut std::str::Chars<'_>) -> Result<String, Error> {
    let mut argument = String::new();
    let mut next = Some(first);
    while let Some(character) = next.filter(|character| !is_white_space(*character)) {
        match character {
            '\\' => argument.push(rest.next().ok_or(Error::NoEscapedCharacter)?),
            '\'' => single_quoted(&mut argument, rest)?,
            '"' => double_quoted(&mut argument, rest)?,
            _ => argument.push(character),
        }
        next = rest.next();
    }
    Ok(argument)
}

fn single_quoted(argument: &mut String, rest: &mut std::str::Chars<'_>) -> Result<(), Error> {
    loop {
        match rest.next().ok_or(Error::NoClosingQuotation)? {
            '\'' => return Ok(()),
            character => argument.push(character),
        }
    }
}

fn double_quoted(argument: &mut String, rest: &mut std::str::Chars<'_>) -> Result<(), Error> {
    loop {
        match rest.next().ok_or(Error::NoClosingQuotation)? {
            '"' => return Ok(()),
            '\\' => match rest.next().ok_or(Error::NoEscapedCharacter)? {
                escaped @ ('"' | '\\') => argument.push(escaped),
                other => argument.extend(['\\', other]),
            },
            character => argument.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, arguments: &[&str]) {
        assert_eq!(
            split(text).as_deref(),
            Ok(arguments.iter().map(ToString::to_string).collect::<Vec<_>>().as_slice())
        );
    }

    #[test]
    fn arguments_are_split_at_space_tab_cr_and_lf_only() {
        check("", &[]);
        check(" \t\r\n", &[]);
        check("a\tb\nc\rd", &["a", "b", "c", "d"]); // SH-13
        check(
            "a\u{b}b\u{c}c\u{a0}d\u{3000}e\u{2028}f\u{feff}g",
            &["a\u{b}b\u{c}c\u{a0}d\u{3000}e\u{2028}f\u{feff}g"],
        ); // SH-14
        check("\u{1f600} '\u{fc}' \u{200b}", &["\u{1f600}", "\u{fc}", "\u{200b}"]); // SH-20
    }

    #[test]
    fn shell_syntax_is_not_interpreted() {
        check("echo a # b", &["echo", "a", "#", "b"]); // SH-01
        check("#comment", &["#comment"]); // SH-02
        check(
            "a|b && $HOME > out; `id` * ~/x {a,b} &",
            &["a|b", "&&", "$HOME", ">", "out;", "`id`", "*", "~/x", "{a,b}", "&"],
        ); // EX-04
        check("echo $'a\\n'", &["echo", "$a\\n"]); // SH-16
    }

    #[test]
    fn a_backslash_outside_quotes_preserves_the_next_character() {
        check("a\\ b", &["a b"]);
        check("echo a\\\nb", &["echo", "a\nb"]); // SH-04
        check("\\\n", &["\n"]); // SH-18
        check("\\\"", &["\""]);
    }

    #[test]
    fn a_backslash_in_double_quotes_escapes_a_quote_and_itself() {
        check(r#"printf %s "\d \$ \` \\ \"""#, &["printf", "%s", "\\d \\$ \\` \\ \""]); // SH-06
    }

    #[test]
    fn single_quotes_preserve_everything() {
        check(r"grep '\d+|a\b'", &["grep", r"\d+|a\b"]); // SH-07
        check(r"echo 'it'\''s'", &["echo", "it's"]); // SH-15
        check(r#"ec"h"o ''"#, &["echo", ""]); // SH-17
        check("a '' \"\"", &["a", "", ""]);
    }

    #[test]
    fn unterminated_input_is_an_error() {
        assert_eq!(split("echo 'x"), Err(Error::NoClosingQuotation));
        assert_eq!(split(r"echo a\"), Err(Error::NoEscapedCharacter)); // SH-11
        assert_eq!(split(r#"echo "\""#), Err(Error::NoClosingQuotation)); // SH-12
        assert_eq!(split(r#"echo "\"#), Err(Error::NoEscapedCharacter));
    }
}

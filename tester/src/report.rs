//! What a person sees: one line a check, and under a failed one what was sent, expected and received.
//!
//! Bytes from the server never reach the terminal as they are: [`escaped`] is the only way out.

use std::io::{self, IsTerminal, Write};

use crate::answer::{Ran, Stop};

const LONGEST_PREVIEW_CHARS: usize = 700;

#[derive(Default)]
pub(crate) struct Tally {
    passed: usize,
    pub(crate) failed: usize,
    skipped: usize,
}

pub(crate) struct Report {
    out: io::StdoutLock<'static>,
    colour: Colour,
    pub(crate) tally: Tally,
}

#[derive(Clone, Copy)]
enum Colour {
    On,
    Off,
}

impl Report {
    pub(crate) fn new() -> Report {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = if io::stdout().is_terminal() && !plain { Colour::On } else { Colour::Off };
        Report { out: io::stdout().lock(), colour, tally: Tally::default() }
    }

    pub(crate) fn heading(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "\n{text}")
    }

    pub(crate) fn remark(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "      {text}")
    }

    pub(crate) fn command(&mut self, command: &str, ran: &Ran) -> io::Result<()> {
        writeln!(self.out, "  $ {}", escaped(command.as_bytes()))?;
        self.stream("stdout", &ran.outcome.stdout)?;
        self.stream("stderr", &ran.outcome.stderr)?;
        writeln!(self.out, "  exit code: {}", ran.outcome.exit_code)
    }

    fn stream(&mut self, name: &str, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return writeln!(self.out, "  {name}: (nothing)");
        }
        writeln!(self.out, "  {name}:")?;
        text.lines().try_for_each(|line| writeln!(self.out, "    {}", preview(line.as_bytes())))
    }

    pub(crate) fn verdict(&mut self, promise: &str, verdict: &Result<(), Stop>) -> io::Result<()> {
        match verdict {
            Ok(()) => {
                self.tally.passed += 1;
                self.line("ok  ", "32", promise)
            }
            Err(Stop::Skip(why)) => {
                self.tally.skipped += 1;
                self.line("skip", "33", &format!("{promise} ({why})"))
            }
            Err(Stop::Differs(which)) => {
                self.tally.skipped += 1;
                self.line("diff", "36", &format!("{promise} (the reference does this; {which})"))
            }
            Err(Stop::Fail(failure)) => {
                self.tally.failed += 1;
                self.line("FAIL", "1;31", promise)?;
                writeln!(self.out, "      sent      {}", preview(&failure.sent))?;
                writeln!(self.out, "      expected  {}", preview(failure.expected.as_bytes()))?;
                writeln!(self.out, "      received  {}", preview(&failure.received))
            }
        }
    }

    fn line(&mut self, word: &str, colour: &str, text: &str) -> io::Result<()> {
        match self.colour {
            Colour::On => writeln!(self.out, "\x1b[{colour}m{word}\x1b[0m  {text}"),
            Colour::Off => writeln!(self.out, "{word}  {text}"),
        }
    }

    pub(crate) fn count(&mut self) -> io::Result<()> {
        let Tally { passed, failed, skipped } = self.tally;
        writeln!(self.out, "\n{passed} passed, {failed} failed, {skipped} skipped")?;
        self.out.flush()
    }
}

/// As much of it as a person reads.
pub(crate) fn preview(bytes: &[u8]) -> String {
    // A character of the preview takes at most four bytes, so this is never less than what is shown.
    let most = bytes.len().min(LONGEST_PREVIEW_CHARS * 4);
    let text = escaped(bytes.get(..most).unwrap_or(bytes));
    match text.char_indices().nth(LONGEST_PREVIEW_CHARS) {
        Some((end, _)) => format!("{}... ({} bytes in all)", text.get(..end).unwrap_or(&text), bytes.len()),
        None => text,
    }
}

/// `bytes` as one line of printable text. Quotes stay as they are, so that JSON stays readable.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\'' => out.push(c),
                _ => out.extend(c.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            out += &format!("\\x{byte:02x}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: &str) {
        assert_eq!(escaped(bytes), expected);
    }

    #[test]
    fn nothing_a_terminal_would_obey_is_shown() {
        check(b"{\"a\":'b'}", "{\"a\":'b'}");
        check(b"a\r\nb\tc", r"a\r\nb\tc");
        check(b"\x1b[31m\x00\x7f", r"\u{1b}[31m\0\u{7f}");
        check("é😀".as_bytes(), "é😀");
        check("\u{9b}\u{202e}\u{2028}".as_bytes(), r"\u{9b}\u{202e}\u{2028}");
        check(b"a\xff\xc3", r"a\xff\xc3");
        check(b"\\", r"\\");
    }

    #[test]
    fn a_preview_is_bounded_and_says_so() {
        assert_eq!(preview(b"short"), "short");
        let long = preview(&[b'x'; 100_000]);
        assert!(long.ends_with("x... (100000 bytes in all)"));
        assert!(long.len() < LONGEST_PREVIEW_CHARS + 40);
        assert!(preview("é".repeat(100_000).as_bytes()).ends_with("é... (200000 bytes in all)"));
    }
}

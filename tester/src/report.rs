//! The report on standard output: one line per check; below a failed check, the bytes sent, expected and
//! received.

use std::io::{self, IsTerminal, Write};

use crate::escape::{escaped, preview};
use crate::response::{Ran, Stop};

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
    pub(crate) fn new() -> Self {
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
            return writeln!(self.out, "  {name}: (empty)");
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
            Err(Stop::Differs(name)) => {
                self.tally.skipped += 1;
                self.line("diff", "36", &format!("{promise} (reference: {name})"))
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

    fn line(&mut self, label: &str, colour: &str, text: &str) -> io::Result<()> {
        match self.colour {
            Colour::On => writeln!(self.out, "\x1b[{colour}m{label}\x1b[0m  {text}"),
            Colour::Off => writeln!(self.out, "{label}  {text}"),
        }
    }

    pub(crate) fn summary(&mut self) -> io::Result<()> {
        let Tally { passed, failed, skipped } = self.tally;
        writeln!(self.out, "\n{passed} passed, {failed} failed, {skipped} skipped")?;
        self.out.flush()
    }
}

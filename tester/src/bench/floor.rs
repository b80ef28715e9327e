//! The floor: the cost of the same work on this machine without a server.
//!
//! The standard library uses posix_spawn(3) for these commands and drains both pipes with poll(2). The
//! posix_spawn of musl holds a lock until the new program runs, so in a tester built with musl the floor of
//! concurrent clients is too low.

use std::env;
use std::fmt::Display;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::response::Stop;

/// A command that is run repeatedly without a server.
pub(super) struct BareCommand {
    command: Command,
}

impl BareCommand {
    /// `name` is looked up in `PATH` once; the server looks it up for each command.
    pub(super) fn program(name: &str, arguments: &[&str]) -> Result<Self, Stop> {
        let path = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file());
        let mut bare = Self::at(found.ok_or_else(|| Stop::Skip(format!("no local {name}")))?);
        bare.command.args(arguments);
        Ok(bare)
    }

    pub(super) fn at(path: PathBuf) -> Self {
        let mut command = Command::new(path);
        // Inherited standard input saves opening /dev/null.
        command.process_group(0).stdin(Stdio::inherit()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command }
    }

    /// Runs it once and reads both pipes to the end.
    pub(super) fn run(&mut self) -> Result<(), Stop> {
        match self.command.output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(self.skip(&output.status)),
            Err(error) => Err(self.skip(&error)),
        }
    }

    fn skip(&self, reason: &dyn Display) -> Stop {
        Stop::Skip(format!("local {:?}: {reason}", self.command.get_program()))
    }

    /// Runs it once with its output sent to /dev/null.
    pub(super) fn run_discarding_output(&mut self) -> Result<Duration, Stop> {
        self.command.stdout(Stdio::null());
        let started = Instant::now();
        self.run()?;
        Ok(started.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_floor_is_skipped() {
        assert!(matches!(BareCommand::program("tester-no-such-program", &[]), Err(Stop::Skip(_))));
        assert!(BareCommand::program("true", &[]).is_ok_and(|mut bare| bare.run().is_ok()));
        assert!(BareCommand::program("false", &[]).is_ok_and(|mut bare| bare.run().is_err()));
    }
}

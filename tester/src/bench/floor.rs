//! The physical floor: what the same work costs on this machine when no server is asked.
//!
//! The standard library uses posix_spawn(3) for commands like these, and drains both pipes with poll(2). That of musl
//! holds a lock until the new program runs: from a tester built with it, the floor of many clients is too low.

use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{self, Command, Stdio};
use std::time::{Duration, Instant};

use super::tiny;
use crate::answer::Stop;

/// A command that is run again and again.
pub(super) struct Bare {
    command: Command,
}

impl Bare {
    /// `name` is looked for in `PATH` once, as the server's command is each time.
    pub(super) fn program(name: &str, arguments: &[&str]) -> Result<Bare, Stop> {
        let path = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file());
        let mut bare = Bare::at(found.ok_or_else(|| Stop::Skip(format!("no {name} here")))?);
        bare.command.args(arguments);
        Ok(bare)
    }

    fn at(path: PathBuf) -> Bare {
        let mut command = Command::new(path);
        // What is inherited need not be opened.
        command.process_group(0).stdin(Stdio::inherit()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Bare { command }
    }

    /// Once: both outputs are read to their end.
    pub(super) fn run(&mut self) -> Result<(), Stop> {
        match self.command.output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => {
                Err(Stop::Skip(format!("{:?} here: {}", self.command.get_program(), output.status)))
            }
            Err(error) => Err(Stop::Skip(format!("{:?} here: {error}", self.command.get_program()))),
        }
    }

    /// Once, with its output thrown away by the kernel.
    pub(super) fn run_unheard(&mut self) -> Result<Duration, Stop> {
        self.command.stdout(Stdio::null());
        let begun = Instant::now();
        self.run()?;
        Ok(begun.elapsed())
    }
}

/// The tiny program in a directory of its own, which is removed with it.
pub(super) struct Tiny {
    directory: PathBuf,
}

impl Tiny {
    pub(super) fn write(content: &[u8]) -> Result<Tiny, Stop> {
        let directory = env::temp_dir().join(format!("tester-bench-{}", process::id()));
        let wrong = |error| Stop::Skip(format!("{} here: {error}", directory.display()));
        DirBuilder::new().mode(0o700).create(&directory).map_err(wrong)?;
        // From here on it is removed, whatever happens.
        let tiny = Tiny { directory: directory.clone() };
        // Closed before it is run: a program that is open for writing is busy.
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(tiny.path())
            .and_then(|mut file| file.write_all(content))
            .map_err(wrong)?;
        Ok(tiny)
    }

    pub(super) fn bare(&self) -> Bare {
        Bare::at(self.path())
    }

    fn path(&self) -> PathBuf {
        self.directory.join("tiny")
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        // There is nobody to tell, and nothing else to do.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The tiny program, or why there is none.
pub(super) fn tiny() -> Result<Vec<u8>, Stop> {
    tiny::program().ok_or_else(|| Stop::Skip(format!("no tiny program for {}", env::consts::ARCH)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tiny_program_runs_here_and_leaves_nothing() {
        let tiny = Tiny::write(&tiny().ok().unwrap()).ok().unwrap();
        let path = tiny.path();
        // Another test's child can hold what was just written, for as long as it takes to start.
        let status = loop {
            match Command::new(&path).status() {
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
                status => break status.unwrap(),
            }
        };
        assert_eq!(status.code(), Some(0));
        drop(tiny);
        assert!(!path.exists());
    }

    #[test]
    fn a_floor_that_fails_says_so() {
        assert!(matches!(Bare::program("tester-no-such-program", &[]), Err(Stop::Skip(_))));
        assert!(Bare::program("true", &[]).is_ok_and(|mut bare| bare.run().is_ok()));
        assert!(Bare::program("false", &[]).is_ok_and(|mut bare| bare.run().is_err()));
    }
}

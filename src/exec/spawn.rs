//! Starts commands: looks the program up, and spawns it with pipes and a tag of its own.

use super::lookup::Candidates;
use super::process::{Child, Process};
use super::spec::{Environment, Spec};
use super::tag::Tags;
use super::{Error, Subject};
use crate::sys::errno::is_transient_shortage;
use crate::sys::poll::pipe;
use crate::sys::process::Pid;
use crate::sys::signals::SignalSet;
use crate::sys::spawn::{Leads, Spawn, is_executable};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// The parts of a spawn that all commands share.
#[derive(Debug)]
pub(super) struct Spawner {
    environment: Environment,
    tags: Tags,
    null: File,
    reset_signals: SignalSet,
    leads: Leads,
}

impl Spawner {
    /// Determines once the values that do not change: signal dispositions, the controlling terminal,
    /// `/dev/null`.
    pub(super) fn new(environment: Environment) -> io::Result<Self> {
        Ok(Self {
            environment,
            tags: Tags::new(),
            null: File::open("/dev/null")?,
            reset_signals: SignalSet::ignored(),
            leads: leads(),
        })
    }

    pub(super) fn start(&self, spec: &Spec<'_>) -> Result<Process, Error> {
        let no_resources = |cause| Error { subject: Subject::Resources, cause };
        let (stdout, child_stdout) = pipe().map_err(no_resources)?;
        let (stderr, child_stderr) = pipe().map_err(no_resources)?;
        let spawned = self.tags.spawn_with(|tag| {
            let spawn = Spawn {
                arguments: spec.argv.arguments(),
                environment: self.environment.variables(),
                execution_id: tag.variable(),
                directory: spec.directory,
                stdin: self.null.as_fd(),
                stdout: child_stdout.as_fd(),
                stderr: child_stderr.as_fd(),
                reset_signals: self.reset_signals,
                leads: self.leads,
            };
            self.spawn_first(spec.argv.program(), &spawn)
        });
        let (pid, tag) = spawned.map_err(no_resources)?;
        Ok(Process { child: Child::new(pid?, tag), stdout, stderr })
    }

    /// Spawns the first candidate that can be spawned. If there is none, the first error other than "not
    /// found" is reported, as in execvp(3).
    fn spawn_first(&self, program: &CStr, spawn: &Spawn<'_>) -> Result<Pid, Error> {
        let mut reported = io::Error::from(io::ErrorKind::NotFound);
        let mut candidates = Candidates::new(program, &self.environment);
        while let Some(path) = candidates.following() {
            match is_executable(spawn.directory, path).and_then(|()| spawn.start(path)) {
                Ok(child) => return Ok(child),
                // The next candidate would fail in the same way.
                Err(cause) if is_transient_shortage(&cause) => {
                    return Err(Error { subject: Subject::Resources, cause });
                }
                Err(cause) if is_not_found(&reported) => reported = cause,
                Err(_) => {}
            }
        }
        let is_usable = is_executable(spawn.directory, c".").is_ok();
        let subject = if is_usable { Subject::Program } else { Subject::Directory };
        Err(Error { subject, cause: reported })
    }
}

/// If the server has a controlling terminal (it was started by hand), a command gets a session of its own: a
/// background process group of that terminal would be stopped as soon as it reads `/dev/tty`. Elsewhere a
/// group is enough.
fn leads() -> Leads {
    if File::open("/dev/tty").is_ok() { Leads::Session } else { Leads::Group }
}

fn is_not_found(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

//! The built-in init process. It starts this program again as the server, forwards signals to it, reaps
//! orphaned processes, and exits as the server did.
//!
//! The server cannot do that itself: a process that reaps every child takes exit statuses away from its
//! threads that wait for commands. So each of the two processes waits for children in exactly one way. As PID
//! 1 of a container the init process inherits all orphans. Elsewhere it is the subreaper of its own
//! descendants, and never reaps another process.

use crate::log;
use crate::sys::environment::wipe_variable;
use crate::sys::prctl::{become_subreaper, end_with_parent, forbid_inspection};
use crate::sys::process::{ExitStatus, Pid, reap_any, send};
use crate::sys::signals::{BlockedSignals, Signal};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// SIGABRT too: its default action does not end PID 1 (kill(2)), so the server must end by it instead.
const FORWARDED: [Signal; 7] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::ABRT];

/// The command that makes the second process the server.
const SERVE: &str = "serve";

/// The name of both processes.
const NAME: &str = "sandbox-runtime";

/// Starts the server with these arguments and additional variables, and waits until it has ended. Returns its
/// exit status, or 128 + the number of the signal that ended it.
///
/// # Errors
/// The server could not be started. This process is unchanged, except for its signal mask.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    variables: impl IntoIterator<Item = (&'static str, OsString)>,
) -> io::Result<u8> {
    let own_pid = std::process::id();
    let awaited: Vec<Signal> = FORWARDED.into_iter().chain([Signal::CHLD]).collect();
    let signals = BlockedSignals::block(&awaited);
    if own_pid != 1 {
        become_subreaper()?;
    }
    // The server inherits the signal mask, and unblocks the signals when it can handle them. In a process
    // group of its own it receives Ctrl-C only once: from here, and not from the terminal as well.
    let server = Command::new("/proc/self/exe")
        .arg0(NAME)
        .arg(SERVE)
        .args(arguments)
        .envs(variables)
        .process_group(0)
        .spawn()?;
    let server = Pid::of(&server);
    loop {
        match signals.wait()? {
            Signal::CHLD => {
                if let Some(status) = reap_until(server) {
                    return Ok(exit_code(status));
                }
            }
            signal => {
                if let Err(error) = send(server, signal) {
                    log::warn(format_args!("cannot forward signal {}: {error}", signal.number()));
                }
            }
        }
    }
}

/// For the server: receive SIGTERM when the init process ends.
///
/// # Errors
/// None in practice.
pub fn follow_parent() -> io::Result<()> {
    end_with_parent()
}

/// For the server: the name in lists of processes. The kernel's default is the name of the executed file,
/// "exe".
pub fn take_name() {
    // The name is only informative.
    let _no_proc = std::fs::write("/proc/self/comm", NAME);
}

/// For both processes, if there is a secret: other processes of the same user can no longer inspect this one,
/// and its environment, which root can still read, no longer has the variable's value.
///
/// # Errors
/// None in practice.
pub fn keep_secret(variable: &str) -> io::Result<()> {
    wipe_variable(variable);
    forbid_inspection()
}

/// Reaps ended children until the server is among them, and returns its status. One SIGCHLD may stand for
/// many children.
fn reap_until(server: Pid) -> Option<ExitStatus> {
    std::iter::from_fn(reap_any).find(|(pid, _)| *pid == server).map(|(_, status)| status)
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = match status {
        ExitStatus::Exited(code) => code,
        ExitStatus::Signaled(signal) => 128 + signal,
    };
    // Both are below 256, see wait(2).
    u8::try_from(code).unwrap_or(u8::MAX)
}

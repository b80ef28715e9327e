//! The process above the server. It starts this program again as the server and then does three things only: forward
//! signals, reap whatever is orphaned, end as the server ended.
//!
//! The server can not do that itself: reaping every child would take the exit statuses away from the threads that run
//! commands. So each of the two processes has exactly one kind of place that waits. As PID 1 of a container the orphans
//! come here anyway; anywhere else this process asks for those of its own descendants, and touches nobody else's.

use crate::log;
use crate::sys::process::{
    BlockedSignals, ExitStatus, Pid, Signal, become_subreaper, end_with_parent, forbid_inspection, reap_any,
    send, wipe_variable,
};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// SIGABRT is among them because a default action does not end PID 1: so the container ends as the server does.
const FORWARDED: [Signal; 7] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::ABRT];

/// The word that tells the second process to be the server.
const SERVE: &str = "serve";

/// What both processes are called.
const NAME: &str = "sandbox-runtime";

/// Starts the server with these arguments and these variables besides, and returns how it ended: its exit status, or 128 + the signal's number.
///
/// # Errors
/// The server could not be started; this process is as it was, but for its blocked signals.
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
    // It inherits the blocked signals, and lets them through when it is ready to take them. A group of its own, so that
    // Ctrl-C at a terminal reaches it once, from here, and not a second time from the terminal.
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
                    log::warn(format_args!("can not forward signal {}: {error}", signal.number()));
                }
            }
        }
    }
}

/// For the server: end (by SIGTERM) when the process above ends.
///
/// # Errors
/// None in practice.
pub fn follow_parent() -> io::Result<()> {
    end_with_parent()
}

/// For the server: its name in lists of processes. The kernel took one from the file that was executed, "exe".
pub fn take_name() {
    // Nothing depends on it.
    let _no_proc = std::fs::write("/proc/self/comm", NAME);
}

/// For whichever process knows a secret: no other process of the same user may look into it, and its environment, as far
/// as it could be looked into before, no longer has the variable.
///
/// # Errors
/// None in practice.
pub fn keep_secret(variable: &str) -> io::Result<()> {
    wipe_variable(variable);
    forbid_inspection()
}

/// Reaps all that have ended: one SIGCHLD may stand for many. Returns the server's status if it is among them.
fn reap_until(server: Pid) -> Option<ExitStatus> {
    std::iter::from_fn(reap_any).find(|(pid, _)| *pid == server).map(|(_, status)| status)
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = match status {
        ExitStatus::Exited(code) => code,
        ExitStatus::Signaled(signal) => 128 + signal,
    };
    // Both are below 256 by what wait(2) promises.
    u8::try_from(code).unwrap_or(u8::MAX)
}

//! PID 1 of a container. It starts this program again as the server and then does three things only: forward signals,
//! reap whatever is orphaned, end as the server ended.
//!
//! The server can not do that itself: reaping every child would take the exit statuses away from the threads that run
//! commands. So each of the two processes has exactly one kind of place that waits.

use crate::log;
use crate::sys::process::{BlockedSignals, ExitStatus, Pid, Signal, reap_any, send};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

const FORWARDED: [Signal; 6] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// Starts the server with these arguments, and returns how it ended: its exit status, or 128 + the signal's number.
///
/// # Errors
/// The server could not be started; this process is as it was, but for its blocked signals.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> io::Result<u8> {
    let awaited: Vec<Signal> = FORWARDED.into_iter().chain([Signal::CHLD]).collect();
    let signals = BlockedSignals::block(&awaited);
    // std gives the child an empty signal mask. A group of its own, so that Ctrl-C at a terminal reaches the server
    // once, from here, and not a second time from the terminal.
    let server =
        Command::new("/proc/self/exe").arg0("sandbox-runtime").args(arguments).process_group(0).spawn()?;
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

//! Processes: their ids, how they end, and how they are killed. waitid(2), kill(2), pidfd_open(2).
//!
//! The [`Pid`] of a child stays reserved until [`reap`] has returned its status. Only until then may it be
//! signalled.

use super::signals::Signal;
use super::{check, retry};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The id of a process, and of its group if it leads one. Never 0 and never negative, so it cannot mean "my
/// own group" or "every process" to kill(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pid(libc::pid_t);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this status (0 to 255).
    Exited(i32),
    /// A signal of this number killed it.
    Signaled(i32),
}

impl Pid {
    /// `None` for 0 and for negative numbers.
    pub fn new(raw: i32) -> Option<Self> {
        (raw > 0).then_some(Self(raw))
    }

    pub fn number(self) -> i32 {
        self.0
    }

    /// The pid of a child that the standard library started.
    pub fn of(child: &std::process::Child) -> Self {
        Self(libc::pid_t::try_from(child.id()).unwrap_or(libc::pid_t::MAX))
    }
}

/// A descriptor that becomes readable when the process ends (pidfd_open(2), Linux 5.3).
///
/// # Errors
/// `ENOSYS` or `EPERM` if the kernel or a filter does not offer it; `EMFILE` if no descriptor is free.
pub fn pidfd(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open(2) takes two integers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.0, 0) };
    if descriptor == -1 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = RawFd::try_from(descriptor).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: the call succeeded, so the descriptor is open (close-on-exec) and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Whether a child has ended. It stays unreaped, and its pid reserved. A stopped process has not ended.
///
/// # Errors
/// `ECHILD` if it is not a child of this process, or already reaped.
pub fn has_ended(child: Pid) -> io::Result<bool> {
    Ok(waitid(child, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)?.is_some())
}

/// Takes a child's status if it has ended, and frees its pid. `None` if it has not ended.
///
/// # Errors
/// `ECHILD` as for [`has_ended`].
pub fn reap(child: Pid) -> io::Result<Option<ExitStatus>> {
    waitid(child, libc::WEXITED | libc::WNOHANG)
}

fn waitid(child: Pid, options: libc::c_int) -> io::Result<Option<ExitStatus>> {
    let id = libc::id_t::try_from(child.0).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: all-zero bytes are a valid `siginfo_t`; waitid(2) asks for zeroed pid fields with WNOHANG.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is a writable `siginfo_t` that outlives the call.
    retry(|| check(unsafe { libc::waitid(libc::P_PID, id, &raw mut info, options) }))?;
    // SAFETY: waitid(2) filled in the SIGCHLD fields, or left the zeroes.
    let pid = unsafe { info.si_pid() };
    // SAFETY: as above.
    let status = unsafe { info.si_status() };
    Ok((pid != 0).then_some(match info.si_code {
        libc::CLD_EXITED => ExitStatus::Exited(status),
        _ => ExitStatus::Signaled(status),
    }))
}

/// Reaps any one ended child; `None` if none has ended, or none exists. For an init process only: it would
/// take the status away from a thread that waits for that child.
pub fn reap_any() -> Option<(Pid, ExitStatus)> {
    let mut status = 0;
    // SAFETY: the pointer is to a writable integer. EINTR cannot happen with WNOHANG.
    let pid = Pid::new(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) })?;
    if libc::WIFSIGNALED(status) {
        return Some((pid, ExitStatus::Signaled(libc::WTERMSIG(status))));
    }
    Some((pid, ExitStatus::Exited(libc::WEXITSTATUS(status))))
}

/// Sends a signal to one process.
///
/// # Errors
/// `ESRCH` if it has ended, `EPERM` if it belongs to another user.
pub fn send(pid: Pid, signal: Signal) -> io::Result<()> {
    // SAFETY: kill(2) takes two integers.
    check(unsafe { libc::kill(pid.0, signal.number()) })?;
    Ok(())
}

/// Sends a signal to every process of a group. The group's number must be reserved: by a leader that is not
/// reaped yet, or by a member that was just seen alive. A group without living members is not an error.
pub fn send_to_group(group: Pid, signal: Signal) {
    // SAFETY: kill(2) takes two integers. ESRCH means that no process is left, which is the goal.
    let _no_process_left = unsafe { libc::kill(-group.0, signal.number()) };
}

/// Kills every process of a group (SIGKILL), under the conditions of [`send_to_group`].
pub fn kill_group(group: Pid) {
    send_to_group(group, Signal::KILL);
}

/// Sends a signal to a process if it is still the intended one. The predicate runs while a pidfd holds the
/// process, so it is asked about exactly the process that then gets the signal.
pub fn send_if(pid: Pid, signal: Signal, is_target: impl FnOnce() -> bool) {
    let held = pidfd(pid);
    if !is_target() {
        return;
    }
    match held {
        // SAFETY: pidfd_send_signal(2) takes integers, and a null pointer for "no details".
        Ok(held) => drop(unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                held.as_raw_fd(),
                signal.number(),
                std::ptr::null::<()>(),
                0,
            )
        }),
        // It has ended, or the number is a thread's.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL | libc::ENOENT)) => {}
        // Without pidfds the pid could be reused between predicate and signal; that risk remains.
        Err(_) => drop(send(pid, signal)),
    }
}

//! Signals: their numbers, sets, masks and dispositions. signal(7), sigwaitinfo(2), sigaction(2).

use super::{check, retry};
use std::io;

/// A signal, by its number on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal(libc::c_int);

impl Signal {
    /// Asks a process to end.
    pub const TERM: Self = Self(libc::SIGTERM);
    /// Ctrl-C.
    pub const INT: Self = Self(libc::SIGINT);
    /// The terminal was closed.
    pub const HUP: Self = Self(libc::SIGHUP);
    /// Ctrl-\.
    pub const QUIT: Self = Self(libc::SIGQUIT);
    /// Has no fixed meaning.
    pub const USR1: Self = Self(libc::SIGUSR1);
    /// Has no fixed meaning.
    pub const USR2: Self = Self(libc::SIGUSR2);
    /// abort(3).
    pub const ABRT: Self = Self(libc::SIGABRT);
    /// Ends a process. It cannot be caught or blocked.
    pub const KILL: Self = Self(libc::SIGKILL);
    /// Stops a process. It cannot be caught or blocked.
    pub const STOP: Self = Self(libc::SIGSTOP);
    /// A child has ended.
    pub const CHLD: Self = Self(libc::SIGCHLD);

    pub fn number(self) -> i32 {
        self.0
    }

    fn is_ignored(self) -> bool {
        // SAFETY: all-zero bytes are a valid `sigaction`.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: a null second argument changes nothing, and the third is writable. The C library refuses
        // the few numbers that it reserves for itself, which leaves the zeroes (SIG_DFL).
        let _refused = unsafe { libc::sigaction(self.0, std::ptr::null(), &raw mut action) };
        action.sa_sigaction == libc::SIG_IGN
    }
}

/// A set of signals (sigsetops(3)).
#[derive(Clone, Copy)]
pub struct SignalSet(pub(super) libc::sigset_t);

impl SignalSet {
    pub(super) fn of(signals: &[Signal]) -> Self {
        // SAFETY: all-zero bytes are a valid `sigset_t`; sigemptyset makes it an empty one below.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a writable set.
        let _cannot_fail = unsafe { libc::sigemptyset(&raw mut set) };
        for signal in signals {
            // SAFETY: the set is initialised; a wrong number would be refused with EINVAL.
            let _cannot_fail = unsafe { libc::sigaddset(&raw mut set, signal.0) };
        }
        Self(set)
    }

    /// The signals that this process ignores, SIGPIPE among them as in every Rust program. Ignored signals
    /// stay ignored through exec (execve(2)), so they must be reset for every program that is started.
    pub fn ignored() -> Self {
        let ignored: Vec<Signal> =
            (1..=libc::SIGRTMAX()).map(Signal).filter(|signal| signal.is_ignored()).collect();
        Self::of(&ignored)
    }
}

impl std::fmt::Debug for SignalSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SignalSet")
    }
}

/// Blocked signals, received one by one with [`wait`](Self::wait) instead of by a handler.
#[derive(Debug)]
pub struct BlockedSignals(SignalSet);

impl BlockedSignals {
    /// Blocks them in this thread and in those that it starts. A blocked signal reaches even PID 1, for which
    /// the kernel otherwise drops signals without a handler (pid_namespaces(7)).
    pub fn block(signals: &[Signal]) -> Self {
        let set = SignalSet::of(signals);
        // SAFETY: the set is initialised, and the old mask is not asked for. It can only fail for a wrong
        // first argument.
        let _cannot_fail =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set.0, std::ptr::null_mut()) };
        Self(set)
    }

    /// Waits for the next of them.
    ///
    /// # Errors
    /// None in practice: sigwaitinfo(2) fails only if it is interrupted, and then it waits again.
    pub fn wait(&self) -> io::Result<Signal> {
        // SAFETY: the set is initialised, and a null second argument asks for no details.
        retry(|| check(unsafe { libc::sigwaitinfo(&raw const self.0.0, std::ptr::null_mut()) })).map(Signal)
    }
}

/// Unblocks every signal in this thread and in those that it starts. The mask is inherited through exec, so
/// the parent may have blocked some.
pub fn unblock_all_signals() {
    let nothing_blocked = SignalSet::of(&[]);
    // SAFETY: the set is initialised, and the old mask is not asked for. It can only fail for a wrong first
    // argument.
    let _cannot_fail = unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const nothing_blocked.0, std::ptr::null_mut())
    };
}

/// Resets SIGCHLD to its default, so that ended children stay until they are reaped. A process that was
/// started with SIGCHLD ignored loses their exit statuses otherwise (waitpid(2)).
///
/// # Errors
/// None in practice: SIGCHLD can be reset.
pub fn keep_exit_statuses() -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `sigaction`: SIG_DFL, no flags, nothing blocked.
    let default: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the action is initialised, and the old one is not asked for.
    check(unsafe { libc::sigaction(libc::SIGCHLD, &raw const default, std::ptr::null_mut()) })?;
    Ok(())
}

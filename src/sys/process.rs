//! Processes: how they end, how they are signalled, and what PID 1 does all day. waitid(2), kill(2), pidfd_open(2),
//! sigwaitinfo(2).
//!
//! A [`Pid`] of a child stays reserved until [`reap`] has returned its status; only until then may it be signalled.

use super::{check, retry};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The id of a process; for a process that leads its group, of the group too. Never 0 and never negative, so it can
/// not mean "my own group" or "everybody" to kill(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pid(libc::pid_t);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It ended by itself, with this status (0 to 255).
    Exited(i32),
    /// A signal of this number ended it.
    Signaled(i32),
}

/// A signal, by its number on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal(libc::c_int);

impl Signal {
    pub const TERM: Self = Self(libc::SIGTERM);
    pub const INT: Self = Self(libc::SIGINT);
    pub const HUP: Self = Self(libc::SIGHUP);
    pub const QUIT: Self = Self(libc::SIGQUIT);
    pub const USR1: Self = Self(libc::SIGUSR1);
    pub const USR2: Self = Self(libc::SIGUSR2);
    pub const ABRT: Self = Self(libc::SIGABRT);
    pub const STOP: Self = Self(libc::SIGSTOP);
    pub const CHLD: Self = Self(libc::SIGCHLD);

    pub fn number(self) -> i32 {
        self.0
    }
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

/// Makes sure that ended children stay until they are reaped. A process that was started with SIGCHLD ignored loses their
/// exit statuses otherwise (waitpid(2)).
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

/// A descriptor that becomes readable when the process ends (pidfd_open(2), Linux 5.3).
///
/// # Errors
/// `ENOSYS` or `EPERM` where the kernel or a filter does not offer it; `EMFILE` when descriptors have run out.
pub fn pidfd(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open(2) takes two integers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.0, 0) };
    if descriptor == -1 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = RawFd::try_from(descriptor).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: the call succeeded, so the descriptor is open (close-on-exec) and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Whether a child has ended; it stays unreaped, and its pid reserved. A stopped process has not ended.
///
/// # Errors
/// `ECHILD` when it is not a child of this process, or is reaped already.
pub fn has_ended(child: Pid) -> io::Result<bool> {
    Ok(waitid(child, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)?.is_some())
}

/// Takes a child's status if it has ended, and gives its pid back to the system. `None`: it has not ended.
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

/// Kills every process of this group (SIGKILL). Its number must be reserved: by a leader that is not reaped yet, or by a
/// member that was just seen alive. A group without living members is not an error.
pub fn kill_group(group: Pid) {
    send_to_group(group, Signal(libc::SIGKILL));
}

/// Sends a signal to every process of this group, as [`kill_group`] does.
pub fn send_to_group(group: Pid, signal: Signal) {
    // SAFETY: kill(2) takes two integers. ESRCH means that nobody is left, which is what was asked for.
    let _nobody_left = unsafe { libc::kill(-group.0, signal.0) };
}

/// Kills this process (SIGKILL) if it is still the one that is meant. The question is asked when the process is held by a
/// pidfd already, so that the answer counts for exactly the process that is then killed.
pub fn kill_if(pid: Pid, is_meant: impl FnOnce() -> bool) {
    let held = pidfd(pid);
    if !is_meant() {
        return;
    }
    match held {
        // SAFETY: pidfd_send_signal(2) takes integers, and a null pointer for "no details".
        Ok(held) => drop(unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                held.as_raw_fd(),
                libc::SIGKILL,
                std::ptr::null::<()>(),
                0,
            )
        }),
        // It is gone, or it is the number of a thread.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL | libc::ENOENT)) => {}
        // Without pidfds the moment between question and answer is the risk that is left.
        Err(_) => drop(send(pid, Signal(libc::SIGKILL))),
    }
}

/// Sends a signal to one process.
///
/// # Errors
/// `ESRCH` when it is gone, `EPERM` when it belongs to somebody else.
pub fn send(pid: Pid, signal: Signal) -> io::Result<()> {
    // SAFETY: kill(2) takes two integers.
    check(unsafe { libc::kill(pid.0, signal.0) })?;
    Ok(())
}

/// Reaps one ended child, whichever it is; `None` when none has ended, or none is left. For PID 1 only: it would take
/// away the status from whoever waits for a certain child.
pub fn reap_any() -> Option<(Pid, ExitStatus)> {
    let mut status = 0;
    // SAFETY: the pointer is to a writable integer. EINTR can not happen with WNOHANG.
    let pid = Pid::new(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) })?;
    if libc::WIFSIGNALED(status) {
        return Some((pid, ExitStatus::Signaled(libc::WTERMSIG(status))));
    }
    Some((pid, ExitStatus::Exited(libc::WEXITSTATUS(status))))
}

/// Signals that are blocked, to be taken one by one with [`wait`](Self::wait) instead of by a handler.
#[derive(Debug)]
pub struct BlockedSignals(SignalSet);

impl BlockedSignals {
    /// Blocks them in this thread and in those that it starts. A blocked signal reaches even PID 1, for which the
    /// kernel otherwise drops signals without a handler (pid_namespaces(7)).
    pub fn block(signals: &[Signal]) -> Self {
        let set = SignalSet::of(signals);
        // SAFETY: the set is initialised, and the old mask is not asked for. It can only fail for a wrong first
        // argument.
        let _cannot_fail =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set.0, std::ptr::null_mut()) };
        Self(set)
    }

    /// Waits for the next of them.
    ///
    /// # Errors
    /// None in practice: the only fault of sigwaitinfo(2) is an interruption, and then it waits again.
    pub fn wait(&self) -> io::Result<Signal> {
        // SAFETY: the set is initialised, and a null second argument asks for no details.
        retry(|| check(unsafe { libc::sigwaitinfo(&raw const self.0.0, std::ptr::null_mut()) })).map(Signal)
    }
}

/// Lets every signal through to this thread and those that it starts, whatever whoever started this process had blocked.
pub fn unblock_all_signals() {
    let nothing_blocked = SignalSet::of(&[]);
    // SAFETY: the set is initialised, and the old mask is not asked for. It can only fail for a wrong first argument.
    let _cannot_fail = unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const nothing_blocked.0, std::ptr::null_mut())
    };
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

    /// The signals that this process ignores, SIGPIPE among them as in every Rust program. Ignored signals stay
    /// ignored through exec (execve(2)), so whoever starts a program must name those to reset.
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

impl Signal {
    fn is_ignored(self) -> bool {
        // SAFETY: all-zero bytes are a valid `sigaction`.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: a null second argument changes nothing, and the third is writable. The C library refuses the few
        // numbers that it keeps for itself, which leaves the zeroes (SIG_DFL).
        let _refused = unsafe { libc::sigaction(self.0, std::ptr::null(), &raw mut action) };
        action.sa_sigaction == libc::SIG_IGN
    }
}

/// Makes this process the new parent of every orphan among its descendants, as PID 1 is for all (prctl(2),
/// `PR_SET_CHILD_SUBREAPER`).
///
/// # Errors
/// None in practice.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: this prctl(2) takes integers.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) })?;
    Ok(())
}

/// How many descriptors this process may have (getrlimit(2), `RLIMIT_NOFILE`).
pub fn most_descriptors() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a writable `rlimit`. It can only fail for a wrong first argument.
    let _cannot_fail = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

/// Has SIGTERM sent to this process when its parent ends (prctl(2), `PR_SET_PDEATHSIG`).
///
/// # Errors
/// None in practice.
pub fn end_with_parent() -> io::Result<()> {
    // SAFETY: this prctl(2) takes integers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) })?;
    Ok(())
}

/// Lets no process of the same user look into this one: not into its memory, its environment or its descriptors (prctl(2),
/// `PR_SET_DUMPABLE`; ptrace(2), "ptrace access mode checking"). Descriptors to its own files in `/proc` must be open by
/// then.
///
/// # Errors
/// None in practice.
pub fn forbid_inspection() -> io::Result<()> {
    // SAFETY: this prctl(2) takes integers.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) })?;
    Ok(())
}

unsafe extern "C" {
    /// environ(7).
    static environ: *const *mut libc::c_char;
}

/// Overwrites the value of this variable where the kernel has put it, which is what `/proc/PID/environ` shows. The name
/// stays, with nothing after it. Only while this process has a single thread: others may be reading.
pub fn wipe_variable(name: &str) {
    // SAFETY: the C library has set it up before main.
    let mut entry = unsafe { environ };
    loop {
        if entry.is_null() {
            return;
        }
        // SAFETY: the array ends with a null pointer, and has not been walked past it.
        let text = unsafe { *entry };
        if text.is_null() {
            return;
        }
        // SAFETY: each entry is a NUL-terminated string.
        let length = unsafe { libc::strlen(text) };
        // SAFETY: these are its bytes, and nobody else refers to them.
        let bytes = unsafe { std::slice::from_raw_parts_mut(text.cast::<u8>(), length) };
        if let Some((own_name, [b'=', value @ ..])) = bytes.split_at_mut_checked(name.len())
            && own_name == name.as_bytes()
        {
            value.fill(0);
        }
        // SAFETY: the entry was not the last, so there is one more.
        entry = unsafe { entry.add(1) };
    }
}

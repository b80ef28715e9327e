//! Attributes of this process: prctl(2), getrlimit(2) and setrlimit(2).

use super::check;
use std::io;

/// Makes this process the parent of every orphan among its descendants, as PID 1 is for all
/// (`PR_SET_CHILD_SUBREAPER`).
///
/// # Errors
/// None in practice.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: this prctl(2) takes integers.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) })?;
    Ok(())
}

/// Has the kernel send SIGTERM to this process when its parent ends (`PR_SET_PDEATHSIG`).
///
/// # Errors
/// None in practice.
pub fn end_with_parent() -> io::Result<()> {
    // SAFETY: this prctl(2) takes integers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) })?;
    Ok(())
}

/// Denies other processes of the same user access to this one's memory, environment and descriptors
/// (`PR_SET_DUMPABLE`; ptrace(2), "ptrace access mode checking"). Descriptors to this process's own files in
/// `/proc` must be open before.
///
/// # Errors
/// None in practice.
pub fn forbid_inspection() -> io::Result<()> {
    // SAFETY: this prctl(2) takes integers.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) })?;
    Ok(())
}

/// How many descriptors this process may have open (`RLIMIT_NOFILE`).
pub fn max_descriptors() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a writable `rlimit`. It can only fail for a wrong first argument.
    let _cannot_fail = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

/// How much memory this process may have resident, in bytes: the hard limit `RLIMIT_RSS`.
pub fn max_resident_set() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: as in `max_descriptors`.
    let _cannot_fail = unsafe { libc::getrlimit(libc::RLIMIT_RSS, &raw mut limit) };
    limit.rlim_max
}

/// Lowers both limits `RLIMIT_RSS`, which only a privileged process can raise again.
///
/// # Errors
/// `EPERM` if the number is above the hard limit, or a filter refuses the call.
pub fn set_max_resident_set(bytes: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the pointer is to an initialized `rlimit`.
    check(unsafe { libc::setrlimit(libc::RLIMIT_RSS, &raw const limit) })?;
    Ok(())
}

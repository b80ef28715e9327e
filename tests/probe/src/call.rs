//! System calls that the standard library does not offer.
#![expect(unsafe_code, reason = "libc has no safe interface")]

use std::io;

fn check(returned: libc::c_int) -> io::Result<libc::c_int> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

pub(crate) fn new_session() -> io::Result<()> {
    // SAFETY: setsid(2) takes nothing.
    check(unsafe { libc::setsid() })?;
    Ok(())
}

/// A negative pid is that of a process group.
pub(crate) fn send(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: kill(2) takes two integers.
    check(unsafe { libc::kill(pid, signal) })?;
    Ok(())
}

/// Waits until a child has ended. Returns its pid, and its exit status or 128 + the number of the signal.
pub(crate) fn reap() -> io::Result<(i32, u8)> {
    let mut status = 0;
    loop {
        // SAFETY: the pointer is to a writable integer.
        let waited = check(unsafe { libc::waitpid(-1, &raw mut status, 0) });
        match waited {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            waited => {
                let code = if libc::WIFSIGNALED(status) {
                    128 + libc::WTERMSIG(status)
                } else {
                    libc::WEXITSTATUS(status)
                };
                return Ok((waited?, u8::try_from(code).unwrap_or(u8::MAX)));
            }
        }
    }
}

/// The error of this system call for arguments that every call refuses, or 0 if it accepts them.
pub(crate) fn errno_of(number: libc::c_long) -> i32 {
    // SAFETY: no argument is a valid pointer, pid or descriptor, and the sizes are 0, so nothing is read or
    // written.
    let returned = unsafe { libc::syscall(number, -1, 0, 0, 0, 0) };
    if returned == -1 { io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
}

//! Starting a program: posix_spawn(3), with file actions and attributes.
//!
//! The child leads a process group of its own, has an empty signal mask and default dispositions, and only
//! the descriptors 0, 1 and 2: every other one in this program is close-on-exec from creation, and inherited
//! ones are made so ([`close_inherited_on_exec`]). posix_spawn reports a failed exec as its own error, so a
//! program that cannot be started is never mistaken for one that exited with 127.

use super::check;
use super::process::Pid;
use super::signals::SignalSet;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// How to start a program.
#[derive(Debug)]
pub struct Spawn<'a> {
    pub arguments: &'a [CString],
    /// Each `NAME=value`.
    pub environment: &'a [CString],
    /// One more variable, `NAME=value`.
    pub execution_id: &'a CStr,
    pub directory: BorrowedFd<'a>,
    pub stdin: BorrowedFd<'a>,
    pub stdout: BorrowedFd<'a>,
    pub stderr: BorrowedFd<'a>,
    /// The signals whose disposition becomes the default.
    pub reset_signals: SignalSet,
    pub leads: Leads,
}

/// Whether the child leads a group or a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// A process group of its own.
    Group,
    /// A session of its own, and so also a group: without a controlling terminal (setsid(2)).
    Session,
}

impl Spawn<'_> {
    /// Starts the program at exactly this path; a relative one is resolved from `directory`.
    ///
    /// # Errors
    /// The errno of changing the directory, or of exec, in the child (execve(2)), or that of clone(2).
    pub fn start(&self, path: &CStr) -> io::Result<Pid> {
        let attributes = Attributes::new(self.reset_signals, self.leads)?;
        let mut actions = FileActions::new()?;
        actions.duplicate(self.stdin, libc::STDIN_FILENO)?;
        actions.duplicate(self.stdout, libc::STDOUT_FILENO)?;
        actions.duplicate(self.stderr, libc::STDERR_FILENO)?;
        actions.change_directory(self.directory)?;
        let arguments = pointers(self.arguments.iter().map(CString::as_c_str));
        let environment = pointers(self.environment.iter().map(CString::as_c_str).chain([self.execution_id]));
        let mut pid: libc::pid_t = 0;
        // SAFETY: the path is NUL-terminated; both arrays are null-terminated and point to NUL-terminated
        // strings that `self` keeps alive; attributes and actions are initialised; the child writes only to
        // copies of them.
        let error = unsafe {
            libc::posix_spawn(
                &raw mut pid,
                path.as_ptr(),
                &raw const actions.0,
                &raw const attributes.0,
                arguments.as_ptr(),
                environment.as_ptr(),
            )
        };
        ok(error)?;
        Pid::new(pid).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
    }
}

/// Makes every descriptor from 3 on close-on-exec (close_range(2), fcntl(2)): the parent may have left some
/// open by mistake, and commands must not inherit them.
///
/// # Errors
/// Neither close_range(2) (Linux 5.11) nor `/proc` is available.
pub fn close_inherited_on_exec() -> io::Result<()> {
    // SAFETY: close_range(2) takes three integers, and with this flag closes nothing.
    let all =
        unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if all == 0 {
        return Ok(());
    }
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let descriptor = name.to_str().and_then(|name| name.parse::<RawFd>().ok());
        let Some(inherited) = descriptor.filter(|number| *number > libc::STDERR_FILENO) else { continue };
        // SAFETY: F_SETFD takes an integer. A descriptor that was closed meanwhile is refused with EBADF.
        check(unsafe { libc::fcntl(inherited, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    Ok(())
}

/// Checks that this process may execute the file at this path; a relative one is resolved from `directory`
/// (faccessat(2)). A directory counts as executable: it may be entered.
///
/// # Errors
/// It may not: `ENOENT`, `ENOTDIR`, `EACCES` and the other errors of a path.
pub fn is_executable(directory: BorrowedFd<'_>, path: &CStr) -> io::Result<()> {
    // SAFETY: the path is NUL-terminated and outlives the call; the other arguments are integers.
    check(unsafe { libc::faccessat(directory.as_raw_fd(), path.as_ptr(), libc::X_OK, 0) })?;
    Ok(())
}

/// The functions of this family return the error instead of setting errno.
fn ok(error: libc::c_int) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

fn pointers<'a>(strings: impl Iterator<Item = &'a CStr>) -> Vec<*mut libc::c_char> {
    strings.map(|string| string.as_ptr().cast_mut()).chain([std::ptr::null_mut()]).collect()
}

struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new(reset: SignalSet, leads: Leads) -> io::Result<Self> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: the pointer is to writable memory of the right type.
        ok(unsafe { libc::posix_spawnattr_init(raw.as_mut_ptr()) })?;
        // SAFETY: init succeeded. From here on `Drop` destroys it.
        let mut this = Self(unsafe { raw.assume_init() });
        let lead = match leads {
            // The group of a new attribute object is 0, which means the child's own pid.
            Leads::Group => libc::POSIX_SPAWN_SETPGROUP,
            Leads::Session => SETSID,
        };
        let flags = lead | libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
        let flags = libc::c_short::try_from(flags).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        // SAFETY: the attributes are initialised.
        ok(unsafe { libc::posix_spawnattr_setflags(&raw mut this.0, flags) })?;
        let nothing_blocked = SignalSet::of(&[]);
        // SAFETY: the attributes and the set are initialised; the set is copied.
        ok(unsafe { libc::posix_spawnattr_setsigmask(&raw mut this.0, &raw const nothing_blocked.0) })?;
        // SAFETY: as above.
        ok(unsafe { libc::posix_spawnattr_setsigdefault(&raw mut this.0, &raw const reset.0) })?;
        Ok(this)
    }
}

/// `POSIX_SPAWN_SETSID` of both C libraries (spawn.h); the libc crate does not define it for musl.
const SETSID: libc::c_int = 0x80;

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, and destroyed only here.
        let _cannot_fail = unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

struct FileActions(libc::posix_spawn_file_actions_t);

impl FileActions {
    fn new() -> io::Result<Self> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: the pointer is to writable memory of the right type.
        ok(unsafe { libc::posix_spawn_file_actions_init(raw.as_mut_ptr()) })?;
        // SAFETY: init succeeded. From here on `Drop` destroys it.
        Ok(Self(unsafe { raw.assume_init() }))
    }

    fn duplicate(&mut self, from: BorrowedFd<'_>, to: libc::c_int) -> io::Result<()> {
        // SAFETY: the actions are initialised; the other arguments are integers.
        ok(unsafe { libc::posix_spawn_file_actions_adddup2(&raw mut self.0, from.as_raw_fd(), to) })
    }

    fn change_directory(&mut self, directory: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: as above.
        ok(unsafe { libc::posix_spawn_file_actions_addfchdir_np(&raw mut self.0, directory.as_raw_fd()) })
    }
}

impl Drop for FileActions {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, and destroyed only here.
        let _cannot_fail = unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

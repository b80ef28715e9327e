//! Files and directories by descriptor: open(2), openat2(2), stat(2) and their `*at` variants.
//!
//! Only [`open_directory`] takes a path of several components and lets the kernel follow symlinks in it
//! freely. The other functions take a directory's descriptor and the name of one of its entries, and never
//! follow that entry, or have the kernel confine the path ([`open_beneath`]).
//!
//! Every descriptor is closed on exec.

use super::{check, check_length, retry};
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The fields of stat(2) that are used here.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    pub kind: Kind,
    pub size: u64,
    pub modified: Modified,
    pub identity: Identity,
    /// No name refers to it any more (a link count of 0).
    pub deleted: bool,
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    Directory,
    Symlink,
    /// A FIFO, a device, a socket.
    Other,
}

/// Two descriptors with the same identity refer to the same object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
}

/// When the content last changed. `seconds` since the epoch may be negative; `nanoseconds` count forward from
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modified {
    pub seconds: i64,
    pub nanoseconds: u32,
}

impl Modified {
    pub fn epoch_seconds(self) -> f64 {
        self.seconds as f64 + f64::from(self.nanoseconds) * 1e-9
    }
}

/// Opens a directory by its path, symlinks followed, to resolve other paths from (`O_PATH`).
pub fn open_directory(path: &CStr) -> io::Result<OwnedFd> {
    openat(libc::AT_FDCWD, path, libc::O_PATH | libc::O_DIRECTORY, 0)
}

/// Opens a directory below another to resolve other paths from (`O_PATH`): openat2(2) with `RESOLVE_BENEATH`.
/// The kernel follows symlinks that are relative and stay below. `EAGAIN` means that a rename interfered.
pub fn open_beneath(directory: BorrowedFd<'_>, path: &CStr) -> io::Result<OwnedFd> {
    /// The first version of `struct open_how`; the kernel recognises it by the size that is passed.
    #[repr(C)]
    struct OpenHow {
        flags: u64,
        mode: u64,
        resolve: u64,
    }
    let how = OpenHow {
        flags: u64::from((libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC).unsigned_abs()),
        mode: 0,
        // The manual says that the first implies the second only for now.
        resolve: libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS,
    };
    let opened = retry(|| {
        // SAFETY: `path` is NUL-terminated and `how` is a live value of the size given; the kernel writes to
        // neither.
        let returned = unsafe {
            libc::syscall(
                libc::SYS_openat2,
                directory.as_raw_fd(),
                path.as_ptr(),
                &raw const how,
                size_of::<OpenHow>(),
            )
        };
        check(libc::c_int::try_from(returned).unwrap_or(-1))
    })?;
    // SAFETY: the kernel has just returned this descriptor, and it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

/// Opens an entry of any kind, a symlink itself included, without side effects (`O_PATH`).
pub fn open_entry(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    openat(directory.as_raw_fd(), name, libc::O_PATH | libc::O_NOFOLLOW, 0)
}

/// Opens an entry for reading. It does not wait for a FIFO's writer, and a terminal does not become the
/// controlling one.
pub fn open_to_read(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    openat(directory.as_raw_fd(), name, flags, 0)
}

/// Opens an entry that is a directory, for [`super::directory::read`].
pub fn open_to_list(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    openat(directory.as_raw_fd(), name, libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_DIRECTORY, 0)
}

/// Creates a new file for writing, with mode 0666 less the umask. Fails if the entry exists.
pub fn create(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    openat(directory.as_raw_fd(), name, flags, 0o666)
}

fn openat(
    directory: libc::c_int,
    path: &CStr,
    flags: libc::c_int,
    mode: libc::c_uint,
) -> io::Result<OwnedFd> {
    let opened = retry(|| {
        // SAFETY: `path` is NUL-terminated; a mode is passed, as `O_CREAT` requires.
        check(unsafe { libc::openat(directory, path.as_ptr(), flags | libc::O_CLOEXEC, mode) })
    })?;
    // SAFETY: the kernel has just returned this descriptor, and it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

/// Creates a directory, with mode 0755 less the umask (mkdirat(2)).
pub fn make_directory(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    // SAFETY: `name` is NUL-terminated.
    check(unsafe { libc::mkdirat(directory.as_raw_fd(), name.as_ptr(), 0o755) })?;
    Ok(())
}

/// Renames an entry within its directory; replaces a file or symlink of the new name (renameat(2)).
pub fn rename(directory: BorrowedFd<'_>, from: &CStr, to: &CStr) -> io::Result<()> {
    let directory = directory.as_raw_fd();
    // SAFETY: both names are NUL-terminated.
    check(unsafe { libc::renameat(directory, from.as_ptr(), directory, to.as_ptr()) })?;
    Ok(())
}

/// Removes an entry that is not a directory (unlinkat(2)).
pub fn unlink(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    // SAFETY: `name` is NUL-terminated.
    check(unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), 0) })?;
    Ok(())
}

/// fstat(2); it works on an `O_PATH` descriptor.
pub fn stat(object: BorrowedFd<'_>) -> io::Result<Stat> {
    let mut buffer = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `buffer` has the size and alignment of a `stat`.
    check(unsafe { libc::fstat(object.as_raw_fd(), buffer.as_mut_ptr()) })?;
    // SAFETY: fstat succeeded, so it filled the buffer.
    Ok(Stat::from(unsafe { buffer.assume_init() }))
}

/// fstatat(2) of an entry; of a symlink itself, not of its target.
pub fn stat_entry(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<Stat> {
    let mut buffer = MaybeUninit::<libc::stat>::uninit();
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: `name` is NUL-terminated, and `buffer` has the size and alignment of a `stat`.
    check(unsafe { libc::fstatat(directory.as_raw_fd(), name.as_ptr(), buffer.as_mut_ptr(), flags) })?;
    // SAFETY: fstatat succeeded, so it filled the buffer.
    Ok(Stat::from(unsafe { buffer.assume_init() }))
}

impl From<libc::stat> for Stat {
    fn from(stat: libc::stat) -> Self {
        Self {
            kind: match stat.st_mode & libc::S_IFMT {
                libc::S_IFREG => Kind::File,
                libc::S_IFDIR => Kind::Directory,
                libc::S_IFLNK => Kind::Symlink,
                _ => Kind::Other,
            },
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: Modified {
                seconds: stat.st_mtime,
                nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
            },
            identity: Identity { device: stat.st_dev, inode: stat.st_ino },
            deleted: stat.st_nlink == 0,
        }
    }
}

/// The target of a symlink that [`open_entry`] opened: readlinkat(2) with an empty path.
pub fn read_link(link: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    // A target is shorter than PATH_MAX, so it is never truncated to the size of the buffer.
    let mut text = vec![0_u8; 4 << 10];
    // SAFETY: the path is NUL-terminated, and the buffer is writable for the length given.
    let length = check_length(unsafe {
        libc::readlinkat(link.as_raw_fd(), c"".as_ptr(), text.as_mut_ptr().cast(), text.len())
    })?;
    text.truncate(length);
    Ok(text)
}

/// Whether an object is in a procfs, where the text of a symlink is not always its target (proc(5), "magic
/// links").
pub fn is_in_procfs(object: BorrowedFd<'_>) -> io::Result<bool> {
    let mut buffer = MaybeUninit::<libc::statfs>::uninit();
    retry(|| {
        // SAFETY: `buffer` has the size and alignment of a `statfs`.
        check(unsafe { libc::fstatfs(object.as_raw_fd(), buffer.as_mut_ptr()) })
    })?;
    // SAFETY: fstatfs succeeded, so it filled the buffer.
    let filesystem = unsafe { buffer.assume_init() };
    // The C libraries disagree on the types.
    Ok(i128::from(filesystem.f_type) == i128::from(libc::PROC_SUPER_MAGIC))
}

/// mkfifo(3), which std does not have.
#[cfg(test)]
pub(crate) fn make_fifo(path: &CStr) -> io::Result<()> {
    // SAFETY: `path` is NUL-terminated.
    check(unsafe { libc::mkfifo(path.as_ptr(), 0o600) })?;
    Ok(())
}

/// renameat2(2) with `RENAME_EXCHANGE`, which std does not have.
#[cfg(test)]
pub(crate) fn exchange(one: &CStr, other: &CStr) -> io::Result<()> {
    let (here, flags) = (libc::AT_FDCWD, libc::RENAME_EXCHANGE);
    // SAFETY: both paths are NUL-terminated.
    let returned =
        unsafe { libc::syscall(libc::SYS_renameat2, here, one.as_ptr(), here, other.as_ptr(), flags) };
    check(libc::c_int::try_from(returned).unwrap_or(-1))?;
    Ok(())
}

//! Reading a directory: getdents64(2).

use super::check_length;
use super::fs::Kind;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Reads all of a directory that [`open_to_list`](super::fs::open_to_list) opened: the name of each entry,
/// and its kind if the file system reports it (else [`Kind::Other`]). `.` and `..` are omitted.
pub fn read(directory: BorrowedFd<'_>, mut each: impl FnMut(&CStr, Kind)) -> io::Result<()> {
    let mut buffer = vec![0_u8; 64 << 10];
    loop {
        // SAFETY: the buffer is writable for the length given.
        let returned = unsafe {
            libc::syscall(libc::SYS_getdents64, directory.as_raw_fd(), buffer.as_mut_ptr(), buffer.len())
        };
        let filled = check_length(isize::try_from(returned).unwrap_or(-1))?;
        if filled == 0 {
            return Ok(());
        }
        let mut records = buffer.get(..filled).unwrap_or_default();
        while let Some((name, kind, rest)) = next_record(records) {
            if name != c"." && name != c".." {
                each(name, kind);
            }
            records = rest;
        }
    }
}

/// Splits off the first `struct linux_dirent64`: inode (8 bytes), offset (8), record length (2), type (1),
/// name.
fn next_record(records: &[u8]) -> Option<(&CStr, Kind, &[u8])> {
    let length = u16::from_ne_bytes(records.get(16..18)?.try_into().ok()?);
    let (record, rest) = records.split_at_checked(usize::from(length))?;
    let kind = match *record.get(18)? {
        libc::DT_REG => Kind::File,
        libc::DT_DIR => Kind::Directory,
        libc::DT_LNK => Kind::Symlink,
        _ => Kind::Other,
    };
    let name = CStr::from_bytes_until_nul(record.get(19..)?).ok()?;
    Some((name, kind, rest))
}

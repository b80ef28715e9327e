//! Error numbers (errno(3)): the ones that the project names, and classes of them.
//!
//! The numbers are Linux's, the same on x86_64 and aarch64.

use std::io;

pub use libc::{
    E2BIG, EACCES, EAFNOSUPPORT, EAGAIN, EBADF, EBUSY, ECHILD, EDQUOT, EEXIST, EFAULT, EFBIG, EINTR, EINVAL,
    EIO, EISDIR, ELIBBAD, ELOOP, EMFILE, ENAMETOOLONG, ENFILE, ENOBUFS, ENODEV, ENOENT, ENOEXEC, ENOMEM,
    ENOSPC, ENOSYS, ENOTDIR, ENXIO, EPERM, EROFS, ESRCH, ESTALE, ETXTBSY, EUCLEAN, EXDEV,
};

/// Whether the kernel reports a shortage that passes: of processes, memory, descriptors or buffers. A
/// non-blocking descriptor reports the first of these (`EAGAIN`) when there is nothing to read, too.
pub fn is_transient_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EAGAIN | ENOMEM | EMFILE | ENFILE | ENOBUFS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortages_are_distinguished_from_faults() {
        let is_shortage = |errno: i32| is_transient_shortage(&io::Error::from_raw_os_error(errno));
        assert!([EAGAIN, ENOMEM, EMFILE, ENFILE, ENOBUFS].into_iter().all(is_shortage));
        assert!(![EIO, ENOSPC, ENOENT, EPERM].into_iter().any(is_shortage));
        assert!(!is_transient_shortage(&io::ErrorKind::NotFound.into()));
    }
}

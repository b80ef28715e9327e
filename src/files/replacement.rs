//! Replacing a file: a temporary file is written beside the target and renamed over it when it is complete.
//!
//! Invariant: the target's name refers to the old file or to the complete new one. A [`Replacement`] that is
//! dropped removes its temporary file. (If the server is killed before that, the temporary file stays; it is
//! never listed.)
//!
//! The new file inherits nothing from the old one: its mode is 0666 less the umask, its owner is the server,
//! and the old file's attributes and other hard links are not kept. Nothing is flushed to disk (fsync(2)):
//! the container is disposable.

use super::{Error, RelPath, Root, check_is_file};
use crate::sys::errno;
use crate::sys::fs;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

/// A file that is being written, to replace or create its target.
#[derive(Debug)]
pub struct Replacement {
    file: File,
    directory: OwnedFd,
    temporary: CString,
    target: CString,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Writing,
    /// A write failed, so the content is incomplete.
    Failed,
    Committed,
}

impl Replacement {
    /// Creates the temporary file, and the missing parent directories. A symlink at the end of the path is
    /// followed: its target is replaced, and the symlink stays.
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::IsADirectory`] or [`Error::NotAFile`] if the target exists and is not
    /// a regular file; [`Error::NoSpace`].
    pub fn begin(root: &Root, path: &RelPath) -> Result<Self, Error> {
        let location = match root.locate(path) {
            Err(Error::Denied) => return Err(Error::Denied),
            Err(Error::NotFound) => {
                check_names(path)?;
                create_parents(root, path)?;
                root.locate(path)
            }
            location => {
                check_names(path)?;
                location
            }
        }?;
        if let Some(stat) = location.object {
            check_is_file(&stat)?;
        }
        let temporary = temporary_name()?;
        let created =
            fs::create(location.directory.as_fd(), &temporary).map_err(Error::doing("creating the file"))?;
        let file = File::from(created);
        Ok(Self {
            file,
            directory: location.directory,
            temporary,
            target: location.name,
            state: State::Writing,
        })
    }

    /// [`Write::write_all`] with an error of this module.
    ///
    /// # Errors
    /// [`Error::NoSpace`] or another error of write(2).
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Write::write_all(self, bytes).map_err(Error::doing("writing the file"))
    }

    /// Renames the file into place.
    ///
    /// # Errors
    /// An earlier write failed, or rename(2) does. The old file stays then.
    pub fn commit(mut self) -> Result<(), Error> {
        const DOING: &str = "renaming the file into place";
        if self.state == State::Failed {
            return Err(Error::Io { doing: DOING, source: io::Error::other("an earlier write failed") });
        }
        fs::rename(self.directory.as_fd(), &self.temporary, &self.target).map_err(Error::doing(DOING))?;
        self.state = State::Committed;
        Ok(())
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        if written.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted) {
            self.state = State::Failed;
        }
        written
    }

    /// Nothing is buffered.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if self.state != State::Committed {
            // A destructor cannot report an error.
            let _ = fs::unlink(self.directory.as_fd(), &self.temporary);
        }
    }
}

/// Refuses a path that cannot work before any directory is created for it (UP-25).
fn check_names(path: &RelPath) -> Result<(), Error> {
    /// The limit of Linux's file systems (limits.h(0p)).
    const NAME_MAX: usize = 255;
    match path.components().last().map(|name| name.to_bytes()) {
        None => return Err(Error::InvalidName("the name is empty or names the base directory")),
        Some(b".") => return Err(Error::InvalidName("the name ends in a slash")),
        Some(b"..") => return Err(Error::InvalidName("the name ends in two dots")),
        Some(_) => {}
    }
    if path.components().iter().any(|name| name.to_bytes().len() > NAME_MAX) {
        return Err(Error::bad_path(errno::ENAMETOOLONG));
    }
    Ok(())
}

/// Resolves the path again for each directory: an earlier one may have been replaced by a symlink since.
fn create_parents(root: &Root, path: &RelPath) -> Result<(), Error> {
    for parent in path.parents() {
        let location = root.locate(&parent)?;
        if location.object.is_some() {
            continue;
        }
        match fs::make_directory(location.directory.as_fd(), &location.name) {
            // Another process has created it since.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => created.map_err(Error::doing("creating a directory"))?,
        }
    }
    Ok(())
}

const PREFIX: &str = ".upload-";
const SUFFIX: &str = ".tmp";

/// Its length does not depend on the target's name, which can be as long as the file system allows.
fn temporary_name() -> Result<CString, Error> {
    let random = getrandom::u64()
        .map_err(|error| Error::Io { doing: "generating a temporary name", source: error.into() })?;
    CString::new(format!("{PREFIX}{random:016x}{SUFFIX}")).map_err(|_| Error::Denied)
}

/// Whether a directory entry is the temporary file of an upload.
pub(super) fn is_temporary(name: &[u8]) -> bool {
    name.strip_prefix(PREFIX.as_bytes())
        .and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes()))
        .is_some_and(|random| random.len() == 16 && random.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::super::tests::Scratch;
    use super::*;
    use std::fs;

    #[test]
    fn a_full_disk_leaves_the_old_file_only() {
        // UP-17
        let scratch = Scratch::new();
        fs::write(scratch.base().join("f"), "old").unwrap();
        let root = Root::new(scratch.base());
        let mut replacement = Replacement::begin(&root, &RelPath::parse(b"f").unwrap()).unwrap();
        replacement.file = File::options().write(true).open("/dev/full").unwrap();
        assert!(matches!(replacement.write_all(b"new"), Err(Error::NoSpace(_))));
        assert!(matches!(replacement.commit(), Err(Error::Io { .. })));
        assert_eq!(fs::read_to_string(scratch.base().join("f")).unwrap(), "old");
        assert_eq!(fs::read_dir(scratch.base()).unwrap().count(), 1);
    }
}

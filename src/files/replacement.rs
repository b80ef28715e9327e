//! A file in the making: written under a temporary name beside its target, and renamed into place when it is complete.
//!
//! Invariant: who opens the target's name finds the old file or the whole new one. A [`Replacement`] that is dropped
//! takes its temporary file with it. (If the server is killed meanwhile that file stays; it is never listed.)
//!
//! The new file is new in every respect: its mode is 0666 less the umask, its owner is the server, and nothing is
//! kept of the old file's mode, owner, attributes and further hard links. Nothing is flushed to the disk (fsync(2)):
//! the container is thrown away.

use super::{Error, RelPath, Root, only_a_file};
use crate::sys::errno;
use crate::sys::fs;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

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
    /// A write went wrong, so what is there is not what was sent.
    Broken,
    Committed,
}

impl Replacement {
    /// Creates the temporary file, and the directories on the way to it where they are missing. A link at the end of
    /// the path is followed: what it leads to is replaced, and the link stays.
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::IsADirectory`] or [`Error::NotAFile`] if there is something else already; [`Error::NoSpace`].
    pub fn begin(root: &Root, path: &RelPath) -> Result<Replacement, Error> {
        let place = match root.locate(path) {
            Err(Error::Denied) => return Err(Error::Denied),
            Err(Error::NotFound) => {
                check_names(path)?;
                create_parents(root, path)?;
                root.locate(path)
            }
            place => {
                check_names(path)?;
                place
            }
        }?;
        if let Some(stat) = place.object {
            only_a_file(&stat)?;
        }
        let temporary = temporary_name()?;
        let created =
            fs::create(place.directory.as_fd(), &temporary).map_err(Error::doing("creating the file"))?;
        let file = File::from(created);
        Ok(Replacement {
            file,
            directory: place.directory,
            temporary,
            target: place.name,
            state: State::Writing,
        })
    }

    /// [`Write::write_all`] with an error of this layer.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Write::write_all(self, bytes).map_err(Error::doing("writing the file"))
    }

    /// Puts the file in place. If a write went wrong before, it does not, and the old file stays.
    pub fn commit(mut self) -> Result<(), Error> {
        const DOING: &str = "putting the file in place";
        if self.state == State::Broken {
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
            self.state = State::Broken;
        }
        written
    }

    /// There is nothing to flush: nothing is buffered.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if self.state != State::Committed {
            // There is nobody to tell, and nothing else to be done about it.
            let _ = fs::unlink(self.directory.as_fd(), &self.temporary);
        }
    }
}

/// What is sure to go wrong goes wrong before any directory is created (UP-25).
fn check_names(path: &RelPath) -> Result<(), Error> {
    /// Of the file systems there are (pathname limits, limits.h(0p)).
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

/// Follows the path anew for each directory: what has been created may have been replaced by a link since.
fn create_parents(root: &Root, path: &RelPath) -> Result<(), Error> {
    for parent in path.parents() {
        let place = root.locate(&parent)?;
        if place.object.is_some() {
            continue;
        }
        match fs::make_directory(place.directory.as_fd(), &place.name) {
            // Somebody else was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => created.map_err(Error::doing("creating a directory"))?,
        }
    }
    Ok(())
}

const PREFIX: &str = ".upload-";
const SUFFIX: &str = ".tmp";

/// Its length does not depend on the target's, which may be the longest there is.
fn temporary_name() -> Result<CString, Error> {
    let random = getrandom::u64()
        .map_err(|error| Error::Io { doing: "making up a temporary name", source: error.into() })?;
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
    fn a_full_disk_leaves_the_old_file_and_nothing_else() {
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

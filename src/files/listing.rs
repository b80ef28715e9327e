//! Directory listings.
//!
//! A symlink is listed as its target if that is inside the base directory. Any other symlink (to the outside,
//! dangling, or in a loop) is listed as itself: a file, with the size and the time of the symlink (LI-01,
//! LI-07). An entry that is removed during the listing is omitted (LI-06), and so are unfinished uploads.

use super::root::Location;
use super::{Error, Modified, RelPath, Root, replacement};
use crate::sys;
use crate::sys::fs::{self, Kind, Stat};
use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;

/// One entry of a directory.
#[derive(Debug)]
pub struct Entry {
    /// Any bytes but NUL and `/`.
    pub name: Vec<u8>,
    pub kind: EntryKind,
    /// In bytes.
    pub size: u64,
    pub modified: Modified,
}

/// The kind that a client sees: everything that is not a directory is a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
}

/// The entries of a directory, sorted by the bytes of their names.
///
/// # Errors
/// [`Error::NotFound`], or [`Error::NotADirectory`] if the path names something else.
pub fn list(root: &Root, path: &RelPath) -> Result<Vec<Entry>, Error> {
    let location = root.locate(path)?;
    match location.object {
        None => return Err(Error::NotFound),
        Some(stat) if stat.kind != Kind::Directory => return Err(Error::NotADirectory),
        Some(_) => {}
    }
    let directory = fs::open_to_list(location.directory.as_fd(), &location.name)
        .map_err(Error::doing("opening the directory"))?;
    let mut entries = Vec::new();
    sys::directory::read(directory.as_fd(), |name, kind| {
        if replacement::is_temporary(name.to_bytes()) {
            return;
        }
        match fs::stat_entry(directory.as_fd(), name) {
            Ok(stat) if stat.kind == Kind::Symlink => {
                entries.push(entry(name, &target(root, path, name).unwrap_or(stat)))
            }
            Ok(stat) => entries.push(entry(name, &stat)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // For example a stale network mount. The other entries must still be listed.
            Err(_) => entries.push(unknown(name, kind)),
        }
    })
    .map_err(Error::doing("reading the directory"))?;
    entries.sort_unstable_by(|left, right| left.name.cmp(&right.name));
    Ok(entries)
}

/// The target of a symlink, if it exists and is inside the base directory.
fn target(root: &Root, directory: &RelPath, link: &CStr) -> Option<Stat> {
    let Location { object, .. } = root.locate(&directory.child(link)).ok()?;
    object
}

fn entry(name: &CStr, stat: &Stat) -> Entry {
    let kind = entry_kind(stat.kind);
    Entry { name: name.to_bytes().to_vec(), kind, size: stat.size, modified: stat.modified }
}

fn unknown(name: &CStr, kind: Kind) -> Entry {
    let modified = Modified { seconds: 0, nanoseconds: 0 };
    Entry { name: name.to_bytes().to_vec(), kind: entry_kind(kind), size: 0, modified }
}

fn entry_kind(kind: Kind) -> EntryKind {
    if kind == Kind::Directory { EntryKind::Directory } else { EntryKind::File }
}

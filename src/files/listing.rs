//! What is in a directory.
//!
//! A link is shown as what it leads to for as long as that is inside the base directory. Any other link (outside,
//! dangling, a loop) is shown as itself: a file, with the size and the time of the link (LI-01, LI-07).
//! An entry that vanishes meanwhile is left out (LI-06), and so are unfinished uploads.

use super::root::Place;
use super::{Error, Modified, RelPath, Root, replacement};
use crate::sys::fs::{self, Kind, Stat};
use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;

#[derive(Debug)]
pub struct Entry {
    /// Any bytes but NUL and `/`.
    pub name: Vec<u8>,
    pub kind: EntryKind,
    pub size: u64,
    pub modified: Modified,
}

/// As a client sees it: what is not a directory is a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
}

/// The entries of a directory, sorted by the bytes of their names.
///
/// # Errors
/// [`Error::NotADirectory`] or [`Error::NotFound`] if there is no such directory.
pub fn list(root: &Root, path: &RelPath) -> Result<Vec<Entry>, Error> {
    let place = root.locate(path)?;
    match place.object {
        None => return Err(Error::NotFound),
        Some(stat) if stat.kind != Kind::Directory => return Err(Error::NotADirectory),
        Some(_) => {}
    }
    let directory = fs::open_to_list(place.directory.as_fd(), &place.name)
        .map_err(Error::doing("opening the directory"))?;
    let mut entries = Vec::new();
    fs::read_directory(directory.as_fd(), |name, kind| {
        if replacement::is_temporary(name.to_bytes()) {
            return;
        }
        match fs::stat_entry(directory.as_fd(), name) {
            Ok(stat) if stat.kind == Kind::Symlink => {
                entries.push(entry(name, &target(root, path, name).unwrap_or(stat)))
            }
            Ok(stat) => entries.push(entry(name, &stat)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Such as a mount whose server is gone. It must not cost the client the rest of the listing.
            Err(_) => entries.push(unknown(name, kind)),
        }
    })
    .map_err(Error::doing("reading the directory"))?;
    entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

/// What a link leads to, if that exists and is inside the base directory.
fn target(root: &Root, directory: &RelPath, link: &CStr) -> Option<Stat> {
    let Place { object, .. } = root.locate(&directory.child(link)).ok()?;
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

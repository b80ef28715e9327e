//! `install DIRECTORY`: a copy of this program where another container finds it. An image made from scratch has no `cp`,
//! so an init container puts the binary into a shared volume with the binary itself.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The name of the copy.
const NAME: &str = "sandbox-runtime";

/// Copies this program, readable and executable by everybody; whoever looks sees all of it or nothing. Returns where.
///
/// # Errors
/// The directory is not there or can not be written to, or the disk is full; nothing is left behind.
pub fn install(directory: &Path) -> io::Result<PathBuf> {
    let target = directory.join(NAME);
    let temporary = directory.join(format!(".{NAME}.{}", std::process::id()));
    let copied = copy(&temporary).and_then(|()| fs::rename(&temporary, &target));
    if copied.is_err() {
        // The first error is the one to tell.
        let _nothing_to_remove = fs::remove_file(&temporary);
    }
    copied?;
    // A crash right now must not lose the name.
    File::open(directory)?.sync_all()?;
    Ok(target)
}

fn copy(temporary: &Path) -> io::Result<()> {
    let mut source = File::open("/proc/self/exe")?;
    let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)?;
    io::copy(&mut source, &mut copy)?;
    copy.set_permissions(Permissions::from_mode(0o555))?;
    copy.sync_all()
}

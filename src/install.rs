//! `install DIRECTORY`: copies this program to where another container can run it. An image built from
//! scratch has no `cp`, so an init container uses the binary itself to copy it into a shared volume.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The name of the copy.
const NAME: &str = "sandbox-runtime";

/// Copies this program, readable and executable by all users, and returns the path. The copy appears under
/// its name only when it is complete.
///
/// # Errors
/// The directory is missing or not writable, or the disk is full. No partial copy remains.
pub fn install(directory: &Path) -> io::Result<PathBuf> {
    let target = directory.join(NAME);
    let temporary = directory.join(format!(".{NAME}.{}", std::process::id()));
    let copied = copy(&temporary).and_then(|()| fs::rename(&temporary, &target));
    if copied.is_err() {
        // The first error is the one to report.
        let _nothing_to_remove = fs::remove_file(&temporary);
    }
    copied?;
    // The name must survive a crash (fsync(2)).
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

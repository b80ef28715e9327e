//! The tester, as a program.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The tester. It is built on first use: for a test, cargo builds only the programs of the test's own
/// package.
pub fn tester() -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    Command::new(PROGRAM.get_or_init(|| {
        // A directory of its own, so that no other build of the tester replaces the program while it runs.
        let directory = crate::server::build_directory().join("tester-for-tests");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--locked", "--package", "tester", "--target-dir"]).arg(&directory);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        cargo.current_dir(root).env_remove("CARGO_BUILD_TARGET");
        assert!(cargo.status().unwrap().success(), "the tester does not build");
        directory.join("debug/tester")
    }))
}

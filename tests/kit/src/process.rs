//! Processes and programs of this machine.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The ids of running processes, but not zombies, whose command line contains this text.
pub fn processes_with(text: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        (line.contains(text) && is_running(&entry.path())).then_some(pid)
    });
    pids.collect()
}

/// Whether the process with this directory in `/proc` exists and is not a zombie.
fn is_running(directory: &Path) -> bool {
    let stat = fs::read_to_string(directory.join("stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    !state.is_empty() && !state.starts_with('Z')
}

/// The number of zombies that this process has not reaped.
pub fn zombies_of(parent: u32) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let fields = format!(" Z {parent} ");
    stats.filter(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(&fields))).count()
}

/// Whether this machine's kernel is gVisor, which has only one version: LinuxVersion in its
/// pkg/sentry/kernel/version.
pub fn is_gvisor() -> bool {
    let version = fs::read_to_string("/proc/version").unwrap_or_default();
    version.contains("#1 SMP Sun Jan 10 15:06:54 PST 2016")
}

/// Sends a signal to a process, which may have ended.
pub fn signal(name: &str, pid: u32) {
    drop(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).output().unwrap());
}

/// Whether a test must be skipped because this program is not on PATH. In CI that is a failure.
#[track_caller]
pub fn is_missing(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    assert!(is_there || std::env::var_os("CI").is_none(), "this test needs {program}, and CI must have it");
    if !is_there {
        eprintln!("skipped: there is no {program}");
    }
    !is_there
}

/// A `sleep` for slightly longer than this many seconds. Its duration is unique, so that [`processes_with`]
/// finds its processes.
pub fn own_sleep(seconds: u32) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("sleep {seconds}.0{:07}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

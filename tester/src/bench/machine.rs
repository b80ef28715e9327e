//! The machine that runs the tester: its processors and its kernel.

use std::env::consts::ARCH;
use std::fs;
use std::thread;

use crate::json;

/// The C library of the tester, which affects the floor (see [`super::floor`]).
pub(super) const LIBC: &str = if cfg!(target_env = "musl") { "musl" } else { "other" };

pub(super) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The processor model, or the architecture if the kernel does not report one.
pub(super) fn model() -> String {
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or(ARCH, |(_, model)| model).trim().to_owned()
}

pub(super) fn kernel() -> String {
    read("/proc/sys/kernel/osrelease").trim().to_owned()
}

pub(super) fn json() -> String {
    json::object(&[
        ("cpu", json::string(&model())),
        ("cores", processors().to_string()),
        ("kernel", json::string(&kernel())),
        ("libc", json::string(LIBC)),
    ])
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

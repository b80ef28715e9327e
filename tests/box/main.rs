//! The image as it ships, in containers under the hardest flags: PID 1, scarcity, volumes, system call filters, and a
//! soak. There is no shell in it but a test program of our own, `tests/probe`. `.ci/box.sh` makes the image and runs this.

#![cfg(test)]

#[path = "../it/harness.rs"]
#[expect(dead_code, reason = "the tests of the bare binary need more of it")]
mod harness;

mod container;

mod files;
mod filters;
mod pid1;
mod scarcity;
mod soak;

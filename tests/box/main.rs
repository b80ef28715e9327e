//! The released image in containers with the strictest options: PID 1, resource exhaustion, volumes, system
//! call filters and a soak test. The image has no shell, only a test program of our own, `tests/probe`.
//! `.ci/box.sh` builds it and runs these tests.

#![cfg(test)]

mod container;
mod gvisor;
mod inspector;

mod exhaustion;
mod files;
mod filters;
mod pid1;
mod soak;

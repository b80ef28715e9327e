//! Runs commands and moves files inside a throw-away container, over HTTP.
//!
//! A request is **read** into a value, **decided** into a value, **done** once, and **written** from a value.
//! Only [`server`] touches a socket, and only [`sys`] calls the kernel by hand.
//!
//! The modules in reading order, from the ground up; each imports only from those above it in this list
//! (`tests/it/tidy.rs` checks that):
//!
//! 0. [`sys`]: every unsafe block and every libc call.
//! 1. [`deadline`], [`log`], [`shlex`], [`api`] (the JSON), [`http`] (bytes to values and back).
//! 2. [`route`], [`exec`] (what running a command means), [`files`] (what a path below the base directory means).
//! 3. [`app`]: a request to a response; its `reply` is the only file that chooses status codes.
//! 4. [`server`]: sockets, threads, shutdown.
//! 5. [`config`], [`init`] (PID 1) and [`install`].

pub mod sys;

pub mod api;
pub mod deadline;
pub mod http;
pub mod log;
pub mod shlex;

pub mod exec;
pub mod files;
pub mod route;

pub mod app;

pub mod server;

pub mod config;
pub mod init;
pub mod install;

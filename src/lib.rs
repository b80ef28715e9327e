//! An HTTP server that runs commands and transfers files in a disposable container.
//!
//! A request is **read** into a value, **decided** into a value, **done** once, and **written** from a value.
//! Only [`server`] touches a socket, and only [`sys`] calls the kernel by hand.
//!
//! The modules in reading order. Each imports only from modules above it (`tests/it/tidy.rs` checks that):
//!
//! 0. [`sys`]: every unsafe block and every libc call.
//! 1. [`deadline`], [`log`], [`json`], [`http`] (bytes to values and back).
//! 2. [`exec`] (running commands), [`files`] (paths below the base directory).
//! 3. [`api`]: the protocols, each a folder with a table of routes.
//! 4. [`server`]: sockets, threads, shutdown.
//! 5. [`config`], [`init`] (PID 1) and [`install`].

pub mod sys;

pub mod deadline;
pub mod http;
pub mod json;
pub mod log;

pub mod exec;
pub mod files;

pub mod api;

pub mod server;

pub mod config;
pub mod init;
pub mod install;

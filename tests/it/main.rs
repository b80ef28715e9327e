//! The real server, started on a port of its own and spoken to over real sockets. A test that comes from a public report
//! names its case.

#![cfg(test)]

mod harness;

mod config;
mod confinement;
mod connections;
mod download;
mod execute;
mod framing;
mod limits;
mod listing;
mod log;
mod upload;

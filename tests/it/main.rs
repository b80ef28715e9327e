//! Tests of the real server, started on a port of its own, over real sockets. A test of a public report cites
//! its case (tests/CASES.md).

#![cfg(test)]

mod python;

mod background;
mod bench;
mod client;
mod config;
mod confinement;
mod connections;
mod download;
mod environment;
mod execute;
mod exhaustion;
mod exit_status;
mod framing;
mod json;
mod kind;
mod limits;
mod listing;
mod log;
mod lookup;
mod mutation;
mod output;
mod shlex;
mod shutdown;
mod streaming;
mod tester;
mod tidy;
mod timeout;
mod token;
mod tree;
mod upload;

//! The real server, started on a port of its own and spoken to over real sockets. A test that comes from a public report
//! names its case.

#![cfg(test)]

mod harness;
mod python;

mod background;
mod bench;
mod client;
mod config;
mod confinement;
mod connections;
mod download;
mod ending;
mod environment;
mod execute;
mod framing;
mod json;
mod kind;
mod limits;
mod listing;
mod log;
mod lookup;
mod mutation;
mod output;
mod scarcity;
mod shlex;
mod shutdown;
mod streaming;
mod tidy;
mod timeout;
mod token;
mod tree;
mod upload;

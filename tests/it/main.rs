//! The real server, started on a port of its own and spoken to over real sockets. A test that comes from a public report
//! names its case.

mod harness;

mod config;
mod execute;
#[cfg(test)]
mod tidy;

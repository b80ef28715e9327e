//! Tools that the tests share: an HTTP client that sends exactly the given bytes, a server for one test,
//! temporary directories, and waiting for conditions.
//!
//! Every wait has a deadline, and a server and its directory are removed when they go out of scope. The
//! tester has a client of its own, on purpose: it shares no code with this one.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test stops at the first surprise"
)]

mod client;
mod process;
mod response;
mod server;
mod temp_dir;
mod tester;
mod wait;

pub use client::Client;
pub use process::{is_gvisor, is_missing, own_sleep, processes_with, signal, zombies_of};
pub use response::{Reader, Response};
pub use server::{Execution, Remote, Server, binary};
pub use temp_dir::TempDir;
pub use tester::tester;
pub use wait::{StopOnDrop, TIMEOUT, eventually, eventually_some, uninterrupted};

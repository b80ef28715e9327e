//! JSON: a reader for the objects that clients send, and a writer for everything that the server sends (RFC
//! 8259).
//!
//! The only folder that knows serde. It knows no protocol: errors say where and what, and each protocol puts
//! them into its own words.

pub mod escape;
pub mod read;
pub(crate) mod write;

//! `sandbox-runtime healthcheck`: sends a health request to the running server, for images without curl.

use super::Listen;
use crate::deadline::Deadline;
use crate::http;
use crate::sys::poll::{PollFd, poll, read_append};
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

/// Less than the default timeout of Docker's health check.
const TIMEOUT: Duration = Duration::from_secs(3);

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Requests the health endpoint.
///
/// # Errors
/// The response is not a 200, or did not come in time.
pub fn check(listen: Listen) -> io::Result<()> {
    let address = listen.local();
    let explain =
        |error: io::Error| io::Error::new(error.kind(), format!("no response from {address}: {error}"));
    let response = exchange(address).map_err(explain)?;
    if response.starts_with(b"HTTP/1.1 200 ") {
        return Ok(());
    }
    let line = response.split(|byte| *byte == b'\r').next().unwrap_or_default();
    Err(io::Error::other(format!("{address} responded {:?}", String::from_utf8_lossy(line))))
}

fn exchange(address: std::net::SocketAddr) -> io::Result<Vec<u8>> {
    let until = Deadline::within(TIMEOUT);
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.write_all(REQUEST)?;
    let mut response = Vec::new();
    while response.len() < http::Limits::default().head_bytes {
        if poll(&mut [PollFd::readable(stream.as_fd())], Some(until.instant()))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if read_append(stream.as_fd(), &mut response, 4096)? == 0 {
            break;
        }
    }
    Ok(response)
}

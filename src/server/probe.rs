//! `healthcheck`: asks the server that runs beside it, for an image without curl.

use super::Listen;
use crate::deadline::Deadline;
use crate::http;
use crate::sys::poll::{PollFd, poll, read_append};
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

/// Less than Docker's and the kubelet's patience.
const PATIENCE: Duration = Duration::from_secs(3);

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Whether the server answers 200 in time.
///
/// # Errors
/// It does not; says what happened instead.
pub fn ask(listen: Listen) -> io::Result<()> {
    let address = listen.nearest();
    let explain =
        |error: io::Error| io::Error::new(error.kind(), format!("no answer from {address}: {error}"));
    let answer = exchange(address).map_err(explain)?;
    if answer.starts_with(b"HTTP/1.1 200 ") {
        return Ok(());
    }
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    Err(io::Error::other(format!("{address} answered {:?}", String::from_utf8_lossy(line))))
}

fn exchange(address: std::net::SocketAddr) -> io::Result<Vec<u8>> {
    let until = Deadline::within(PATIENCE);
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.write_all(REQUEST)?;
    let mut answer = Vec::new();
    while answer.len() < http::Limits::default().head_bytes {
        if poll(&mut [PollFd::readable(stream.as_fd())], Some(until.instant()))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if read_append(stream.as_fd(), &mut answer, 4096)? == 0 {
            break;
        }
    }
    Ok(answer)
}

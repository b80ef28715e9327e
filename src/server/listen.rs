//! The address to listen on: parsed, and bound to a socket.

use crate::sys::errno::EAFNOSUPPORT;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// A port on one address, or on all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    address: Option<IpAddr>,
    port: u16,
}

impl Default for Listen {
    /// The port that clients of the reference use, on all addresses.
    fn default() -> Self {
        Self { address: None, port: 8888 }
    }
}

/// Why it is not possible to listen.
#[derive(Debug)]
pub struct Error {
    listen: Listen,
    cause: io::Error,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listen: Listen { address, port }, cause } = self;
        match address {
            None => write!(f, "cannot listen on port {port}: {cause}"),
            Some(address) => write!(f, "cannot listen on {}: {cause}", SocketAddr::new(*address, *port)),
        }
    }
}

impl std::error::Error for Error {}

impl Listen {
    /// `PORT`, `:PORT`, `ADDRESS:PORT` or `[ADDRESS]:PORT`. Port 0, which lets the system choose, requires an
    /// address: alone it is more likely a mistake.
    ///
    /// # Errors
    /// The expected format.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self { address: Some(address.ip()), port: address.port() });
        }
        let port = text.strip_prefix(':').unwrap_or(text);
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| is_number && *port > 0);
        let port =
            port.ok_or("expected PORT, ADDRESS:PORT or [ADDRESS]:PORT, with a port from 1 to 65535")?;
        Ok(Self { address: None, port })
    }

    /// All addresses means IPv6 and IPv4 through one socket, or IPv4 alone where there is no IPv6.
    pub(super) fn bind(self) -> Result<TcpListener, Error> {
        let listen = |address: IpAddr| TcpListener::bind((address, self.port));
        let bound = match self.address {
            Some(address) => listen(address),
            None => match listen(Ipv6Addr::UNSPECIFIED.into()) {
                Err(error) if lacks_ipv6(&error) => listen(Ipv4Addr::UNSPECIFIED.into()),
                bound => bound,
            },
        };
        bound.map_err(|cause| self.error(cause))
    }

    pub(super) fn error(self, cause: io::Error) -> Error {
        Error { listen: self, cause }
    }

    /// The address by which a client on this machine reaches it.
    pub(super) fn local(self) -> SocketAddr {
        let address = match self.address {
            Some(IpAddr::V6(address)) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            Some(address) if !address.is_unspecified() => address,
            _ => Ipv4Addr::LOCALHOST.into(),
        };
        SocketAddr::new(address, self.port)
    }
}

/// `EAFNOSUPPORT` (no IPv6 in the kernel) or `EADDRNOTAVAIL` (IPv6 switched off).
fn lacks_ipv6(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(EAFNOSUPPORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, local: &str) {
        assert_eq!(Listen::parse(text).map(|listen| listen.local().to_string()).as_deref(), Ok(local));
    }

    #[test]
    fn addresses_are_parsed() {
        check("8888", "127.0.0.1:8888");
        check(":80", "127.0.0.1:80");
        check("0.0.0.0:80", "127.0.0.1:80");
        check("[::]:80", "[::1]:80");
        check("10.1.2.3:0", "10.1.2.3:0");
        check("[fe80::1]:65535", "[fe80::1]:65535");
    }

    #[test]
    fn a_port_in_use_is_reported() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = Listen::parse(&address.to_string()).unwrap().bind().unwrap_err().to_string();
        assert_eq!(
            error,
            format!("cannot listen on {address}: Address in use (os error 98)")
                .replace("Address in use", error_text())
        );
    }

    fn error_text() -> &'static str {
        if cfg!(target_env = "musl") { "Address in use" } else { "Address already in use" }
    }
}

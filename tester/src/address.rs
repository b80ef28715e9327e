//! The address of a server, from the positional arguments.

use std::fmt;

use crate::usage::Error;
use crate::value::is_digits;

const DEFAULT_HOST: &str = "127.0.0.1";
const DEFAULT_PORT: u16 = 8888;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// From `[ip] [port]`.
    pub(crate) fn parse(positional: Vec<String>) -> Result<Self, Error> {
        let mut positional = positional.into_iter();
        let (host, port, extra) = (positional.next(), positional.next(), positional.next());
        if let Some(arg) = extra {
            return Err(Error::TooMany(arg));
        }
        if let (Some(host), None) = (&host, &port)
            && is_digits(host)
        {
            return Err(Error::PortAlone(host.clone()));
        }
        let host = host.as_deref().unwrap_or(DEFAULT_HOST);
        let host = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(Error::EmptyHost);
        }
        Ok(Self { host: host.to_owned(), port: port.map_or(Ok(DEFAULT_PORT), port_number)? })
    }
}

fn port_number(text: String) -> Result<u16, Error> {
    match text.parse() {
        Ok(port) if port > 0 && is_digits(&text) => Ok(port),
        _ => Err(Error::Port(text)),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_address_is_shown_in_brackets() {
        let shown = |host: &str| Address { host: host.to_owned(), port: 80 }.to_string();
        assert_eq!(shown("::1"), "[::1]:80");
        assert_eq!(shown("h"), "h:80");
    }
}

//! The command line, parsed once into a [`Task`] that cannot be wrong.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use crate::bench;
use crate::session::Differences;

pub(crate) const HELP: &str = "\
Runs a command in a sandbox runtime, then checks everything the runtime promises.

  tester [options] [ip] [port]                 run an example command, then every check
  tester [options] [ip] [port] -- COMMAND...   run COMMAND only, and end with its exit code

  ip                  address or host name of the runtime (127.0.0.1)
  port                its port (8888)
  --timeout SECONDS   how long one exchange may take (20; 330 for COMMAND)
  --reference         the server is the Python reference: where we differ from it on purpose, say so and go on
  --help, --version

  tester bench [options] [ip] [port]                measure the server that runs there, beside this machine without one
  tester bench [options] [ip] [port] -- SERVER...   start this command as the server, measure it, stop it

  --rounds N          each measurement is taken so often, and the median counts (5)
  --only NAME,...     these measurements only (start, idle-rss, idle-pss, idle-connections, spawn-true,
                      spawn-tiny, echo, clients-1, clients-4, clients-16, clients-64, connections-1, connections-16,
                      health-load, text-100MiB, nul-100MiB, upload-256MiB, download-256MiB, loaded-rss)
  --pid PID           the server's process, to measure its memory and its share of the processors
  --json              one JSON object in place of the table, in seconds and bytes
  --timeout SECONDS   how long one exchange may take (120)

The words of COMMAND arrive exactly as given; there is no shell unless COMMAND starts one. Its output is passed on byte
for byte; when signal N ended it, the exit code is 128+N. The checks end with 0 when none failed, with 1 otherwise; bad
usage ends with 2. Set NO_COLOR for a report without colour.

Bench is for a first word that is exactly that; write `tester --timeout 20 bench` for a host of this name. The floor of
commands is a bare loop of spawn, read both pipes, wait; of many clients, one such loop for each
processor; of output, the same pipeline into /dev/null; of files, `cp` by the server. The uploaded file and the copy are
removed before they are written. What takes commands per second is better the higher its ratio, all else the
lower. It ends with 0 when nothing was wrong, even if something could not be measured.
";

const CHECK_WAIT: Duration = Duration::from_secs(20);
/// Longer than the runtime's own default limit for a command, 300 s, so that its answer is what ends the wait.
const COMMAND_WAIT: Duration = Duration::from_secs(330);
const MOST_SECONDS: f64 = 1_000_000.0;

#[derive(Debug, PartialEq)]
pub(crate) enum Task {
    Help,
    Version,
    Check { address: Address, wait: Duration, differences: Differences },
    Command { address: Address, words: Vec<String>, wait: Duration },
    Bench(bench::Options),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Address {
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
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

#[derive(Debug, PartialEq)]
pub(crate) enum Error {
    NotUtf8(OsString),
    UnknownOption(String),
    MissingSeconds,
    Seconds(String),
    Port(String),
    PortAlone(String),
    EmptyHost,
    TooMany(String),
    NoCommand,
    ReferenceWithCommand,
    MissingValue(&'static str),
    Number { option: &'static str, text: String, most: String },
    UnknownMeasurement(String),
    PidWithCommand,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotUtf8(word) => write!(f, "{word:?} is not UTF-8, and a command travels as JSON text"),
            Error::UnknownOption(option) => write!(f, "unknown option {option:?}"),
            Error::MissingSeconds => write!(f, "--timeout needs a number of seconds"),
            Error::Seconds(text) => {
                write!(f, "--timeout {text:?} is not a number of seconds above 0 and up to {MOST_SECONDS}")
            }
            Error::Port(text) => write!(f, "{text:?} is not a port from 1 to 65535"),
            Error::PortAlone(text) => {
                write!(
                    f,
                    "{text:?} looks like a port; an address comes first, such as tester 127.0.0.1 {text}"
                )
            }
            Error::EmptyHost => write!(f, "the address is empty"),
            Error::TooMany(word) => write!(f, "{word:?} is one word too many; a command comes after --"),
            Error::NoCommand => write!(f, "nothing to run after --"),
            Error::ReferenceWithCommand => {
                write!(f, "--reference is for the checks and means nothing to a command")
            }
            Error::MissingValue(option) => write!(f, "{option} needs a value"),
            Error::Number { option, text, most } => {
                write!(f, "{option} {text:?} is not a number from 1 to {most}")
            }
            Error::UnknownMeasurement(name) => write!(f, "there is no measurement {name:?}"),
            Error::PidWithCommand => write!(f, "--pid is for a server that runs, and -- for one to start"),
        }
    }
}

pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Task, Error> {
    let words: Vec<String> =
        words.map(|word| word.into_string().map_err(Error::NotUtf8)).collect::<Result<_, _>>()?;
    let mut words = words.into_iter().peekable();
    if words.next_if(|word| word == "bench").is_some() {
        return bench::parse(words);
    }
    let mut places = Vec::new();
    let mut differences = Differences::AreFailures;
    let mut wait = None;
    let mut command = None;
    while let Some(word) = words.next() {
        match word.as_str() {
            "-h" | "--help" => return Ok(Task::Help),
            "-V" | "--version" => return Ok(Task::Version),
            "--reference" => differences = Differences::AreNamed,
            "--timeout" => wait = Some(seconds(&words.next().ok_or(Error::MissingSeconds)?)?),
            "--" => {
                command = Some(words.by_ref().collect::<Vec<_>>());
            }
            _ => match word.strip_prefix("--timeout=") {
                Some(text) => wait = Some(seconds(text)?),
                None if word.starts_with('-') => return Err(Error::UnknownOption(word)),
                None => places.push(word),
            },
        }
    }
    let address = address(places)?;
    match command {
        None => Ok(Task::Check { address, wait: wait.unwrap_or(CHECK_WAIT), differences }),
        Some(words) if words.is_empty() => Err(Error::NoCommand),
        Some(_) if differences == Differences::AreNamed => Err(Error::ReferenceWithCommand),
        Some(words) => Ok(Task::Command { address, words, wait: wait.unwrap_or(COMMAND_WAIT) }),
    }
}

pub(crate) fn address(places: Vec<String>) -> Result<Address, Error> {
    let mut places = places.into_iter();
    let (host, port, more) = (places.next(), places.next(), places.next());
    if let Some(word) = more {
        return Err(Error::TooMany(word));
    }
    if let (Some(host), None) = (&host, &port)
        && is_digits(host)
    {
        return Err(Error::PortAlone(host.clone()));
    }
    let host = host.unwrap_or_else(|| "127.0.0.1".to_owned());
    let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&host);
    if host.is_empty() {
        return Err(Error::EmptyHost);
    }
    Ok(Address { host: host.to_owned(), port: port.map_or(Ok(8888), port_number)? })
}

fn port_number(text: String) -> Result<u16, Error> {
    match text.parse() {
        Ok(port) if port > 0 && is_digits(&text) => Ok(port),
        _ => Err(Error::Port(text)),
    }
}

pub(crate) fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

pub(crate) fn seconds(text: &str) -> Result<Duration, Error> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= MOST_SECONDS => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(Error::Seconds(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, Error> {
        parse(line.split(' ').filter(|word| !word.is_empty()).map(OsString::from))
    }

    fn at(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    #[track_caller]
    fn checks(line: &str, host: &str, port: u16) {
        let (wait, differences) = (CHECK_WAIT, Differences::AreFailures);
        assert_eq!(parsed(line), Ok(Task::Check { address: at(host, port), wait, differences }));
    }

    #[track_caller]
    fn runs(line: &str, host: &str, port: u16, words: &[&str]) {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(parsed(line), Ok(Task::Command { address: at(host, port), words, wait: COMMAND_WAIT }));
    }

    #[track_caller]
    fn refuses(line: &str, error: Error) {
        assert_eq!(parsed(line), Err(error));
    }

    #[test]
    fn address_and_port_have_defaults() {
        checks("", "127.0.0.1", 8888);
        checks("10.0.0.7", "10.0.0.7", 8888);
        checks("10.0.0.7 80", "10.0.0.7", 80);
        checks("::1 80", "::1", 80);
        checks("[::1] 80", "::1", 80);
        checks("sandbox.local", "sandbox.local", 8888);
    }

    #[test]
    fn everything_after_two_dashes_is_the_command() {
        runs("-- ls -l --help", "127.0.0.1", 8888, &["ls", "-l", "--help"]);
        runs("h 1 -- a -- b", "h", 1, &["a", "--", "b"]);
    }

    #[test]
    fn options_may_stand_anywhere_before_the_command() {
        let (address, differences) = (at("h", 8888), Differences::AreNamed);
        let wait = Duration::from_millis(1500);
        let expected = Ok(Task::Check { address, wait, differences });
        assert_eq!(parsed("--reference h --timeout 1.5"), expected);
        assert_eq!(parsed("--timeout=1.5 h --reference"), expected);
        assert_eq!(parsed("h --help"), Ok(Task::Help));
        assert_eq!(parsed("--version"), Ok(Task::Version));
    }

    #[test]
    fn wrong_words_are_named() {
        refuses("-x", Error::UnknownOption("-x".into()));
        refuses("--", Error::NoCommand);
        refuses("8888", Error::PortAlone("8888".into()));
        refuses("h 0", Error::Port("0".into()));
        refuses("h 65536", Error::Port("65536".into()));
        refuses("h +80", Error::Port("+80".into()));
        refuses("h 80 x", Error::TooMany("x".into()));
        refuses("[]", Error::EmptyHost);
        refuses("--timeout", Error::MissingSeconds);
        for text in ["0", "-1", "nan", "inf", "1e9", "5s", ""] {
            refuses(&format!("--timeout={text}"), Error::Seconds(text.into()));
        }
        refuses("--reference -- ls", Error::ReferenceWithCommand);
    }

    #[test]
    fn only_a_first_word_is_a_subcommand() {
        assert!(matches!(parsed("bench h 80"), Ok(Task::Bench(_))));
        refuses("bench --nonsense", Error::UnknownOption("--nonsense".into()));
        checks("benches", "benches", 8888);
        runs("-- bench", "127.0.0.1", 8888, &["bench"]);
        assert!(matches!(parsed("--timeout 20 bench"), Ok(Task::Check { .. })));
    }

    #[test]
    fn an_ipv6_address_is_shown_in_brackets() {
        assert_eq!(at("::1", 80).to_string(), "[::1]:80");
        assert_eq!(at("h", 80).to_string(), "h:80");
    }
}

//! The help text, and the errors for a wrong command line.

use std::ffi::OsString;
use std::fmt;

pub(crate) const MAX_SECONDS: f64 = 1_000_000.0;

pub(crate) const HELP: &str = "\
Runs a command in a sandbox runtime, or checks every promise that the runtime makes.

  tester [options] [ip] [port]                 run example commands, then all checks
  tester [options] [ip] [port] -- COMMAND...   run COMMAND only and exit with its exit code

  ip                  address or host name of the runtime (default 127.0.0.1)
  port                port of the runtime (default 8888)
  --timeout SECONDS   time limit for one exchange (default 20; 330 for COMMAND)
  --wait              repeat the first connection until the time limit if it is refused
  --reference         the server is the Python reference: report known differences instead of failing
  --help, --version

  tester bench [options] [ip] [port]                measure a running server
  tester bench [options] [ip] [port] -- SERVER...   start SERVER, measure it, stop it

  --rounds N          number of rounds; the median is reported (default 5)
  --only NAME,...     take only these measurements: start, idle-rss, idle-pss, idle-connections,
                      spawn-true, spawn-tiny, echo, clients-1, clients-4, clients-16, clients-64,
                      connections-1, connections-16, health-load, text-100MiB, nul-100MiB,
                      upload-256MiB, download-256MiB, loaded-rss
  --pid PID           process id of the running server, to measure its memory and CPU time
  --json              print one JSON object instead of the table, in seconds and bytes
  --history FILE      append one line to FILE, unless a response was wrong: a JSON object with date,
                      version (null if unknown), architecture, machine, rounds, and ratios by name
                      (null where there is no floor or no result); existing lines are never changed
  --timeout SECONDS   time limit for one exchange (default 120)

The arguments of COMMAND are passed exactly as given; no shell is involved unless COMMAND starts one.
Its output is passed through byte for byte. If signal N ended it, the exit code is 128+N. The checks
exit with 0 if none failed and with 1 otherwise. A usage error exits with 2. Set NO_COLOR for a
report without colour.

`bench` is a subcommand only as the first argument; for a host of that name, write
`tester --timeout 20 bench`. Each measurement has a floor, the cost of the same work on this machine
without a server. For commands it is a loop that spawns the program, reads both pipes and waits; for
concurrent clients, one such loop per processor; for output, the same pipeline with its output sent
to /dev/null; for files, `cp` run by the server. Files are removed before they are uploaded or
copied. A higher ratio is better for commands per second; a lower ratio is better for everything
else. The exit code is 0 if no response was wrong, even if a measurement was skipped.
";

#[derive(Debug, PartialEq, Eq)]
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
    Number { option: &'static str, text: String, max: String },
    UnknownMeasurement(String),
    PidWithCommand,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8(arg) => write!(f, "{arg:?} is not UTF-8; commands are sent as JSON text"),
            Self::UnknownOption(option) => write!(f, "unknown option {option:?}"),
            Self::MissingSeconds => write!(f, "--timeout needs a number of seconds"),
            Self::Seconds(text) => {
                write!(f, "invalid --timeout {text:?}: expected seconds above 0 and up to {MAX_SECONDS}")
            }
            Self::Port(text) => write!(f, "invalid port {text:?}: expected 1 to 65535"),
            Self::PortAlone(text) => {
                write!(f, "{text:?} looks like a port; give the address first: tester 127.0.0.1 {text}")
            }
            Self::EmptyHost => write!(f, "the address is empty"),
            Self::TooMany(arg) => write!(f, "unexpected argument {arg:?}; a command comes after --"),
            Self::NoCommand => write!(f, "no command after --"),
            Self::ReferenceWithCommand => write!(f, "--reference applies to the checks, not to a command"),
            Self::MissingValue(option) => write!(f, "{option} needs a value"),
            Self::Number { option, text, max } => {
                write!(f, "invalid {option} {text:?}: expected a number from 1 to {max}")
            }
            Self::UnknownMeasurement(name) => write!(f, "unknown measurement {name:?}"),
            Self::PidWithCommand => {
                write!(f, "--pid is for a running server; it cannot be used with -- SERVER")
            }
        }
    }
}

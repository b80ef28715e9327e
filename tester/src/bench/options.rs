//! The command line of `tester bench`.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::measurements::GROUPS;
use super::target::Processes;
use crate::address::Address;
use crate::usage::Error;
use crate::value::{is_digits, seconds};

/// Long enough for a response of hundreds of MiB.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
const DEFAULT_ROUNDS: usize = 5;
const MAX_ROUNDS: usize = 1000;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) address: Address,
    pub(crate) timeout: Duration,
    pub(super) rounds: usize,
    pub(super) format: Format,
    /// The file to append a line to.
    pub(super) history: Option<PathBuf>,
    /// Names of measurements; empty for all of them.
    pub(super) only: Vec<&'static str>,
    pub(super) processes: Processes,
}

impl Options {
    /// Otherwise a server must already be running.
    pub(crate) fn starts_server(&self) -> bool {
        matches!(self.processes, Processes::Command(_))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Format {
    Table,
    Json,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Invocation {
    Help,
    Version,
    Run(Options),
}

pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Invocation, Error> {
    let mut positional = Vec::new();
    let (mut timeout, mut rounds) = (DEFAULT_TIMEOUT, DEFAULT_ROUNDS);
    let (mut format, mut history, mut only) = (Format::Table, None, Vec::new());
    let (mut pid, mut command) = (None, None);
    while let Some(arg) = args.next() {
        let (option, attached) = match arg.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value.to_owned())),
            _ => (arg.as_str(), None),
        };
        let mut value = |option| attached.clone().or_else(|| args.next()).ok_or(Error::MissingValue(option));
        match option {
            "--timeout" => timeout = seconds(&value("--timeout")?)?,
            "--rounds" => rounds = number("--rounds", value("--rounds")?, MAX_ROUNDS)?,
            "--pid" => pid = Some(number("--pid", value("--pid")?, u32::MAX)?),
            "--history" => history = Some(PathBuf::from(value("--history")?)),
            "--only" => only.extend(names(&value("--only")?)?),
            _ if attached.is_some() => return Err(Error::UnknownOption(arg)),
            "-h" | "--help" => return Ok(Invocation::Help),
            "-V" | "--version" => return Ok(Invocation::Version),
            "--json" => format = Format::Json,
            "--" => command = Some(args.by_ref().collect::<Vec<_>>()),
            _ if arg.starts_with('-') => return Err(Error::UnknownOption(arg)),
            _ => positional.push(arg),
        }
    }
    let processes = processes(pid, command)?;
    let address = Address::parse(positional)?;
    Ok(Invocation::Run(Options { address, timeout, rounds, format, history, only, processes }))
}

fn processes(pid: Option<u32>, command: Option<Vec<String>>) -> Result<Processes, Error> {
    match (pid, command) {
        (None, None) => Ok(Processes::Unknown),
        (Some(pid), None) => Ok(Processes::Pid(pid)),
        (None, Some(argv)) if !argv.is_empty() => Ok(Processes::Command(argv)),
        (None, Some(_)) => Err(Error::NoCommand),
        (Some(_), Some(_)) => Err(Error::PidWithCommand),
    }
}

/// From 1 to `max`, in digits only.
fn number<T: FromStr + PartialOrd + From<u8> + Display>(
    option: &'static str,
    text: String,
    max: T,
) -> Result<T, Error> {
    match text.parse::<T>() {
        Ok(number) if number >= T::from(1) && number <= max && is_digits(&text) => Ok(number),
        _ => Err(Error::Number { option, text, max: max.to_string() }),
    }
}

fn names(list: &str) -> Result<Vec<&'static str>, Error> {
    let find = |name: &str| GROUPS.iter().copied().flatten().find(|measurement| measurement.name == name);
    list.split(',')
        .map(|name| Ok(find(name).ok_or_else(|| Error::UnknownMeasurement(name.to_owned()))?.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Invocation, Error> {
        parse(line.split(' ').filter(|arg| !arg.is_empty()).map(str::to_owned))
    }

    fn options() -> Options {
        Options {
            address: Address { host: "127.0.0.1".to_owned(), port: 8888 },
            timeout: DEFAULT_TIMEOUT,
            rounds: DEFAULT_ROUNDS,
            format: Format::Table,
            history: None,
            only: Vec::new(),
            processes: Processes::Unknown,
        }
    }

    #[track_caller]
    fn measures(line: &str, expected: Options) {
        assert_eq!(parsed(line), Ok(Invocation::Run(expected)));
    }

    #[track_caller]
    fn refuses(line: &str, error: Error) {
        assert_eq!(parsed(line), Err(error));
    }

    #[test]
    fn every_option_has_a_default() {
        measures("", options());
        let address = Address { host: "h".to_owned(), port: 80 };
        measures("h 80", Options { address, ..options() });
    }

    #[test]
    fn value_is_in_the_same_or_the_next_argument() {
        let expected = || Options {
            rounds: 3,
            timeout: Duration::from_millis(1500),
            format: Format::Json,
            history: Some("h.jsonl".into()),
            only: vec!["spawn-true", "start", "echo"],
            processes: Processes::Pid(7),
            ..options()
        };
        measures(
            "--rounds 3 --timeout 1.5 --json --history h.jsonl --only spawn-true,start --only echo --pid 7 \
             127.0.0.1",
            expected(),
        );
        measures(
            "127.0.0.1 --rounds=3 --timeout=1.5 --json --history=h.jsonl --only=spawn-true,start,echo \
             --pid=7",
            expected(),
        );
    }

    #[test]
    fn arguments_after_two_dashes_are_the_server() {
        let processes = Processes::Command(vec!["a".to_owned(), "--json".to_owned(), "--".to_owned()]);
        measures("-- a --json --", Options { processes, ..options() });
        assert_eq!(parsed("--rounds 2 --help"), Ok(Invocation::Help));
    }

    #[test]
    fn invalid_arguments_are_reported() {
        refuses("-x", Error::UnknownOption("-x".into()));
        refuses("--json=yes", Error::UnknownOption("--json=yes".into()));
        refuses("--reference", Error::UnknownOption("--reference".into()));
        refuses("--rounds", Error::MissingValue("--rounds"));
        refuses("--only", Error::MissingValue("--only"));
        refuses("--history", Error::MissingValue("--history"));
        for text in ["0", "-1", "+1", "1001", "many", ""] {
            let (option, max) = ("--rounds", "1000".to_owned());
            refuses(&format!("--rounds={text}"), Error::Number { option, text: text.into(), max });
        }
        refuses("--only echo,", Error::UnknownMeasurement(String::new()));
        refuses("--only Echo", Error::UnknownMeasurement("Echo".into()));
        refuses("--timeout=0", Error::Seconds("0".into()));
        refuses("--", Error::NoCommand);
        refuses("--pid 1 -- a", Error::PidWithCommand);
        refuses("h 80 x", Error::TooMany("x".into()));
    }
}

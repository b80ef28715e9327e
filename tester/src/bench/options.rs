//! The command line of `tester bench`.

use std::time::Duration;

use super::MEASUREMENTS;
use crate::args::{self, Address, Error, Task};

/// An exchange can be an answer of hundreds of MiB.
const WAIT: Duration = Duration::from_secs(120);
const ROUNDS: usize = 5;
const MOST_ROUNDS: usize = 1000;

#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) address: Address,
    pub(crate) wait: Duration,
    pub(super) rounds: usize,
    pub(super) format: Format,
    /// Names of measurements; all of them when empty.
    pub(super) only: Vec<&'static str>,
    pub(super) subject: Subject,
}

impl Options {
    /// Or else one has to be there.
    pub(crate) fn starts_server(&self) -> bool {
        matches!(self.subject, Subject::Command(_))
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum Format {
    Table,
    Json,
}

/// What is known of the server's processes.
#[derive(Debug, PartialEq)]
pub(super) enum Subject {
    Unknown,
    Pid(u32),
    /// To be started, and stopped, with these words.
    Command(Vec<String>),
}

pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Task, Error> {
    let mut places = Vec::new();
    let (mut wait, mut rounds, mut format, mut only) = (WAIT, ROUNDS, Format::Table, Vec::new());
    let (mut pid, mut command) = (None, None);
    while let Some(word) = words.next() {
        let (option, attached) = match word.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        let mut value = |option| attached.clone().or_else(|| words.next()).ok_or(Error::MissingValue(option));
        match option {
            "--timeout" => wait = args::seconds(&value("--timeout")?)?,
            "--rounds" => rounds = number("--rounds", value("--rounds")?, MOST_ROUNDS)?,
            "--pid" => pid = Some(number("--pid", value("--pid")?, u32::MAX)?),
            "--only" => only.extend(names(&value("--only")?)?),
            _ if attached.is_some() => return Err(Error::UnknownOption(word)),
            "-h" | "--help" => return Ok(Task::Help),
            "-V" | "--version" => return Ok(Task::Version),
            "--json" => format = Format::Json,
            "--" => command = Some(words.by_ref().collect::<Vec<_>>()),
            _ if word.starts_with('-') => return Err(Error::UnknownOption(word)),
            _ => places.push(word),
        }
    }
    let subject = match (pid, command) {
        (None, None) => Subject::Unknown,
        (Some(pid), None) => Subject::Pid(pid),
        (None, Some(words)) if !words.is_empty() => Subject::Command(words),
        (None, Some(_)) => return Err(Error::NoCommand),
        (Some(_), Some(_)) => return Err(Error::PidWithCommand),
    };
    let address = args::address(places)?;
    Ok(Task::Bench(Options { address, wait, rounds, format, only, subject }))
}

/// From 1 to `most`, in digits only.
fn number<T: std::str::FromStr + PartialOrd + From<u8> + std::fmt::Display>(
    option: &'static str,
    text: String,
    most: T,
) -> Result<T, Error> {
    match text.parse::<T>() {
        Ok(number) if number >= T::from(1) && number <= most && args::is_digits(&text) => Ok(number),
        _ => Err(Error::Number { option, text, most: most.to_string() }),
    }
}

fn names(list: &str) -> Result<Vec<&'static str>, Error> {
    let known =
        |name: &str| MEASUREMENTS.iter().copied().flatten().find(|measurement| measurement.name == name);
    list.split(',')
        .map(|name| Ok(known(name).ok_or_else(|| Error::UnknownMeasurement(name.to_owned()))?.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, Error> {
        parse(line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned))
    }

    fn options() -> Options {
        Options {
            address: Address { host: "127.0.0.1".to_owned(), port: 8888 },
            wait: WAIT,
            rounds: ROUNDS,
            format: Format::Table,
            only: Vec::new(),
            subject: Subject::Unknown,
        }
    }

    #[track_caller]
    fn measures(line: &str, expected: Options) {
        assert_eq!(parsed(line), Ok(Task::Bench(expected)));
    }

    #[track_caller]
    fn refuses(line: &str, error: Error) {
        assert_eq!(parsed(line), Err(error));
    }

    #[test]
    fn all_has_a_default() {
        measures("", options());
        let address = Address { host: "h".to_owned(), port: 80 };
        measures("h 80", Options { address, ..options() });
    }

    #[test]
    fn options_take_their_value_from_the_same_word_or_the_next() {
        let expected = || Options {
            rounds: 3,
            wait: Duration::from_millis(1500),
            format: Format::Json,
            only: vec!["spawn-true", "start", "echo"],
            subject: Subject::Pid(7),
            ..options()
        };
        measures(
            "--rounds 3 --timeout 1.5 --json --only spawn-true,start --only echo --pid 7 127.0.0.1",
            expected(),
        );
        measures(
            "127.0.0.1 --rounds=3 --timeout=1.5 --json --only=spawn-true,start,echo --pid=7",
            expected(),
        );
    }

    #[test]
    fn the_server_is_all_that_follows_two_dashes() {
        let subject = Subject::Command(vec!["a".to_owned(), "--json".to_owned(), "--".to_owned()]);
        measures("-- a --json --", Options { subject, ..options() });
        assert_eq!(parsed("--rounds 2 --help"), Ok(Task::Help));
    }

    #[test]
    fn wrong_words_are_named() {
        refuses("-x", Error::UnknownOption("-x".into()));
        refuses("--json=yes", Error::UnknownOption("--json=yes".into()));
        refuses("--reference", Error::UnknownOption("--reference".into()));
        refuses("--rounds", Error::MissingValue("--rounds"));
        refuses("--only", Error::MissingValue("--only"));
        for text in ["0", "-1", "+1", "1001", "many", ""] {
            let (option, most) = ("--rounds", "1000".to_owned());
            refuses(&format!("--rounds={text}"), Error::Number { option, text: text.into(), most });
        }
        refuses("--only echo,", Error::UnknownMeasurement(String::new()));
        refuses("--only Echo", Error::UnknownMeasurement("Echo".into()));
        refuses("--timeout=0", Error::Seconds("0".into()));
        refuses("--", Error::NoCommand);
        refuses("--pid 1 -- a", Error::PidWithCommand);
        refuses("h 80 x", Error::TooMany("x".into()));
    }
}

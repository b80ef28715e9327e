//! The command line, parsed once into a [`Task`].

use std::ffi::OsString;
use std::time::Duration;

use crate::address::Address;
use crate::bench;
use crate::session::Differences;
use crate::usage::Error;
use crate::value::seconds;

const CHECK_TIMEOUT: Duration = Duration::from_secs(20);
/// Longer than the runtime's default command timeout of 300 s, so that the runtime responds first.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(330);

/// How often the first connection is attempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempts {
    One,
    UntilTimeout,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Help,
    Version,
    Check { address: Address, attempts: Attempts, timeout: Duration, differences: Differences },
    Command { address: Address, attempts: Attempts, argv: Vec<String>, timeout: Duration },
    Bench(bench::Options),
}

pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Result<Task, Error> {
    let args: Vec<String> =
        args.map(|arg| arg.into_string().map_err(Error::NotUtf8)).collect::<Result<_, _>>()?;
    let mut args = args.into_iter().peekable();
    if args.next_if(|arg| arg == "bench").is_some() {
        return Ok(match bench::parse(args)? {
            bench::Invocation::Help => Task::Help,
            bench::Invocation::Version => Task::Version,
            bench::Invocation::Run(options) => Task::Bench(options),
        });
    }
    let mut positional = Vec::new();
    let mut differences = Differences::Fail;
    let mut attempts = Attempts::One;
    let mut timeout = None;
    let mut command = None;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-h" | "--help" => return Ok(Task::Help),
            "-V" | "--version" => return Ok(Task::Version),
            "--reference" => differences = Differences::Report,
            "--wait" => attempts = Attempts::UntilTimeout,
            "--timeout" => timeout = Some(seconds(&args.next().ok_or(Error::MissingSeconds)?)?),
            "--" => command = Some(args.by_ref().collect::<Vec<_>>()),
            _ => match arg.strip_prefix("--timeout=") {
                Some(text) => timeout = Some(seconds(text)?),
                None if arg.starts_with('-') => return Err(Error::UnknownOption(arg)),
                None => positional.push(arg),
            },
        }
    }
    let address = Address::parse(positional)?;
    match command {
        None => Ok(Task::Check { address, attempts, timeout: timeout.unwrap_or(CHECK_TIMEOUT), differences }),
        Some(argv) if argv.is_empty() => Err(Error::NoCommand),
        Some(_) if differences == Differences::Report => Err(Error::ReferenceWithCommand),
        Some(argv) => {
            Ok(Task::Command { address, attempts, argv, timeout: timeout.unwrap_or(COMMAND_TIMEOUT) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, Error> {
        parse(line.split(' ').filter(|arg| !arg.is_empty()).map(OsString::from))
    }

    fn at(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    #[track_caller]
    fn checks(line: &str, host: &str, port: u16) {
        let (timeout, differences) = (CHECK_TIMEOUT, Differences::Fail);
        let (address, attempts) = (at(host, port), Attempts::One);
        assert_eq!(parsed(line), Ok(Task::Check { address, attempts, timeout, differences }));
    }

    #[track_caller]
    fn runs(line: &str, host: &str, port: u16, argv: &[&str]) {
        let argv = argv.iter().map(|arg| (*arg).to_owned()).collect();
        let (address, attempts, timeout) = (at(host, port), Attempts::One, COMMAND_TIMEOUT);
        assert_eq!(parsed(line), Ok(Task::Command { address, attempts, argv, timeout }));
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
    fn arguments_after_two_dashes_are_the_command() {
        runs("-- ls -l --help", "127.0.0.1", 8888, &["ls", "-l", "--help"]);
        runs("h 1 -- a -- b", "h", 1, &["a", "--", "b"]);
    }

    #[test]
    fn options_may_appear_anywhere_before_the_command() {
        let (address, differences) = (at("h", 8888), Differences::Report);
        let timeout = Duration::from_millis(1500);
        let attempts = Attempts::UntilTimeout;
        let expected = Ok(Task::Check { address, attempts, timeout, differences });
        assert_eq!(parsed("--reference h --wait --timeout 1.5"), expected);
        assert_eq!(parsed("--timeout=1.5 h --reference --wait"), expected);
        assert_eq!(parsed("h --help"), Ok(Task::Help));
        assert_eq!(parsed("--version"), Ok(Task::Version));
    }

    #[test]
    fn invalid_arguments_are_reported() {
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
    fn bench_is_a_subcommand_only_as_the_first_argument() {
        assert!(matches!(parsed("bench h 80"), Ok(Task::Bench(_))));
        assert_eq!(parsed("bench --help"), Ok(Task::Help));
        refuses("bench --nonsense", Error::UnknownOption("--nonsense".into()));
        checks("benches", "benches", 8888);
        runs("-- bench", "127.0.0.1", 8888, &["bench"]);
        assert!(matches!(parsed("--timeout 20 bench"), Ok(Task::Check { .. })));
    }
}

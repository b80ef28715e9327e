//! The command line: a verb, its operand and flags. Flags are recognized here and parsed later, with the
//! variables.

use super::settings::{SETTINGS, Setting};
use super::{Error, RawSettings};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The meaning of a command line.
#[derive(Debug)]
pub enum Invocation {
    /// Print this text, without looking at the settings.
    Print(String),
    Run(Verb, RawSettings),
}

/// The first argument that is not an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// None was given: become the init process and start the server.
    Start,
    /// Become the server.
    Serve,
    /// Check that the server with this configuration is healthy.
    Healthcheck,
    /// Copy this program into a directory.
    Install(PathBuf),
}

/// One argument, with the next one if that is its value.
enum Argument {
    Print(String),
    Flag(&'static Setting, OsString),
    Operand(OsString),
}

impl Invocation {
    /// Parses the command line, without the program's own name.
    ///
    /// # Errors
    /// An unknown command or option, a surplus or missing argument.
    pub fn parse(
        arguments: impl IntoIterator<Item = OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Error> {
        let (mut operands, mut flags) = (Vec::new(), Vec::new());
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match Argument::parse(argument, &mut arguments)? {
                Argument::Print(text) => return Ok(Self::Print(text)),
                Argument::Flag(setting, value) => flags.push((setting, value)),
                Argument::Operand(operand) => operands.push(operand),
            }
        }
        let raw = RawSettings { flags, environment: environment.into_iter().collect() };
        Ok(Self::Run(Verb::parse(operands)?, raw))
    }
}

impl Argument {
    fn parse(argument: OsString, following: &mut impl Iterator<Item = OsString>) -> Result<Self, Error> {
        let (name, value) = split_flag(&argument);
        match name.to_str() {
            Some("--help" | "-h") => Ok(Self::Print(help())),
            Some("--version" | "-V") => {
                Ok(Self::Print(format!("sandbox-runtime {}\n", env!("CARGO_PKG_VERSION"))))
            }
            Some(flag) if flag.starts_with('-') => {
                Self::parse_flag(flag, value.map(OsStr::to_owned).or_else(|| following.next()))
            }
            _ => Ok(Self::Operand(argument)),
        }
    }

    fn parse_flag(name: &str, value: Option<OsString>) -> Result<Self, Error> {
        for setting in &SETTINGS {
            let Some(flag) = setting.flag.filter(|flag| *flag == name) else { continue };
            let missing = Error::MissingValue { flag, value: setting.value };
            return value.ok_or(missing).map(|value| Self::Flag(setting, value));
        }
        Err(Error::UnknownOption(name.to_owned()))
    }
}

/// Splits `--flag=value`.
fn split_flag(argument: &OsStr) -> (&OsStr, Option<&OsStr>) {
    let bytes = argument.as_bytes();
    let equals_sign = bytes.iter().position(|byte| *byte == b'=').filter(|_| bytes.starts_with(b"--"));
    match equals_sign.and_then(|index| bytes.split_at_checked(index)) {
        Some((name, value)) => (OsStr::from_bytes(name), value.get(1..).map(OsStr::from_bytes)),
        None => (argument, None),
    }
}

impl Verb {
    fn parse(operands: Vec<OsString>) -> Result<Self, Error> {
        let mut operands = operands.into_iter();
        let Some(name) = operands.next() else { return Ok(Self::Start) };
        let verb = match name.as_bytes() {
            b"serve" => Self::Serve,
            b"healthcheck" => Self::Healthcheck,
            b"install" => Self::Install(operands.next().ok_or(Error::MissingDirectory)?.into()),
            _ => return Err(Error::UnknownCommand(name)),
        };
        match operands.next() {
            None => Ok(verb),
            Some(surplus) => Err(Error::UnexpectedArgument(surplus)),
        }
    }
}

/// The text of `--help`.
fn help() -> String {
    let mut text = String::from(
        "An HTTP server that runs commands and transfers files for AI agents in a disposable container.

Usage:
  sandbox-runtime [OPTIONS]               run the server under a built-in init process (default)
  sandbox-runtime serve [OPTIONS]         run the server without an init process
  sandbox-runtime healthcheck [OPTIONS]   exit 0 if the server is healthy, 1 otherwise
  sandbox-runtime install DIRECTORY       copy this binary into DIRECTORY
  sandbox-runtime --help | --version

Options (each overrides its environment variable):
",
    );
    for Setting { variable, flag, value, default, help, .. } in &SETTINGS {
        let names = match flag {
            Some(flag) => format!("{flag} {value}, {variable}"),
            None => format!("{variable} (environment only)"),
        };
        let default = default.map(|default| format!(" [default: {default}]")).unwrap_or_default();
        // Writing to a String cannot fail.
        let _infallible = write!(text, "  {names}\n      {help}{default}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Invocation, Error> {
        Invocation::parse(arguments.iter().map(OsString::from), [])
    }

    #[track_caller]
    fn verb(arguments: &[&str], expected: &Verb) {
        match parse(arguments).unwrap() {
            Invocation::Run(verb, _) => assert_eq!(verb, *expected),
            Invocation::Print(text) => panic!("{text}"),
        }
    }

    #[track_caller]
    fn printed(arguments: &[&str]) -> String {
        match parse(arguments).unwrap() {
            Invocation::Print(text) => text,
            Invocation::Run(verb, _) => panic!("{verb:?}"),
        }
    }

    #[test]
    fn verbs_may_stand_before_or_after_flags() {
        verb(&[], &Verb::Start);
        verb(&["--listen", "9000"], &Verb::Start);
        verb(&["serve"], &Verb::Serve);
        verb(&["serve", "--listen=9000"], &Verb::Serve);
        verb(&["healthcheck", "--listen", "9000"], &Verb::Healthcheck);
        verb(&["--listen", "9000", "healthcheck"], &Verb::Healthcheck);
        verb(&["install", "/x"], &Verb::Install("/x".into()));
    }

    #[test]
    fn flags_take_a_value_after_a_space_or_an_equals_sign() {
        let arguments = ["--listen", "1", "--base-dir=/a=b", "--log="];
        let Invocation::Run(_, raw) = parse(&arguments).unwrap() else { panic!("printed") };
        let flags: Vec<_> = raw.flags.iter().map(|(setting, value)| (setting.flag.unwrap(), value)).collect();
        let value = OsString::from;
        assert_eq!(flags, [("--listen", &value("1")), ("--base-dir", &value("/a=b")), ("--log", &value(""))]);
    }

    #[test]
    fn invalid_command_lines_are_refused_in_one_sentence() {
        for (arguments, expected) in [
            (&["--lisen", "1"][..], "unknown option --lisen (see --help)"),
            (&["--lisen=1"], "unknown option --lisen (see --help)"),
            (&["--token", "x"], "unknown option --token (see --help)"),
            (&["-x"], "unknown option -x (see --help)"),
            (&["--listen"], "--listen requires a value: [ADDRESS:]PORT (see --help)"),
            (&["run"], "unknown command \"run\" (see --help)"),
            (&["run", "x"], "unknown command \"run\" (see --help)"),
            (&["serve", "x"], "unexpected argument \"x\" (see --help)"),
            (&["healthcheck", "x"], "unexpected argument \"x\" (see --help)"),
            (&["install"], "install requires a directory (see --help)"),
            (&["install", "a", "b"], "unexpected argument \"b\" (see --help)"),
        ] {
            assert_eq!(parse(arguments).unwrap_err().to_string(), expected, "{arguments:?}");
        }
    }

    #[test]
    fn help_and_version_are_printed() {
        for arguments in [&["--help"][..], &["-h"], &["serve", "--help"], &["--listen", "x", "--help"]] {
            assert_eq!(printed(arguments), include_str!("help.txt"), "{arguments:?}");
        }
        let version = concat!("sandbox-runtime ", env!("CARGO_PKG_VERSION"), "\n");
        assert_eq!((printed(&["--version"]).as_str(), printed(&["-V"]).as_str()), (version, version));
    }

    #[test]
    fn help_names_every_setting() {
        for setting in &SETTINGS {
            for text in [
                setting.variable,
                setting.flag.unwrap_or_default(),
                setting.default.unwrap_or_default(),
                setting.help,
            ] {
                assert!(help().contains(text), "{text}");
            }
        }
    }
}

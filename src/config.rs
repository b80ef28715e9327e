//! What the server is configured to be: one table of settings, which the parser uses and `--help` prints.
//!
//! A flag wins over its variable. The only file that reads the environment.

use crate::api::Token;
use crate::deadline::seconds;
use crate::log::Level;
use crate::server::Listen;
use crate::{api, exec, server};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

/// All of it, each layer's own limits among it.
#[derive(Debug)]
pub struct Config {
    pub base_dir: PathBuf,
    pub listen: Listen,
    pub log_level: Level,
    pub api: api::Limits,
    pub exec: exec::Limits,
    pub server: server::Limits,
    /// What every request but one for health must bring.
    pub token: Option<Token>,
    /// What the process above hands to the server, and the server to nobody.
    pub for_server: Vec<(&'static str, OsString)>,
    /// Whether this process ends when the one above it does, which is another one of this program.
    pub follows_parent: bool,
    /// What every command gets: what this process got, less what is for the server alone.
    pub environment: Vec<(OsString, OsString)>,
    /// What was configured wrongly, and what is done instead.
    pub warnings: Vec<String>,
}

/// What the command line asks for.
#[derive(Debug)]
pub enum Invocation {
    /// Be the process above the server, and start it.
    Start(Box<Config>),
    /// Be the server, in this process.
    Serve(Box<Config>),
    /// Ask the server that runs with this configuration whether it is well.
    Healthcheck(Listen),
    /// Put a copy of this program into a directory.
    Install(PathBuf),
    /// Print this text.
    Print(String),
}

/// A command line or an environment that can not be used; says how to do better.
#[derive(Debug, PartialEq, Eq)]
pub struct Unusable(String);

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unusable {}

/// Holds the secret, and is for the server alone.
pub const TOKEN: &str = "SANDBOX_TOKEN";

/// By which the process above tells the server its pid.
const PARENT: &str = "SANDBOX_PARENT_PID";

/// One row of the table.
pub struct Setting {
    pub variable: &'static str,
    /// `None` for a secret: command lines can be read by everybody.
    pub flag: Option<&'static str>,
    /// What stands for the value in `--help`.
    pub value: &'static str,
    pub default: &'static str,
    pub meaning: &'static str,
    /// What a variable that can not be used leads to. A flag that can not be used is always refused.
    wrong_variable: WrongVariable,
    set: fn(&mut Config, &OsStr) -> Result<(), String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WrongVariable {
    /// A warning, and the default.
    Warn,
    /// No start: a server that is not where it should be helps nobody.
    Refuse,
}

pub const SETTINGS: [Setting; 10] = [
    Setting {
        variable: "SANDBOX_LISTEN",
        flag: Some("--listen"),
        value: "[ADDRESS:]PORT",
        default: "8888",
        meaning: "where to listen; without an address on all of them, IPv6 and IPv4",
        wrong_variable: WrongVariable::Refuse,
        set: |config, value| {
            config.listen = Listen::parse(text(value)?)?;
            Ok(())
        },
    },
    Setting {
        variable: "SANDBOX_BASE_DIR",
        flag: Some("--base-dir"),
        value: "DIRECTORY",
        default: "/app",
        meaning: "where commands start and files live",
        wrong_variable: WrongVariable::Refuse,
        set: |config, value| {
            let path = PathBuf::from(value);
            config.base_dir = std::path::absolute(&path).map_err(|error| error.to_string())?;
            Ok(())
        },
    },
    Setting {
        variable: "SANDBOX_EXEC_TIMEOUT_SECONDS",
        flag: Some("--exec-timeout"),
        value: "SECONDS",
        default: "300",
        meaning: "how long a command may run; a request can ask for less",
        wrong_variable: WrongVariable::Warn,
        set: |config, value| {
            let number = float(text(value)?).filter(|number| seconds(*number).is_some());
            config.api.exec_timeout_seconds = number.ok_or("it should be a finite number greater than 0")?;
            Ok(())
        },
    },
    Setting {
        variable: "SANDBOX_MAX_OUTPUT_BYTES",
        flag: Some("--max-output"),
        value: "BYTES",
        default: "8388608",
        meaning: "how much of each output stream of a command is kept: half from its beginning, half from its end; 0: all of standard output",
        wrong_variable: WrongVariable::Refuse,
        set: |config, value| {
            let limit = bytes_or_none(text(value)?)?;
            config.api.output_bytes = Some(limit).filter(|limit| *limit > 0);
            Ok(())
        },
    },
    Setting {
        variable: "SANDBOX_OUTPUT_BUFFER_BYTES",
        flag: Some("--output-buffer"),
        value: "BYTES",
        default: "65536",
        meaning: "how much standard output is gathered before the answer is streamed, and has no length any more",
        wrong_variable: WrongVariable::Refuse,
        set: |config, value| {
            config.api.buffer_bytes = bytes_or_none(text(value)?)?;
            Ok(())
        },
    },
    Setting {
        variable: "SANDBOX_MAX_UPLOAD_BYTES",
        flag: Some("--max-upload"),
        value: "BYTES",
        default: "17179869184",
        meaning: "how large the body of an upload may be",
        wrong_variable: WrongVariable::Refuse,
        set: |config, value| {
            config.api.upload_bytes = bytes(text(value)?)?;
            Ok(())
        },
    },
    Setting {
        variable: "SANDBOX_SHUTDOWN_GRACE_SECONDS",
        flag: Some("--shutdown-grace"),
        value: "SECONDS",
        default: "10",
        meaning: "how long running requests may go on after SIGTERM, before their commands are killed",
        wrong_variable: WrongVariable::Refuse,
        set: |config, value| {
            let number = float(text(value)?);
            // No time at all is a sensible grace, though no sensible time limit.
            let grace =
                number.and_then(|number| if number == 0.0 { Some(Duration::ZERO) } else { seconds(number) });
            config.server.shutdown_grace = grace.ok_or("it should be a finite number, 0 or greater")?;
            Ok(())
        },
    },
    Setting {
        variable: TOKEN,
        flag: None,
        value: "SECRET",
        default: "none",
        meaning: "what every request but one for health must bring, as Authorization: Bearer or X-API-Key",
        wrong_variable: WrongVariable::Refuse,
        set: |config, value| {
            config.token = Some(Token::new(value.as_bytes())?);
            Ok(())
        },
    },
    Setting {
        variable: "SANDBOX_TOKEN_FILE",
        flag: Some("--token-file"),
        value: "FILE",
        default: "none",
        meaning: "a file with that secret; commands can read whatever this server can, so the variable is safer",
        wrong_variable: WrongVariable::Refuse,
        set: |config, value| {
            if config.token.is_some() {
                return Err("there is a token already".into());
            }
            let secret = std::fs::read(value).map_err(|error| error.to_string())?;
            config.token = Some(Token::new(secret.trim_ascii())?);
            Ok(())
        },
    },
    Setting {
        variable: "SANDBOX_LOG",
        flag: Some("--log"),
        value: "LEVEL",
        default: "info",
        meaning: "how much is logged: off, error, warn, info or debug (debug: one line a request)",
        wrong_variable: WrongVariable::Warn,
        set: |config, value| {
            let names = || format!("it should be {}", Level::NAMES);
            config.log_level = Level::named(text(value)?).ok_or_else(names)?;
            Ok(())
        },
    },
];

impl std::fmt::Debug for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.variable)
    }
}

impl Config {
    fn new() -> Self {
        Self {
            base_dir: PathBuf::from("/app"),
            listen: Listen::default(),
            log_level: Level::Info,
            api: api::Limits::default(),
            exec: exec::Limits::default(),
            server: server::Limits::default(),
            token: None,
            for_server: vec![(PARENT, std::process::id().to_string().into())],
            follows_parent: false,
            environment: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn set_from_variables(&mut self) -> Result<(), Unusable> {
        for setting in &SETTINGS {
            let Some((_, value)) = self.environment.iter().find(|(name, _)| name == setting.variable) else {
                continue;
            };
            let value = trimmed(value);
            if value.is_empty() && setting.blank_is_unset() {
                continue;
            }
            let Err(reason) = (setting.set)(self, &value) else { continue };
            let wrong = match setting.flag {
                Some(_) => format!("{} is {:?}: {reason}", setting.variable, value.to_string_lossy()),
                None => format!("{}: {reason}", setting.variable),
            };
            match setting.wrong_variable {
                WrongVariable::Refuse => return Err(Unusable(wrong)),
                WrongVariable::Warn => self.warnings.push(format!("{wrong}; using {}", setting.default)),
            }
        }
        let parent = std::os::unix::process::parent_id().to_string();
        self.follows_parent =
            self.environment.iter().any(|(name, value)| name == PARENT && *value == *parent);
        let secret = self.environment.iter().find(|(name, _)| name == TOKEN);
        self.for_server.extend(secret.map(|(_, secret)| (TOKEN, secret.clone())));
        self.environment.retain(|(name, _)| name != TOKEN && name != PARENT);
        Ok(())
    }
}

impl Setting {
    /// As in `VARIABLE=${UNSET}`. But a time limit is too grave for silence, and an empty token may be a mistake that
    /// would open the door.
    fn blank_is_unset(&self) -> bool {
        self.wrong_variable == WrongVariable::Refuse && !self.variable.starts_with(TOKEN)
    }
}

/// Reads the command line (without the program's own name) and the environment.
///
/// # Errors
/// The first thing that can not be used.
pub fn invocation(
    arguments: impl IntoIterator<Item = OsString>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Invocation, Unusable> {
    let mut config = Config::new();
    config.environment = environment.into_iter().collect();
    config.set_from_variables()?;
    let mut words = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let (name, value) = split_flag(&argument);
        match name.to_str() {
            Some("--help" | "-h") => return Ok(Invocation::Print(help())),
            Some("--version" | "-V") => {
                return Ok(Invocation::Print(format!("sandbox-runtime {}\n", env!("CARGO_PKG_VERSION"))));
            }
            Some(flag) if flag.starts_with('-') => {
                let setting = SETTINGS.iter().find(|setting| setting.flag == Some(flag));
                let setting = setting.ok_or_else(|| unusable(format!("there is no option {flag}")))?;
                let value = value.or_else(|| arguments.next());
                let value =
                    value.ok_or_else(|| unusable(format!("{flag} needs a value: {}", setting.value)))?;
                (setting.set)(&mut config, &trimmed(&value)).map_err(|reason| {
                    Unusable(format!("{flag} is {:?}: {reason}", value.to_string_lossy()))
                })?;
            }
            _ => words.push(argument),
        }
    }
    let mut words = words.into_iter();
    let (verb, operand, surplus) = (words.next(), words.next(), words.next());
    match (verb.as_deref().map(OsStr::as_bytes), operand, surplus) {
        (None, ..) => Ok(Invocation::Start(Box::new(config))),
        (Some(b"serve"), None, None) => Ok(Invocation::Serve(Box::new(config))),
        (Some(b"healthcheck"), None, None) => Ok(Invocation::Healthcheck(config.listen)),
        (Some(b"install"), Some(directory), None) => Ok(Invocation::Install(directory.into())),
        (Some(b"install"), None, _) => Err(unusable("install needs a directory".into())),
        (Some(word), ..) => {
            Err(unusable(format!("can not make sense of {:?}", String::from_utf8_lossy(word))))
        }
    }
}

fn unusable(wrong: String) -> Unusable {
    Unusable(format!("{wrong} (see --help)"))
}

/// `--flag=value` to both, anything else to itself.
fn split_flag(argument: &OsStr) -> (OsString, Option<OsString>) {
    let mut sides = argument.as_bytes().splitn(2, |byte| *byte == b'=');
    let name = OsStr::from_bytes(sides.next().unwrap_or_default()).to_owned();
    match sides.next().filter(|_| argument.as_bytes().starts_with(b"--")) {
        Some(value) => (name, Some(OsStr::from_bytes(value).to_owned())),
        None => (argument.to_owned(), None),
    }
}

/// What `--help` prints.
fn help() -> String {
    let mut text = String::from(
        "Runs commands and moves files for an AI agent inside a throw-away container, over HTTP.

Usage:
  sandbox-runtime [OPTIONS]               serve, below a process that forwards signals and reaps orphans
  sandbox-runtime serve [OPTIONS]         serve in this process alone, where something else does that
  sandbox-runtime healthcheck [OPTIONS]   ask the running server; exit 0 when it is well, else 1
  sandbox-runtime install DIRECTORY       put a copy of this program into a directory
  sandbox-runtime --help | --version

Options, each with the environment variable that it wins over:
",
    );
    for setting in &SETTINGS {
        let Setting { variable, flag, value, default, meaning, .. } = setting;
        let names = match flag {
            Some(flag) => format!("{flag} {value}, {variable}"),
            None => format!("{variable} (only as a variable)"),
        };
        // Writing to a String can not fail.
        let _infallible = write!(text, "  {names}\n      {meaning} (default {default})\n");
    }
    text
}

fn trimmed(value: &OsStr) -> OsString {
    OsString::from_vec(value.as_bytes().trim_ascii().to_vec())
}

fn text(value: &OsStr) -> Result<&str, String> {
    value.to_str().ok_or_else(|| "it is not text".into())
}

/// Digits only, and more than 0.
fn bytes(text: &str) -> Result<u64, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| is_number && *number > 0);
    number.ok_or_else(|| "it should be a whole number of bytes greater than 0".into())
}

/// A number of bytes to hold, or 0.
fn bytes_or_none(text: &str) -> Result<usize, String> {
    let number = if text == "0" { 0 } else { bytes(text)? };
    usize::try_from(number).map_err(|error| error.to_string())
}

/// A number as Python's `float` reads it: also with an underscore between two digits (CG-04).
fn float(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let stray = bytes.iter().enumerate().any(|(index, byte)| {
        let is_digit =
            |index: Option<usize>| index.and_then(|index| bytes.get(index)).is_some_and(u8::is_ascii_digit);
        *byte == b'_' && !(is_digit(index.checked_sub(1)) && is_digit(index.checked_add(1)))
    });
    if stray { None } else { text.replace('_', "").parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invoke(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Invocation, Unusable> {
        let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        invocation(arguments.iter().map(OsString::from), variables)
    }

    #[track_caller]
    fn config(arguments: &[&str], variables: &[(&str, &str)]) -> Config {
        match invoke(arguments, variables).unwrap() {
            Invocation::Start(config) => *config,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_defaults_are_those_that_the_table_tells() {
        let plain = format!("{:?}", config(&[], &[]));
        for setting in SETTINGS.iter().filter(|setting| setting.default != "none") {
            let told = format!("{:?}", config(&[setting.flag.unwrap(), setting.default], &[]));
            assert_eq!(told, plain, "{}", setting.variable);
        }
        assert!(config(&[], &[]).token.is_none());
    }

    #[test]
    fn a_flag_wins_over_its_variable() {
        let variables = [("SANDBOX_BASE_DIR", "/a"), ("SANDBOX_EXEC_TIMEOUT_SECONDS", "4")];
        assert_eq!(config(&[], &variables).base_dir, PathBuf::from("/a"));
        let config = config(&["--base-dir=/b", "--exec-timeout", "5"], &variables);
        assert_eq!((config.base_dir, config.api.exec_timeout_seconds), (PathBuf::from("/b"), 5.0));
    }

    #[track_caller]
    fn timeout(value: &str, expected: f64, warnings: usize) {
        let config = config(&[], &[("SANDBOX_EXEC_TIMEOUT_SECONDS", value)]);
        assert_eq!(
            (config.api.exec_timeout_seconds, config.warnings.len()),
            (expected, warnings),
            "{value:?}"
        );
        assert!(config.warnings.iter().all(|warning| warning.contains(&format!("{:?}", value.trim()))));
    }

    #[test]
    fn a_timeout_is_read_as_python_reads_a_float() {
        // CG-02, CG-04
        for (value, expected) in [
            (" 5 ", 5.0),
            ("5\n", 5.0),
            ("+5", 5.0),
            ("5.", 5.0),
            (".5", 0.5),
            ("1e3", 1000.0),
            ("1_000", 1000.0),
            ("1.7e308", 1.7e308),
        ] {
            timeout(value, expected, 0);
        }
    }

    #[test]
    fn a_timeout_that_is_none_is_a_warning_and_300() {
        // CG-03
        for value in [
            "5s", "", " ", "5,0", "0x10", "five", "5 5", "_5", "5_", "1__0", "0", "-1", "nan", "inf", "1e999",
        ] {
            timeout(value, 300.0, 1);
        }
        let variable = (OsString::from("SANDBOX_EXEC_TIMEOUT_SECONDS"), OsString::from_vec(b"\xff".to_vec()));
        let Ok(Invocation::Start(config)) = invocation([], [variable]) else { panic!("it should serve") };
        assert_eq!((config.api.exec_timeout_seconds, config.warnings.len()), (300.0, 1));
    }

    #[test]
    fn a_blank_base_directory_counts_as_unset() {
        assert_eq!(config(&[], &[("SANDBOX_BASE_DIR", "  ")]).base_dir, PathBuf::from("/app"));
        assert_eq!(config(&[], &[("SANDBOX_BASE_DIR", "  /b/  ")]).base_dir, PathBuf::from("/b/")); // EC-01
    }

    #[track_caller]
    fn refused(arguments: &[&str], variables: &[(&str, &str)], words: &str) {
        let error = invoke(arguments, variables).expect_err("it should be refused").to_string();
        assert!(error.contains(words) && error.lines().count() == 1, "{error:?}");
    }

    #[test]
    fn what_can_not_be_used_is_refused_in_one_sentence() {
        // CG-07
        for value in ["0", "65536", "-1", "abc", "8888x", "1.2.3.4", "[::1]", "host:80", ":", "1.2.3.4:0x1"] {
            refused(&[], &[("SANDBOX_LISTEN", value)], value);
            refused(&["--listen", value], &[], value);
        }
        refused(&["--exec-timeout", "soon"], &[], "soon");
        refused(&["--max-output", "+5"], &[], "+5");
        refused(&["--listen"], &[], "needs a value");
        refused(&["--lisen", "1"], &[], "--lisen");
        refused(&["run"], &[], "run");
        refused(&["serve", "x"], &[], "serve");
        refused(&["install"], &[], "directory");
        refused(&["install", "a", "b"], &[], "install");
        refused(&["healthcheck", "x"], &[], "healthcheck");
    }

    #[test]
    fn a_token_is_taken_from_a_variable_or_a_file_and_handed_to_no_command() {
        let with_token = config(&[], &[("SANDBOX_TOKEN", " s3cret\n"), ("OTHER", "1")]);
        assert_eq!(with_token.token, Token::new(b"s3cret").ok());
        assert_eq!(with_token.environment, [("OTHER".into(), "1".into())]);
        let file = std::env::temp_dir().join(format!("sandbox-runtime-token-{}", std::process::id()));
        std::fs::write(&file, "s3cret\n").unwrap();
        let path = file.to_str().unwrap();
        assert_eq!(config(&["--token-file", path], &[]).token, Token::new(b"s3cret").ok());
        refused(&[], &[("SANDBOX_TOKEN", "a"), ("SANDBOX_TOKEN_FILE", path)], "already");
        std::fs::write(&file, " \n").unwrap();
        refused(&[], &[("SANDBOX_TOKEN_FILE", path)], "empty");
        std::fs::remove_file(&file).unwrap();
        refused(&[], &[("SANDBOX_TOKEN_FILE", path)], path);
    }

    #[test]
    fn a_token_that_is_none_ends_the_start_and_is_not_told() {
        // AU-01
        for value in ["", "  ", "\n"] {
            refused(&[], &[("SANDBOX_TOKEN", value)], "empty");
        }
        refused(&[], &[("SANDBOX_TOKEN_FILE", "")], "SANDBOX_TOKEN_FILE");
        let error = invoke(&[], &[("SANDBOX_TOKEN", "hush hush")]).unwrap_err().to_string();
        assert!(error.contains("SANDBOX_TOKEN") && !error.contains("hush"), "{error}");
        refused(&["--token", "s3cret"], &[], "--token");
    }

    #[test]
    fn help_names_every_setting() {
        let Ok(Invocation::Print(help)) = invoke(&["--help"], &[]) else { panic!("no help") };
        for setting in &SETTINGS {
            for word in [setting.variable, setting.flag.unwrap_or_default(), setting.default, setting.meaning]
            {
                assert!(help.contains(word), "{word}");
            }
        }
    }

    #[test]
    fn the_other_commands_are_understood() {
        assert!(
            matches!(invoke(&["--version"], &[]), Ok(Invocation::Print(text)) if text.starts_with("sandbox-runtime "))
        );
        assert!(
            matches!(invoke(&["install", "/x"], &[]), Ok(Invocation::Install(path)) if path.as_os_str() == "/x")
        );
        let port = invoke(&["healthcheck", "--listen", "9000"], &[]);
        assert!(
            matches!(port, Ok(Invocation::Healthcheck(listen)) if listen == Listen::parse("9000").unwrap())
        );
    }
}

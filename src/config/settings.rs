//! The table of settings: one row a setting. The environment, the command line, `--help` and the
//! documentation's table follow it.
//!
//! A row parses its text into [`Values`], which holds the defaults until then. It does not know where the
//! text is from.

use super::value::{
    absolute_path, buffer_bytes, bytes, duration_or_zero, secret_in_file, text, timeout_seconds,
};
use crate::api::Token;
use crate::log::Level;
use crate::server::Listen;
use crate::{api, exec, server};
use std::ffi::OsStr;
use std::path::PathBuf;

/// Holds the secret. Only the server process gets it.
pub const TOKEN: &str = "SANDBOX_TOKEN";

/// One row of the table.
pub struct Setting {
    pub variable: &'static str,
    /// `None` for a secret: every user of the machine can read command lines.
    pub flag: Option<&'static str>,
    /// The placeholder for the value in `--help`.
    pub value: &'static str,
    /// `None` if the setting has no value by default.
    pub default: Option<&'static str>,
    pub help: &'static str,
    pub(super) blank: Blank,
    pub(super) on_invalid: OnInvalid,
    pub(super) set: fn(&mut Values, &OsStr) -> Result<(), String>,
}

/// How a variable that is set but blank is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blank {
    /// As if it were not set, as in `VARIABLE=${UNSET}`.
    Unset,
    /// As a value, which is invalid: a blank timeout or token is probably a mistake, and ignoring a blank
    /// token would turn authentication off.
    Invalid,
}

/// The consequence of an invalid variable. An invalid flag is always refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnInvalid {
    /// A warning, and the default.
    Warn,
    /// The server does not start: with another address or directory than the one asked for it is of no use.
    Refuse,
}

pub const SETTINGS: [Setting; 10] = [
    Setting {
        variable: "SANDBOX_LISTEN",
        flag: Some("--listen"),
        value: "[ADDRESS:]PORT",
        default: Some("8888"),
        help: "address to listen on; a bare port listens on all interfaces, IPv4 and IPv6",
        blank: Blank::Unset,
        on_invalid: OnInvalid::Refuse,
        set: |values, given| {
            values.listen = Listen::parse(text(given)?)?;
            Ok(())
        },
    },
    Setting {
        variable: "SANDBOX_BASE_DIR",
        flag: Some("--base-dir"),
        value: "DIRECTORY",
        default: Some("/app"),
        help: "base directory: commands start in it, and file paths are relative to it",
        blank: Blank::Unset,
        on_invalid: OnInvalid::Refuse,
        set: |values, given| {
            values.base_dir = absolute_path(given)?;
            Ok(())
        },
    },
    Setting {
        variable: "SANDBOX_EXEC_TIMEOUT_SECONDS",
        flag: Some("--exec-timeout"),
        value: "SECONDS",
        default: Some("300"),
        help: "time limit of a command; a request can set a shorter one",
        blank: Blank::Invalid,
        on_invalid: OnInvalid::Warn,
        set: |values, given| {
            values.api.exec_timeout_seconds = timeout_seconds(text(given)?)?;
            Ok(())
        },
    },
    Setting {
        variable: "SANDBOX_MAX_OUTPUT_BYTES",
        flag: Some("--max-output"),
        value: "BYTES",
        default: Some("8388608"),
        help: "output kept of each stream, half from its start and half from its end; 0 keeps all of stdout",
        blank: Blank::Unset,
        on_invalid: OnInvalid::Refuse,
        set: |values, given| {
            let limit = buffer_bytes(text(given)?)?;
            values.api.output_bytes = Some(limit).filter(|limit| *limit > 0);
            Ok(())
        },
    },
    Setting {
        variable: "SANDBOX_OUTPUT_BUFFER_BYTES",
        flag: Some("--output-buffer"),
        value: "BYTES",
        default: Some("65536"),
        help: "stdout buffered before the response switches to streaming (chunked, no Content-Length)",
        blank: Blank::Unset,
        on_invalid: OnInvalid::Refuse,
        set: |values, given| {
            values.api.buffer_bytes = buffer_bytes(text(given)?)?;
            Ok(())
        },
    },
    Setting {
        variable: "SANDBOX_MAX_UPLOAD_BYTES",
        flag: Some("--max-upload"),
        value: "BYTES",
        default: Some("17179869184"),
        help: "maximum size of the body of an upload",
        blank: Blank::Unset,
        on_invalid: OnInvalid::Refuse,
        set: |values, given| {
            values.api.upload_bytes = bytes(text(given)?)?;
            Ok(())
        },
    },
    Setting {
        variable: "SANDBOX_SHUTDOWN_GRACE_SECONDS",
        flag: Some("--shutdown-grace"),
        value: "SECONDS",
        default: Some("10"),
        help: "how long in-flight requests may continue after SIGTERM before their commands are killed",
        blank: Blank::Unset,
        on_invalid: OnInvalid::Refuse,
        set: |values, given| {
            values.server.shutdown_grace = duration_or_zero(text(given)?)?;
            Ok(())
        },
    },
    Setting {
        variable: TOKEN,
        flag: None,
        value: "SECRET",
        default: None,
        help: "secret required by all endpoints except health, as Authorization: Bearer or X-API-Key",
        blank: Blank::Invalid,
        on_invalid: OnInvalid::Refuse,
        set: |values, given| {
            values.token = Some(Token::new(given.as_encoded_bytes())?);
            Ok(())
        },
    },
    Setting {
        variable: "SANDBOX_TOKEN_FILE",
        flag: Some("--token-file"),
        value: "FILE",
        default: None,
        help: "file with that secret; commands can read every file that the server can: prefer the variable",
        blank: Blank::Invalid,
        on_invalid: OnInvalid::Refuse,
        set: |values, given| {
            values.token_in_file = Some(Token::new(secret_in_file(given)?.trim_ascii())?);
            Ok(())
        },
    },
    Setting {
        variable: "SANDBOX_LOG",
        flag: Some("--log"),
        value: "LEVEL",
        default: Some("info"),
        help: "log level: off, error, warn, info or debug (one line per request)",
        blank: Blank::Invalid,
        on_invalid: OnInvalid::Warn,
        set: |values, given| {
            let expected = || format!("expected {}", Level::NAMES);
            values.log_level = Level::named(text(given)?).ok_or_else(expected)?;
            Ok(())
        },
    },
];

impl std::fmt::Debug for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.variable)
    }
}

/// The value of each setting.
#[derive(Debug)]
pub(super) struct Values {
    pub(super) base_dir: PathBuf,
    pub(super) listen: Listen,
    pub(super) log_level: Level,
    pub(super) api: api::Limits,
    pub(super) exec: exec::Limits,
    pub(super) server: server::Limits,
    pub(super) token: Option<Token>,
    pub(super) token_in_file: Option<Token>,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            base_dir: PathBuf::from("/app"),
            listen: Listen::default(),
            log_level: Level::Info,
            api: api::Limits::default(),
            exec: exec::Limits::default(),
            server: server::Limits::default(),
            token: None,
            token_in_file: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_column_is_the_default() {
        for setting in &SETTINGS {
            let Some(default) = setting.default else { continue };
            let mut values = Values::default();
            (setting.set)(&mut values, OsStr::new(default)).unwrap();
            assert_eq!(format!("{values:?}"), format!("{:?}", Values::default()), "{}", setting.variable);
        }
    }

    #[test]
    fn only_settings_with_a_default_may_be_ignored() {
        for setting in &SETTINGS {
            assert!(setting.on_invalid == OnInvalid::Refuse || setting.default.is_some(), "{setting:?}");
        }
    }

    #[test]
    fn blank_timeout_token_and_log_level_are_invalid() {
        let invalid: Vec<&str> = SETTINGS
            .iter()
            .filter(|setting| setting.blank == Blank::Invalid)
            .map(|setting| setting.variable)
            .collect();
        assert_eq!(
            invalid,
            ["SANDBOX_EXEC_TIMEOUT_SECONDS", "SANDBOX_TOKEN", "SANDBOX_TOKEN_FILE", "SANDBOX_LOG"]
        );
    }
}

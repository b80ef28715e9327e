//! The configuration of the server, from the command line and the environment, which only this folder reads.
//!
//! Two steps, so that no value is used before all are known: [`Invocation::parse`] collects the settings as
//! they were given, [`Config::resolve`] parses them. A flag overrides its variable; both must be valid.

mod cli;
mod settings;
mod value;

pub use cli::{Invocation, Verb};
pub use settings::{SETTINGS, Setting, TOKEN};

use crate::api::Token;
use crate::log::Level;
use crate::server::Listen;
use crate::{api, exec, server};
use settings::{Blank, OnInvalid, Values};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

/// The variable with the pid of the init process, which the server compares to that of its parent.
const PARENT: &str = "SANDBOX_PARENT_PID";

/// Everything that the server needs to know, with the limits of each layer.
#[derive(Debug)]
pub struct Config {
    pub base_dir: PathBuf,
    pub listen: Listen,
    pub log_level: Level,
    pub api: api::Limits,
    pub exec: exec::Limits,
    pub server: server::Limits,
    /// Required by every request except health checks.
    pub token: Option<Token>,
    /// Whether the parent of this process is the init process of this program.
    pub has_init_parent: bool,
    pub variables: Variables,
}

/// The environment of this process, divided by who may have it.
pub struct Variables {
    pub for_commands: Vec<(OsString, OsString)>,
    /// Passed by the init process to the server, and by the server to no command. The token is among them.
    pub for_server: Vec<(&'static str, OsString)>,
}

/// The settings as given, by source, not yet parsed.
pub struct RawSettings {
    /// In the order of the command line.
    flags: Vec<(&'static Setting, OsString)>,
    environment: Vec<(OsString, OsString)>,
}

/// A setting from one of the sources.
struct Given<'raw> {
    setting: &'static Setting,
    source: Source,
    value: &'raw OsStr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Variable,
    Flag,
}

/// A command line or environment that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    UnknownOption(String),
    UnknownCommand(OsString),
    UnexpectedArgument(OsString),
    MissingDirectory,
    MissingValue { flag: &'static str, value: &'static str },
    Invalid(Invalid),
    TwoTokens,
}

/// An invalid variable, instead of which the default is used.
#[derive(Debug, PartialEq, Eq)]
pub struct Warning {
    invalid: Invalid,
    default: Option<&'static str>,
}

/// A value that its setting does not accept.
#[derive(Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The variable or flag.
    name: &'static str,
    /// `None` for a secret.
    value: Option<String>,
    reason: String,
}

impl Config {
    /// Parses the settings.
    ///
    /// # Errors
    /// The first invalid flag, the first invalid variable without which the server is of no use, or two
    /// tokens.
    pub fn resolve(raw: RawSettings) -> Result<(Self, Vec<Warning>), Error> {
        let (mut values, mut warnings) = (Values::default(), Vec::new());
        for given in raw.in_order_of_precedence() {
            warnings.extend(given.apply(&mut values)?);
        }
        let Values { base_dir, listen, log_level, api, exec, server, token, token_in_file } = values;
        if token.is_some() && token_in_file.is_some() {
            return Err(Error::TwoTokens);
        }
        let token = token.or(token_in_file);
        let has_init_parent = raw.has_init_parent();
        let variables = Variables::split(raw.environment);
        let config =
            Self { base_dir, listen, log_level, api, exec, server, token, has_init_parent, variables };
        Ok((config, warnings))
    }
}

impl RawSettings {
    /// Each overrides those before it: the variables in the order of the table, then the flags.
    fn in_order_of_precedence(&self) -> impl Iterator<Item = Given<'_>> {
        let variables = SETTINGS.iter().filter_map(|setting| {
            let (_, value) = self.environment.iter().find(|(name, _)| name == setting.variable)?;
            Some(Given { setting, source: Source::Variable, value: value::trimmed(value) })
        });
        let flags = self.flags.iter().map(|(setting, value)| Given {
            setting,
            source: Source::Flag,
            value: value::trimmed(value),
        });
        variables.chain(flags)
    }

    fn has_init_parent(&self) -> bool {
        let parent = std::os::unix::process::parent_id().to_string();
        self.environment.iter().any(|(name, value)| name == PARENT && *value == *parent)
    }
}

impl Given<'_> {
    fn apply(&self, values: &mut Values) -> Result<Option<Warning>, Error> {
        if self.is_unset() {
            return Ok(None);
        }
        let Err(reason) = (self.setting.set)(values, self.value) else { return Ok(None) };
        let invalid = self.invalid(reason);
        match (self.source, self.setting.on_invalid) {
            (Source::Variable, OnInvalid::Warn) => {
                Ok(Some(Warning { invalid, default: self.setting.default }))
            }
            (Source::Variable, OnInvalid::Refuse) | (Source::Flag, _) => Err(Error::Invalid(invalid)),
        }
    }

    fn is_unset(&self) -> bool {
        self.source == Source::Variable && self.setting.blank == Blank::Unset && self.value.is_empty()
    }

    fn invalid(&self, reason: String) -> Invalid {
        let Setting { variable, flag, .. } = self.setting;
        let name = match self.source {
            Source::Variable => variable,
            Source::Flag => flag.unwrap_or(variable),
        };
        Invalid { name, value: flag.map(|_| self.value.to_string_lossy().into_owned()), reason }
    }
}

impl Variables {
    fn split(mut environment: Vec<(OsString, OsString)>) -> Self {
        let mut for_server = vec![(PARENT, std::process::id().to_string().into())];
        let token = environment.iter().find(|(name, _)| name == TOKEN);
        for_server.extend(token.map(|(_, token)| (TOKEN, token.clone())));
        environment.retain(|(name, _)| name != TOKEN && name != PARENT);
        Self { for_commands: environment, for_server }
    }
}

/// Without the values: the token is among them.
impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Variables").finish_non_exhaustive()
    }
}

/// Without the environment: the token may be in it.
impl fmt::Debug for RawSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawSettings").field("flags", &self.flags).finish_non_exhaustive()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownOption(flag) => write!(f, "unknown option {flag}")?,
            Self::UnknownCommand(name) => write!(f, "unknown command {:?}", name.to_string_lossy())?,
            Self::UnexpectedArgument(value) => {
                write!(f, "unexpected argument {:?}", value.to_string_lossy())?
            }
            Self::MissingDirectory => f.write_str("install requires a directory")?,
            Self::MissingValue { flag, value } => write!(f, "{flag} requires a value: {value}")?,
            Self::Invalid(invalid) => return invalid.fmt(f),
            Self::TwoTokens => return f.write_str("set SANDBOX_TOKEN or SANDBOX_TOKEN_FILE, not both"),
        }
        f.write_str(" (see --help)")
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.invalid.fmt(f)?;
        self.default.map_or(Ok(()), |default| write!(f, "; using {default}"))
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, reason } = self;
        match value {
            Some(value) => write!(f, "invalid {name} {value:?}: {reason}"),
            None => write!(f, "invalid {name}: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests;

//! What to run: the arguments of a command, the environment of all commands, and a working directory. Pure.

use super::tag::VARIABLE;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

/// One command to run.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    pub argv: &'a Argv,
    pub directory: BorrowedFd<'a>,
}

/// A program and its arguments: at least one string, none with a NUL byte.
#[derive(Debug, PartialEq, Eq)]
pub struct Argv(Vec<CString>);

/// Why a list of strings is not an argument vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidArgv {
    Empty,
    NulByte,
}

impl fmt::Display for InvalidArgv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the argument vector is empty",
            Self::NulByte => "an argument has a NUL byte",
        })
    }
}

impl std::error::Error for InvalidArgv {}

impl Argv {
    /// # Errors
    /// The list is empty, or a string has a NUL byte.
    pub fn new(arguments: Vec<String>) -> Result<Self, InvalidArgv> {
        let arguments: Result<Vec<CString>, _> = arguments.into_iter().map(CString::new).collect();
        let arguments = arguments.map_err(|_| InvalidArgv::NulByte)?;
        if arguments.is_empty() { Err(InvalidArgv::Empty) } else { Ok(Self(arguments)) }
    }

    pub fn arguments(&self) -> &[CString] {
        &self.0
    }

    /// The first string, as the client gave it.
    pub fn program(&self) -> &CStr {
        self.0.first().map_or(c"", CString::as_c_str)
    }
}

/// The environment variables of every command.
#[derive(Debug)]
pub struct Environment {
    variables: Vec<CString>,
    search_path: OsString,
}

/// Where programs are searched if PATH is not set, as in execvp(3).
const DEFAULT_SEARCH_PATH: &str = "/bin:/usr/bin";

impl Environment {
    /// Omits variables with a NUL byte, which execve(2) cannot pass on, and `SANDBOX_EXECUTION_ID`, of which
    /// each command gets its own.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut this = Self { variables: Vec::new(), search_path: OsString::from(DEFAULT_SEARCH_PATH) };
        for (name, value) in variables {
            if name == VARIABLE {
                continue;
            }
            let joined = [name.as_bytes(), b"=", value.as_bytes()].concat();
            let Ok(variable) = CString::new(joined) else { continue };
            this.variables.push(variable);
            if name == "PATH" {
                this.search_path = value;
            }
        }
        this
    }

    pub(super) fn variables(&self) -> &[CString] {
        &self.variables
    }

    pub(super) fn search_path(&self) -> &[u8] {
        OsStr::as_bytes(&self.search_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_argument_vectors_are_refused() {
        assert_eq!(Argv::new(vec![]), Err(InvalidArgv::Empty));
        assert_eq!(Argv::new(vec!["a".into(), "b\0c".into()]), Err(InvalidArgv::NulByte));
        assert_eq!(Argv::new(vec![String::new()]).unwrap().program(), c"");
    }

    #[test]
    fn the_execution_id_of_the_server_is_not_passed_on() {
        let variables =
            [(VARIABLE, "1"), ("A", "b"), ("C", "\0")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(Environment::new(variables).variables(), [c"A=b".to_owned()]);
    }
}

//! The words of a command and the environment it gets; where its program may be.
//!
//! Pure: which of the [candidates](Environment::candidates) exists is for others to find out. The order and the odd
//! cases (an empty PATH entry, an empty name) are those of Python's `subprocess`, which follows execvp(3).

use super::mark::VARIABLE;
use std::ffi::{CStr, CString, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

/// What is to be run: a program and its arguments, at least one word.
#[derive(Debug, PartialEq, Eq)]
pub struct Command {
    words: Vec<CString>,
}

/// Why words are not a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    Empty,
    /// A word has a NUL, which no argument can hold.
    NulByte,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "no words",
            Self::NulByte => "a word has a NUL byte",
        })
    }
}

impl std::error::Error for Malformed {}

impl Command {
    /// # Errors
    /// No words, or a NUL in one.
    pub fn new(words: Vec<String>) -> Result<Self, Malformed> {
        let words: Vec<CString> =
            words.into_iter().map(CString::new).collect::<Result<_, _>>().map_err(|_| Malformed::NulByte)?;
        if words.is_empty() { Err(Malformed::Empty) } else { Ok(Self { words }) }
    }

    pub fn words(&self) -> &[CString] {
        &self.words
    }

    /// The first word, as it was given.
    pub fn program(&self) -> &CStr {
        self.words.first().map_or(c"", CString::as_c_str)
    }
}

/// The variables that every command gets.
#[derive(Debug)]
pub struct Environment {
    variables: Vec<CString>,
    path: OsString,
}

impl Environment {
    /// Variables with a NUL can not be handed on and are left out, as is the id of an execution: each has its own.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut this = Self { variables: Vec::new(), path: OsString::from("/bin:/usr/bin") };
        for (name, value) in variables {
            if name == VARIABLE {
                continue;
            }
            let joined = [name.as_bytes(), b"=", value.as_bytes()].concat();
            let Ok(variable) = CString::new(joined) else { continue };
            this.variables.push(variable);
            if name == "PATH" {
                this.path = value;
            }
        }
        this
    }

    pub fn variables(&self) -> &[CString] {
        &self.variables
    }

    /// Where a program of this name may be, in the order in which to look: the name itself when it has a slash, else
    /// below each entry of PATH, where an empty entry is the working directory.
    pub fn candidates<'a>(&'a self, program: &'a CStr) -> Candidates<'a> {
        let name = program.to_bytes();
        let path = if name.contains(&b'/') { b"" } else { self.path.as_bytes() };
        Candidates { name: program, directories: Some(path), candidate: Vec::new() }
    }
}

/// The places, one after the other in the same memory.
#[derive(Debug)]
pub struct Candidates<'a> {
    name: &'a CStr,
    /// The entries of PATH that are left, if any.
    directories: Option<&'a [u8]>,
    candidate: Vec<u8>,
}

impl Candidates<'_> {
    pub fn following(&mut self) -> Option<&CStr> {
        let mut entries = self.directories?.splitn(2, |byte| *byte == b':');
        let directory = entries.next()?;
        self.directories = entries.next();
        self.candidate.clear();
        self.candidate.extend_from_slice(directory);
        if !(directory.is_empty() || directory.ends_with(b"/")) {
            self.candidate.push(b'/');
        }
        self.candidate.extend_from_slice(self.name.to_bytes_with_nul());
        // Neither a variable nor a name has a NUL within.
        CStr::from_bytes_with_nul(&self.candidate).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: Option<&str>, program: &CStr, expected: &[&CStr]) {
        let path = path.map(|path| (OsString::from("PATH"), OsString::from(path)));
        let environment = Environment::new(path);
        let mut candidates = environment.candidates(program);
        for name in expected {
            assert_eq!(candidates.following(), Some(*name));
        }
        assert_eq!(candidates.following(), None);
    }

    #[test]
    fn a_name_is_looked_for_below_each_path_entry_in_order() {
        check(Some("/a:/b/"), c"tool", &[c"/a/tool", c"/b/tool"]);
        check(None, c"tool", &[c"/bin/tool", c"/usr/bin/tool"]);
        check(Some("/a::"), c"tool", &[c"/a/tool", c"tool", c"tool"]);
        check(Some(""), c"tool", &[c"tool"]);
        check(Some("/a"), c"", &[c"/a/"]); // NF-08: a directory, so "Permission denied"
    }

    #[test]
    fn a_name_with_a_slash_is_taken_as_it_is() {
        check(Some("/a"), c"./tool", &[c"./tool"]);
        check(Some("/a"), c"/x/tool", &[c"/x/tool"]);
        check(Some("/a"), c"tool/", &[c"tool/"]);
    }

    #[test]
    fn words_without_a_command_are_refused() {
        assert_eq!(Command::new(vec![]), Err(Malformed::Empty));
        assert_eq!(Command::new(vec!["a".into(), "b\0c".into()]), Err(Malformed::NulByte));
        assert_eq!(Command::new(vec![String::new()]).unwrap().program(), c"");
    }
}

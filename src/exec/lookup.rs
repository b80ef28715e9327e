//! Where the program of a command may be: the order and the corner cases (an empty entry of PATH, an empty
//! name) are those of Python's `subprocess`, which follows execvp(3). Pure: whether a candidate exists is for
//! the caller to find out.

use super::spec::Environment;
use std::ffi::CStr;

/// The paths to try, one after the other in the same buffer.
#[derive(Debug)]
pub(super) struct Candidates<'a> {
    program: &'a CStr,
    /// The entries of PATH that have not been tried, if any.
    directories: Option<&'a [u8]>,
    path: Vec<u8>,
}

impl<'a> Candidates<'a> {
    /// The program itself if its name has a slash, else its name in each directory of PATH. An empty entry of
    /// PATH is the working directory.
    pub(super) fn new(program: &'a CStr, environment: &'a Environment) -> Self {
        let has_slash = program.to_bytes().contains(&b'/');
        let directories = if has_slash { b"" } else { environment.search_path() };
        Self { program, directories: Some(directories), path: Vec::new() }
    }

    pub(super) fn following(&mut self) -> Option<&CStr> {
        let mut entries = self.directories?.splitn(2, |byte| *byte == b':');
        let directory = entries.next()?;
        self.directories = entries.next();
        self.path.clear();
        self.path.extend_from_slice(directory);
        if !(directory.is_empty() || directory.ends_with(b"/")) {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(self.program.to_bytes_with_nul());
        // Neither a variable nor a name has a NUL inside.
        CStr::from_bytes_with_nul(&self.path).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[track_caller]
    fn check(path: Option<&str>, program: &CStr, expected: &[&CStr]) {
        let path = path.map(|path| (OsString::from("PATH"), OsString::from(path)));
        let environment = Environment::new(path);
        let mut candidates = Candidates::new(program, &environment);
        for name in expected {
            assert_eq!(candidates.following(), Some(*name));
        }
        assert_eq!(candidates.following(), None);
    }

    #[test]
    fn a_name_is_searched_in_each_directory_of_path_in_order() {
        check(Some("/a:/b/"), c"tool", &[c"/a/tool", c"/b/tool"]);
        check(None, c"tool", &[c"/bin/tool", c"/usr/bin/tool"]);
        check(Some("/a::"), c"tool", &[c"/a/tool", c"tool", c"tool"]);
        check(Some(""), c"tool", &[c"tool"]);
        check(Some("/a"), c"", &[c"/a/"]); // NF-08: a directory, so "Permission denied"
    }

    #[test]
    fn a_name_with_a_slash_is_used_as_it_is() {
        check(Some("/a"), c"./tool", &[c"./tool"]);
        check(Some("/a"), c"/x/tool", &[c"/x/tool"]);
        check(Some("/a"), c"tool/", &[c"tool/"]);
    }
}

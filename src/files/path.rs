//! A path below the base directory, parsed once from a client's bytes. Pure.
//!
//! Invariant: a [`RelPath`] is relative and has no NUL, no empty component, and no `.` except at its end.
//! `..` is kept: its meaning depends on the symlinks before it, which only the file system knows.
//!
//! A path that ends in a slash (or in `/.`) names a directory. That is kept as a last component `.`, so that
//! every resolver refuses it for a file (path_resolution(7)).

use super::Error;
use std::ffi::{CStr, CString};

/// A path relative to the base directory.
#[derive(Clone, Debug)]
pub struct RelPath {
    components: Vec<CString>,
    leaves_lexically: bool,
}

impl RelPath {
    /// Parses percent-decoded bytes. An absolute path is relative to the base directory (CF-11), and an empty
    /// one is the base directory itself.
    ///
    /// # Errors
    /// [`Error::Denied`] if it contains a NUL (CF-08).
    pub fn parse(path: &[u8]) -> Result<Self, Error> {
        let mut components = Vec::new();
        let mut depth = Some(0_usize);
        let mut last: &[u8] = b"";
        for component in path.split(|byte| *byte == b'/') {
            last = component;
            match component {
                b"" | b"." => continue,
                b".." => depth = depth.and_then(|depth| depth.checked_sub(1)),
                _ => depth = depth.map(|depth| depth.saturating_add(1)),
            }
            components.push(CString::new(component).map_err(|_| Error::Denied)?);
        }
        if matches!(last, b"" | b".") && !components.is_empty() {
            components.push(c".".to_owned());
        }
        Ok(Self { components, leaves_lexically: depth.is_none() })
    }

    /// The last component, unless it is missing, `.` or `..`.
    pub fn file_name(&self) -> Option<&[u8]> {
        self.split_file_name().map(|(_, name)| name.to_bytes())
    }

    /// The last component as in [`file_name`](Self::file_name), and those before it.
    pub(super) fn split_file_name(&self) -> Option<(&[CString], &CStr)> {
        let (last, parents) = self.components.split_last()?;
        if last.as_c_str() == c"." || last.as_c_str() == c".." { None } else { Some((parents, last)) }
    }

    pub(super) fn components(&self) -> &[CString] {
        &self.components
    }

    /// Whether the text alone, symlinks not considered, leads above the base directory at any point.
    pub(super) fn leaves_lexically(&self) -> bool {
        self.leaves_lexically
    }

    /// Its parent directories, the outermost first.
    pub(super) fn parents(&self) -> impl Iterator<Item = Self> {
        (1..self.components.len()).map(|length| Self {
            components: self.components.iter().take(length).cloned().collect(),
            leaves_lexically: self.leaves_lexically,
        })
    }

    /// The path of an entry of the directory that this path names.
    pub(super) fn child(&self, name: &CStr) -> Self {
        let mut components = self.components.clone();
        components.push(name.to_owned());
        Self { components, leaves_lexically: self.leaves_lexically }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: &[&str], leaves_lexically: bool) {
        let parsed = RelPath::parse(path.as_bytes()).unwrap();
        let components: Vec<_> = parsed.components().iter().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(components, expected, "{path:?}");
        assert_eq!(parsed.leaves_lexically(), leaves_lexically, "{path:?}");
    }

    #[test]
    fn a_path_is_split_into_components() {
        check("", &[], false);
        check(".", &[], false);
        check("/", &[], false);
        check("././/", &[], false);
        check("f.txt", &["f.txt"], false);
        check("d/x", &["d", "x"], false);
        check("d//x", &["d", "x"], false); // CF-11
        check("/etc/passwd", &["etc", "passwd"], false); // CF-11
        check("//etc/./passwd", &["etc", "passwd"], false);
        check("..%2fevil", &["..%2fevil"], false); // UP-02
        check("..\\evil", &["..\\evil"], false); // UP-02
        check("...", &["..."], false);
    }

    #[test]
    fn a_trailing_slash_or_dot_is_kept_as_a_dot() {
        check("d/", &["d", "."], false);
        check("d/.", &["d", "."], false);
        check("d/.//", &["d", "."], false);
        check("../", &["..", "."], true);
    }

    #[test]
    fn dot_dot_is_kept_and_counted() {
        check("d/..", &["d", ".."], false);
        check("d/../x", &["d", "..", "x"], false);
        check("..", &[".."], true);
        check("/../etc", &["..", "etc"], true);
        check("d/../../x", &["d", "..", "..", "x"], true);
        check("../base/x/y", &["..", "base", "x", "y"], true);
    }

    #[test]
    fn a_nul_is_denied() {
        for path in [&b"\0"[..], b"f.txt\0.png", b"d\0/x", b"d/\0"] {
            assert!(matches!(RelPath::parse(path), Err(Error::Denied)), "{path:?}");
        }
    }

    #[test]
    fn dots_are_not_a_file_name() {
        let name = |path: &str| RelPath::parse(path.as_bytes()).unwrap().file_name().map(<[u8]>::to_vec);
        assert_eq!(name("d/x"), Some(b"x".to_vec()));
        for path in ["", "/", ".", "..", "d/", "d/.", "d/.."] {
            assert_eq!(name(path), None, "{path:?}");
        }
    }
}

//! Quotes arguments into one command string that Python's `shlex.split` splits into exactly the same
//! arguments.

/// Every argument is quoted, even if it need not be: one rule is easier to trust than a list of exceptions.
pub(crate) fn quote(argv: &[String]) -> String {
    argv.iter().map(|arg| quoted(arg)).collect::<Vec<_>>().join(" ")
}

/// Only the single quote is special inside single quotes; it goes into double quotes.
fn quoted(arg: &str) -> String {
    format!("'{}'", arg.replace('\'', r#"'"'"'"#))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(argv: &[&str], expected: &str) {
        let argv: Vec<String> = argv.iter().map(|arg| (*arg).to_owned()).collect();
        assert_eq!(quote(&argv), expected);
    }

    /// Each right-hand side was split by Python 3.11's `shlex.split` into the left-hand side.
    #[test]
    fn each_argument_is_quoted() {
        check(&["ls"], "'ls'");
        check(&["ls", "-l", "a b"], "'ls' '-l' 'a b'");
        check(&[""], "''");
        check(&["a", "", "b"], "'a' '' 'b'");
        check(&["it's"], r#"'it'"'"'s'"#);
        check(&["'"], r#"''"'"''"#);
        check(&[r#"say "hi""#], r#"'say "hi"'"#);
        check(&[r"a\b\"], r"'a\b\'");
        check(&["$HOME `id` #x *"], "'$HOME `id` #x *'");
        check(&["tab\tnew\nline\r"], "'tab\tnew\nline\r'");
        check(&["naïve 😀"], "'naïve 😀'");
    }
}

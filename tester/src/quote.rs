//! Words to one command string, such that Python's `shlex.split` gives exactly these words back.

/// Every word is quoted, also where it would not need to be: one rule is easier to trust than a list of exceptions.
pub(crate) fn quote(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Inside single quotes nothing is special but the single quote itself, which therefore goes into double quotes.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r#"'"'"'"#))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[&str], expected: &str) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(quote(&words), expected);
    }

    /// The right-hand sides were split by Python 3.11's `shlex.split` and gave the left-hand sides.
    #[test]
    fn each_word_is_quoted() {
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

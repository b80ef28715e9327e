//! From a command line and an environment to a configuration.

use super::*;
use std::os::unix::ffi::OsStringExt;

fn resolve(arguments: &[&str], variables: &[(&str, &str)]) -> Result<(Config, Vec<Warning>), Error> {
    let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    match Invocation::parse(arguments.iter().map(OsString::from), variables)? {
        Invocation::Run(_, raw) => Config::resolve(raw),
        Invocation::Print(text) => panic!("{text}"),
    }
}

#[track_caller]
fn config(arguments: &[&str], variables: &[(&str, &str)]) -> Config {
    let (config, warnings) = resolve(arguments, variables).unwrap();
    assert_eq!(warnings, []);
    config
}

#[track_caller]
fn refused(arguments: &[&str], variables: &[(&str, &str)], expected: &str) {
    let error = resolve(arguments, variables).expect_err("valid").to_string();
    assert!(error.contains(expected) && error.lines().count() == 1, "{error:?}");
}

#[test]
fn flag_overrides_its_variable() {
    let variables = [("SANDBOX_BASE_DIR", "/a"), ("SANDBOX_EXEC_TIMEOUT_SECONDS", "4")];
    assert_eq!(config(&[], &variables).base_dir, PathBuf::from("/a"));
    let config = config(&["--base-dir=/b", "--exec-timeout", "5"], &variables);
    assert_eq!((config.base_dir, config.api.exec_timeout_seconds), (PathBuf::from("/b"), 5.0));
}

#[test]
fn last_flag_overrides_those_before_it() {
    assert_eq!(config(&["--base-dir=/a", "--base-dir=/b"], &[]).base_dir, PathBuf::from("/b"));
}

#[test]
fn flag_does_not_excuse_an_invalid_variable() {
    refused(&["--listen", "9000"], &[("SANDBOX_LISTEN", "abc")], "SANDBOX_LISTEN");
}

#[test]
fn values_are_trimmed() {
    assert_eq!(config(&[], &[("SANDBOX_BASE_DIR", "  /b/  ")]).base_dir, PathBuf::from("/b/")); // EC-01
    for value in [" 5 ", "5\n"] {
        let by_variable = config(&[], &[("SANDBOX_EXEC_TIMEOUT_SECONDS", value)]);
        let by_flag = config(&["--exec-timeout", value], &[]);
        assert_eq!((by_variable.api.exec_timeout_seconds, by_flag.api.exec_timeout_seconds), (5.0, 5.0));
    }
}

#[test]
fn blank_base_dir_is_unset() {
    assert_eq!(config(&[], &[("SANDBOX_BASE_DIR", "  ")]).base_dir, PathBuf::from("/app"));
}

#[track_caller]
fn check_default_timeout(value: OsString, shown: &str) {
    let environment = vec![(OsString::from("SANDBOX_EXEC_TIMEOUT_SECONDS"), value)];
    let raw = RawSettings { flags: Vec::new(), environment };
    let (config, warnings) = Config::resolve(raw).unwrap();
    assert_eq!(config.api.exec_timeout_seconds, 300.0);
    let warnings: Vec<String> = warnings.iter().map(Warning::to_string).collect();
    assert!(
        matches!(&warnings[..], [warning]
            if warning.starts_with(&format!("invalid SANDBOX_EXEC_TIMEOUT_SECONDS {shown:?}: "))
                && warning.ends_with("; using 300")),
        "{warnings:?}"
    );
}

#[test]
fn invalid_timeout_warns_and_uses_the_default() {
    // CG-03
    for value in
        ["5s", "", " ", "5,0", "0x10", "five", "5 5", "_5", "5_", "1__0", "0", "-1", "nan", "inf", "1e999"]
    {
        check_default_timeout(value.into(), value.trim());
    }
    check_default_timeout(OsString::from_vec(b"\xff".to_vec()), "\u{fffd}");
}

#[test]
fn invalid_log_level_warns_and_uses_the_default() {
    let (config, warnings) = resolve(&[], &[("SANDBOX_LOG", "loud")]).unwrap();
    let warnings: Vec<String> = warnings.iter().map(Warning::to_string).collect();
    let expected = "invalid SANDBOX_LOG \"loud\": expected off, error, warn, info or debug; using info";
    assert_eq!((config.log_level, warnings), (Level::Info, vec![expected.to_owned()]));
}

#[test]
fn invalid_values_are_refused_in_one_sentence() {
    // CG-07
    for value in ["0", "65536", "-1", "abc", "8888x", "1.2.3.4", "[::1]", "host:80", ":", "1.2.3.4:0x1"] {
        let expected = format!("{value:?}: expected PORT, ADDRESS:PORT or [ADDRESS]:PORT");
        refused(&[], &[("SANDBOX_LISTEN", value)], &format!("invalid SANDBOX_LISTEN {expected}"));
        refused(&["--listen", value], &[], &format!("invalid --listen {expected}"));
    }
    refused(&["--exec-timeout", "soon"], &[], "invalid --exec-timeout \"soon\": expected");
    refused(&["--max-output", "+5"], &[], "invalid --max-output \"+5\": expected");
    refused(&["--log", ""], &[], "invalid --log \"\": expected");
}

/// A file with this content while the value lives.
struct TokenFile(PathBuf);

impl TokenFile {
    fn new(name: &str, content: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sandbox-runtime-{name}-{}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // A test that failed earlier may have removed it.
        let _removed = std::fs::remove_file(&self.0);
    }
}

#[test]
fn token_is_hidden_from_commands() {
    let config = config(&[], &[("SANDBOX_TOKEN", " s3cret\n"), ("OTHER", "1")]);
    assert_eq!(config.token, Token::new(b"s3cret").ok());
    assert_eq!(config.variables.for_commands, [("OTHER".into(), "1".into())]);
    assert!(config.variables.for_server.contains(&(TOKEN, " s3cret\n".into())));
}

#[test]
fn token_may_be_in_a_file() {
    let file = TokenFile::new("token", "s3cret\n");
    for config in [
        config(&["--token-file", file.path()], &[]),
        config(&[], &[("SANDBOX_TOKEN_FILE", file.path())]),
        config(&["--token-file", file.path()], &[("SANDBOX_TOKEN_FILE", file.path())]),
    ] {
        assert_eq!(config.token, Token::new(b"s3cret").ok());
    }
    drop(file);
}

#[test]
fn two_tokens_are_refused() {
    let file = TokenFile::new("two-tokens", "s3cret");
    let expected = "set SANDBOX_TOKEN or SANDBOX_TOKEN_FILE, not both";
    refused(&[], &[("SANDBOX_TOKEN", "a"), ("SANDBOX_TOKEN_FILE", file.path())], expected);
    refused(&["--token-file", file.path()], &[("SANDBOX_TOKEN", "a")], expected);
}

#[test]
fn empty_or_missing_token_is_refused() {
    // AU-01
    for value in ["", "  ", "\n"] {
        refused(&[], &[("SANDBOX_TOKEN", value)], "empty");
    }
    refused(&[], &[("SANDBOX_TOKEN_FILE", "")], "SANDBOX_TOKEN_FILE");
    let file = TokenFile::new("empty-token", " \n");
    refused(&[], &[("SANDBOX_TOKEN_FILE", file.path())], "empty");
    let missing = file.path().to_owned();
    drop(file);
    refused(&[], &[("SANDBOX_TOKEN_FILE", &missing)], &missing);
}

#[test]
fn token_is_never_printed() {
    let error = resolve(&[], &[("SANDBOX_TOKEN", "hush hush")]).unwrap_err();
    let printed = format!("{error} {error:?}");
    assert!(printed.contains("SANDBOX_TOKEN") && !printed.contains("hush"), "{printed}");
    let variables = [(OsString::from(TOKEN), OsString::from("hush"))];
    let invocation = Invocation::parse([], variables).unwrap();
    assert!(!format!("{invocation:?}").contains("hush"));
    let config = config(&[], &[("SANDBOX_TOKEN", "hush")]);
    assert!(!format!("{config:?}").contains("hush"));
}

#[test]
fn help_and_version_need_no_valid_settings() {
    let variables = || [(OsString::from("SANDBOX_LISTEN"), OsString::from("abc"))];
    for argument in ["--help", "--version"] {
        let invocation = Invocation::parse([argument.into()], variables()).unwrap();
        assert!(matches!(invocation, Invocation::Print(_)), "{argument}");
    }
}

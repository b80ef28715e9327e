//! `/execute`: arguments, working directory, output and exit code.

use std::time::Duration;

use super::{Check, check};
use crate::response::{PREFIX, Stop, Verdict};
use crate::session::{KnownDifference, Session};

pub(super) const CHECKS: &[Check] = &[
    check("standard output is returned", stdout_is_returned),
    check("standard error is separate from standard output", stderr_is_separate),
    check("the exit code is returned, including codes above 128", exit_codes),
    check("signal N is exit code -N", signals),
    check("arguments are split as by Python's shlex.split", argument_splitting),
    check("the command is not run by a shell", no_shell),
    check("an unknown program is [Errno 2]", unknown_program),
    check("an unterminated quote or escape is reported", unterminated_quotes),
    check("an empty command fails with status 200", empty_command),
    check("a NUL in the command is reported as an embedded null byte", embedded_null),
    check("a file that is not executable is [Errno 13]", not_executable),
    check("a path through a file is [Errno 20]", not_a_directory),
    check("a script without #! is [Errno 8] and is not run by a shell", no_interpreter),
    check("an argument that exceeds the kernel limit is [Errno 7], in gVisor 36", argument_too_long),
    check("standard input is empty", stdin_is_empty),
    check("the working directory is the base directory", working_directory),
    check("invalid UTF-8 becomes U+FFFD", invalid_utf8),
    check("a character written in two pieces is decoded as one", split_character),
    check("CR and CRLF are kept", line_endings_are_kept),
    check("control characters are returned unchanged", control_characters),
    check("one megabyte on one stream does not block the other", full_stream),
    check("excess output is truncated in the middle and marked as truncated", truncation),
];

fn stdout_is_returned(s: &Session) -> Verdict {
    s.needs(&["echo", "printf", "true"])?;
    for (command, stdout) in [("echo hello world", "hello world\n"), ("printf x", "x"), ("true", "")] {
        s.execute(command)?.expect_result(stdout, "", 0)?;
    }
    Ok(())
}

// OU-16
fn stderr_is_separate(s: &Session) -> Verdict {
    s.needs(&["sh", "printf"])?;
    for (script, stdout, stderr) in [
        ("echo out; echo err >&2", "out\n", "err\n"),
        ("echo a >&2; echo b; echo c >&2; echo d", "b\nd\n", "a\nc\n"),
        (r#"printf "\n\n"; printf " " >&2"#, "\n\n", " "),
        ("exec 1>&2; echo x", "", "x\n"),
    ] {
        s.execute(&format!("sh -c '{script}'"))?.expect_result(stdout, stderr, 0)?;
    }
    Ok(())
}

// XC-05, XC-08
fn exit_codes(s: &Session) -> Verdict {
    s.needs(&["sh"])?;
    for code in [0, 1, 3, 127, 137, 255] {
        s.execute(&format!("sh -c 'exit {code}'"))?.expect_result("", "", code)?;
    }
    Ok(())
}

// XC-02, XC-07
fn signals(s: &Session) -> Verdict {
    s.needs(&["sh"])?;
    for signal in [9, 15] {
        s.execute(&format!("sh -c 'kill -{signal} $$'"))?.expect_result("", "", -signal)?;
    }
    Ok(())
}

// SH-01, SH-04, SH-06, SH-13 to SH-17, SH-20
fn argument_splitting(s: &Session) -> Verdict {
    s.needs(&["printf"])?;
    for (arguments, expected) in [
        ("a\tb\nc\rd  e", "<a><b><c><d><e>"),
        ("'a b' \"c d\" e\\ f", "<a b><c d><e f>"),
        ("'it'\\''s' \"it's\"", "<it's><it's>"),
        ("'' \"\"", "<><>"),
        ("a # b #c", "<a><#><b><#c>"),
        ("a\\\nb", "<a\nb>"),
        (r#""\d \$ \` \\ \"""#, r#"<\d \$ \` \ ">"#),
        (r"'\d\\' $'a\n'", r"<\d\\><$a\n>"),
        (
            "a\u{b}b\u{c}c\u{a0}d\u{3000}e\u{2028}f\u{feff}g",
            "<a\u{b}b\u{c}c\u{a0}d\u{3000}e\u{2028}f\u{feff}g>",
        ),
        ("😀 'ü' \u{200b}", "<😀><ü><\u{200b}>"),
    ] {
        s.execute(&format!("printf '<%s>' {arguments}"))?.expect_result(expected, "", 0)?;
    }
    s.execute("p\"rin\"t'f' hi")?.expect_result("hi", "", 0)
}

// EX-04
fn no_shell(s: &Session) -> Verdict {
    s.needs(&["printf"])?;
    let out = s.path("out");
    let command = format!("printf '<%s>' a | cat && $HOME > {out}; `id` * ~/x {{a,b}} &");
    let expected = format!("<a><|><cat><&&><$HOME><>><{out};><`id`><*><~/x><{{a,b}}><&>");
    let ran = s.execute(&command)?;
    ran.expect_result(&expected, "", 0)?;
    ran.exchange.expect(!s.exists(&out)?, "no file created by >")
}

// EX-13, SH-02, SH-18
fn unknown_program(s: &Session) -> Verdict {
    for (command, name) in [
        ("tester-no-such-program", "'tester-no-such-program'"),
        ("tester-no-such-program --flag 'a b'", "'tester-no-such-program'"),
        ("./tester-no-such-program", "'./tester-no-such-program'"),
        ("#comment", "'#comment'"),
        ("\\\n", r"'\n'"),
        ("\"tester's\"", "\"tester's\""),
    ] {
        s.execute(command)?.expect_failure(&format!("[Errno 2] No such file or directory: {name}"))?;
    }
    Ok(())
}

// SH-11, SH-12
fn unterminated_quotes(s: &Session) -> Verdict {
    for command in ["echo 'a", "echo \"a", "echo it's", "echo \"\\\""] {
        s.execute(command)?.expect_failure("No closing quotation")?;
    }
    s.execute("echo a\\")?.expect_failure("No escaped character")
}

// NF-08, NF-10. The text after the prefix is up to the runtime.
fn empty_command(s: &Session) -> Verdict {
    for command in ["", "   ", "\n\t", "''"] {
        let ran = s.execute(command)?;
        let failed = ran.outcome.stderr.starts_with(PREFIX) && ran.outcome.exit_code == 1;
        ran.exchange.expect(
            failed && ran.outcome.stdout.is_empty(),
            "exit_code 1, and stderr that begins with \"Failed to execute command: \"",
        )?;
    }
    Ok(())
}

fn embedded_null(s: &Session) -> Verdict {
    s.execute("tester-no-such-program a\0b")?.expect_failure("embedded null byte")
}

// NF-01
fn not_executable(s: &Session) -> Verdict {
    let path = s.file("plain", b"echo ran\n")?;
    s.execute(&path)?.expect_failure(&format!("[Errno 13] Permission denied: '{path}'"))
}

// NF-07
fn not_a_directory(s: &Session) -> Verdict {
    let path = s.file("plain", b"echo ran\n")?;
    s.execute(&format!("{path}/x"))?.expect_failure(&format!("[Errno 20] Not a directory: '{path}/x'"))
}

// NF-03
fn no_interpreter(s: &Session) -> Verdict {
    s.needs(&["chmod"])?;
    let path = s.file("script", b"echo ran\n")?;
    s.execute(&format!("chmod 755 {path}"))?.expect_result("", "", 0)?;
    let ran = s.execute(&path)?;
    if ran.expect_failure(&format!("[Errno 13] Permission denied: '{path}'")).is_ok() {
        return Err(Stop::Skip("the base directory is mounted noexec".to_owned()));
    }
    ran.expect_failure(&format!("[Errno 8] Exec format error: '{path}'"))
}

// NF-11. The limit is 32 pages, so a machine with larger pages accepts this argument.
fn argument_too_long(s: &Session) -> Verdict {
    s.needs(&["echo"])?;
    let ran = s.execute(&format!("echo {}", "a".repeat(131_072)))?;
    if ran.outcome.exit_code == 0 && ran.outcome.stdout.len() == 131_073 {
        return Err(Stop::Skip("the kernel accepts longer arguments".to_owned()));
    }
    ran.expect_failure(if is_gvisor(s)? {
        "[Errno 36] File name too long: 'echo'" // it copies arguments as it copies names
    } else {
        "[Errno 7] Argument list too long: 'echo'"
    })
}

/// The kernel of gVisor has one version: LinuxVersion in its pkg/sentry/kernel/version.
fn is_gvisor(s: &Session) -> Result<bool, Stop> {
    s.needs(&["cat"])?;
    let version = s.execute("cat /proc/version")?.outcome.stdout;
    Ok(version.contains("#1 SMP Sun Jan 10 15:06:54 PST 2016"))
}

// SI-03
fn stdin_is_empty(s: &Session) -> Verdict {
    s.needs(&["cat"])?;
    s.execute("cat")?.expect_result("", "", 0)
}

// EC-01
fn working_directory(s: &Session) -> Verdict {
    s.needs(&["cat"])?;
    let path = s.file("cwd.txt", b"here")?;
    s.execute(&format!("cat {path}"))?.expect_result("here", "", 0)
}

// OU-06, OU-13. Every byte of an encoded surrogate is replaced; a truncated sequence is replaced as a whole.
fn invalid_utf8(s: &Session) -> Verdict {
    s.needs(&["printf"])?;
    for (bytes, decoded) in [
        (r"ok\377\376end", "ok\u{fffd}\u{fffd}end"),
        (r"\355\240\275 \360\237\230", "\u{fffd}\u{fffd}\u{fffd} \u{fffd}"),
        (r"\300\200\370", "\u{fffd}\u{fffd}\u{fffd}"),
    ] {
        let ran = s.execute(&format!("printf '{bytes}'"))?;
        let observed = ran.outcome.stderr.contains("codec can't decode") && ran.outcome.exit_code == 1;
        s.allow(ran.expect_result(decoded, "", 0), KnownDifference { name: "difference 4", observed })?;
    }
    Ok(())
}

// OU-07
fn split_character(s: &Session) -> Verdict {
    s.needs(&["sh", "printf", "sleep"])?;
    s.execute(r#"sh -c 'printf "\303"; sleep 0.3; printf "\251"'"#)?.expect_result("é", "", 0)?;
    let script = r#"printf "\360\237" >&2; sleep 0.2; printf "\230\200" >&2"#;
    s.execute(&format!("sh -c '{script}'"))?.expect_result("", "😀", 0)
}

// OU-09
fn line_endings_are_kept(s: &Session) -> Verdict {
    s.needs(&["sh", "printf", "sleep"])?;
    for (command, stdout, translated) in [
        (r"printf 'a\r\nb\rc'", "a\r\nb\rc", "a\nb\nc"),
        (r#"sh -c 'printf "a\r"; sleep 0.2; printf "\nb"'"#, "a\r\nb", "a\nb"),
    ] {
        let ran = s.execute(command)?;
        let observed = ran.outcome.stdout == translated;
        s.allow(ran.expect_result(stdout, "", 0), KnownDifference { name: "difference 4", observed })?;
    }
    Ok(())
}

// OU-12
fn control_characters(s: &Session) -> Verdict {
    s.needs(&["printf"])?;
    for (bytes, stdout) in [
        (r"\033[31m\001\010\177\t\042\134\000", "\x1b[31m\x01\x08\x7f\t\"\\\0"),
        (r"a\000b", "a\0b"),
        (r"\357\273\277x\357\277\276", "\u{feff}x\u{fffe}"),
        ("\u{2028}\u{2029}</script>", "\u{2028}\u{2029}</script>"),
    ] {
        s.execute(&format!("printf '{bytes}'"))?.expect_result(stdout, "", 0)?;
    }
    Ok(())
}

// OU-03
fn full_stream(s: &Session) -> Verdict {
    s.needs(&["sh", "head"])?;
    let zeroes = "\0".repeat(1_000_000);
    let ran = s.execute("sh -c 'head -c 1000000 /dev/zero >&2; echo done'")?;
    ran.expect_result("done\n", &zeroes, 0)?;
    ran.expect_within(Duration::from_secs(5))?;
    let ran = s.execute("sh -c 'head -c 1000000 /dev/zero; echo done >&2'")?;
    ran.expect_result(&zeroes, "done\n", 0)?;
    ran.expect_within(Duration::from_secs(5))
}

// OU-01
fn truncation(s: &Session) -> Verdict {
    s.needs(&["sh", "yes", "head"])?;
    const OUTPUT_BYTES: usize = 1 << 26;
    let ran =
        s.execute(&format!("sh -c 'echo first; yes 0123456789abcde | head -c {OUTPUT_BYTES}; echo last'"))?;
    let outcome = &ran.outcome;
    let observed = !outcome.truncated && outcome.stdout.len() == OUTPUT_BYTES + "first\nlast\n".len();
    let ends_kept = outcome.stdout.starts_with("first\n") && outcome.stdout.ends_with("last\n");
    let is_truncated = outcome.truncated && outcome.stdout.len() < OUTPUT_BYTES;
    let result = ran.exchange.expect(
        is_truncated && ends_kept && outcome.exit_code == 0,
        "the beginning and the end of the output, and \"truncated\":true",
    );
    s.allow(result, KnownDifference { name: "difference 5", observed })
}

//! What a command is given, and what comes back from it.

use std::time::Duration;

use super::{Check, check};
use crate::answer::{PREFIX, Stop, Verdict};
use crate::session::{Reference, Session};

pub(super) const CHECKS: &[Check] = &[
    check("standard output comes back", output_comes_back),
    check("standard error is kept apart from standard output", streams_are_apart),
    check("the exit code comes back, above 128 too", exit_codes),
    check("a signal N is exit code -N", signals),
    check("words are split as Python's shlex.split does", words),
    check("no shell reads the command", no_shell),
    check("an unknown program is [Errno 2]", unknown_program),
    check("a quote or escape that does not end is named", unfinished_quotes),
    check("an empty command fails and the answer is still 200", empty_command),
    check("a NUL in the command is an embedded null byte", embedded_null),
    check("a file that is not executable is [Errno 13]", not_executable),
    check("a path through a file is [Errno 20]", not_a_directory),
    check("a script without #! is [Errno 8], not run by a shell", no_interpreter),
    check("a word too long for the kernel is [Errno 7]", too_long),
    check("standard input is empty", stdin_is_empty),
    check("the working directory is the base directory", working_directory),
    check("invalid UTF-8 becomes U+FFFD", invalid_utf8),
    check("a character written in two pieces stays whole", split_character),
    check("CR and CRLF stay", line_ends_stay),
    check("control bytes come back as they were", control_bytes),
    check("a megabyte on standard error does not block", large_stderr),
    check("a flood of output is cut in the middle and says so", flood),
];

fn output_comes_back(s: &Session) -> Verdict {
    s.needs(&["echo"])?;
    s.execute("echo hello world")?.is("hello world\n", "", 0)
}

// OU-16
fn streams_are_apart(s: &Session) -> Verdict {
    s.needs(&["sh"])?;
    s.execute("sh -c 'echo out; echo err >&2'")?.is("out\n", "err\n", 0)
}

// XC-05, XC-08
fn exit_codes(s: &Session) -> Verdict {
    s.needs(&["sh"])?;
    for code in [0, 1, 3, 127, 137, 255] {
        s.execute(&format!("sh -c 'exit {code}'"))?.is("", "", code)?;
    }
    Ok(())
}

// XC-02, XC-07
fn signals(s: &Session) -> Verdict {
    s.needs(&["sh"])?;
    for signal in [9, 15] {
        s.execute(&format!("sh -c 'kill -{signal} $$'"))?.is("", "", -signal)?;
    }
    Ok(())
}

// SH-01, SH-04, SH-06, SH-13 to SH-17, SH-20
fn words(s: &Session) -> Verdict {
    s.needs(&["printf"])?;
    for (words, expected) in [
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
        s.execute(&format!("printf '<%s>' {words}"))?.is(expected, "", 0)?;
    }
    s.execute("p\"rin\"t'f' hi")?.is("hi", "", 0)
}

// EX-04
fn no_shell(s: &Session) -> Verdict {
    s.needs(&["printf"])?;
    let out = s.path("out");
    let command = format!("printf '<%s>' a | cat && $HOME > {out}; `id` * ~/x {{a,b}} &");
    let expected = format!("<a><|><cat><&&><$HOME><>><{out};><`id`><*><~/x><{{a,b}}><&>");
    let ran = s.execute(&command)?;
    ran.is(&expected, "", 0)?;
    ran.exchange.expect(!s.exists(&out)?, "no file made by the >")
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
        s.execute(command)?.could_not_run(&format!("[Errno 2] No such file or directory: {name}"))?;
    }
    Ok(())
}

// SH-11, SH-12
fn unfinished_quotes(s: &Session) -> Verdict {
    for command in ["echo 'a", "echo \"a", "echo it's", "echo \"\\\""] {
        s.execute(command)?.could_not_run("No closing quotation")?;
    }
    s.execute("echo a\\")?.could_not_run("No escaped character")
}

// NF-08, NF-10. What is wrong is said in the runtime's own words.
fn empty_command(s: &Session) -> Verdict {
    for command in ["", "   ", "\n\t", "''"] {
        let ran = s.execute(command)?;
        let failed = ran.outcome.stderr.starts_with(PREFIX) && ran.outcome.exit_code == 1;
        ran.exchange.expect(failed && ran.outcome.stdout.is_empty(), "exit code 1 and the usual prefix")?;
    }
    Ok(())
}

fn embedded_null(s: &Session) -> Verdict {
    s.execute("tester-no-such-program a\0b")?.could_not_run("embedded null byte")
}

// NF-01
fn not_executable(s: &Session) -> Verdict {
    let path = s.file("plain", b"echo ran\n")?;
    s.execute(&path)?.could_not_run(&format!("[Errno 13] Permission denied: '{path}'"))
}

// NF-07
fn not_a_directory(s: &Session) -> Verdict {
    let path = s.file("plain", b"echo ran\n")?;
    s.execute(&format!("{path}/x"))?.could_not_run(&format!("[Errno 20] Not a directory: '{path}/x'"))
}

// NF-03
fn no_interpreter(s: &Session) -> Verdict {
    s.needs(&["chmod"])?;
    let path = s.file("script", b"echo ran\n")?;
    s.execute(&format!("chmod 755 {path}"))?.is("", "", 0)?;
    let ran = s.execute(&path)?;
    if ran.could_not_run(&format!("[Errno 13] Permission denied: '{path}'")).is_ok() {
        return Err(Stop::Skip("the base directory is mounted noexec".to_owned()));
    }
    ran.could_not_run(&format!("[Errno 8] Exec format error: '{path}'"))
}

// NF-11. The limit is 32 pages, so that a machine with larger pages takes the word.
fn too_long(s: &Session) -> Verdict {
    s.needs(&["echo"])?;
    let ran = s.execute(&format!("echo {}", "a".repeat(131_072)))?;
    if ran.outcome.exit_code == 0 && ran.outcome.stdout.len() == 131_073 {
        return Err(Stop::Skip("this machine takes longer words".to_owned()));
    }
    ran.could_not_run("[Errno 7] Argument list too long: 'echo'")
}

// SI-03
fn stdin_is_empty(s: &Session) -> Verdict {
    s.needs(&["cat"])?;
    s.execute("cat")?.is("", "", 0)
}

// EC-01
fn working_directory(s: &Session) -> Verdict {
    s.needs(&["cat"])?;
    let path = s.file("cwd.txt", b"here")?;
    s.execute(&format!("cat {path}"))?.is("here", "", 0)
}

// OU-06, OU-13
fn invalid_utf8(s: &Session) -> Verdict {
    s.needs(&["printf"])?;
    let ran = s.execute(r"printf 'ok\377\376end'")?;
    let seen = ran.outcome.stderr.contains("codec can't decode") && ran.outcome.exit_code == 1;
    s.differs(ran.is("ok\u{fffd}\u{fffd}end", "", 0), Reference { which: "difference 4", seen })
}

// OU-07
fn split_character(s: &Session) -> Verdict {
    s.needs(&["sh", "printf", "sleep"])?;
    s.execute(r#"sh -c 'printf "\303"; sleep 0.3; printf "\251"'"#)?.is("é", "", 0)
}

// OU-09
fn line_ends_stay(s: &Session) -> Verdict {
    s.needs(&["printf"])?;
    let ran = s.execute(r"printf 'a\r\nb\rc'")?;
    let seen = ran.outcome.stdout == "a\nb\nc";
    s.differs(ran.is("a\r\nb\rc", "", 0), Reference { which: "difference 4", seen })
}

// OU-12
fn control_bytes(s: &Session) -> Verdict {
    s.needs(&["printf"])?;
    s.execute(r"printf '\033[31m\001\010\177\t\042\134\000'")?.is("\x1b[31m\x01\x08\x7f\t\"\\\0", "", 0)
}

// OU-03
fn large_stderr(s: &Session) -> Verdict {
    s.needs(&["sh", "head"])?;
    let ran = s.execute("sh -c 'head -c 1000000 /dev/zero >&2; echo done'")?;
    ran.is("done\n", &"\0".repeat(1_000_000), 0)?;
    ran.within(Duration::from_secs(5))
}

// OU-01
fn flood(s: &Session) -> Verdict {
    s.needs(&["sh", "yes", "head"])?;
    const FLOOD_BYTES: usize = 1 << 26;
    let ran =
        s.execute(&format!("sh -c 'echo first; yes 0123456789abcde | head -c {FLOOD_BYTES}; echo last'"))?;
    let outcome = &ran.outcome;
    let seen = !outcome.truncated && outcome.stdout.len() == FLOOD_BYTES + "first\nlast\n".len();
    let ends_kept = outcome.stdout.starts_with("first\n") && outcome.stdout.ends_with("last\n");
    let cut = outcome.truncated && outcome.stdout.len() < FLOOD_BYTES;
    let result = ran
        .exchange
        .expect(cut && ends_kept && outcome.exit_code == 0, "both ends of it, and \"truncated\":true");
    s.differs(result, Reference { which: "difference 5", seen })
}

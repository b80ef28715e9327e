//! Command strings. Arguments that are quoted in any of four ways are split into themselves. White space
//! around a command has no effect. More arguments can follow every valid command.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_runtime::api::compat::shlex::split;

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let outcome = split(&text);
    assert_eq!(split(&format!(" \t\r\n{text}")), outcome);
    if let Ok(arguments) = &outcome {
        assert!(
            arguments.iter().map(|argument| argument.chars().count()).sum::<usize>() <= text.chars().count()
        );
        assert_eq!(split(&format!("{text} \n")).as_ref(), Ok(arguments));
        let more = [&arguments[..], &["x".to_owned()]].concat();
        assert_eq!(split(&format!("{text}\tx")), Ok(more));
    }

    let arguments: Vec<String> = text.split('\u{1}').map(str::to_owned).collect();
    for rotation in 0..4 {
        let quoted = arguments.iter().enumerate().map(|(index, argument)| match (index + rotation) % 4 {
            0 => format!("'{}'", argument.replace('\'', "'\"'\"'")),
            1 => format!("\"{}\"", argument.replace('\\', "\\\\").replace('"', "\\\"")),
            2 => format!("\"{}\"", minimally_escaped(argument)),
            _ if argument.is_empty() => "''".to_owned(),
            _ => argument.chars().flat_map(|character| ['\\', character]).collect(),
        });
        assert_eq!(split(&quoted.collect::<Vec<_>>().join(" ")).as_ref(), Ok(&arguments));
    }
});

/// The inside of double quotes, with a backslash only where one is needed: elsewhere it is an ordinary
/// character.
fn minimally_escaped(argument: &str) -> String {
    let mut quoted = String::new();
    for (index, character) in argument.char_indices() {
        let next = argument[index + character.len_utf8()..].chars().next();
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' if matches!(next, None | Some('"' | '\\')) => quoted.push_str("\\\\"),
            other => quoted.push(other),
        }
    }
    quoted
}

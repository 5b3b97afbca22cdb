//! Text of numbers and sizes for users, and safe display of stored text.

pub(crate) use recto::text::{bytes, counted, duration, grouped};

/// Returns the number of terminal columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    #[cfg(feature = "full")]
    let columns = unicode_width::UnicodeWidthStr::width(text);
    // A program with only `recto demo` counts characters, because the demo prints no wide
    // characters.
    #[cfg(not(feature = "full"))]
    let columns = text.chars().count();
    columns
}

/// Returns the number of terminal columns that a character takes.
pub(crate) fn character_width(character: char) -> usize {
    #[cfg(feature = "full")]
    let columns = unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
    #[cfg(not(feature = "full"))]
    let columns = usize::from(!character.is_control());
    columns
}

/// Formats a number of rows, such as `1 row`.
pub(crate) fn rows(number: u64) -> String {
    counted(number, "row", "rows")
}

/// Parses a number of bytes, such as `512`, `10MB`, `1.5 GB` or `64KiB`.
pub(crate) fn byte_count(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u32); 7] = [
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("kb", 1_000),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
        ("b", 1),
    ];
    let said = || format!("{text:?} is not a number of bytes, such as 512, 10MB or 64KiB");
    let lower = text.trim().to_ascii_lowercase();
    let (number, unit) = UNITS
        .into_iter()
        .find_map(|(name, unit)| Some((lower.strip_suffix(name)?, unit)))
        .unwrap_or((&lower, 1));
    let number = number.trim_end();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(said());
    }
    let bytes = number.parse::<f64>().map_err(|_| said())? * f64::from(unit);
    // Reject larger sizes, because `f64` represents every whole number only up to 2^53.
    #[expect(clippy::cast_sign_loss, reason = "it has no sign")]
    if bytes <= 2f64.powi(53) {
        Ok(bytes.round() as u64)
    } else {
        Err(said())
    }
}

/// Escapes control characters and line breaks of a text, so that stored text cannot control the
/// terminal. Also escapes characters that change the direction of text.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if needs_escape(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Escapes each line of a text as [`printable`] does, and keeps the line breaks.
pub(crate) fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

fn needs_escape(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_people_write_them() {
        let read = ["512", "0", "10MB", "1.5 kB", " 64KiB ", "1gib", "3b"].map(byte_count);
        assert_eq!(read, [512, 0, 10_000_000, 1_500, 65_536, 1 << 30, 3].map(Ok));
        for bad in [
            "",
            "MB",
            "-1",
            "1e3",
            "10 miles",
            "1.2.3",
            "inf",
            "99999999999999999999GB",
        ] {
            let refused = byte_count(bad);
            assert!(
                matches!(&refused, Err(said) if said.contains("not a number of bytes")),
                "{bad}"
            );
        }
    }

    #[test]
    fn escapes_terminal_control_characters() {
        assert_eq!(
            printable("a\u{1b}[2Jb\tc\nd\u{9b}e\u{202e}f é 漢"),
            r"a\u{1b}[2Jb\tc\nd\u{9b}e\u{202e}f é 漢"
        );
        assert_eq!(printable_lines("one\ntwo\u{7}"), "one\ntwo\\u{7}");
    }
}

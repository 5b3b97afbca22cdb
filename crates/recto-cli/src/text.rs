//! Numbers, times and foreign text as people read them.

pub(crate) use recto::text::{bytes, counted, duration, grouped};

/// Rows, counted.
pub(crate) fn rows(number: u64) -> String {
    counted(number, "row", "rows")
}

/// The seconds of a time as people write it: `90s`, `30m`, `12h`, `90d`, `4w`; none if it is no such time.
pub(crate) fn span_seconds(text: &str) -> Option<u64> {
    let minute = 60;
    let (hour, day) = (60 * minute, 24 * 60 * minute);
    let units = [("s", 1), ("m", minute), ("h", hour), ("d", day), ("w", 7 * day)];
    let (number, unit) = units
        .into_iter()
        .find_map(|(letter, unit)| Some((text.strip_suffix(letter)?, unit)))?;
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// Text on one line in which control characters are escaped, so that a terminal shows what is stored
/// and does not obey it. Marks that turn the direction of text are escaped too.
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

/// As [`printable`], line by line.
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
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(
            printable("a\u{1b}[2Jb\tc\nd\u{9b}e\u{202e}f é 漢"),
            r"a\u{1b}[2Jb\tc\nd\u{9b}e\u{202e}f é 漢"
        );
        assert_eq!(printable_lines("one\ntwo\u{7}"), "one\ntwo\\u{7}");
    }
}

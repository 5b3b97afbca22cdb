//! Numbers, sizes and times as text for people.

use std::time::Duration;

pub(super) use recto::text::{bytes, counted, grouped};

/// Formats a time in microseconds: `212 µs`, `3.4 ms`.
pub(super) fn duration(micros: u64) -> String {
    recto::text::duration(Duration::from_micros(micros))
}

/// Returns the text with its first letter in upper case.
pub(super) fn capital(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + characters.as_str()
}

/// Returns the first `most` characters of a text. Adds `…` if the text is longer.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Converts the line breaks of a text to LF, because browsers send CR LF for every line break of a
/// form field.
pub(super) fn lines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Returns whether a text has no control characters, except line breaks and tabs.
pub(super) fn is_plain(text: &str) -> bool {
    text.chars()
        .all(|character| !character.is_control() || matches!(character, '\n' | '\r' | '\t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("größe", 3), "grö…");
        assert_eq!(cut("grö", 3), "grö");
    }
}

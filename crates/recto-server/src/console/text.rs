//! Numbers, sizes and times as people read them.

use std::time::Duration;

pub(super) use recto::text::{bytes, counted, grouped};

/// A time in microseconds: `212 µs`, `3.4 ms`.
pub(super) fn duration(micros: u64) -> String {
    recto::text::duration(Duration::from_micros(micros))
}

/// A text that begins with a capital.
pub(super) fn capital(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + characters.as_str()
}

/// The first `most` characters of a text, with `…` after them if there are more.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A text with one kind of line end: browsers send CR LF whatever stood in the field.
pub(super) fn lines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Whether HTML can carry a text as it is.
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

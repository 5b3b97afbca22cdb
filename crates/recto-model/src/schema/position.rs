//! Lines and columns of positions in a schema text.

use super::declared::Span;

/// Position in a text, for people. Line and column are counted from 1, and columns are characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line number, counted from 1.
    pub line: usize,
    /// Column number in characters, counted from 1.
    pub column: usize,
}

/// Distance in bytes of the positions for which [`Lines`] stores the number of preceding
/// characters.
const COUNT_EVERY: usize = 512;

/// Index of a text that converts byte offsets to lines and columns. It stores the start of each
/// line, and the number of characters before every [`COUNT_EVERY`]th byte. These counts bound the
/// time of a conversion even in long lines.
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
    counts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(index, _)| index + 1))
            .collect();
        let mut counts = vec![0];
        for block in text.as_bytes().chunks(COUNT_EVERY) {
            counts.push(counts[counts.len() - 1] + characters(block));
        }
        Self { text, starts, counts }
    }

    /// Returns the line and column of a byte offset. For an offset after the text, returns the
    /// position of the text's end.
    pub(super) fn position(&self, offset: usize) -> Position {
        let offset = floor_char_boundary(self.text, offset);
        let line = self.starts.partition_point(|start| *start <= offset);
        Position {
            line,
            column: self.characters_before(offset) - self.characters_before(self.starts[line - 1]) + 1,
        }
    }

    fn characters_before(&self, offset: usize) -> usize {
        let block = offset / COUNT_EVERY;
        self.counts[block] + characters(&self.text.as_bytes()[block * COUNT_EVERY..offset])
    }

    /// Returns the text of a line (counted from 1), without its line end.
    pub(super) fn line(&self, line: usize) -> &'a str {
        let start = self.starts[line - 1];
        let end = self.starts.get(line).map_or(self.text.len(), |next| next - 1);
        self.text[start..end].trim_end_matches('\r')
    }

    /// Returns the number of characters of `span` that are in the first line of `span`, to mark
    /// them in a message.
    pub(super) fn marked(&self, span: &Span) -> usize {
        let start = floor_char_boundary(self.text, span.start);
        let end = floor_char_boundary(self.text, span.end.max(start));
        self.text[start..end]
            .split('\n')
            .next()
            .map_or(0, |first| first.chars().count())
    }
}

/// Returns the number of characters that begin in `bytes`, which are a part of a UTF-8 text.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count()
}

fn floor_char_boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

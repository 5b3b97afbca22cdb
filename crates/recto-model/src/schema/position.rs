//! Lines and columns of a text.

use super::declared::Span;

/// A position in a text, both 1-based; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

/// How far apart the counts of [`Lines`] stand, in bytes.
const COUNT_EVERY: usize = 512;

/// Where the lines of a text begin, and how many characters stand before every [`COUNT_EVERY`]th
/// byte: a position takes a bounded time to find, however long the lines.
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

    /// The position of a byte offset; of the text's end, for an offset beyond it.
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

    /// The text of a line, without its end.
    pub(super) fn line(&self, line: usize) -> &'a str {
        let start = self.starts[line - 1];
        let end = self.starts.get(line).map_or(self.text.len(), |next| next - 1);
        self.text[start..end].trim_end_matches('\r')
    }

    /// How many characters of the first line of `span` it marks.
    pub(super) fn marked(&self, span: &Span) -> usize {
        let start = floor_char_boundary(self.text, span.start);
        let end = floor_char_boundary(self.text, span.end.max(start));
        self.text[start..end]
            .split('\n')
            .next()
            .map_or(0, |first| first.chars().count())
    }
}

/// How many characters begin in these bytes of a text.
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

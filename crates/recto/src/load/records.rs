//! Split of a text into records, in batches of bounded size.
//!
//! CSV is read as in RFC 4180, with any separator. Quotes inside a cell that does not begin with a
//! quote are literal. A line ends in LF, CRLF, CR or CR CR LF. Some tools write CR CR LF when they
//! convert a CRLF again. If quotes do not match, only the line on which the record begins is
//! unreadable, and the next record begins on the next line. A missing quote therefore costs one
//! row.

use std::io::{self, Read};
use std::ops::Range;

use memchr::{memchr, memchr_iter, memchr2, memchr3};

use super::source::Format;
use crate::session::{CsvOptions, Delimiter, Escape};

/// Approximate size of the text of one batch, in bytes.
pub(super) const BATCH_BYTES: usize = 512 << 10;

/// Maximum number of records in a batch, so that the positions of short lines do not take many times the memory of
/// their text.
const MAX_BATCH_RECORDS: usize = 8 << 10;

/// Maximum size of a record in bytes. A longer line is an invalid row. The size is twice the limit of a store, because
/// JSON may need more bytes than the values.
pub(super) const MAX_RECORD_BYTES: usize = 32 << 20;

/// Number of bytes that are kept of a record that is too long, for the reject file.
const KEPT_BYTES: usize = 4 << 10;

/// Syntax of a record, by which the record is split into cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The record has cells without quotes between separators, or is a line of JSON.
    Plain,
    /// Some cells may be in quotes, and the quotes match.
    Quoted,
    /// The record cannot be split, for this reason.
    Unreadable(&'static str),
}

/// Record of a batch: the position of its text, and its syntax.
#[derive(Debug, Clone)]
pub(super) struct Record {
    /// Range of the record's text in the batch, without the end of the line.
    pub(super) text: Range<usize>,
    /// Line of the file on which the record begins, from 1.
    pub(super) line: u64,
    pub(super) shape: Shape,
}

/// Batch of whole records, with their text in one buffer.
#[derive(Debug, Default)]
pub(super) struct RecordBatch {
    pub(super) text: Vec<u8>,
    pub(super) records: Vec<Record>,
}

/// Error message for a file that is UTF-16 text.
pub(super) const NOT_UTF8: &str = "the file is in UTF-16; only UTF-8 can be loaded";

/// Characters that have a meaning in a CSV file, in addition to quotes and line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    /// Character that separates two cells of a record, such as a comma.
    pub(super) delimiter: u8,
    /// Escape character: the character after it loses its special meaning.
    pub(super) escape: Option<u8>,
}

impl Default for Dialect {
    fn default() -> Self {
        Self {
            delimiter: Delimiter::COMMA.byte(),
            escape: None,
        }
    }
}

impl Dialect {
    /// Returns the separator and the escape character that the options of a request set. Without
    /// options, the separator is a comma, and there is no escape character.
    pub(super) fn new(options: &CsvOptions) -> Self {
        let default = Self::default();
        Self {
            delimiter: options.delimiter.map_or(default.delimiter, Delimiter::byte),
            escape: options.escape.map(Escape::byte),
        }
    }

    /// Returns the position, from `at` on, of the separator or line end after a cell without quotes.
    fn cell_end(self, text: &[u8], mut at: usize) -> Option<usize> {
        let Some(escape) = self.escape else {
            let found = memchr3(self.delimiter, b'\n', b'\r', text.get(at..)?)?;
            return Some(at + found);
        };
        let has_meaning = |byte: u8| [escape, self.delimiter, b'\n', b'\r'].contains(&byte);
        loop {
            at += text.get(at..)?.iter().position(|byte| has_meaning(*byte))?;
            if text[at] != escape {
                return Some(at);
            }
            at += 2;
        }
    }

    /// Returns the position, from `at` on, of the next quote inside a cell in quotes.
    fn quote(self, text: &[u8], mut at: usize) -> Option<usize> {
        let Some(escape) = self.escape else {
            return Some(at + memchr(b'"', text.get(at..)?)?);
        };
        loop {
            at += memchr2(b'"', escape, text.get(at..)?)?;
            if text[at] == b'"' {
                return Some(at);
            }
            at += 2;
        }
    }

    /// Returns whether a cell has an escaped character.
    fn has_escape(self, cell: &[u8]) -> bool {
        self.escape.is_some_and(|escape| memchr(escape, cell).is_some())
    }
}

/// Splits a stream of text into batches of records.
pub(super) struct Splitter {
    format: Format,
    dialect: Dialect,
    batch_bytes: usize,
    max_record_bytes: usize,
    /// Text that was read. The part from `start` on has not been split yet.
    pending: Vec<u8>,
    start: usize,
    line: u64,
    at_start: bool,
    ended: bool,
    /// True if a line was too long and its rest has not been read yet.
    in_long_line: bool,
}

/// Result of the search for a record at the beginning of a text.
enum Found {
    /// The record has `length` bytes. With the end of its line, it has `consumed` bytes.
    Record {
        length: usize,
        consumed: usize,
        shape: Shape,
    },
    /// The record does not end in the given text.
    Incomplete,
}

impl Splitter {
    pub(super) fn new(format: Format, dialect: Dialect) -> Self {
        Self::with_sizes(format, dialect, BATCH_BYTES, MAX_RECORD_BYTES)
    }

    pub(super) fn with_sizes(
        format: Format,
        dialect: Dialect,
        batch_bytes: usize,
        max_record_bytes: usize,
    ) -> Self {
        Self {
            format,
            dialect,
            batch_bytes,
            max_record_bytes,
            pending: Vec::new(),
            start: 0,
            line: 1,
            at_start: true,
            ended: false,
            in_long_line: false,
        }
    }

    /// Returns the next batch, with at least one record; `None` at the end of the stream.
    pub(super) fn next_batch(&mut self, input: &mut dyn Read) -> io::Result<Option<RecordBatch>> {
        let mut wanted = self.batch_bytes;
        loop {
            self.fill(input, wanted)?;
            if self.in_long_line {
                self.skip_line();
            }
            let batch = self.split();
            if !batch.records.is_empty() {
                return Ok(Some(batch));
            }
            let left = self.rest().len();
            if self.ended && left == 0 {
                return Ok(None);
            }
            // The text has only blank lines, or a record that is longer than the
            // text, so read more.
            wanted = left.saturating_mul(2).max(self.batch_bytes);
        }
    }

    /// Returns the text that was read and has not been split yet.
    fn rest(&self) -> &[u8] {
        &self.pending[self.start..]
    }

    /// Reads until at least `wanted` bytes of text can be split, or until the stream ends.
    fn fill(&mut self, input: &mut dyn Read, wanted: usize) -> io::Result<()> {
        let wanted = wanted.min(self.max_record_bytes + self.batch_bytes);
        if self.ended || self.rest().len() >= wanted {
            return Ok(());
        }
        self.pending.drain(..self.start);
        self.start = 0;
        // A long record may have enlarged the buffer, so release that memory.
        self.pending.shrink_to(wanted);
        self.pending.reserve_exact(wanted - self.pending.len());
        while !self.ended && self.pending.len() < wanted {
            let missing = (wanted - self.pending.len()) as u64;
            self.ended = Read::take(&mut *input, missing).read_to_end(&mut self.pending)? == 0;
        }
        if self.at_start {
            self.at_start = false;
            if self.pending.starts_with(b"\xEF\xBB\xBF") {
                self.start = 3;
            } else if self.pending.starts_with(b"\xFF\xFE") || self.pending.starts_with(b"\xFE\xFF") {
                return Err(io::Error::new(io::ErrorKind::Unsupported, NOT_UTF8));
            }
        }
        Ok(())
    }

    /// Splits whole records from the beginning of the text that was read, up to the limits of one
    /// batch.
    fn split(&mut self) -> RecordBatch {
        let mut records = Vec::new();
        let begin = self.start;
        let mut kept = begin;
        while self.start < self.pending.len()
            && self.start - begin < self.batch_bytes
            && records.len() < MAX_BATCH_RECORDS
        {
            let rest = self.rest();
            let too_long = rest.len() > self.max_record_bytes;
            match find(self.format, self.dialect, rest, self.ended, too_long) {
                Found::Record {
                    length,
                    consumed,
                    shape,
                } => {
                    let blank = is_blank(self.format, &rest[..length]);
                    let lines = lines(&rest[..consumed], shape);
                    if !blank {
                        let text = self.start - begin..self.start - begin + length;
                        records.push(Record {
                            text,
                            line: self.line,
                            shape,
                        });
                        kept = self.start + length;
                    }
                    self.line += lines;
                    self.start += consumed;
                }
                Found::Incomplete if too_long => {
                    let length = KEPT_BYTES.min(rest.len());
                    let text = self.start - begin..self.start - begin + length;
                    let shape = Shape::Unreadable("the row is longer than a row may be");
                    records.push(Record {
                        text,
                        line: self.line,
                        shape,
                    });
                    // Keep carriage returns at the end of the text, because they may belong to
                    // the end of the line.
                    let ends = rest.iter().rev().take_while(|byte| **byte == b'\r');
                    let ends = ends.take(2).count();
                    kept = self.start + length;
                    self.in_long_line = true;
                    self.start = self.pending.len() - ends;
                }
                Found::Incomplete => break,
            }
        }
        RecordBatch {
            text: self.pending[begin..kept].to_vec(),
            records,
        }
    }

    /// Drops the rest of a line that was too long.
    fn skip_line(&mut self) {
        let rest = self.rest();
        let Some(at) = find_line_end(self.format, rest) else {
            self.start = self.pending.len();
            return;
        };
        match line_end(&rest[at..], self.ended) {
            // The text ends within a line end, for example between CR and LF. Keep the beginning of
            // the line end until more text is read.
            None => self.start += at,
            Some(length) => {
                self.start += at + length;
                self.in_long_line = false;
                self.line += 1;
            }
        }
    }
}

/// Returns the number of lines of a record. `consumed` is its text with the line end.
fn lines(consumed: &[u8], shape: Shape) -> u64 {
    if shape != Shape::Quoted {
        return 1;
    }
    let (mut lines, mut from) = (0, 0);
    while let Some(at) = memchr2(b'\n', b'\r', &consumed[from..]) {
        from += at;
        from += line_end(&consumed[from..], true).unwrap_or(1);
        lines += 1;
    }
    lines
}

fn is_blank(format: Format, text: &[u8]) -> bool {
    match format {
        Format::Csv => text.is_empty(),
        Format::Ndjson => text.iter().all(u8::is_ascii_whitespace),
    }
}

/// Finds the record at the beginning of `text`. `ended` means that nothing follows the text.
/// `too_long` means that the text is longer than a record may be, so a record with an open quote
/// counts as unreadable.
fn find(format: Format, dialect: Dialect, text: &[u8], ended: bool, too_long: bool) -> Found {
    let line = |shape| line(format, text, ended, shape);
    match format {
        Format::Ndjson => line(Shape::Plain),
        Format::Csv if is_plain(dialect, text) => line(Shape::Plain),
        Format::Csv => match quoted(dialect, text, ended) {
            Quoted::Ends { length, consumed } => Found::Record {
                length,
                consumed,
                shape: Shape::Quoted,
            },
            Quoted::Wrong(reason) => line(Shape::Unreadable(reason)),
            Quoted::Incomplete if too_long => line(Shape::Unreadable(UNCLOSED)),
            Quoted::Incomplete => Found::Incomplete,
        },
    }
}

/// Returns whether the first line of `text` has neither quotes nor escaped characters.
fn is_plain(dialect: Dialect, text: &[u8]) -> bool {
    let end = memchr3(b'\n', b'\r', b'"', text);
    let line = &text[..end.unwrap_or(text.len())];
    end.is_none_or(|end| text[end] != b'"') && !dialect.has_escape(line)
}

const UNCLOSED: &str = "a quote that is opened and never closed";
const AFTER_QUOTE: &str = "text between a closing quote and the next separator";
/// Reason why a record is unreadable, with a hint for files of cqlsh, where a backslash escapes a
/// quote.
const AFTER_ESCAPED_QUOTE: &str =
    r"text between a closing quote and the next separator (hint: --escape '\' if cells escape quotes by it)";

/// Finds the record that consists of the first line of `text`.
fn line(format: Format, text: &[u8], ended: bool, shape: Shape) -> Found {
    let (length, consumed) = match find_line_end(format, text) {
        Some(at) => match line_end(&text[at..], ended) {
            Some(length) => (at, at + length),
            None => return Found::Incomplete,
        },
        None if ended => (text.len(), text.len()),
        None => return Found::Incomplete,
    };
    let carriage_return = usize::from(format == Format::Ndjson && text[..length].ends_with(b"\r"));
    Found::Record {
        length: length - carriage_return,
        consumed,
        shape,
    }
}

/// Returns the position at which the first line of `text` ends. A single carriage return is white space in NDJSON.
fn find_line_end(format: Format, text: &[u8]) -> Option<usize> {
    match format {
        Format::Csv => memchr2(b'\n', b'\r', text),
        Format::Ndjson => memchr(b'\n', text),
    }
}

/// Returns the length of the line end at the beginning of `text`; `None` if the length depends on
/// the next bytes.
fn line_end(text: &[u8], ended: bool) -> Option<usize> {
    match text {
        [b'\r', b'\n', ..] => Some(2),
        [b'\r', b'\r', b'\n', ..] => Some(3),
        [b'\r'] | [b'\r', b'\r'] if !ended => None,
        _ => Some(1),
    }
}

enum Quoted {
    Ends { length: usize, consumed: usize },
    Wrong(&'static str),
    Incomplete,
}

/// Finds the end of the CSV record at the beginning of `text`, cell by cell.
fn quoted(dialect: Dialect, text: &[u8], ended: bool) -> Quoted {
    let mut at = 0;
    loop {
        if text.get(at) == Some(&b'"') {
            at = match closing_quote(dialect, text, at, ended) {
                Ok(Some(after)) => after,
                Ok(None) => return Quoted::Incomplete,
                Err(reason) => return Quoted::Wrong(reason),
            };
        } else {
            match dialect.cell_end(text, at) {
                Some(end) => at = end,
                None if ended => at = text.len(),
                None => return Quoted::Incomplete,
            }
        }
        match text.get(at) {
            Some(byte) if *byte == dialect.delimiter => at += 1,
            Some(_) => {
                return match line_end(&text[at..], ended) {
                    Some(length) => Quoted::Ends {
                        length: at,
                        consumed: at + length,
                    },
                    None => Quoted::Incomplete,
                };
            }
            None => {
                return Quoted::Ends {
                    length: text.len(),
                    consumed: text.len(),
                };
            }
        }
    }
}

/// Returns the position after the quoted cell at `at`, where a separator or the line end follows;
/// `None` if this position is not in `text`.
fn closing_quote(
    dialect: Dialect,
    text: &[u8],
    at: usize,
    ended: bool,
) -> Result<Option<usize>, &'static str> {
    let mut from = at + 1;
    loop {
        let Some(quote) = dialect.quote(text, from) else {
            return if ended { Err(UNCLOSED) } else { Ok(None) };
        };
        let after = quote + 1;
        match text.get(after) {
            Some(b'"') => from = after + 1,
            Some(b'\n' | b'\r') => return Ok(Some(after)),
            Some(byte) if *byte == dialect.delimiter => return Ok(Some(after)),
            None if ended => return Ok(Some(after)),
            None => return Ok(None),
            _ if dialect.escape.is_none() && text[..quote].ends_with(b"\\") => {
                return Err(AFTER_ESCAPED_QUOTE);
            }
            _ => return Err(AFTER_QUOTE),
        }
    }
}

/// Position of a cell in the text of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CsvCell {
    start: usize,
    end: usize,
    /// True if the cell is in quotes. The quotes are outside the range from `start` to `end`.
    is_quoted: bool,
    /// True if the cell has doubled quotes or escaped characters.
    is_escaped: bool,
}

impl CsvCell {
    /// Returns the cell as it is in the record, with its quotes.
    pub(super) fn written<'a>(&self, record: &'a str) -> &'a str {
        let quote = usize::from(self.is_quoted);
        &record[self.start - quote..self.end + quote]
    }

    /// Returns the text of the cell. If the cell has escaped characters, `scratch` stores the text
    /// without the escapes.
    pub(super) fn text<'a>(&self, record: &'a str, dialect: Dialect, scratch: &'a mut String) -> &'a str {
        let text = &record[self.start..self.end];
        if !self.is_escaped {
            return text;
        }
        scratch.clear();
        let mut characters = text.chars();
        while let Some(mut character) = characters.next() {
            let is_escape = dialect
                .escape
                .is_some_and(|escape| character == char::from(escape));
            // After an escape, or after the first quote of a doubled quote, the next
            // character stands for itself.
            if is_escape || (self.is_quoted && character == '"') {
                character = characters.next().unwrap_or(character);
            }
            scratch.push(character);
        }
        scratch
    }
}

/// Splits a readable record into cells. Keeps the first `most` cells, and returns the number of all cells.
pub(super) fn split_cells(
    record: &str,
    shape: Shape,
    dialect: Dialect,
    most: usize,
    cells: &mut Vec<CsvCell>,
) -> usize {
    cells.clear();
    let mut count = 0;
    let mut keep = |cell: CsvCell| {
        if count < most {
            cells.push(cell);
        }
        count += 1;
    };
    let text = record.as_bytes();
    let mut start = 0;
    if shape == Shape::Plain {
        let plain = |start, end| CsvCell {
            start,
            end,
            is_quoted: false,
            is_escaped: false,
        };
        for end in memchr_iter(dialect.delimiter, text) {
            keep(plain(start, end));
            start = end + 1;
        }
        keep(plain(start, text.len()));
        return count;
    }
    loop {
        let (cell, after) = cell_at(text, dialect, start);
        keep(cell);
        if after >= text.len() {
            return count;
        }
        start = after + 1;
    }
}

/// Returns the cell that begins at `start`, and the position of the separator or end after it.
fn cell_at(text: &[u8], dialect: Dialect, start: usize) -> (CsvCell, usize) {
    if text.get(start) != Some(&b'"') {
        let end = dialect.cell_end(text, start).unwrap_or(text.len());
        return (
            CsvCell {
                start,
                end,
                is_quoted: false,
                is_escaped: dialect.has_escape(&text[start..end]),
            },
            end,
        );
    }
    let mut from = start + 1;
    let mut is_doubled = false;
    loop {
        let end = dialect.quote(text, from).unwrap_or(text.len());
        if text.get(end + 1) == Some(&b'"') {
            is_doubled = true;
            from = end + 2;
        } else {
            return (
                CsvCell {
                    start: start + 1,
                    end,
                    is_quoted: true,
                    is_escaped: is_doubled || dialect.has_escape(&text[start..end]),
                },
                (end + 1).min(text.len()),
            );
        }
    }
}

#[cfg(test)]
mod tests;

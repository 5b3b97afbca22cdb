//! Text into records, a bounded piece at a time.
//!
//! CSV is read as RFC 4180 has it, with LF or CRLF at the end of lines and quotes taken literally
//! inside cells that do not begin with one. Where quotes do not add up, the record is the line it
//! begins on, and reading goes on with the next line: one lost quote costs one row.

use std::io::{self, Read};
use std::ops::Range;

use memchr::{memchr, memchr_iter, memchr2};

use super::source::Format;

/// About how much text goes through the pipeline in one piece.
pub(super) const BATCH_BYTES: usize = 512 << 10;

/// The most records in one piece, so that what is kept of short lines is not many times their text.
const MAX_BATCH_RECORDS: usize = 8 << 10;

/// The longest record that is read; a longer line is a bad row. Twice what a store takes of a
/// record, since JSON may need more bytes than what it stands for.
pub(super) const MAX_RECORD_BYTES: usize = 32 << 20;

/// How much of a record that is too long is kept for the reject file.
const KEPT_BYTES: usize = 4 << 10;

/// What is known of a record before its cells are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Nothing special: cells are what stands between commas; or a line of JSON.
    Plain,
    /// Some cells may be in quotes, which add up.
    Quoted,
    /// It cannot be taken apart, and why.
    Unreadable(&'static str),
}

/// One record's place in its batch.
#[derive(Debug, Clone)]
pub(super) struct Record {
    /// Its text, without the end of the line.
    pub(super) text: Range<usize>,
    /// The line of the file it begins on, from 1.
    pub(super) line: u64,
    pub(super) shape: Shape,
}

/// Whole records in one buffer.
#[derive(Debug, Default)]
pub(super) struct RecordBatch {
    pub(super) text: Vec<u8>,
    pub(super) records: Vec<Record>,
}

/// Why a file is not text that can be read.
pub(super) const NOT_UTF8: &str = "the file is in UTF-16; only UTF-8 can be loaded";

/// Splits a stream into records.
pub(super) struct Splitter {
    format: Format,
    batch_bytes: usize,
    max_record_bytes: usize,
    /// Text that was read, from `start` on not split yet.
    pending: Vec<u8>,
    start: usize,
    line: u64,
    at_start: bool,
    ended: bool,
    /// Whether the rest of a line that was too long is still to come.
    in_long_line: bool,
}

/// What stands at the beginning of some text.
enum Found {
    /// A record of `length` bytes, `consumed` with the end of its line.
    Record {
        length: usize,
        consumed: usize,
        shape: Shape,
    },
    /// It does not end in what there is.
    Incomplete,
}

impl Splitter {
    pub(super) fn new(format: Format) -> Self {
        Self::with_sizes(format, BATCH_BYTES, MAX_RECORD_BYTES)
    }

    pub(super) fn with_sizes(format: Format, batch_bytes: usize, max_record_bytes: usize) -> Self {
        Self {
            format,
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

    /// The next records, at least one; `None` at the end.
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
            // Blank lines only, or a record that is longer than what was read so far.
            wanted = left.saturating_mul(2).max(self.batch_bytes);
        }
    }

    /// What was read and not split yet.
    fn rest(&self) -> &[u8] {
        &self.pending[self.start..]
    }

    /// Reads until `wanted` bytes are there to be split.
    fn fill(&mut self, input: &mut dyn Read, wanted: usize) -> io::Result<()> {
        let wanted = wanted.min(self.max_record_bytes + self.batch_bytes);
        if self.ended || self.rest().len() >= wanted {
            return Ok(());
        }
        self.pending.drain(..self.start);
        self.start = 0;
        // One long record must not hold its memory for the rest of the file.
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

    /// Takes records that are whole off the front of what was read, as many as a batch holds.
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
            match find(self.format, rest, self.ended, too_long) {
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
                    kept = self.start + length;
                    self.in_long_line = true;
                    self.start = self.pending.len();
                }
                Found::Incomplete => break,
            }
        }
        RecordBatch {
            text: self.pending[begin..kept].to_vec(),
            records,
        }
    }

    /// Drops what is left of a line that was too long.
    fn skip_line(&mut self) {
        match memchr(b'\n', self.rest()) {
            None => self.start = self.pending.len(),
            Some(end) => {
                self.start += end + 1;
                self.in_long_line = false;
                self.line += 1;
            }
        }
    }
}

/// How many lines were consumed.
fn lines(consumed: &[u8], shape: Shape) -> u64 {
    match shape {
        Shape::Quoted => memchr_iter(b'\n', consumed).count() as u64,
        _ => 1,
    }
}

fn is_blank(format: Format, text: &[u8]) -> bool {
    match format {
        Format::Csv => text.is_empty(),
        Format::Ndjson => text.iter().all(u8::is_ascii_whitespace),
    }
}

/// The record at the beginning of `text`. `ended`: nothing follows; `too_long`: a record that does
/// not end in this text is not waited for.
fn find(format: Format, text: &[u8], ended: bool, too_long: bool) -> Found {
    match format {
        Format::Ndjson => line(text, ended, Shape::Plain),
        Format::Csv => match memchr2(b'\n', b'"', text) {
            Some(at) if text[at] == b'"' => match quoted(text, ended) {
                Quoted::Ends { length, consumed } => Found::Record {
                    length,
                    consumed,
                    shape: Shape::Quoted,
                },
                Quoted::Wrong(reason) => line(text, ended, Shape::Unreadable(reason)),
                Quoted::Incomplete if too_long => line(text, ended, Shape::Unreadable(UNCLOSED)),
                Quoted::Incomplete => Found::Incomplete,
            },
            _ => line(text, ended, Shape::Plain),
        },
    }
}

const UNCLOSED: &str = "a quote that is opened and never closed";
const AFTER_QUOTE: &str = "text between a closing quote and the next comma";

/// The line at the beginning of `text`.
fn line(text: &[u8], ended: bool, shape: Shape) -> Found {
    let (length, consumed) = match memchr(b'\n', text) {
        Some(end) => (end, end + 1),
        None if ended => (text.len(), text.len()),
        None => return Found::Incomplete,
    };
    Found::Record {
        length: without_carriage_return(&text[..length]),
        consumed,
        shape,
    }
}

fn without_carriage_return(line: &[u8]) -> usize {
    line.strip_suffix(b"\r").map_or(line.len(), <[u8]>::len)
}

enum Quoted {
    Ends { length: usize, consumed: usize },
    Wrong(&'static str),
    Incomplete,
}

/// The CSV record at the beginning of `text`, cell by cell.
fn quoted(text: &[u8], ended: bool) -> Quoted {
    let mut at = 0;
    loop {
        if text.get(at) == Some(&b'"') {
            at = match closing_quote(text, at, ended) {
                Ok(Some(after)) => after,
                Ok(None) => return Quoted::Incomplete,
                Err(reason) => return Quoted::Wrong(reason),
            };
        } else {
            match memchr2(b',', b'\n', &text[at..]) {
                Some(offset) => at += offset,
                None if ended => at = text.len(),
                None => return Quoted::Incomplete,
            }
        }
        match text.get(at) {
            Some(b',') => at += 1,
            Some(_) => {
                return Quoted::Ends {
                    length: without_carriage_return(&text[..at]),
                    consumed: at + 1,
                };
            }
            None => {
                return Quoted::Ends {
                    length: without_carriage_return(text),
                    consumed: text.len(),
                };
            }
        }
    }
}

/// Where the comma or the end of the line after the quoted cell at `at` stands; `None` if that is
/// not in `text`.
fn closing_quote(text: &[u8], at: usize, ended: bool) -> Result<Option<usize>, &'static str> {
    let mut from = at + 1;
    loop {
        let Some(offset) = memchr(b'"', &text[from..]) else {
            return if ended { Err(UNCLOSED) } else { Ok(None) };
        };
        let after = from + offset + 1;
        match (text.get(after), text.get(after + 1)) {
            (Some(b'"'), _) => from = after + 1,
            (Some(b',' | b'\n'), _) => return Ok(Some(after)),
            (Some(b'\r'), Some(b'\n')) => return Ok(Some(after + 1)),
            (Some(b'\r'), None) if ended => return Ok(Some(after + 1)),
            (None, _) if ended => return Ok(Some(after)),
            (None, _) | (Some(b'\r'), None) => return Ok(None),
            _ => return Err(AFTER_QUOTE),
        }
    }
}

/// One cell's place in its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CsvCell {
    start: usize,
    end: usize,
    /// Whether quotes inside are doubled.
    doubled: bool,
}

impl CsvCell {
    /// The cell's text; `scratch` holds it where quotes were doubled.
    pub(super) fn text<'a>(&self, record: &'a str, scratch: &'a mut String) -> &'a str {
        let text = &record[self.start..self.end];
        if !self.doubled {
            return text;
        }
        scratch.clear();
        let mut pieces = text.split("\"\"");
        scratch.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            scratch.push('"');
            scratch.push_str(piece);
        }
        scratch
    }
}

/// Takes a record that can be read apart into cells; keeps the first `most` and returns how many
/// there are.
pub(super) fn split_cells(record: &str, shape: Shape, most: usize, cells: &mut Vec<CsvCell>) -> usize {
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
            doubled: false,
        };
        for end in memchr_iter(b',', text) {
            keep(plain(start, end));
            start = end + 1;
        }
        keep(plain(start, text.len()));
        return count;
    }
    loop {
        let (cell, after) = cell_at(text, start);
        keep(cell);
        if after >= text.len() {
            return count;
        }
        start = after + 1;
    }
}

/// The cell that begins at `start`, and where the comma or the end after it stands.
fn cell_at(text: &[u8], start: usize) -> (CsvCell, usize) {
    if text.get(start) != Some(&b'"') {
        let end = memchr(b',', &text[start..]).map_or(text.len(), |offset| start + offset);
        return (
            CsvCell {
                start,
                end,
                doubled: false,
            },
            end,
        );
    }
    let mut from = start + 1;
    let mut doubled = false;
    loop {
        let end = memchr(b'"', &text[from..]).map_or(text.len(), |offset| from + offset);
        if text.get(end + 1) == Some(&b'"') {
            doubled = true;
            from = end + 2;
        } else {
            return (
                CsvCell {
                    start: start + 1,
                    end,
                    doubled,
                },
                (end + 1).min(text.len()),
            );
        }
    }
}

#[cfg(test)]
mod tests;

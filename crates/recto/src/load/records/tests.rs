#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

/// Reader that returns a few bytes at a time, so that records span several reads.
struct Dribble<'a>(&'a [u8], usize);

impl Read for Dribble<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let length = self.1.min(self.0.len()).min(bytes.len());
        bytes[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}

/// Returns the line, the text and the reason of unreadability of each record.
fn records_of(
    format: Format,
    text: &[u8],
    batch: usize,
    longest: usize,
) -> Vec<(u64, String, Option<&'static str>)> {
    let mut splitter = Splitter::with_sizes(format, Dialect::default(), batch, longest);
    let mut input = Dribble(text, 7);
    let mut records = Vec::new();
    while let Some(batch) = splitter.next_batch(&mut input).unwrap() {
        for record in &batch.records {
            let text = String::from_utf8_lossy(&batch.text[record.text.clone()]).into_owned();
            let reason = match record.shape {
                Shape::Unreadable(reason) => Some(reason),
                _ => None,
            };
            records.push((record.line, text, reason));
        }
    }
    records
}

fn cells_of(text: &[u8], batch: usize) -> Vec<Vec<String>> {
    cells_with(Dialect::default(), text, batch)
}

fn cells_with(dialect: Dialect, text: &[u8], batch: usize) -> Vec<Vec<String>> {
    let mut splitter = Splitter::with_sizes(Format::Csv, dialect, batch, MAX_RECORD_BYTES);
    let mut input = Dribble(text, 5);
    let (mut rows, mut cells, mut scratch) = (Vec::new(), Vec::new(), String::new());
    while let Some(batch) = splitter.next_batch(&mut input).unwrap() {
        for record in &batch.records {
            assert!(!matches!(record.shape, Shape::Unreadable(_)), "{record:?}");
            let text = std::str::from_utf8(&batch.text[record.text.clone()]).unwrap();
            split_cells(text, record.shape, dialect, usize::MAX, &mut cells);
            rows.push(
                cells
                    .iter()
                    .map(|cell| cell.text(text, dialect, &mut scratch).to_owned())
                    .collect(),
            );
        }
    }
    rows
}

#[test]
fn lines_end_in_lf_or_crlf_and_blank_ones_are_no_records() {
    let text = b"\xEF\xBB\xBFa,b\r\n\r\n1,2\n\n3,4";
    let records = records_of(Format::Csv, text, 4, 100);
    let expected = [(1, "a,b"), (3, "1,2"), (5, "3,4")].map(|(line, text)| (line, text.to_owned(), None));
    assert_eq!(records, expected);
}

#[test]
fn an_escaped_character_has_no_meaning() {
    let dialect = Dialect {
        escape: Some(b'\\'),
        ..Dialect::default()
    };
    // Python's csv module writes text of this form for cqlsh. The last cell ends in a backslash.
    let text = b"id,text\n1,\"say \\\"hi\\\", \\\\n\"\n2,a\\,b\\\nc\n3,\"x\"\"y\"\n4,\\\"\n5,z\\\\";
    let expected = [
        ["id", "text"],
        ["1", "say \"hi\", \\n"],
        ["2", "a,b\nc"],
        ["3", "x\"y"],
        ["4", "\""],
        ["5", "z\\"],
    ];
    for batch in [1, 2, 3, 7, 1_000] {
        assert_eq!(cells_with(dialect, text, batch), expected, "{batch}");
    }
}

#[test]
fn a_backslash_before_a_quote_is_named() {
    let records = records_of(Format::Csv, b"1,\"say \\\"hi\\\"\"\n2,\"a\"b\n", 100, 100);
    let reasons: Vec<_> = records.iter().map(|(_, _, reason)| *reason).collect();
    assert_eq!(reasons, [Some(AFTER_ESCAPED_QUOTE), Some(AFTER_QUOTE)]);
}

#[test]
fn lines_end_in_cr_or_cr_cr_lf() {
    for end in ["\r", "\r\r\n", "\r\n", "\n"] {
        let text = ["a,b", "1,\"x", "y\"", "", "2,\"lost", "3,z"].join(end);
        for batch in [1, 2, 3, 1_000] {
            let records = records_of(Format::Csv, text.as_bytes(), batch, 100);
            let quoted = format!("1,\"x{end}y\"");
            let expected = [
                (1, "a,b", None),
                (2, quoted.as_str(), None),
                (5, "2,\"lost", Some(UNCLOSED)),
                (6, "3,z", None),
            ];
            let expected = expected.map(|(line, text, reason)| (line, text.to_owned(), reason));
            assert_eq!(records, expected, "{end:?} {batch}");
        }
    }
}

#[test]
fn a_long_line_ends_at_a_cr() {
    for end in ["\r", "\r\r\n", "\r\n"] {
        let long = "x".repeat(1_000);
        let text = ["1", &long, "2", ""].join(end);
        for batch in 1..20 {
            let records = records_of(Format::Csv, text.as_bytes(), batch, 64);
            let lines: Vec<(u64, bool)> = records
                .iter()
                .map(|(line, _, reason)| (*line, reason.is_some()))
                .collect();
            assert_eq!(lines, [(1, false), (2, true), (3, false)], "{end:?} {batch}");
        }
    }
}

#[test]
fn cells_may_be_separated_by_another_character() {
    let text = "a\t\"b\tc\"\t\"\"\td,e";
    let dialect = Dialect {
        delimiter: b'\t',
        ..Dialect::default()
    };
    let mut splitter = Splitter::new(Format::Csv, dialect);
    let batch = splitter.next_batch(&mut text.as_bytes()).unwrap().unwrap();
    let (mut cells, mut scratch) = (Vec::new(), String::new());
    let record = &batch.records[0];
    assert_eq!(
        split_cells(text, record.shape, dialect, usize::MAX, &mut cells),
        4
    );
    let found: Vec<(String, &str)> = cells
        .iter()
        .map(|cell| {
            (
                cell.text(text, dialect, &mut scratch).to_owned(),
                cell.written(text),
            )
        })
        .collect();
    let expected = [("a", "a"), ("b\tc", "\"b\tc\""), ("", "\"\""), ("d,e", "d,e")];
    assert_eq!(found, expected.map(|(text, written)| (text.to_owned(), written)));
}

#[test]
fn a_lost_quote_costs_the_line_it_is_on() {
    let text = b"a,b\n1,\"lost\n2,\"kept\"\n3,\"two\nlines\"\n4,\"x\"y\n5,5\" disk\n6,\"open";
    for batch in [1, 3, 1000] {
        let records = records_of(Format::Csv, text, batch, 1_000);
        let expected = [
            (1, "a,b", None),
            (2, "1,\"lost", Some(AFTER_QUOTE)),
            (3, "2,\"kept\"", None),
            (4, "3,\"two\nlines\"", None),
            (6, "4,\"x\"y", Some(AFTER_QUOTE)),
            (7, "5,5\" disk", None),
            (8, "6,\"open", Some(UNCLOSED)),
        ];
        assert_eq!(
            records,
            expected.map(|(line, text, reason)| (line, text.to_owned(), reason))
        );
    }
}

#[test]
fn an_open_quote_is_not_followed_for_ever() {
    let mut text = b"1,\"open\n".to_vec();
    for number in 0..100 {
        text.extend_from_slice(format!("{number},x\n").as_bytes());
    }
    let records = records_of(Format::Csv, &text, 16, 64);
    assert_eq!(records[0], (1, "1,\"open".to_owned(), Some(UNCLOSED)));
    assert_eq!(records.len(), 101);
    assert_eq!(records[100], (101, "99,x".to_owned(), None));
}

#[test]
fn rejects_a_long_line_as_one_row_in_bounded_memory() {
    let mut text = b"1\n".to_vec();
    text.extend(std::iter::repeat_n(b'x', 10_000));
    text.extend_from_slice(b"\n2\n");
    for format in [Format::Csv, Format::Ndjson] {
        let records = records_of(format, &text, 16, 64);
        let lines: Vec<(u64, bool)> = records
            .iter()
            .map(|(line, _, reason)| (*line, reason.is_some()))
            .collect();
        assert_eq!(lines, [(1, false), (2, true), (3, false)]);
        assert!(records[1].1.len() <= KEPT_BYTES);
    }
}

#[test]
fn utf_16_is_refused() {
    let mut splitter = Splitter::new(Format::Csv, Dialect::default());
    let error = splitter.next_batch(&mut &b"\xFF\xFEa\0"[..]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}

proptest! {
    /// Checks that the output of a CSV writer is read back cell by cell, with any sizes of reads.
    #[test]
    fn cells_are_what_was_written(
        rows in prop::collection::vec(prop::collection::vec("[a,\"\r\n é]{0,6}", 2..4), 1..6),
        batch in 1usize..40,
        crlf in any::<bool>(),
        quote_all in any::<bool>(),
    ) {
        let mut writer = csv::WriterBuilder::new()
            .flexible(true)
            .terminator(if crlf { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') })
            .quote_style(if quote_all { csv::QuoteStyle::Always } else { csv::QuoteStyle::Necessary })
            .from_writer(Vec::new());
        for row in &rows {
            writer.write_record(row).unwrap();
        }
        let text = writer.into_inner().unwrap();
        prop_assert_eq!(cells_of(&text, batch), rows);
    }

    /// Checks that any bytes are split without panic and without loss: every byte except line ends
    /// and blank lines is in a record.
    #[test]
    fn any_bytes_split_alike_in_pieces_of_any_size(
        text in prop::collection::vec(prop::sample::select(b"a,\"\r\n\xFF".to_vec()), 0..60),
        batch in 1usize..20,
    ) {
        for format in [Format::Csv, Format::Ndjson] {
            let whole = records_of(format, &text, 1_000, 1_000);
            prop_assert_eq!(&records_of(format, &text, batch, 1_000), &whole);
        }
    }
}

//! Properties that hold for any loaded text. The crate `recto-fuzz` calls the functions of this
//! module.

use std::io::{self, Read};

use recto_model::{Type, cell};

use super::convert::CellRules;
use super::records::{Dialect, Shape, Splitter, split_cells};
use super::source::Format;

/// Maximum size of a record in bytes. It is smaller than in real loads, so that short inputs exceed
/// it.
const MAX_RECORD_BYTES: usize = 1 << 10;
/// Sizes of batches in bytes: one size that holds a whole input, and one that is smaller than most
/// records.
const BATCH_BYTES: [usize; 2] = [64 << 10, 5];

/// Record of an input: its line, its text, and its cells unless it is unreadable.
type Found = (u64, Vec<u8>, Option<Vec<String>>);

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

fn records(format: Format, text: &[u8], batch_bytes: usize) -> Option<Vec<Found>> {
    let mut splitter = Splitter::with_sizes(format, Dialect::default(), batch_bytes, MAX_RECORD_BYTES);
    let mut input = Dribble(text, batch_bytes);
    let (mut found, mut cells, mut scratch) = (Vec::new(), Vec::new(), String::new());
    while let Some(batch) = splitter.next_batch(&mut input).ok()? {
        assert!(!batch.records.is_empty());
        for record in &batch.records {
            let bytes = &batch.text[record.text.clone()];
            let split = match (record.shape, std::str::from_utf8(bytes)) {
                (Shape::Unreadable(_), _) | (_, Err(_)) => None,
                (shape, Ok(text)) => {
                    split_cells(text, shape, Dialect::default(), usize::MAX, &mut cells);
                    let texts = cells
                        .iter()
                        .map(|cell| cell.text(text, Dialect::default(), &mut scratch).to_owned());
                    Some(texts.collect())
                }
            };
            found.push((record.line, bytes.to_vec(), split));
        }
    }
    Some(found)
}

/// Checks the parser with a CSV file. Its records must not depend on the sizes of reads. If its
/// cells are written as CSV again, they must be read as the same cells.
///
/// # Panics
/// If one of these properties does not hold.
pub fn csv(text: &[u8]) {
    let Some(found) = lines_rise(Format::Csv, text) else {
        return;
    };
    for (_, _, cells) in found {
        let Some(cells) = cells else { continue };
        let quoted: Vec<String> = cells
            .iter()
            .map(|cell| format!("\"{}\"", cell.replace('"', "\"\"")))
            .collect();
        let line = quoted.join(",");
        if line.len() < MAX_RECORD_BYTES {
            let again = records(Format::Csv, line.as_bytes(), BATCH_BYTES[0]).expect("no file of UTF-16");
            assert_eq!(again.len(), 1, "{line:?}");
            assert_eq!(again[0].2.as_ref(), Some(&cells), "{line:?}");
        }
    }
}

/// Checks the parser with an NDJSON file. Its records must not depend on the sizes of reads.
///
/// # Panics
/// If this property does not hold.
pub fn ndjson(text: &[u8]) {
    lines_rise(Format::Ndjson, text);
}

/// Returns the records of a text, read in large and in small batches. Checks that the lines ascend and that the records
/// have no more bytes than the text.
fn lines_rise(format: Format, text: &[u8]) -> Option<Vec<Found>> {
    let [large, small] = BATCH_BYTES.map(|batch_bytes| records(format, text, batch_bytes));
    let (large, small) = (large?, small?);
    assert!(large.windows(2).all(|pair| pair[0].0 < pair[1].0));
    let bytes: usize = large.iter().map(|record| record.1.len()).sum();
    assert!(bytes <= text.len());
    // A record that is too long is detected at the end of a batch, so its neighbors may differ.
    // Compare only texts that are too short for such a record.
    if text.len() <= MAX_RECORD_BYTES {
        assert_eq!(large, small);
    }
    Some(large)
}

/// Checks that the fast path to a cell returns the same bytes as the general conversion. The first
/// byte of `data` chooses a type, and the rest is the text of a cell.
///
/// # Panics
/// If the results differ.
pub fn text_cell(data: &[u8]) {
    const TYPES: [Type; 10] = [
        Type::Text,
        Type::Ascii,
        Type::TinyInt,
        Type::SmallInt,
        Type::Int,
        Type::BigInt,
        Type::Double,
        Type::Timestamp,
        Type::Decimal,
        Type::Date,
    ];
    let Some((choice, text)) = data.split_first() else {
        return;
    };
    let ty = &TYPES[usize::from(*choice) % TYPES.len()];
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let mut found = vec![0xEE];
    let rules = CellRules::default();
    let outcome = rules.text_cell("field", ty, text, &mut found);
    let mut expected = vec![0xEE];
    let defined = rules
        .value("field", ty, text)
        .ok()
        .and_then(|value| cell::encode(ty, &value, &mut expected).ok());
    assert_eq!(outcome.is_ok(), defined.is_some(), "{ty}: {text:?}");
    assert_eq!(found, expected, "{ty}: {text:?}");
    if let Err(reason) = outcome {
        assert!(reason.text().starts_with(reason.class()));
    }
}

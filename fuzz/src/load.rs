//! Target for files that are loaded: CSV and NDJSON.

use recto::fuzzing;

pub(crate) const WORDS: &[&str] = &[
    "\"",
    "\"\"",
    ",",
    "\n",
    "\r\n",
    "\r",
    "\u{feff}",
    "2013-01-28T10:00:00Z",
    "2013-01-28",
    "-1.5",
    "1e3",
    "true",
    "{",
    "}",
    "\":",
    "null",
    "[",
    "]",
    "NaN",
];

/// Runs the case that the first byte selects, on the remaining bytes.
pub(crate) fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    match kind % 3 {
        0 => fuzzing::csv(rest),
        1 => fuzzing::ndjson(rest),
        _ => fuzzing::text_cell(rest),
    }
}

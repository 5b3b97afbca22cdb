//! JSON text of cells. Cells of common types are written without an intermediate JSON value.

use std::io::Write as _;

use super::{calendar, to_json};
use crate::Type;
use crate::cell::{self, CellError};

/// Appends the JSON of a cell (encoded value) of type `ty`, as UTF-8. The result equals that of
/// [`to_json`] for the decoded value, but common types need no intermediate value.
///
/// # Errors
/// The cell does not encode a value of the type. Discard the text that was already appended.
#[inline]
pub fn write_cell(ty: &Type, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    if write_common(ty, cell, out) {
        return Ok(());
    }
    let value = cell::decode(ty, cell)?;
    // Ignore the result, because writing to a buffer cannot fail.
    let _ = write!(out, "{}", to_json(ty, &value));
    Ok(())
}

/// Appends the JSON of a cell of a common type, without an intermediate value. Returns false if the
/// type is not common, or if the cell is invalid. The caller then decodes the cell, which reports
/// the error.
#[inline]
fn write_common(ty: &Type, cell: &[u8], out: &mut Vec<u8>) -> bool {
    match ty {
        Type::TinyInt => whole(cell, i8::from_be_bytes, |number| write_whole(number, out)),
        Type::SmallInt => whole(cell, i16::from_be_bytes, |number| write_whole(number, out)),
        Type::Int => whole(cell, i32::from_be_bytes, |number| write_whole(number, out)),
        Type::BigInt => whole(cell, i64::from_be_bytes, |number| {
            out.push(b'"');
            write_whole(number, out);
            out.push(b'"');
        }),
        Type::Timestamp => whole(cell, i64::from_be_bytes, |millis| {
            out.push(b'"');
            calendar::write_timestamp(millis, out);
            out.push(b'"');
        }),
        Type::Text if is_plain(cell) => {
            write_plain(cell, out);
            true
        }
        Type::Text => {
            let text = std::str::from_utf8(cell);
            text.map(|text| write_text(text, out)).is_ok()
        }
        _ => false,
    }
}

/// Calls `write` with the integer in a cell of `BYTES` bytes. Returns false if the cell has another
/// length.
#[inline]
fn whole<const BYTES: usize, N>(
    cell: &[u8],
    from_bytes: impl FnOnce([u8; BYTES]) -> N,
    write: impl FnOnce(N),
) -> bool {
    let bytes = <[u8; BYTES]>::try_from(cell);
    bytes.map(|bytes| write(from_bytes(bytes))).is_ok()
}

#[inline]
fn write_whole(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Returns whether the text consists of ASCII characters that need no escape in a JSON string.
#[inline]
fn is_plain(text: &[u8]) -> bool {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'"' && *byte != b'\\';
    text.iter().all(is_plain)
}

#[inline]
fn write_plain(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(text);
    out.push(b'"');
}

/// Appends a text as a JSON string, as UTF-8.
#[inline]
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    if is_plain(text.as_bytes()) {
        write_plain(text.as_bytes(), out);
    } else {
        let _ = write!(out, "{}", serde_json::Value::from(text));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::extremes;

    #[test]
    fn the_text_is_that_of_the_value() {
        let mut cells = 0;
        for ty in Type::ORDERABLE {
            for value in extremes::values(&ty) {
                let mut cell = Vec::new();
                cell::encode(&ty, &value, &mut cell).unwrap();
                let mut text = Vec::new();
                write_cell(&ty, &cell, &mut text).unwrap();
                let text = String::from_utf8(text).unwrap();
                assert_eq!(text, to_json(&ty, &value).to_string(), "{ty} {value:?}");
                cells += 1;
            }
        }
        assert!(cells > 100, "{cells}");
        assert!(write_cell(&Type::Int, &[1, 2], &mut Vec::new()).is_err());
        assert!(write_cell(&Type::Text, &[0xFF], &mut Vec::new()).is_err());
    }

    #[test]
    fn every_character_is_written_as_elsewhere() {
        for code in (0..0x3000).filter_map(char::from_u32) {
            let text = format!("a{code}b");
            let mut written = Vec::new();
            write_text(&text, &mut written);
            let written = String::from_utf8(written).unwrap();
            assert_eq!(written, serde_json::Value::from(text).to_string());
        }
    }
}

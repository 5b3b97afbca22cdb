//! The JSON text of cells, without a JSON value in between where the type has a short way.

use std::fmt::Write as _;

use super::{calendar, to_json};
use crate::Type;
use crate::cell::{self, CellError};

/// Appends the JSON of a cell of type `ty`: the text of what [`to_json`] makes of its value.
///
/// # Errors
/// The cell is not a value of the type; what was appended by then is of no use.
pub fn write_cell(ty: &Type, cell: &[u8], out: &mut String) -> Result<(), CellError> {
    if let Some(whole) = whole_number(ty, cell) {
        match ty {
            Type::BigInt => {
                out.push('"');
                out.push_str(itoa::Buffer::new().format(whole));
                out.push('"');
            }
            Type::Timestamp => {
                out.push('"');
                calendar::write_timestamp(whole, out);
                out.push('"');
            }
            _ => out.push_str(itoa::Buffer::new().format(whole)),
        }
        return Ok(());
    }
    if matches!(ty, Type::Text)
        && let Ok(text) = std::str::from_utf8(cell)
    {
        write_text(text, out);
        return Ok(());
    }
    let value = cell::decode(ty, cell)?;
    // Writing to a string cannot fail.
    let _ = write!(out, "{}", to_json(ty, &value));
    Ok(())
}

/// Appends a JSON string.
pub fn write_text(text: &str, out: &mut String) {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        let _ = write!(out, "{}", serde_json::Value::from(text));
    }
}

/// The number that a cell of a type of whole numbers holds; `None` for others, and for cells of
/// another length, whose error is the decoder's to tell.
fn whole_number(ty: &Type, cell: &[u8]) -> Option<i64> {
    match ty {
        Type::TinyInt => cell.try_into().ok().map(i8::from_be_bytes).map(i64::from),
        Type::SmallInt => cell.try_into().ok().map(i16::from_be_bytes).map(i64::from),
        Type::Int => cell.try_into().ok().map(i32::from_be_bytes).map(i64::from),
        Type::BigInt | Type::Timestamp => cell.try_into().ok().map(i64::from_be_bytes),
        _ => None,
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
                let mut text = String::new();
                write_cell(&ty, &cell, &mut text).unwrap();
                assert_eq!(text, to_json(&ty, &value).to_string(), "{ty} {value:?}");
                cells += 1;
            }
        }
        assert!(cells > 100, "{cells}");
        assert!(write_cell(&Type::Int, &[1, 2], &mut String::new()).is_err());
        assert!(write_cell(&Type::Text, &[0xFF], &mut String::new()).is_err());
    }

    #[test]
    fn every_character_is_written_as_elsewhere() {
        for code in (0..0x3000).filter_map(char::from_u32) {
            let text = format!("a{code}b");
            let mut written = String::new();
            write_text(&text, &mut written);
            assert_eq!(written, serde_json::Value::from(text).to_string());
        }
    }
}

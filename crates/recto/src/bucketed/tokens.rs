//! Page tokens of lists of buckets and of partitions. A token contains bounds of buckets and is not encrypted, because
//! every client that may list buckets sees these bounds.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use recto_buckets::PartitionsPosition;
use recto_buckets::list::Seek;
use recto_store::ScanPosition;

use crate::error::{Error, ErrorKind, Part, Result};

/// Version of the token format. Tokens are short-lived: after a change of the format, Recto rejects old
/// tokens, and a client lists again from the beginning.
const FORM: u8 = 1;
/// Maximum length of a token, in characters.
const MAX_CHARACTERS: usize = 256 << 10;

const AT: u8 = b'a';
const BEFORE: u8 = b'b';
const PARTITIONS: u8 = b'p';

/// Returns the token of a position in a list of buckets.
pub(super) fn of_seek(seek: &Seek) -> String {
    match seek {
        Seek::At(key) => token(AT, key),
        Seek::Before(edge) => token(BEFORE, edge.as_deref().unwrap_or_default()),
    }
}

/// Parses the token of a position in a list of buckets. The empty text is the beginning of the list.
///
/// # Errors
/// The text is not a token of a list of buckets.
pub(super) fn read_seek(text: &str) -> Result<Seek> {
    if text.is_empty() {
        return Ok(Seek::At(Vec::new()));
    }
    match read(text)? {
        (AT, key) => Ok(Seek::At(key)),
        (BEFORE, key) => Ok(Seek::Before(Some(key).filter(|key| !key.is_empty()))),
        _ => Err(wrong()),
    }
}

/// Returns the token of a position in a list of partitions.
pub(super) fn of_position(position: &PartitionsPosition) -> String {
    let mut content = position.skipped.to_be_bytes().to_vec();
    if let Some(after) = &position.after {
        content.push(1);
        content.extend(&after.0);
    }
    token(PARTITIONS, &content)
}

/// Parses the token of a position in a list of partitions. The empty text is the beginning of the list.
///
/// # Errors
/// The text is not a token of a list of partitions.
pub(super) fn read_position(text: &str) -> Result<PartitionsPosition> {
    if text.is_empty() {
        return Ok(PartitionsPosition::default());
    }
    let (PARTITIONS, content) = read(text)? else {
        return Err(wrong());
    };
    let (skipped, rest) = content.split_first_chunk().ok_or_else(wrong)?;
    let after = match rest.split_first() {
        None => None,
        Some((1, after)) => Some(ScanPosition(after.to_vec())),
        Some(_) => return Err(wrong()),
    };
    Ok(PartitionsPosition {
        after,
        skipped: u32::from_be_bytes(*skipped),
    })
}

fn token(kind: u8, content: &[u8]) -> String {
    BASE64.encode([&[FORM, kind], content].concat())
}

fn read(text: &str) -> Result<(u8, Vec<u8>)> {
    if text.len() > MAX_CHARACTERS {
        return Err(wrong());
    }
    let bytes = BASE64.decode(text).map_err(|_| wrong())?;
    match bytes.split_first_chunk() {
        Some(([FORM, kind], content)) => Ok((*kind, content.to_vec())),
        _ => Err(wrong()),
    }
}

#[cold]
fn wrong() -> Error {
    let message = "the page token does not belong to a list of buckets";
    Error::new(ErrorKind::InvalidCursor, message)
        .with_part(Part::Cursor)
        .with_hint("start at the first page, without a token")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        for seek in [
            Seek::At(Vec::new()),
            Seek::At(b"key".to_vec()),
            Seek::Before(None),
            Seek::Before(Some(b"e".to_vec())),
        ] {
            assert_eq!(read_seek(&of_seek(&seek)).unwrap(), seek);
        }
        for after in [None, Some(ScanPosition(b"there".to_vec()))] {
            let position = PartitionsPosition { after, skipped: 700 };
            assert_eq!(read_position(&of_position(&position)).unwrap(), position);
        }
        assert_eq!(of_seek(&Seek::At(b"k".to_vec())), "AWFr");
        let of_partitions = of_position(&PartitionsPosition::default());
        for bad in ["x", "!", "AmFr", "AXpr", &of_partitions, &"A".repeat(300_000)] {
            assert_eq!(read_seek(bad).unwrap_err().kind(), ErrorKind::InvalidCursor);
        }
        assert!(read_position("AWFr").is_err() && read_position("AXAA").is_err());
    }
}

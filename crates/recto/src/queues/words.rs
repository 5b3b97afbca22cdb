//! Conversion of receipts, message ids and positions to text and back.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use recto_protocol::queues::{MessageId, Receipt, Segment, Shard};
use recto_queues::Position;

use crate::error::{Error, ErrorKind, Result};

/// Maximum length of text that is parsed as a receipt, in bytes. A receipt has fewer than 100 bytes.
const MAX_RECEIPT_BYTES: usize = 256;

/// Returns a receipt as text of letters, digits, `-` and `_`.
pub fn receipt_text(receipt: &Receipt) -> String {
    URL_SAFE_NO_PAD.encode(receipt.encode())
}

/// Parses the text of a receipt.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`]: the text is not a receipt, or was altered.
pub fn receipt_from_text(text: &str) -> Result<Receipt> {
    let no_receipt = |why: String| {
        Error::new(
            ErrorKind::InvalidArgument,
            format!("this is not a receipt: {why}"),
        )
        .with_hint("use the receipt exactly as it was received")
        .with_field("receipts")
    };
    if text.len() > MAX_RECEIPT_BYTES {
        return Err(no_receipt(format!("it has {} bytes", text.len())));
    }
    let bytes = URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| no_receipt("it is incomplete, or has invalid characters".to_owned()))?;
    Receipt::decode(&bytes).map_err(|error| no_receipt(error.to_string()).with_source(error))
}

/// Returns a message id as text of 32 hexadecimal digits.
pub fn message_id_text(id: MessageId) -> String {
    format!("{:032x}", id.0)
}

/// Returns the position of a message as text: `SHARD-SEGMENT-NUMBER`. The number is the index of
/// the message in its segment.
pub fn position_text(position: Position) -> String {
    let Position { shard, segment, seq } = position;
    format!("{}-{}-{seq}", shard.0, segment.0)
}

/// Parses the text of a position of a message.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`]: the text is not a position.
pub fn position_from_text(text: &str) -> Result<Position> {
    let parts: Vec<_> = text.split('-').collect();
    let parsed = match parts[..] {
        [shard, segment, seq] => parsed(shard, segment, seq),
        _ => None,
    };
    parsed.ok_or_else(|| {
        let said: String = text.chars().take(40).collect();
        Error::new(
            ErrorKind::InvalidArgument,
            format!("`{said}` is not the position of a message"),
        )
        .with_hint("list the messages of the queue, which shows their positions, for example 0-3-17")
        .with_field("position")
    })
}

fn parsed(shard: &str, segment: &str, seq: &str) -> Option<Position> {
    Some(Position {
        shard: Shard(shard.parse().ok()?),
        segment: Segment(segment.parse().ok()?),
        seq: seq.parse().ok()?,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use recto_protocol::queues::{Address, ClaimId, Place, Tenure};

    use super::*;

    #[test]
    fn reads_back_receipts_and_positions() {
        let receipt = Receipt {
            address: Address {
                place: Place(3),
                shard: Shard(0),
            },
            tenure: Tenure(9),
            segment: Segment(u64::MAX),
            seq: 4_095,
            claim: ClaimId(u128::MAX),
        };
        let text = receipt_text(&receipt);
        assert_eq!(receipt_from_text(&text).unwrap(), receipt);
        for at in 0..text.len() {
            let mut altered = text.clone().into_bytes();
            altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
            let altered = String::from_utf8(altered).unwrap();
            assert_eq!(
                receipt_from_text(&altered).unwrap_err().kind(),
                ErrorKind::InvalidArgument
            );
        }
        assert!(receipt_from_text(&"A".repeat(10_000)).is_err());
        let position = Position {
            shard: Shard(3),
            segment: Segment(7),
            seq: 12,
        };
        assert_eq!(position_from_text(&position_text(position)).unwrap(), position);
        for wrong in [
            "",
            "7",
            "7-1",
            "7-1-",
            "-7-1",
            "0-7-65536",
            "65536-7-1",
            "7-1-1-1",
            "x-1-1",
        ] {
            assert!(position_from_text(wrong).is_err(), "{wrong}");
        }
    }
}

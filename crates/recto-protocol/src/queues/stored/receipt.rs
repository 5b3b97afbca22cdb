//! Receipts, by which a worker acknowledges a message that it received.

use super::{Reader, StoredError, push_address};
use crate::queues::names::{Address, ClaimId, Segment, Seq, Tenure};

/// Version of the byte format of a receipt.
pub const RECEIPT_FORMAT_VERSION: u8 = 1;

pub(super) const WHAT: &str = "a receipt";

/// Receipt: identifies a message, and the claim by which a worker received it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// Shard (part of a queue) that contains the message.
    pub address: Address,
    /// Epoch of the shard's slot (its use by one queue). A later queue in the same slot has a
    /// greater epoch, and rejects the receipt.
    pub tenure: Tenure,
    /// Segment of the shard that contains the message.
    pub segment: Segment,
    /// Position of the message in the segment (message batch).
    pub seq: Seq,
    /// Id of the claim by which the message was received.
    pub claim: ClaimId,
}

impl Receipt {
    /// Returns the receipt as bytes. The last four bytes are a checksum against typing errors.
    /// Forgery is prevented by the random id of the claim, which a forger would have to guess.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![RECEIPT_FORMAT_VERSION];
        push_address(&mut bytes, self.address);
        bytes.extend(self.tenure.0.to_be_bytes());
        bytes.extend(self.segment.0.to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.claim.0.to_be_bytes());
        bytes.extend(crc32c::crc32c(&bytes).to_be_bytes());
        bytes
    }

    /// Decodes the bytes of a receipt.
    ///
    /// # Errors
    /// The bytes have an unsupported format version, or are not a receipt.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoredError> {
        let mut reader = Reader::new(WHAT, RECEIPT_FORMAT_VERSION, bytes)?;
        let receipt = Self {
            address: reader.address()?,
            tenure: Tenure(reader.u64()?),
            segment: Segment(reader.u64()?),
            seq: reader.u16()?,
            claim: ClaimId(reader.u128()?),
        };
        let said = bytes.len() - reader.rest.len();
        let sum = crc32c::crc32c(&bytes[..said]);
        let has_sum = reader.u32()?;
        reader.check(sum == has_sum, "it was altered")?;
        reader.end()?;
        Ok(receipt)
    }
}

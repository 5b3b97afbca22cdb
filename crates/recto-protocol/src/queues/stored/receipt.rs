//! A receipt: what a worker shows to be done with a message.

use super::{Reader, StoredError, push_address};
use crate::queues::names::{Address, ClaimId, Segment, Seq, Tenure};

/// The version of the form of a receipt.
pub const RECEIPT_FORMAT_VERSION: u8 = 1;

pub(super) const WHAT: &str = "a receipt";

/// One message, as one claim received it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// In which shard.
    pub address: Address,
    /// By which use of its place: of a queue that has another one it is no receipt.
    pub tenure: Tenure,
    /// Which segment.
    pub segment: Segment,
    /// Which message of that.
    pub seq: Seq,
    /// By which claim.
    pub claim: ClaimId,
}

impl Receipt {
    /// The bytes. Their last four tell a slip of the pen; who makes some up has to guess the claim.
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

    /// What bytes say.
    ///
    /// # Errors
    /// They are of another version, or no receipt.
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

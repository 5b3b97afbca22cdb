//! Stored forms of queues as bytes. See `docs/format.md`, "Queues".
//!
//! A decoder accepts only the exact bytes that a writer of a known version produces, so decoding
//! and encoding returns the same bytes. The version of a versioned cell is in a separate column,
//! which conditional writes compare.

mod head;
mod log;
mod receipt;
mod registry;
mod ring;
mod state;

pub use head::{HEAD_FORMAT_VERSION, decode_head, encode_head};
pub use log::{
    ARRIVALS_FORMAT_VERSION, LOG_FORMAT_VERSION, LogHeader, decode_log, decode_log_header, decode_log_row,
    encode_log_header, encode_log_row,
};
pub use receipt::{RECEIPT_FORMAT_VERSION, Receipt};
pub use registry::{
    IN_FLIGHT_FORMAT_VERSION, PAUSED_FORMAT_VERSION, REGISTRY_FORMAT_VERSION, decode_registry,
    decode_registry_row, encode_registry, encode_registry_row,
};
pub use ring::{RING_FORMAT_VERSION, decode_ring, encode_ring};
pub use state::{CROWDED_FORMAT_VERSION, STATE_FORMAT_VERSION, decode_state, encode_state};

use crate::queues::limits::MAX_VERSION;
use crate::queues::names::{Address, Place, Shard, Version};

/// Reason why stored bytes cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoredError {
    /// The bytes have a format version that this release does not support.
    #[error("{what} has version {version}, which this release does not support")]
    UnknownVersion {
        /// Name of the stored value.
        what: &'static str,
        /// Format version in the bytes.
        version: u8,
    },
    /// The bytes are not what any release writes.
    #[error("{what} is damaged: {reason}")]
    Damaged {
        /// Name of the stored value.
        what: &'static str,
        /// Fault of the bytes.
        reason: &'static str,
    },
}

impl StoredError {
    /// Returns advice for the user, in the imperative.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::UnknownVersion { .. } => "use the newer release that wrote it, or a later one",
            Self::Damaged { what, .. } if *what == receipt::WHAT => {
                "use the receipt exactly as the message had it"
            }
            Self::Damaged { .. } => {
                "restore this table from a backup, or delete the queue: another program wrote to the table"
            }
        }
    }
}

fn push_address(bytes: &mut Vec<u8>, address: Address) {
    bytes.extend(address.place.0.to_be_bytes());
    bytes.extend(address.shard.0.to_be_bytes());
}

/// Writes a number with 7 bits per byte, as [`Reader::compact`] reads it.
fn push_compact(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

struct Reader<'b> {
    what: &'static str,
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    /// Creates a reader, after a check that the first byte is the format version `known`.
    fn new(what: &'static str, known: u8, bytes: &'b [u8]) -> Result<Self, StoredError> {
        let mut reader = Self { what, rest: bytes };
        match reader.u8()? {
            version if version == known => Ok(reader),
            0 => Err(reader.damaged("its version is invalid")),
            version => Err(StoredError::UnknownVersion { what, version }),
        }
    }

    /// Creates a reader for the bytes of a versioned cell. `version` is the version of the cell,
    /// from its own column.
    fn of_register(
        what: &'static str,
        known: u8,
        version: Version,
        bytes: &'b [u8],
    ) -> Result<Self, StoredError> {
        let reader = Self::new(what, known, bytes)?;
        reader.check(version < MAX_VERSION, "its version is too large")?;
        Ok(reader)
    }

    fn damaged(&self, reason: &'static str) -> StoredError {
        StoredError::Damaged {
            what: self.what,
            reason,
        }
    }

    /// Returns an error with this reason, unless `is_so` is true.
    fn check(&self, is_so: bool, reason: &'static str) -> Result<(), StoredError> {
        if is_so { Ok(()) } else { Err(self.damaged(reason)) }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], StoredError> {
        let split = self.rest.split_first_chunk();
        let (bytes, rest) = split.ok_or_else(|| self.damaged("bytes are missing"))?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn u8(&mut self) -> Result<u8, StoredError> {
        self.take().map(u8::from_be_bytes)
    }

    /// Reads a number with 7 bits per byte, lowest bits first. All bytes except the last have their
    /// highest bit set. The last byte is not 0, unless it is the only one.
    fn compact(&mut self) -> Result<u64, StoredError> {
        let (mut number, mut bits) = (0, 0);
        loop {
            let byte = self.u8()?;
            let part = u64::from(byte & 0x7F);
            self.check(bits < 64 && part << bits >> bits == part, "a number is too large")?;
            number |= part << bits;
            if byte & 0x80 == 0 {
                self.check(byte != 0 || bits == 0, "a number has more bytes than it needs")?;
                return Ok(number);
            }
            bits += 7;
        }
    }

    fn u16(&mut self) -> Result<u16, StoredError> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, StoredError> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, StoredError> {
        self.take().map(u64::from_be_bytes)
    }

    fn i64(&mut self) -> Result<i64, StoredError> {
        self.take().map(i64::from_be_bytes)
    }

    fn u128(&mut self) -> Result<u128, StoredError> {
        self.take().map(u128::from_be_bytes)
    }

    fn address(&mut self) -> Result<Address, StoredError> {
        Ok(Address {
            place: Place(self.u32()?),
            shard: Shard(self.u16()?),
        })
    }

    fn bool(&mut self) -> Result<bool, StoredError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.damaged("a boolean is neither 0 nor 1")),
        }
    }

    /// Checks that all bytes were read.
    fn end(self) -> Result<(), StoredError> {
        self.check(self.rest.is_empty(), "bytes follow it")
    }
}

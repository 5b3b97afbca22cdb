//! Registry of time buckets: timestamps of entries, and the removal of the entry of an empty bucket while processes
//! remember entries.
//!
//! A bucket has an entry before its first row is sent. A process registers a bucket by these steps, and may write rows
//! to it as long as it may use a cached range map that it read at the time of the first step:
//!
//! 1. It reads the entry.
//! 2. It writes the entry at its own clock, or two microseconds above the entry that it read, whichever is later
//!    ([`registration_stamp`]).
//!
//! A process that uses a bucket therefore changes the timestamp of the entry repeatedly. A process removes the entry of
//! an empty bucket by these steps:
//!
//! 1. It reads the entry, and waits until no process uses an earlier registration ([`unregister_wait_ms`]).
//! 2. It reads the entry again, and then the bucket. If the entry has the same timestamp and the bucket is empty, it
//!    marks the entry as removed, one microsecond above this timestamp ([`removal_stamp`]).
//!
//! A concurrent registration that read the entry earlier has a later timestamp than the mark, and wins. A removed entry
//! stays in the registry. It shows its timestamp to a process whose clock is behind and that registers the bucket
//! again. Pages ignore it.

use crate::buckets::names::Micros;
use crate::buckets::rules::Rule;
use crate::buckets::{Clock, Protocol};

/// Distance between an entry and the mark that removes it, in microseconds.
const REMOVAL_DISTANCE: Micros = 1;
/// Distance between an entry and a later registration by a process whose clock is behind, in microseconds. It is
/// greater than [`REMOVAL_DISTANCE`], so the registration wins against a removal of the same entry.
const REGISTRATION_DISTANCE: Micros = 2;

/// Entry of the registry, as a process read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Registration {
    /// Write timestamp of the entry.
    pub stamp: Micros,
    /// True if the entry is marked as removed.
    pub is_removed: bool,
}

/// Returns the timestamp at which a process writes the entry of a bucket: `now_micros` by its clock, or later if the
/// entry `read` requires it.
pub fn registration_stamp(read: Option<Registration>, now_micros: Micros, protocol: Protocol) -> Micros {
    match read.filter(|_| protocol.rules.keeps(Rule::RegisteredAboveRead)) {
        Some(read) => now_micros.max(read.stamp.saturating_add(REGISTRATION_DISTANCE)),
        None => now_micros,
    }
}

/// Returns whether a process may write rows to a bucket that it registered. `asked` is the time before it read the
/// entry.
pub fn is_registered(asked: Clock, now: Clock, protocol: Protocol) -> bool {
    !protocol.rules.keeps(Rule::RegistrationExpires) || now.since(asked, protocol) < protocol.long_life_ms
}

/// Returns the timestamp at which the entry of an empty bucket is marked as removed, or `None` if the entry must stay.
/// `before` and `after` are the entry before and after the wait.
pub fn removal_stamp(before: Registration, after: Registration, protocol: Protocol) -> Option<Micros> {
    let is_same = before == after || !protocol.rules.keeps(Rule::UnregisteredUnchanged);
    (is_same && !after.is_removed).then(|| after.stamp.saturating_add(REMOVAL_DISTANCE))
}

/// Returns the time between the two reads of a removal, in milliseconds. After it, no process uses a registration from
/// before the first read.
pub fn unregister_wait_ms(protocol: Protocol) -> u64 {
    if protocol.rules.keeps(Rule::WaitBeforeUnregistering) {
        protocol.wait_ms(protocol.long_life_ms)
    } else {
        0
    }
}

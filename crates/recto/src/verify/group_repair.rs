//! Repairs of differences between views and records in groups, on a remote store. Each repair is
//! one write; the version of the record need not be raised.

use std::collections::HashMap;

use recto_protocol::views::collection::KeyCells;
use recto_protocol::views::row::CLOCKS_APART_MICROS;
use recto_protocol::views::{Difference, Version};
use recto_store::PartitionWrite;

use super::suspects::{Outcome, Suspect, Wrong, differs, look_again};
use crate::beside::{Sent, ViewComparer, send};
use crate::error::Result;

/// Repairs the suspected differences for which one write each is enough. Returns one result for
/// each: the repaired difference, or `None` if the difference must be repaired individually.
///
/// The records are read at quorum, not serially. Such a read may miss a change that is decided and
/// not yet acknowledged. The repair does not damage such a change: each write has the timestamp of
/// the record that was read, and the entries of the change are newer. New views are filled in the
/// same way (`a_view_is_filled_in_beside_a_cut` in the models).
///
/// # Errors
/// The store cannot be read or written.
pub(super) async fn repair_group(beside: ViewComparer, suspects: Vec<Suspect>) -> Result<Vec<Option<Wrong>>> {
    let beside = &beside;
    let found = look_again(beside, &suspects).await?;
    let repairs = found
        .into_iter()
        .filter_map(|wrong| Some((repair_of(beside, &wrong)?, wrong)));
    let (writes, wrong): (Vec<PartitionWrite>, Vec<Wrong>) = repairs.unzip();
    let looked_nanos = wrong.iter().map(|wrong| wrong.looked_nanos).min();
    let sent = send(&beside.core.shared, writes, false, looked_nanos).await?;
    let mut repaired: HashMap<Suspect, Wrong> = match sent {
        Sent::Moved | Sent::Conflicts => HashMap::new(),
        Sent::Written => right_among(beside, wrong).await?,
    };
    let result = |suspect: &Suspect| {
        let wrong = repaired.remove(suspect)?;
        let outcome = Outcome::Repaired;
        Some(Wrong { outcome, ..wrong })
    };
    Ok(suspects.iter().map(result).collect())
}

/// Returns the differences that a repair removed, by the suspect (suspected difference) that led to
/// each. Reads the entries again, and compares them with the records that were read before the
/// repair. If a record has changed since, its entry may differ, and the difference is repaired
/// individually.
async fn right_among(beside: &ViewComparer, wrong: Vec<Wrong>) -> Result<HashMap<Suspect, Wrong>> {
    let snapshot = beside.core.shared.store.snapshot()?;
    let keys: Vec<&KeyCells> = wrong.iter().map(|one| &one.key).collect();
    let entries = beside.read_entries(&*snapshot, &keys).await?;
    let right = wrong.into_iter().zip(entries).filter(|(one, there)| {
        let row = one.row.as_ref().filter(|_| one.kind != Difference::Orphan);
        row.is_some() == there.is_some() && differs(beside, there.as_ref(), row).is_none()
    });
    Ok(right.map(|(one, _)| (one.suspect(), one)).collect())
}

/// Returns the write that repairs a difference. Returns `None` if the version of the record must be raised first.
fn repair_of(beside: &ViewComparer, wrong: &Wrong) -> Option<PartitionWrite> {
    if wrong.kind == Difference::Orphan {
        return removal_of(beside, wrong);
    }
    let row = wrong.row.as_ref()?;
    // An entry that is newer than its record would hide a put at the record's version, so return no
    // write in this case.
    (entry_stamp(wrong) <= row.version).then(|| beside.put(row))?
}

/// Returns the write that deletes an orphan entry, at the timestamp of the entry. Returns `None` if
/// this deletion could hide a later change of the record.
///
/// The deletion is safe in two cases, because every later change of the record then has a greater
/// timestamp:
///
/// - The version of the record is at least the timestamp of the entry.
/// - The entry is older than the maximum difference of clocks.
///
/// The models show that the record need not be read again with serial consistency
/// (`old_orphans_are_removed_beside_changes`).
fn removal_of(beside: &ViewComparer, orphan: &Wrong) -> Option<PartitionWrite> {
    let stamp = entry_stamp(orphan);
    let has_newer_record = orphan.row.as_ref().is_some_and(|row| row.version >= stamp);
    let latest = beside.core.shared.environment.now_micros() - CLOCKS_APART_MICROS;
    let is_safe = !beside.has_versions() || has_newer_record || stamp.0 <= latest;
    let entry = orphan.entry.as_ref().filter(|_| is_safe && stamp.0 != 0)?;
    beside.remove(&entry.seen.key.key, stamp.0)
}

/// Returns the timestamp of the stored entry; 0 if no entry exists, or if the store does not report
/// the timestamp.
fn entry_stamp(wrong: &Wrong) -> Version {
    Version(wrong.entry.as_ref().map_or(0, |entry| entry.written.stamp))
}

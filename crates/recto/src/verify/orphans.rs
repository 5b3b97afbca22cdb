//! Removes orphans of a remote store in groups. An orphan is an entry whose record has another entry or none.

use std::collections::HashMap;

use recto_protocol::views::collection::KeyCells;
use recto_protocol::views::row::CLOCKS_APART_MICROS;
use recto_protocol::views::{Difference, Version};

use super::suspects::{Outcome, Suspect, Wrong, look_again};
use crate::beside::{Beside, Sent, There, send};
use crate::error::Result;

/// Removes the orphans whose deletion at the timestamp of the entry cannot hide a later change of the record. Returns
/// one result for each suspect: the removed orphan, or `None` if the suspect must be repaired individually.
///
/// A later change has a greater version than the deletion in two cases: the record already has a version that is not
/// smaller, or the entry is older than the maximum difference of clocks. Otherwise the version of the record must be
/// raised first.
///
/// # Errors
/// The store cannot be read or written.
pub(super) async fn remove_orphans(beside: Beside, suspects: Vec<Suspect>) -> Result<Vec<Option<Wrong>>> {
    let beside = &beside;
    let entries: Vec<Suspect> = suspects
        .iter()
        .filter(|suspect| matches!(suspect, Suspect::Entry(_)))
        .cloned()
        .collect();
    let found = look_again(beside, &entries).await?;
    let orphans = found
        .into_iter()
        .filter(|wrong| wrong.kind == Difference::Orphan && can_go(beside, wrong));
    let mut removed = remove(beside, orphans.collect()).await?;
    let result = |suspect: &Suspect| match suspect {
        Suspect::Entry(key) => removed.remove(key),
        Suspect::Record(_) => None,
    };
    Ok(suspects.iter().map(result).collect())
}

/// Returns whether a deletion at the timestamp of an orphan cannot hide a later change of its record.
///
/// The record was read at quorum after the entry. That read may miss a change that is decided and not yet acknowledged,
/// but the entries of that change are newer than the orphan. The models show that no serial read is needed
/// (`old_orphans_are_removed_beside_changes`).
fn can_go(beside: &Beside, orphan: &Wrong) -> bool {
    let stamp = stamp(orphan);
    let has_newer_record = orphan.row.as_ref().is_some_and(|row| row.version >= stamp);
    let latest = beside.core.shared.environment.now_micros() - CLOCKS_APART_MICROS;
    !beside.has_versions() || has_newer_record || stamp.0 <= latest
}

/// Deletes orphans at their timestamps. Returns the removed ones, by the keys of their entries.
async fn remove(beside: &Beside, orphans: Vec<Wrong>) -> Result<HashMap<KeyCells, Wrong>> {
    let shared = &beside.core.shared;
    let removals: Vec<_> = orphans
        .iter()
        .map(|orphan| beside.remove(entry_key(orphan)?, told_stamp(orphan)?.0))
        .collect();
    let looked_nanos = orphans.iter().map(|orphan| orphan.looked_nanos).min();
    let writes = removals.iter().flatten().cloned().collect();
    if send(shared, writes, false, looked_nanos).await? == Sent::Moved {
        return Ok(HashMap::new());
    }
    let sent = orphans
        .into_iter()
        .zip(removals)
        .filter(|(_, removal)| removal.is_some());
    let sent: Vec<Wrong> = sent.map(|(orphan, _)| orphan).collect();
    let keys: Vec<&KeyCells> = sent.iter().filter_map(entry_key).collect();
    let left = beside.read_entries(&*shared.store.snapshot()?, &keys).await?;
    let gone = sent.into_iter().zip(left).filter(|(_, left)| left.is_none());
    let by_key = gone.filter_map(|(orphan, _)| {
        let key = entry_key(&orphan)?.clone();
        let outcome = Outcome::Repaired;
        Some((key, Wrong { outcome, ..orphan }))
    });
    Ok(by_key.collect())
}

fn entry_key(orphan: &Wrong) -> Option<&KeyCells> {
    Some(&orphan.entry.as_ref()?.seen.key.key)
}

/// Returns the timestamp of an orphan; 0 if the store does not report it.
fn stamp(orphan: &Wrong) -> Version {
    Version(
        orphan
            .entry
            .as_ref()
            .map_or(0, |there: &There| there.written.stamp),
    )
}

fn told_stamp(orphan: &Wrong) -> Option<Version> {
    Some(stamp(orphan)).filter(|stamp| stamp.0 != 0)
}

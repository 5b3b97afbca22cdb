//! Stricter check of range maps than the present one, which earlier releases made. It rejects a
//! join that is continued by two windows. Models use it to show that the rule `PlacedByDestination`
//! is needed.

use std::collections::BTreeMap;

use crate::buckets::{Bucket, Damage, Directory, Roles};

/// Checks that two ranges that are not adjacent never stay in one bucket.
pub(crate) fn check_places_by_read(directory: &Directory) -> Result<(), Damage> {
    let mut stays: BTreeMap<Bucket, usize> = BTreeMap::new();
    let (mut place, mut before) = (0, None);
    for piece in &directory.pieces {
        let bucket = piece.roles.read;
        place += usize::from(before != Some(bucket));
        before = Some(bucket);
        if !is_leaving(&piece.roles) && *stays.entry(bucket).or_insert(place) != place {
            return Err(Damage::Scattered(bucket));
        }
    }
    Ok(())
}

/// Returns whether the range will be read in another bucket.
fn is_leaving(roles: &Roles) -> bool {
    !roles.deletes.is_empty() || roles.next_read().is_some()
}

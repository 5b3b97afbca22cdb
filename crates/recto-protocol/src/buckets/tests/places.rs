//! Check of range maps by the buckets that are read now. Releases without joins made this check. It rejects a
//! join that two windows continue, so models use it in place of the rule `PlacedByDestination`.

use std::collections::BTreeMap;

use crate::buckets::{Bucket, Damage, Directory, Roles};

/// Checks that no bucket is read permanently in two ranges that are not adjacent.
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

/// Returns whether the range will soon be read in another bucket.
fn is_leaving(roles: &Roles) -> bool {
    !roles.deletes.is_empty() || roles.next_read().is_some()
}

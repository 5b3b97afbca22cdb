//! Effect of a change on the claims (reserved unique values) of a record, on a store without
//! transactions: which claims it keeps, takes, and releases.

use crate::views::arranged::Arranged;
use crate::views::change::{ChangedRecord, FoundOf, RowOf};
use crate::views::row::{EntryKey, RowClaims};
use crate::views::rules::Rules;

/// Returns the claims (reserved unique values) of the row that a change puts, without the claims
/// that the record still has to take.
///
/// The row keeps a claim if the values stay the same. This is safe because only a later row can
/// release the claim, and the conditional write of this row fails if a later row exists. If the
/// expiry of the record changes, the record takes the claim again, because a claim expires with its
/// record.
pub(crate) fn next_claims<A: Arranged>(
    found: &FoundOf<A>,
    after: &ChangedRecord<A::Record>,
    schema: &A,
    rules: Rules,
) -> RowClaims<A::Key> {
    let mut claims = RowClaims::NONE;
    let Some(before) = &found.row else { return claims };
    if !found.is_done_by(rules) {
        claims.must_release.clone_from(&before.claims.must_release);
    }
    let of = |record: &Option<A::Record>| record.as_ref().map(|record| schema.claims(record));
    let wanted = of(&after.record).unwrap_or_default();
    for key in of(&before.record).unwrap_or_default() {
        let Some(token) = before.claims.held.get(&key.view) else {
            continue;
        };
        if !wanted.contains(&key) {
            claims.must_release.insert((key, *token));
        } else if before.expires_at == after.expires_at {
            claims.held.insert(key.view, *token);
        }
    }
    // Drop the releases of constraints that no longer exist, and of claims that the record takes
    // again: a new claim has a new token, so a release by the old token would have no effect.
    claims
        .must_release
        .retain(|(key, _)| schema.has_unique(key.view) && !wanted.contains(key));
    claims
}

/// Returns the claims (reserved unique values) that a record needs and has not taken. They are
/// sorted, so that all writers take claims in the same order. An expired record still needs its
/// claims, because it may be alive on other clocks.
pub fn untaken<A: Arranged>(row: &RowOf<A>, schema: &A) -> Vec<EntryKey<A::Key>> {
    let claims = row.record.as_ref().map(|record| schema.claims(record));
    let mut claims = claims.unwrap_or_default();
    claims.retain(|key| !row.claims.held.contains_key(&key.view));
    claims.sort();
    claims
}

//! What a change makes of a record's claims where the store has no transactions: which it keeps, which it has to take, and
//! which to release.

use crate::views::arranged::Arranged;
use crate::views::change::{After, FoundOf, RowOf};
use crate::views::row::{EntryKey, RowClaims};
use crate::views::rules::Rules;

/// The claims of the row that a change puts in the place of what was found, without those that are still to be taken.
///
/// One that the row has stays as it is if the values do: it is released by a later row only, and this one is put on
/// condition that there is none. If the record is to expire at another time it is taken anew, as it goes with it.
pub(crate) fn next_claims<A: Arranged>(
    found: &FoundOf<A>,
    after: &After<A::Record>,
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
    // What is taken anew cannot be released by an earlier token.
    claims
        .must_release
        .retain(|(key, _)| schema.has_unique(key.view) && !wanted.contains(key));
    claims
}

/// What a row's record claims and has not taken, in the order in which everybody takes them: also of one that has expired, which
/// by other clocks may live.
pub fn untaken<A: Arranged>(row: &RowOf<A>, schema: &A) -> Vec<EntryKey<A::Key>> {
    let claims = row.record.as_ref().map(|record| schema.claims(record));
    let mut claims = claims.unwrap_or_default();
    claims.retain(|key| !row.claims.held.contains_key(&key.view));
    claims.sort();
    claims
}

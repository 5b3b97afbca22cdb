//! Checks of handles (unique values of records): which record certainly has a handle at a moment,
//! and which claims (reservations of handles) exist at the end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use recto::store::Store;
use recto_model::Cells;
use recto_protocol::views::{Arranged, KeyCells, Row};

use super::check::scan;
use super::history::ChangeAnswer;
use super::records::{Fields, Tables};

/// Handles (unique values) that records certainly have. A record certainly has the handle of its
/// last change, if no other change of the record can have taken effect since that change began.
#[derive(Default)]
pub(crate) struct Handles(RefCell<BTreeMap<i32, Known>>);

#[derive(Default)]
struct Known {
    has: Option<u8>,
    begun: u64,
    under_way: u64,
    /// True if a change of the record has an unknown outcome, so that it may still take effect.
    is_uncertain: bool,
}

/// Change of a record that a client has begun.
#[derive(Clone, Copy)]
pub(crate) struct Begun {
    id: i32,
    number: u64,
    is_alone: bool,
}

impl Handles {
    pub(crate) fn begins(&self, id: i32) -> Begun {
        let mut all = self.0.borrow_mut();
        let known = all.entry(id).or_default();
        let is_alone = known.under_way == 0;
        (known.has, known.begun, known.under_way) = (None, known.begun + 1, known.under_way + 1);
        Begun {
            id,
            number: known.begun,
            is_alone,
        }
    }

    /// Records the outcome of a change. If the change was applied, the record has `handle` until
    /// its next change. `None` means that the handle is then unknown.
    ///
    /// # Errors
    /// Returns an error if two records certainly have the same handle.
    pub(crate) fn ends(&self, begun: Begun, said: ChangeAnswer, handle: Option<u8>) -> Result<(), String> {
        let mut all = self.0.borrow_mut();
        let known = all.entry(begun.id).or_default();
        known.under_way -= 1;
        known.is_uncertain |= said == ChangeAnswer::Unknown;
        let is_alone = begun.is_alone && known.begun == begun.number && !known.is_uncertain;
        if !is_alone || !matches!(said, ChangeAnswer::Applied(_)) {
            return Ok(());
        }
        known.has = handle;
        let Some(handle) = handle else { return Ok(()) };
        let others = all.iter().filter(|(_, known)| known.has == Some(handle));
        let holders: Vec<i32> = others.map(|(id, _)| *id).collect();
        if holders.len() > 1 {
            return Err(format!("records {holders:?} have one handle"));
        }
        Ok(())
    }
}

/// Checks that the claim (reservation) of each record's handle belongs to the record. No two
/// records can then have the same handle.
pub(crate) async fn check(
    scanned: &dyn Store,
    tables: &Tables,
    rows: &[Row<Cells, KeyCells>],
) -> Result<(), String> {
    let claims = &tables.views.claims_tables()[0];
    let there: BTreeMap<Vec<u8>, Cells> = scan(scanned, &Arc::clone(claims.table()))
        .await
        .into_iter()
        .map(|row| (row.get(0).unwrap().to_vec(), row))
        .collect();
    for row in rows.iter().filter(|row| row.expires_at.is_none()) {
        let Some(record) = &row.record else { continue };
        let Some(handle) = Fields::of(record).handle else {
            continue;
        };
        let key = tables.views.claims(record);
        let claim = there.get(key[0].key.cells().next().unwrap());
        let owner = claim.and_then(|claim| claims.owner(claim.as_row()));
        let is_its_own = owner.is_some_and(|owner| owner.get(0) == record.get(0));
        // Compare the owner of the claim, not its token. Another change of the record may have
        // claimed the handle again with another token, without being applied.
        if !is_its_own || !row.claims.held.contains_key(&claims.number()) {
            return Err(format!(
                "handle {handle} is claimed by {claim:?}, and should be by {row:?}"
            ));
        }
    }
    Ok(())
}

//! Requests that take and release claims. A claim reserves the values of a unique constraint for
//! one record.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use recto_model::Cells;
use recto_protocol::views::change::RowOf;
use recto_protocol::views::collection::KeyCells;
use recto_protocol::views::{
    Arranged, Claim, ClaimDecision, ClaimsTable, EntryKey, Event, Micros, TakingStep, Token, ViewNumber,
    ViewedCollection, Write,
};
use recto_store::{
    Cas, CasCondition, CasOutcome, Mutation, Operation, RowAddress, StoreError, StoreErrorKind,
};

use super::common::Known;
use super::drive::{Drive, End};
use super::record::{Events, Record, UnderWay};
use crate::error::{Error, ErrorKind, Result};
use crate::settle::{Attempt, Policy, settle};

/// Average wait before a change first fences another record (replaces its token). The other record
/// has a claim to values that it does not contain, and may get the values during the wait. The wait
/// doubles each time that the same change fences a record.
const FENCE_PAUSE: Duration = Duration::from_millis(40);
/// Maximum average wait before a change fences another record (replaces its token).
const MAX_FENCE_PAUSE: Duration = Duration::from_millis(800);

/// Step of taking a claim, a reservation of unique values for the record of a change.
pub(super) struct Claiming {
    pub(super) key: EntryKey<KeyCells>,
    pub(super) own: Claim<KeyCells>,
    pub(super) step: TakingStep<KeyCells>,
    /// Time at which the claim expires; `None` if it never expires.
    pub(super) until: Option<Micros>,
    /// Number of times that the same step was executed before for this claim.
    pub(super) repeats: u32,
    /// Number of times that this change has fenced another record (replaced its token).
    pub(super) fenced: u32,
}

impl Record {
    /// Executes the next step of taking a claim (a reservation of unique values), and returns the
    /// resulting events.
    pub(super) async fn claim(self: Arc<Self>, claiming: Claiming) -> Events {
        let token = claiming.own.token;
        let done = match &claiming.step {
            TakingStep::Send(there) => {
                let decided = self.put_claim(&claiming, there.as_ref()).await;
                decided.map(|decision| Event::Claimed(token, decision))
            }
            TakingStep::Look(holder) => {
                let looked = self.has_values(holder, &claiming.key).await;
                looked.map(|has_values| Event::HolderLooked(token, has_values))
            }
            TakingStep::Fence(holder) => {
                let fenced = self.fence(holder, &claiming).await;
                fenced.map(|had_values| Event::HolderFenced(token, had_values))
            }
            TakingStep::Held | TakingStep::Taken(_) | TakingStep::Anew => return Vec::new(),
        };
        vec![done.unwrap_or_else(|error| {
            self.failed(error);
            Event::NotClaimed(token)
        })]
    }

    /// Stores a claim on condition that the stored claim is `there`; `None`: that no claim is
    /// stored.
    async fn put_claim(
        &self,
        claiming: &Claiming,
        there: Option<&Claim<KeyCells>>,
    ) -> Result<ClaimDecision<KeyCells>> {
        if claiming.repeats > 0 {
            self.pause(claiming.repeats).await;
            if !self.process.leased_unless_lost(&self.common).await {
                return Err(super::no_lease());
            }
        }
        let number = claiming.key.view;
        let known = self.known().ok_or_else(|| self.gone())?;
        let Some(cas) = put(&known, claiming, there, self.common.environment.now_micros()) else {
            return Ok(ClaimDecision::Applied);
        };
        match self.common.store.cas(cas, self.common.write_options()).await {
            Ok(CasOutcome::Applied) => Ok(ClaimDecision::Applied),
            Ok(CasOutcome::NotApplied { current }) => claim_of(&current).map(ClaimDecision::NotApplied),
            Ok(CasOutcome::Unknown(error)) => {
                self.failed(error.into());
                Ok(ClaimDecision::Unknown)
            }
            Ok(CasOutcome::Refused(error)) | Err(error) if self.is_dropped(number, &error).await => {
                Ok(ClaimDecision::Applied)
            }
            Ok(CasOutcome::Refused(error)) | Err(error) => Err(error.into()),
        }
    }

    /// Returns the record that has a claim. `key` is the record's key as claims store it.
    fn holder(&self, key: &KeyCells) -> Result<Arc<Self>> {
        let cells: Cells = key.cells().map(Some).collect();
        let holder = Self::new(&self.common, &self.process, &self.collection, cells);
        match holder.known() {
            Some(_) => Ok(holder),
            None => Err(damaged(&self.collection)),
        }
    }

    /// Returns whether the record `holder` has the unique values that the claim `key` reserves.
    async fn has_values(&self, holder: &KeyCells, key: &EntryKey<KeyCells>) -> Result<bool> {
        let found = self.holder(holder)?.read().await?;
        Ok(self.has(found.row.as_ref(), key))
    }

    /// Returns whether a row of a record contains the unique values that the claim `key` reserves.
    fn has(&self, row: Option<&RowOf<ViewedCollection>>, key: &EntryKey<KeyCells>) -> bool {
        let now = self.common.environment.now_micros();
        let record = row.and_then(|row| row.record_at(now));
        record
            .zip(self.known())
            .is_some_and(|(record, known)| known.views.claims(record).contains(key))
    }

    /// Fences a record that has a claim to values that it does not contain: replaces its token, so
    /// that its earlier conditional writes fail. First waits, because the record may get the values
    /// in the meantime. Returns whether the record has the values.
    async fn fence(&self, holder: &KeyCells, claiming: &Claiming) -> Result<bool> {
        let pause = FENCE_PAUSE.saturating_mul(1_u32.checked_shl(claiming.fenced).unwrap_or(u32::MAX));
        self.pause_about(pause.min(MAX_FENCE_PAUSE)).await;
        self.fence_now(holder, &claiming.key).await
    }

    /// Fences a record (replaces its token) like [`fence`](Self::fence), without the wait.
    async fn fence_now(&self, holder: &KeyCells, key: &EntryKey<KeyCells>) -> Result<bool> {
        if self.has_values(holder, key).await? {
            return Ok(true);
        }
        let under_way = UnderWay::begin(&self.common, &self.process).ok_or_else(super::closed)?;
        let fencing = Drive::resolve(self.holder(holder)?, Write::fencing(), under_way);
        let fencing: BoxFuture<'static, End> = fencing.run().boxed();
        match fencing.await {
            End::Settled(row) => Ok(self.has(row.as_deref(), key)),
            End::Lost { .. } => Err(super::no_lease()),
        }
    }

    /// Releases the claim `key` if its token is `token`. Retries until the release is known to be
    /// applied.
    pub(super) async fn release(&self, key: &EntryKey<KeyCells>, token: Token) {
        let attempt = |_| async {
            self.process.leased(&self.common).await;
            let Some(cas) = self.known().and_then(|known| release(&known, key, token)) else {
                return Attempt::Known(());
            };
            match self.common.store.cas(cas, self.common.write_options()).await {
                Ok(CasOutcome::Applied | CasOutcome::NotApplied { .. }) => Attempt::Known(()),
                Ok(CasOutcome::Unknown(error)) => Attempt::Unknown(error),
                Ok(CasOutcome::Refused(error)) | Err(error) if self.is_dropped(key.view, &error).await => {
                    Attempt::Known(())
                }
                Ok(CasOutcome::Refused(error)) | Err(error) => Attempt::Failed(error),
            }
        };
        let _ = settle(&self.common.environment, Policy::ENTRY, attempt).await;
    }

    /// Releases a claim of this record, unless the record contains the claimed values. Returns
    /// false if it contains them.
    pub(super) async fn release_unheld(&self, key: &EntryKey<KeyCells>, token: Token) -> Result<bool> {
        if self.fence_now(&self.owner, key).await? {
            return Ok(false);
        }
        self.release(key, token).await;
        Ok(true)
    }

    /// Releases claims (reservations of unique values) that a change took and does not need.
    /// Returns false if other processes declare this process dead before all are released.
    pub(super) async fn release_unneeded(&self, claims: &[(EntryKey<KeyCells>, Token)]) -> bool {
        let releases = claims.iter().map(|(key, token)| self.release(key, *token));
        tokio::select! {
            biased;
            _ = join_all(releases) => true,
            () = self.process.lost() => false,
        }
    }

    /// Returns whether a request failed with `error` because the view or unique constraint `number`
    /// was dropped. Reads the catalog to decide this.
    pub(super) async fn is_dropped(&self, number: ViewNumber, error: &StoreError) -> bool {
        if error.kind() != StoreErrorKind::Table || self.common.reload().await.is_err() {
            return false;
        }
        let is_written = |known: Arc<Known>| known.views.has_view(number) || known.views.has_unique(number);
        !self.known().is_some_and(is_written)
    }
}

/// Returns the conditional write that stores a claim (a reservation of unique values); `None` if
/// the constraint no longer exists.
fn put(known: &Known, claiming: &Claiming, there: Option<&Claim<KeyCells>>, now: Micros) -> Option<Cas> {
    let owner = |claim: &Claim<KeyCells>| claim.owner.as_bytes().to_vec();
    let expected = [
        (ClaimsTable::OWNER, there.map(owner)),
        (ClaimsTable::TOKEN, there.map(|claim| token_cell(claim.token))),
    ];
    let put = Operation::Put {
        clustering: Cells::new(),
        cells: ClaimsTable::cells(&claiming.own.owner, Some(claiming.own.token)),
        replace: true,
    };
    let ttl_seconds = recto_protocol::views::row::ttl_until(claiming.until, now);
    conditional(known, &claiming.key, &expected, put, ttl_seconds)
}

/// Returns the conditional write that releases a claim (a reservation of unique values); `None` if
/// the constraint no longer exists.
fn release(known: &Known, key: &EntryKey<KeyCells>, token: Token) -> Option<Cas> {
    let deletion = Operation::DeleteRow {
        clustering: Cells::new(),
    };
    let expected = [(ClaimsTable::TOKEN, Some(token_cell(token)))];
    conditional(known, key, &expected, deletion, None)
}

fn conditional(
    known: &Known,
    key: &EntryKey<KeyCells>,
    expected: &[(u16, Option<Vec<u8>>)],
    operation: Operation,
    ttl_seconds: Option<u32>,
) -> Option<Cas> {
    let table = known.views.claims_table(key.view)?.table();
    let (partition, _) = key.key.in_table(table)?;
    let condition = |(column, expected): &(u16, Option<Vec<u8>>)| CasCondition {
        row: RowAddress::Row(Cells::new()),
        column: *column,
        expected: expected.clone(),
    };
    Some(Cas {
        table: Arc::clone(table),
        partition,
        conditions: expected.iter().map(condition).collect(),
        mutations: vec![Mutation {
            operation,
            stamp: None,
            ttl_seconds,
        }],
    })
}

fn token_cell(token: Token) -> Vec<u8> {
    token.0.to_be_bytes().to_vec()
}

/// Decodes a stored claim (a reservation of unique values) from its cells: the key of its record,
/// and the token.
fn claim_of(current: &[Option<Vec<u8>>]) -> Result<Option<Claim<KeyCells>>> {
    let [owner, token] = current else {
        return Err(damaged("it"));
    };
    let (Some(owner), Some(token)) = (owner, token) else {
        return Ok(None);
    };
    let token = token.as_slice().try_into().ok().map(u128::from_be_bytes);
    let claim = KeyCells::from_bytes(owner).zip(token);
    let claim = claim.map(|(owner, token)| Claim {
        owner,
        token: Token(token),
    });
    claim.map(Some).ok_or_else(|| damaged("it"))
}

fn damaged(collection: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("a claim of unique values of collection {collection} does not name its record"),
    )
    .with_hint("verify the collection and repair it: another program wrote to the table of claims")
}

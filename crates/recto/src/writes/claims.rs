//! Unique constraints on stores with transactions. A claim reserves the values of a constraint for
//! one record. The claims of a change are conditions and writes of its transaction.

use std::sync::Arc;

use recto_model::{Cells, RowRef};
use recto_protocol::views::change::{RowOf, TransactionOf};
use recto_protocol::views::collection::KeyCells;
use recto_protocol::views::{
    Arranged, Change, ChangedRecord, ClaimsTable, Entries, EntryKey, Refusal, Request, Token, ViewNumber,
    ViewedCollection, untaken,
};
use recto_store::{
    Cas, CasCondition, Mutation, Operation, PartitionWrite, RowAddress, Stamp, TransactionOutcome,
};

use super::change::{Transacting, get, refused_by};
use super::{MAX_LOOKS, busy};
use crate::catalog;
use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Part, Result};
use crate::viewed::Written;

/// Conditions and writes of a transaction for the claims (reservations of unique values) of a
/// change.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// Conditions that the stored claims have not changed since they were read.
    pub(crate) conditions: Vec<Cas>,
    /// Writes that take and release claims.
    pub(crate) writes: Vec<PartitionWrite>,
}

/// Claim: a reservation of unique values for one record, stored as a partition of the constraint's
/// table.
struct Claim<'c> {
    table: &'c ClaimsTable,
    partition: Cells,
}

impl Transacting<'_> {
    /// Returns the conditions and writes for the claims (reservations of unique values) that a
    /// change takes and releases. Reads the current owners of the claims.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`]: another record has the unique values that this record would get.
    pub(super) async fn claims(&self, change: &TransactionOf<ViewedCollection>, now: i64) -> Result<Claims> {
        let mut claims = Claims::default();
        for key in &change.taken {
            let Some(claim) = self.claim(key) else { continue };
            let there = self.owner(&claim).await?;
            if let Some(other) = there.as_ref().filter(|owner| *owner != self.key) {
                let unheld = self.unheld(key, other, now).await?;
                claims.conditions.push(unheld);
            }
            claims.conditions.push(claim.is_of(there.as_ref()));
            claims.writes.push(self.take(&claim, change, now));
        }
        for key in &change.released {
            let Some(claim) = self.claim(key) else { continue };
            if self.owner(&claim).await?.as_ref() == Some(self.key) {
                claims.conditions.push(claim.is_of(Some(self.key)));
                claims.writes.push(claim.release(Stamp(change.entries.version.0)));
            }
        }
        Ok(claims)
    }

    /// Returns the conditions and writes for the claims (reservations of unique values) of a record
    /// that did not exist before. The transaction applies only if none of the claims exists.
    pub(crate) fn first_claims(&self, change: &TransactionOf<ViewedCollection>, now: i64) -> Claims {
        let taken = change.taken.iter().filter_map(|key| self.claim(key));
        let (conditions, writes) = taken
            .map(|claim| (claim.is_of(None), self.take(&claim, change, now)))
            .unzip();
        Claims { conditions, writes }
    }

    fn claim(&self, key: &EntryKey<KeyCells>) -> Option<Claim<'_>> {
        let table = self.viewed.views.claims_table(key.view)?;
        let (partition, _) = key.key.in_table(table.table())?;
        Some(Claim { table, partition })
    }

    /// Reads the key of the record to which a claim (reservation of unique values) belongs. Returns
    /// `None` if the claim does not exist.
    async fn owner(&self, claim: &Claim<'_>) -> Result<Option<Cells>> {
        let found = get(self.core, claim.table.table(), &claim.partition).await?;
        let Some(row) = found.iter().next() else {
            return Ok(None);
        };
        let owner = claim.table.owner(row);
        owner.map(Some).ok_or_else(|| {
            let table = claim.table.table().name();
            Error::new(
                ErrorKind::Corrupt,
                format!("a row of table {table} does not name the record that has its values"),
            )
            .with_hint("delete the row, which another program wrote")
        })
    }

    /// Returns the condition that the record `other` no longer has the values that its claim
    /// reserves. A claim can outlive its record if the base table was dropped and created again.
    async fn unheld(&self, claimed: &EntryKey<KeyCells>, other: &Cells, now: i64) -> Result<Cas> {
        let holder = Transacting { key: other, ..*self };
        let row = holder.read().await?;
        let record = row.as_ref().and_then(|row| row.record_at(now));
        if record.is_some_and(|record| self.viewed.views.claims(record).contains(claimed)) {
            return Err(taken(self.core, claimed.view, Some(other)));
        }
        Ok(holder.condition(row.map(|row| row.version)))
    }

    fn take(&self, claim: &Claim<'_>, change: &TransactionOf<ViewedCollection>, now: i64) -> PartitionWrite {
        let put = Operation::Put {
            clustering: Cells::new(),
            cells: ClaimsTable::cells(&ClaimsTable::owner_key(self.key), None),
            replace: true,
        };
        // Give the claim the time to live of its record. Both expire at the same time, because the
        // store has one clock.
        let stamp = Stamp(change.entries.version.0);
        claim.write(put, stamp, change.entries.ttl_seconds(now))
    }
}

impl Claim<'_> {
    /// Returns the condition that the claim belongs to the record with the key `owner`. `None`
    /// means that the claim does not exist.
    fn is_of(&self, owner: Option<&Cells>) -> Cas {
        Cas {
            table: Arc::clone(self.table.table()),
            partition: self.partition.clone(),
            conditions: vec![CasCondition {
                row: RowAddress::Row(Cells::new()),
                column: ClaimsTable::OWNER,
                expected: owner.map(|owner| ClaimsTable::owner_key(owner).as_bytes().to_vec()),
            }],
            mutations: Vec::new(),
        }
    }

    fn release(&self, stamp: Stamp) -> PartitionWrite {
        let clustering = Cells::new();
        self.write(Operation::DeleteRow { clustering }, stamp, None)
    }

    fn write(&self, operation: Operation, stamp: Stamp, ttl_seconds: Option<u32>) -> PartitionWrite {
        PartitionWrite {
            table: Arc::clone(self.table.table()),
            partition: self.partition.clone(),
            mutations: vec![Mutation {
                operation,
                stamp: Some(stamp),
                ttl_seconds,
            }],
        }
    }
}

/// Takes the claims (reservations of unique values) of a record for the constraints with the ids
/// `numbers`, and does not change the record. A record that does not exist gets no claims.
///
/// # Errors
/// [`ErrorKind::Conflict`]: another record has the same unique values.
pub(crate) async fn claim_as_it_is(core: &CollectionCore, key: &Cells, numbers: &[ViewNumber]) -> Result<()> {
    let shared = &core.shared;
    if !shared.store.limits().transactions {
        return claim_by_the_writer(core, key).await;
    }
    for _ in 0..MAX_LOOKS {
        let _writing = shared.writing().await;
        let viewed = core.viewed_now()?;
        let Some((viewed, base)) = viewed.as_deref().and_then(|one| Some((one, one.base.as_ref()?))) else {
            return Ok(());
        };
        let transacting = Transacting {
            core,
            viewed,
            base,
            key,
        };
        let now = shared.environment.now_micros();
        let Some(row) = transacting.read().await? else {
            return Ok(());
        };
        let Some(record) = row.record_at(now) else {
            return Ok(());
        };
        let mut change = as_it_is(&row, record.clone());
        change.taken = viewed.views.claims(record);
        change.taken.retain(|claim| numbers.contains(&claim.view));
        let claims = transacting.claims(&change, now).await?;
        let schema = catalog::is_of_generation(viewed.views.generation().0);
        let mut conditions = vec![transacting.condition(change.expected), schema];
        conditions.extend(claims.conditions);
        let sent = shared
            .store
            .transact(conditions, claims.writes, shared.write_options());
        match sent.await? {
            TransactionOutcome::Applied => return Ok(()),
            TransactionOutcome::Unknown(error) | TransactionOutcome::Refused(error) => {
                return Err(error.into());
            }
            TransactionOutcome::NotApplied { .. } | TransactionOutcome::Conflict(_) => {}
        }
    }
    Err(busy(&core.definition.name))
}

/// Takes the claims (reservations of unique values) of a record for all constraints, by the
/// protocol for stores without transactions.
async fn claim_by_the_writer(core: &CollectionCore, key: &Cells) -> Result<()> {
    let (shared, name) = (&core.shared, &core.definition.name);
    let request = Request {
        change: Change::Claim,
        if_version: None,
    };
    let time = shared.write_options().timeout;
    match shared
        .writer
        .change(name, core.key_of(key), request, time)
        .await?
    {
        Ok(_) => Ok(()),
        Err(refused) if refused.refusal == Refusal::Absent => Ok(()),
        Err(refused) => Err(refused_by(core, key, &refused)),
    }
}

/// Returns whether a row of the base table shows that its record has all its claims (reservations
/// of unique values). Always returns false on stores with transactions, whose rows do not show
/// claims.
///
/// # Errors
/// The row is damaged, or a newer release wrote it.
pub(crate) fn has_claims(core: &CollectionCore, row: RowRef<'_>) -> Result<bool> {
    let Some(viewed) = core
        .viewed
        .as_deref()
        .filter(|_| !core.shared.store.limits().transactions)
    else {
        return Ok(false);
    };
    let row = viewed.row(row, Written::UNTOLD)?;
    Ok(row.is_none_or(|row| untaken(&row, &viewed.views).is_empty()))
}

/// Returns the claims (reservations of unique values) that a record needs according to its row. If
/// `expires` is true and the record has expired, returns an empty list.
///
/// # Errors
/// The row is damaged, or a newer release wrote it.
pub(crate) fn claims_of(
    core: &CollectionCore,
    row: RowRef<'_>,
    expires: bool,
) -> Result<Vec<EntryKey<KeyCells>>> {
    let Some(viewed) = core.viewed.as_deref() else {
        return Ok(Vec::new());
    };
    let now = core.shared.environment.now_micros();
    let row = viewed.row(row, Written::UNTOLD)?;
    let record = row
        .as_ref()
        .filter(|row| !expires || !row.has_expired(now))
        .and_then(|row| row.record.as_ref());
    Ok(record
        .map(|record| viewed.views.claims(record))
        .unwrap_or_default())
}

/// Releases a claim (reservation of unique values) of a record that does not have the claimed
/// values.
///
/// # Errors
/// - [`ErrorKind::Conflict`] or [`ErrorKind::Timeout`]: the record now contains the values, or the
///   claim belongs to another record.
/// - The store cannot be read or written in time.
pub(crate) async fn release_unheld(
    core: &CollectionCore,
    key: &Cells,
    claimed: &EntryKey<KeyCells>,
    token: Option<Token>,
) -> Result<()> {
    let (shared, time) = (&core.shared, core.shared.write_options().timeout);
    let is_released = if let Some(token) = token {
        let (name, key) = (&core.definition.name, core.key_of(key));
        let release = shared.writer.release_unheld(name, key, (claimed, token), time);
        release.await?
    } else {
        transact_release(core, key, claimed).await?
    };
    if is_released {
        return Ok(());
    }
    Err(busy(&format!(
        "the claim of {}",
        core.key_text(key, &Cells::new())
    )))
}

/// Releases a claim (reservation of unique values) of a record in a transaction. Returns whether
/// the transaction was applied.
async fn transact_release(core: &CollectionCore, key: &Cells, claimed: &EntryKey<KeyCells>) -> Result<bool> {
    let shared = &core.shared;
    let _writing = shared.writing().await;
    let viewed = core.viewed_now()?;
    let Some((viewed, base)) = viewed.as_deref().and_then(|one| Some((one, one.base.as_ref()?))) else {
        return Ok(false);
    };
    let transacting = Transacting {
        core,
        viewed,
        base,
        key,
    };
    let Some(claim) = transacting.claim(claimed) else {
        return Ok(false);
    };
    let now = shared.environment.now_micros();
    let conditions = vec![
        transacting.unheld(claimed, key, now).await?,
        claim.is_of(Some(key)),
    ];
    let writes = vec![claim.release(shared.stamps.next())];
    let sent = shared.store.transact(conditions, writes, shared.write_options());
    match sent.await? {
        TransactionOutcome::Applied => Ok(true),
        TransactionOutcome::Unknown(error) | TransactionOutcome::Refused(error) => Err(error.into()),
        TransactionOutcome::NotApplied { .. } | TransactionOutcome::Conflict(_) => Ok(false),
    }
}

/// Returns a change that leaves the record unchanged, for a transaction that only takes claims.
fn as_it_is(row: &RowOf<ViewedCollection>, record: Cells) -> TransactionOf<ViewedCollection> {
    TransactionOf::<ViewedCollection> {
        expected: Some(row.version),
        after: ChangedRecord {
            record: Some(record),
            expires_at: row.expires_at,
            above: None,
        },
        entries: Entries {
            version: row.version,
            removals: Vec::new(),
            puts: Vec::new(),
            releases: Vec::new(),
            until: row.expires_at,
        },
        taken: Vec::new(),
        released: Vec::new(),
    }
}

/// Returns the names of the fields of a unique constraint.
pub(super) fn unique_fields(core: &CollectionCore, number: ViewNumber) -> &[String] {
    let mut unique = core.recorded.views.unique.iter();
    unique
        .find(|one| one.number == number.0)
        .map_or(&[], |one| &*one.fields)
}

/// Hint of the error for unique values that another record has.
const GIVE_OTHERS: &str = "use other values, or change that record first; nothing was written";

/// Returns the error for unique values that another record has. The error names the key of that
/// record if `holder` is given.
#[cold]
pub(crate) fn taken(core: &CollectionCore, number: ViewNumber, holder: Option<&Cells>) -> Error {
    let fields = unique_fields(core, number);
    let this = if fields.len() == 1 { "this" } else { "these" };
    let message = format!(
        "another record of {} has {this} {}, which must be unique",
        core.definition.name,
        fields.join(", "),
    );
    let hint = holder.map(|key| {
        let key = core.key_text(key, &Cells::new());
        format!("it is the record {key}; {GIVE_OTHERS}")
    });
    let error = Error::new(ErrorKind::Conflict, message)
        .with_part(Part::Record)
        .with_hint(hint.unwrap_or_else(|| GIVE_OTHERS.to_owned()));
    match fields.first() {
        Some(first) => error.with_field(first),
        None => error,
    }
}

/// Removes the key of the other record from an error about unique values, for a caller that may not
/// see that record.
pub(crate) fn without_holder(error: Error) -> Error {
    if error.kind() == ErrorKind::Conflict && error.field().is_some() {
        return error.with_hint(GIVE_OTHERS);
    }
    error
}

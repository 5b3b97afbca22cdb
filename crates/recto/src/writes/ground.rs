//! State on which plain changes (changes without a condition on a version) depend: the views to
//! write, and stored records that must be read first.

use std::collections::HashMap;
use std::sync::Arc;

use futures::FutureExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use recto_model::Cells;
use recto_protocol::views::{Arranged, Misfit};
use recto_store::{Cas, CasCondition, PointRead, ReadOptions, RowAddress};

use super::{Pending, RowChange};
use crate::catalog;
use crate::core::CollectionCore;
use crate::error::Result;
use crate::shared::Shared;
use crate::viewed::{Viewed, Written};

/// Maximum number of records that are read concurrently before they are changed.
const MAX_READS: usize = 32;

/// State on which plain changes depend. A store with transactions applies the changes only if the
/// state has not changed.
#[derive(Debug)]
pub(super) struct Ground {
    /// Generation (number of recorded schemas) of the schema when the state was read.
    generation: u64,
    /// For each change, the views of its collection; `None` if the change writes only its record.
    viewed: Vec<Option<Arc<Viewed>>>,
    /// For each change whose stored record was read, the record, or `None` if it does not exist.
    /// The key is the index of the change.
    read: HashMap<usize, Option<Stored>>,
    /// Conditions that the stored records have not changed since they were read.
    conditions: Vec<Cas>,
    /// For each change, the misfit that it would create: a view or constraint that cannot store the
    /// new record. `None` if the record fits.
    pub(super) new_misfits: Vec<Option<Misfit>>,
}

/// Stored record that a change depends on.
#[derive(Debug)]
pub(super) struct Stored {
    /// Cells of the record, in the order of the collection's fields.
    pub(super) record: Cells,
    /// Write timestamp of the record; `None` if the store does not report it.
    pub(super) stamp: Option<i64>,
}

impl Ground {
    /// Reads the state on which `pending` depends. In collections whose records never change, a put
    /// reads the stored record only if necessary, or if `reads_all` is true.
    pub(super) async fn look(shared: &Shared, pending: &[Pending], reads_all: bool) -> Result<Self> {
        let generation = shared.held().recorded.generation;
        let viewed = pending.iter().map(|one| one.core.viewed_now());
        let viewed = viewed.collect::<Result<Vec<_>>>()?;
        let mut reads = Vec::new();
        for (number, (one, viewed)) in pending.iter().zip(&viewed).enumerate() {
            if let Some(viewed) = viewed.as_ref().filter(|viewed| is_read(one, viewed, reads_all)) {
                reads.push(read(shared, number, one, viewed).boxed());
            }
        }
        let mut ground = Self {
            generation,
            viewed: Vec::new(),
            read: HashMap::new(),
            conditions: Vec::new(),
            new_misfits: new_misfits(shared, pending, &viewed).await?,
        };
        let mut places = HashMap::new();
        let reads: Vec<_> = stream::iter(reads).buffered(MAX_READS).try_collect().await?;
        for (number, stored, condition) in reads {
            ground.read.insert(number, stored);
            // Join the conditions of a partition, because a transaction accepts only one condition
            // for each partition.
            let place = (condition.table.name().to_owned(), condition.partition.clone());
            let next = ground.conditions.len();
            match *places.entry(place).or_insert(next) {
                at if at < next => ground.conditions[at].conditions.extend(condition.conditions),
                _ if condition.conditions.is_empty() => {}
                _ => ground.conditions.push(condition),
            }
        }
        ground.viewed = viewed;
        Ok(ground)
    }

    /// Adopts records from an earlier read that no longer exist. A repeated deletion needs the
    /// record that it deleted, which only the earlier read contains.
    pub(super) fn recall(&mut self, before: Self) {
        for (number, stored) in before.read {
            if let Some(read) = self.read.get_mut(&number)
                && read.is_none()
            {
                *read = stored;
            }
        }
    }

    /// Returns the views that the change at index `number` must write; `None` if it writes only its
    /// record.
    pub(super) fn viewed(&self, number: usize) -> Option<&Viewed> {
        self.viewed[number].as_deref()
    }

    /// Returns whether any change writes views.
    pub(super) fn has_views(&self) -> bool {
        self.viewed.iter().any(Option::is_some)
    }

    /// Returns whether the stored record of the change at index `number` was read.
    pub(super) fn has_read(&self, number: usize) -> bool {
        self.read.contains_key(&number)
    }

    /// Returns the stored record of the change at index `number`. Returns `None` if the record was
    /// not read or does not exist.
    pub(super) fn stored(&self, number: usize) -> Option<&Stored> {
        self.read.get(&number)?.as_ref()
    }

    /// Returns the conditions of all changes. If the store has a schema, the first condition is
    /// that its generation is unchanged.
    pub(super) fn conditions(&self) -> Vec<Cas> {
        let schema = (self.generation > 0).then(|| catalog::is_of_generation(self.generation));
        schema
            .into_iter()
            .chain(self.conditions.iter().cloned())
            .collect()
    }

    /// Returns whether the first of the [`conditions`](Self::conditions) is that the schema is
    /// unchanged.
    pub(super) fn has_schema(&self) -> bool {
        self.generation > 0
    }
}

/// Returns, for each change, the misfit that it would create (a view or constraint that cannot
/// store the record), or `None`. Reads stored records only for the few changes with a misfit,
/// because a record that already is a misfit may stay one.
async fn new_misfits(
    shared: &Shared,
    pending: &[Pending],
    viewed: &[Option<Arc<Viewed>>],
) -> Result<Vec<Option<Misfit>>> {
    let mut misfits = Vec::with_capacity(pending.len());
    for (number, (one, viewed)) in pending.iter().zip(viewed).enumerate() {
        let (RowChange::Put { cells, .. }, Some(viewed)) = (&one.change, viewed) else {
            misfits.push(None);
            continue;
        };
        let record = one.core.record_of(cells);
        let mut misfit = viewed.views.new_misfit(None, &record);
        if misfit.is_some() {
            let (_, stored, _) = read(shared, number, one, viewed).await?;
            let there = stored.as_ref().map(|stored| &stored.record);
            misfit = viewed.views.new_misfit(there, &record);
        }
        misfits.push(misfit);
    }
    Ok(misfits)
}

/// Returns whether a record of a collection whose records never change must be read before a
/// change:
///
/// - before a deletion, if the positions of its entries depend on fields outside the key;
/// - before a put, if the record may have fields that its record type does not know.
fn is_read(pending: &Pending, viewed: &Viewed, reads_all: bool) -> bool {
    let core = &pending.core;
    if core.replaces() || viewed.views.views().is_empty() {
        return false;
    }
    match pending.change {
        RowChange::Put { .. } => reads_all || !core.knows_all_of(&viewed.table),
        RowChange::Delete { .. } => !is_by_key_only(core, viewed),
    }
}

/// Returns whether the positions of a record's entries depend only on its key.
pub(super) fn is_by_key_only(core: &CollectionCore, viewed: &Viewed) -> bool {
    let fields = &core.definition.fields;
    let is_key = |field: usize| {
        let field = fields.get(field);
        field.is_some_and(|field| core.definition.key.contains(&field.name))
    };
    viewed
        .views
        .views()
        .iter()
        .all(|view| view.key_fields().all(is_key))
}

/// Reads the stored record that a change affects. Returns the index of the change, the record, and
/// the condition that the record has not changed.
async fn read(
    shared: &Shared,
    number: usize,
    pending: &Pending,
    viewed: &Viewed,
) -> Result<(usize, Option<Stored>, Cas)> {
    let (partition, clustering) = (pending.partition(), pending.clustering());
    let read = PointRead {
        table: Arc::clone(&viewed.table),
        partition: partition.clone(),
        clustering: clustering.clone(),
    };
    let options = ReadOptions {
        stamps: true,
        ..shared.read_options()
    };
    let found = shared.store.snapshot()?.get(&read, &options).await?;
    let row = found.rows.iter().next();
    let stamp = found.stamps.first().copied().filter(|stamp| *stamp > 0);
    let written = Written {
        stamp: stamp.unwrap_or_default(),
        ends_at: None,
    };
    let stored = row.map(|row| viewed.row(row, written)).transpose()?.flatten();
    let first = viewed.table.key_len();
    let conditions = (0..viewed.table.regular().len()).map(|column| CasCondition {
        row: RowAddress::Row(clustering.clone()),
        column: column as u16,
        expected: row.and_then(|row| row.get(first + column)).map(<[u8]>::to_vec),
    });
    let condition = Cas {
        conditions: conditions.collect(),
        table: read.table,
        partition,
        mutations: Vec::new(),
    };
    let stored = stored
        .and_then(|row| row.record)
        .map(|record| Stored { record, stamp });
    Ok((number, stored, condition))
}

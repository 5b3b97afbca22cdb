//! Independent changes of records that have versions (collections with `writes = "update"`), in a
//! session on an open store.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::Duration;

use recto_model::schema::Collection as Definition;
use recto_model::{Cells, json};
use recto_protocol::views::{Refusal, Version};

use super::LocalSession;
use super::records::{Collections, of_change, of_key};
use crate::change::{Change, side_by_side};
use crate::collection::Collection;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Literal;
use crate::key::KeyText;
use crate::present::Versioned;
use crate::record::DynamicRecord;
use crate::row_filter::RowFilter;
use crate::session::{Action, Outcome, RecordChange, Written};
use crate::writes::{
    Changed, MAX_AT_ONCE, MAX_BATCH_CHANGES, MAX_LOOKS, busy, exists_unseen, refusal_of, without_holder,
};

/// Change whose arguments are valid. Only the stored record can still cause its rejection.
struct Ready<'c> {
    collection: &'c Collection<DynamicRecord>,
    definition: Arc<Definition>,
    /// Text of each field of the key. `key_cells` has the same values in encoded form.
    key: Vec<String>,
    key_cells: Cells,
    what: PreparedChange,
    action: Action,
    if_version: Option<i64>,
    /// True if the stored record must be read before the change, because the key does not determine
    /// whether the session may see the record.
    look_first: bool,
}

enum PreparedChange {
    Insert(DynamicRecord, Option<Duration>),
    Put(DynamicRecord, Option<Duration>),
    /// Record with the new values, and the names of the fields to set.
    Update(DynamicRecord, Vec<String>),
    Delete,
}

impl LocalSession {
    /// Makes each change independently. Changes of one record are made in the order of `changes`.
    pub(super) async fn write_each(
        &self,
        collections: &Collections,
        changes: Vec<RecordChange>,
    ) -> Result<Written> {
        if changes.len() > MAX_BATCH_CHANGES {
            let message = format!("the request has more than {MAX_BATCH_CHANGES} changes");
            return Err(Error::new(ErrorKind::LimitExceeded, message)
                .with_hint("split the changes into several writes"));
        }
        let mut ready = Vec::with_capacity(changes.len());
        for (index, change) in changes.into_iter().enumerate() {
            let collection = &collections[&change.collection];
            let change = self
                .ready(collection, change)
                .map_err(|error| of_change(error, index))?;
            ready.push(change);
        }
        let changes = ready.iter().map(|change| (Some(change.record()), change));
        let outcomes = side_by_side(changes, MAX_AT_ONCE, |change| self.make(change)).await;
        let mut written = Written::default();
        for (change, outcome) in ready.iter().zip(outcomes) {
            if outcome.is_ok() {
                written.count(&change.action);
            }
            let tells_holder = self.tells_holders && self.filters(&change.definition.name).is_none();
            written.outcomes.push(if tells_holder {
                outcome
            } else {
                outcome.map_err(without_holder)
            });
        }
        Ok(written)
    }

    /// Checks that a change is valid and that the session may make it. Does not read the stored
    /// record, so some rejections come later.
    fn ready<'c>(
        &self,
        collection: &'c Collection<DynamicRecord>,
        change: RecordChange,
    ) -> Result<Ready<'c>> {
        let definition = collection.definition();
        let what = prepare(&definition, &change.action, change.if_version)?;
        let key = match &change.action {
            Action::Update { key, .. } | Action::Delete { key } => key.clone(),
            Action::Insert { .. } | Action::Put { .. } => key_of(&definition, &what),
        };
        let mut ready = Ready {
            collection,
            definition: Arc::clone(&definition),
            key,
            key_cells: Cells::new(),
            what,
            action: change.action,
            if_version: change.if_version,
            look_first: false,
        };
        drop(ready.change().checked()?);
        ready.key_cells = collection.key(&KeyText(&ready.key))?.1;
        if let Some(filters) = self.filters(&definition.name) {
            let rows = RowFilter::new(&definition, filters)?;
            ready.look_first = !rows.is_on_key();
            match &ready.what {
                PreparedChange::Insert(record, _) | PreparedChange::Put(record, _) => {
                    rows.check_write(record)?;
                }
                _ if rows.is_on_key() => rows.check_write(&of_key(&definition, &ready.key)?)?,
                _ => {}
            }
        }
        Ok(ready)
    }

    async fn make(&self, ready: &Ready<'_>) -> Result<Outcome> {
        if ready.look_first {
            return self.make_if_seen(ready).await;
        }
        let change = match ready.if_version {
            None => ready.change(),
            Some(version) => ready.change().if_version(version),
        };
        change.into_future().await.map(outcome)
    }

    /// Makes a change if the session may see the stored record, on condition that the record still
    /// has the version that was read. A hidden record behaves as if it did not exist, except that
    /// no other record can get its key.
    async fn make_if_seen(&self, ready: &Ready<'_>) -> Result<Outcome> {
        let core = ready.collection.now()?;
        let refused = |refusal| refusal_of(&core, &ready.key_cells, refusal);
        let mut has_met = false;
        for _ in 0..MAX_LOOKS {
            let seen = self.visible(ready.collection, &ready.key).await?;
            let version = seen.as_ref().and_then(|seen| seen.version);
            if ready.if_version.is_some() && ready.if_version != version {
                return Err(refused(Refusal::Changed(version.map(Version))));
            }
            self.check_becomes(ready, seen.as_ref())?;
            let change = match (&ready.what, version) {
                (PreparedChange::Insert(..), Some(version)) => {
                    return Err(refused(Refusal::Exists(Version(version))));
                }
                (PreparedChange::Insert(..) | PreparedChange::Put(..), None) if has_met => {
                    return Err(exists_unseen(&core, &ready.key_cells));
                }
                (PreparedChange::Insert(record, time) | PreparedChange::Put(record, time), None) => {
                    living(ready.collection.insert(record), *time)
                }
                (PreparedChange::Update(..), None) => return Err(refused(Refusal::Absent)),
                (PreparedChange::Delete, None) => {
                    return Ok(Outcome {
                        version: Some(core.shared.stamps.next().0),
                        pending: false,
                    });
                }
                (_, Some(version)) => ready.change().if_version(version),
            };
            match change.await {
                Ok(changed) => return Ok(outcome(changed)),
                Err(error) if error.kind() == ErrorKind::Exists => has_met = true,
                // The record changed, and the session may not be allowed to see its new
                // state, so read it again.
                Err(error) if matches!(error.kind(), ErrorKind::Changed | ErrorKind::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Err(busy(&format!("a record of {}", ready.definition.name)))
    }

    /// Rejects a change after which the session could not see the record.
    fn check_becomes(&self, ready: &Ready<'_>, seen: Option<&Versioned<DynamicRecord>>) -> Result<()> {
        let filters = self.filters(&ready.definition.name).unwrap_or_default();
        let (PreparedChange::Update(fields, names), Some(seen)) = (&ready.what, seen) else {
            return Ok(());
        };
        let mut becomes = seen.record.clone();
        for name in names {
            becomes.set(name, fields.get(name).cloned())?;
        }
        RowFilter::new(&ready.definition, filters)?.check_write(&becomes)
    }
}

impl Ready<'_> {
    /// Returns the name of the collection, and the key of the record to change.
    fn record(&self) -> (String, Cells) {
        (self.definition.name.clone(), self.key_cells.clone())
    }

    /// Returns the change to make, without a condition on the version.
    fn change(&self) -> Change {
        match &self.what {
            PreparedChange::Insert(record, time) => living(self.collection.insert(record), *time),
            PreparedChange::Put(record, time) => living(self.collection.put(record), *time),
            PreparedChange::Update(fields, names) => {
                let update = self.collection.update(KeyText(&self.key));
                let set = |update: crate::change::Update<DynamicRecord>, name: &String| {
                    let value = fields.get(name).cloned();
                    update.set(name, value.map_or(Literal::Null, Literal::Value))
                };
                names.iter().fold(update, set).into()
            }
            PreparedChange::Delete => self.collection.delete(KeyText(&self.key)),
        }
    }
}

fn prepare(definition: &Arc<Definition>, action: &Action, if_version: Option<i64>) -> Result<PreparedChange> {
    let read = |record| DynamicRecord::from_json(Arc::clone(definition), record);
    let time = |seconds: &Option<u32>| seconds.map(|seconds| Duration::from_secs(seconds.into()));
    Ok(match action {
        Action::Insert { .. } if if_version.is_some() => {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "an insert cannot have a version, because the record does not exist",
            )
            .with_hint("put or update the record with this version"));
        }
        Action::Insert { record, ttl_seconds } => PreparedChange::Insert(read(record)?, time(ttl_seconds)),
        Action::Put { record, ttl_seconds } => PreparedChange::Put(read(record)?, time(ttl_seconds)),
        Action::Update { fields, .. } => {
            PreparedChange::Update(read(fields)?, fields.keys().cloned().collect())
        }
        Action::Delete { .. } => PreparedChange::Delete,
    })
}

/// Returns the key of a record as texts. Omits a null field; the record is rejected later, when it
/// is encoded.
fn key_of(definition: &Definition, what: &PreparedChange) -> Vec<String> {
    let (PreparedChange::Insert(record, _) | PreparedChange::Put(record, _)) = what else {
        return Vec::new();
    };
    let text = |name: &String| {
        let (_, field) = definition.field(name)?;
        Some(json::to_text(&field.ty, record.get(name)?))
    };
    definition.key.iter().filter_map(text).collect()
}

fn living(change: Change, time_to_live: Option<Duration>) -> Change {
    match time_to_live {
        None => change,
        Some(time) => change.lives_for(time),
    }
}

fn outcome(changed: Changed) -> Outcome {
    Outcome {
        version: Some(changed.version),
        pending: changed.pending,
    }
}

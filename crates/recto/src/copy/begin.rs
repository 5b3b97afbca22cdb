//! Preparation of a copy: selects the collections, and checks that the target store accepts them
//! before anything is changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use recto_model::schema::{Collection, Schema};
use recto_plan::cursor::KeyRing;
use recto_store::{StoreErrorKind, StoreKind, TokenRange};

use super::record::Records;
use crate::catalog::apply::Added;
use crate::catalog::views::{KeptUnique, KeptViews};
use crate::core::no_collection;
use crate::covered::{Covered, Work};
use crate::error::{Error, ErrorKind, Result};
use crate::misfits::Checked;
use crate::recto::Recto;
use crate::session::Misfits;

/// Kind of work of a copy, under which the target store keeps the copy's progress.
pub(super) const WORK: Work = Work::COPY;
/// Maximum number of rows that one read returns when a copy checks whether the target store has
/// records.
const LOOK_ROWS: u32 = 100;
/// Number of hexadecimal digits of the identity of a copy.
const ID_DIGITS: usize = 32;

/// Collections that a copy transfers.
pub(super) struct Begun {
    /// Schema of the selected collections, with the types of the source store.
    pub(super) schema: Schema,
    /// Identity (hexadecimal digest) of the copy of each collection, in the order of `schema`.
    pub(super) ids: Vec<String>,
    keys: Arc<KeyRing>,
}

impl Begun {
    /// Checks that the source store has the collections and that the target store accepts them.
    ///
    /// # Errors
    /// A collection does not exist in the source store. Or the target store declares it
    /// differently, or has records of it that the same copy did not write.
    pub(super) async fn look(source: &Recto, target: &Recto, names: &[String]) -> Result<Self> {
        let is_one = source.describe() == target.describe() && source.store().kind() != StoreKind::Memory;
        if is_one || Arc::ptr_eq(source.shared(), target.shared()) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "the source and the target are the same store, {}",
                    source.describe()
                ),
            )
            .with_hint("name two stores"));
        }
        source.refresh().await?;
        target.refresh().await?;
        let schema = asked(&source.schema(), names)?;
        source.cursor_keys().await?;
        let keys = source.shared().keys.ring();
        let ids = schema
            .collections
            .iter()
            .map(|one| id(&keys, &of_one(&schema, one)));
        let begun = Self {
            ids: ids.collect(),
            schema,
            keys,
        };
        for (collection, id) in begun.schema.collections.iter().zip(&begun.ids) {
            source.shared().held().check_table(&collection.name)?;
            check_unique(source, collection)?;
            begun.check_declared(target, collection)?;
            let covered = Covered::new(target.shared(), WORK, &collection.name, id.clone());
            let is_begun = !covered.read().await?.is_empty();
            match (has_records(target, collection).await?, is_begun) {
                (true, false) => return Err(begun.not_empty(target, &collection.name).await?),
                // The target has progress but no records, because they were removed after the
                // interrupted copy. So the copy begins again.
                (false, true) => covered.forget().await?,
                _ => {}
            }
        }
        let plan = target.plan(&begun.schema).await?;
        match plan.rejected.first() {
            None => Ok(begun),
            Some(first) => Err(Error::new(
                ErrorKind::SchemaMismatch,
                format!("{} cannot store the copy: {first}", target.describe()),
            )
            .with_hint("nothing was changed")),
        }
    }

    /// Counts the records that do not fit the views and unique constraints of the target store, and
    /// records the counts in the target's catalog. The target store then knows the number of
    /// missing entries before the copy begins. Returns the findings.
    ///
    /// # Errors
    /// A store cannot be read, or the target store cannot be written.
    pub(super) async fn mark_misfits(
        &self,
        source: &Recto,
        target: &Recto,
        rows_per_second: Option<u32>,
    ) -> Result<Vec<Misfits>> {
        let (recorded, mut all) = (target.recorded(), BTreeMap::new());
        for declared in &self.schema.collections {
            let stored = source.core(&declared.name)?;
            let views = recorded.views.of(&declared.name);
            let unique = recorded.views.unique_of(&declared.name);
            let checked = Checked::from(Added {
                stored: Arc::clone(&stored.definition),
                declared: Arc::clone(declared),
                views: views.filter(|view| view.is_written()).cloned().collect(),
                unique: unique.cloned().collect(),
            });
            all.extend(checked.find(source.shared(), rows_per_second).await?);
        }
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let record = |views: &mut KeptViews| {
            let mut is_changed = false;
            for (number, found) in &all {
                let known = views.misfits_of(*number);
                is_changed |= views.set_misfits(*number, known.max(found.counts));
            }
            is_changed
        };
        target.shared().record_views(record).await?;
        Ok(all.into_values().collect())
    }

    /// Returns whether the cached cursor keys of a store are the keys of the source store.
    fn are_keys_of(&self, store: &Recto) -> bool {
        *store.shared().keys.ring().to_bytes() == *self.keys.to_bytes()
    }

    /// Returns the error for a target store that already has records of a collection. If the cursor
    /// keys are equal, the target store is the source store at another address, or a copy of it.
    /// The hint then does not recommend the removal of the records.
    async fn not_empty(&self, target: &Recto, collection: &str) -> Result<Error> {
        target.cursor_keys().await?;
        let hint = if self.are_keys_of(target) {
            format!(
                "if an earlier copy ended well, use that store, or copy into a new one; nothing was changed. \
                 To copy again, first remove the collection there: recto apply --remove {collection} --store \
                 STORE. Check first that the two stores are not one store with two addresses, because they \
                 have the same cursor keys: if so, this command removes the original records"
            )
        } else {
            removal(collection)
        };
        let message = format!(
            "{} has records of collection {collection} that are not from this copy",
            target.describe()
        );
        Ok(Error::new(ErrorKind::Exists, message).with_hint(hint))
    }

    /// Rejects a collection that the target store declares differently.
    fn check_declared(&self, target: &Recto, collection: &Arc<Collection>) -> Result<()> {
        let there = target.schema();
        let Some(declared) = there.collection(&collection.name) else {
            return Ok(());
        };
        let (here, there) = (of_one(&self.schema, collection), of_one(&there, declared));
        let is_same = here.collections[0].fields == there.collections[0].fields
            && here.difference(&there).is_empty()
            && there.difference(&here).is_empty();
        if is_same {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::SchemaMismatch,
            format!(
                "{} has a collection {} with another declaration",
                target.describe(),
                collection.name
            ),
        )
        .with_hint(removal(&collection.name)))
    }

    /// Replaces the cursor keys of the target store with the keys of the source store, unless the
    /// target store has other collections, whose cursors would become invalid. Returns whether
    /// cursors of one store are valid in the other.
    ///
    /// During the transfer, only the memory of this process contains the keys.
    pub(super) async fn take_cursor_keys(&self, source: &Recto, target: &Recto) -> Result<bool> {
        let (own, taken) = (&target.shared().keys, &self.keys);
        if own.are_given || source.shared().keys.are_given {
            // Keys from the configuration cannot be replaced, so only compare the
            // keys of both stores.
            return Ok(self.are_keys_of(target));
        }
        let there = target.schema();
        let is_copied = |one: &Arc<Collection>| self.schema.collection(&one.name).is_some();
        if !there.collections.iter().all(is_copied) {
            target.cursor_keys().await?;
            return Ok(self.are_keys_of(target));
        }
        let catalog = target.catalog();
        if !catalog.exists().await? {
            catalog.create().await?;
        }
        catalog.adopt_cursor_keys(taken).await?;
        own.replace(KeyRing::clone(taken));
        Ok(true)
    }
}

/// Returns the part of a schema to copy: the collections `names`, or all collections if `names` is
/// empty. Attached collections cannot be copied.
fn asked(schema: &Schema, names: &[String]) -> Result<Schema> {
    if let Some(name) = names.iter().find(|name| schema.collection(name).is_none()) {
        return Err(no_collection(schema, name));
    }
    let is_attached = |name: &&String| schema.collection(name).is_some_and(|one| one.attached.is_some());
    if let Some(name) = names.iter().find(is_attached) {
        return Err(Error::new(
            ErrorKind::NotOffered,
            format!("collection {name} is attached: its records are in another store"),
        )
        .with_hint("attach its table to the target store too, with `recto attach`"));
    }
    let is_asked =
        |one: &&Arc<Collection>| one.attached.is_none() && (names.is_empty() || names.contains(&one.name));
    let collections = schema.collections.iter().filter(is_asked);
    Ok(Schema {
        types: schema.types.clone(),
        collections: collections.map(Arc::clone).collect(),
        ..Schema::default()
    })
}

/// Rejects a collection with a unique constraint that is still being checked. Its records may have
/// equal values, which the target store would reject.
fn check_unique(source: &Recto, collection: &Collection) -> Result<()> {
    let recorded = source.recorded();
    let is_building = |one: &&KeptUnique| one.is_building && one.collection == collection.name;
    let Some(unready) = recorded.views.unique.iter().find(is_building) else {
        return Ok(());
    };
    let fields = unready.fields.join(", ");
    Err(Error::new(
        ErrorKind::SchemaMismatch,
        format!(
            "records of collection {} may have the same {fields}, because the check of this unique \
             constraint is not finished",
            collection.name
        ),
    )
    .with_hint("apply the schema to the source store, which reports the records with the same values"))
}

/// Returns a schema with only the collection `collection` and with all types of `schema`, to
/// compare or identify one collection.
fn of_one(schema: &Schema, collection: &Arc<Collection>) -> Schema {
    Schema {
        types: schema.types.clone(),
        collections: vec![Arc::clone(collection)],
        ..Schema::default()
    }
}

/// Returns the identity of the copy of a collection: a digest of its schema and of the source's
/// cursor keys, which belong to one store. The digest does not reveal the keys.
fn id(keys: &KeyRing, collection: &Schema) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("recto 2026-11 the copy of a collection");
    hasher.update(&keys.to_bytes());
    hasher.update(collection.to_toml().as_bytes());
    hasher.finalize().to_hex()[..ID_DIGITS].to_owned()
}

/// Returns whether a store has records of a collection, even if its catalog does not contain the
/// collection. Deleted records whose versions are still stored count too.
async fn has_records(target: &Recto, collection: &Arc<Collection>) -> Result<bool> {
    let table = Arc::new(collection.base_table());
    let (shared, mut after) = (target.shared(), None);
    let snapshot = shared.store.snapshot()?;
    loop {
        let options = shared.read_options();
        let range = TokenRange::whole();
        let read = snapshot
            .scan(&table, &range, after.as_ref(), LOOK_ROWS, &options)
            .await;
        let read = match read {
            Err(error) if error.kind() == StoreErrorKind::Table => return Ok(false),
            read => read?,
        };
        if Records::has_any(collection, &read)? {
            return Ok(true);
        }
        match read.next {
            Some(next) => after = Some(next),
            None => return Ok(false),
        }
    }
}

fn removal(collection: &str) -> String {
    format!(
        "copy into another store, or remove the collection there first, with all its records (recto apply \
         --remove {collection}); nothing was changed"
    )
}

/// Returns a line for each part of a store that is not copied.
pub(super) async fn left_out(source: &Recto) -> Result<Vec<String>> {
    let schema = source.schema();
    let attached = schema.collections.iter().filter(|one| one.attached.is_some());
    let attached = attached.map(|one| {
        let name = &one.name;
        format!(
            "collection {name}: it is attached, and its records are in another store; attach its table to \
             the target store too"
        )
    });
    let mut lines: Vec<String> = attached.collect();
    let Some(queues) = source.queues_there().await? else {
        return Ok(lines);
    };
    let queues = queues.list().await?;
    let line = |name: &str| {
        format!("queue {name}: queues are not copied; let its workers finish, and create it again")
    };
    lines.extend(queues.iter().map(|queue| line(queue.name())));
    Ok(lines)
}

//! What is copied, and whether the other store takes it: looked at before anything is changed.

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

/// What says how far it is.
pub(super) const WORK: Work = Work::COPY;
/// Rows that are looked at together, to see whether there is a record.
const LOOK_ROWS: u32 = 100;
/// How many hexadecimal digits tell a copy from others.
const ID_DIGITS: usize = 32;

/// What is copied.
pub(super) struct Begun {
    /// The collections, with the types of the store that they are of.
    pub(super) schema: Schema,
    /// For each collection, what this copy of it is known by.
    pub(super) ids: Vec<String>,
    /// The keys of the store that is copied.
    keys: Arc<KeyRing>,
}

impl Begun {
    /// Looks at both stores.
    ///
    /// # Errors
    /// There is no such collection. The other store declares it otherwise, or has records of it that this copy did not put there.
    pub(super) async fn look(source: &Recto, target: &Recto, names: &[String]) -> Result<Self> {
        let is_one = source.describe() == target.describe() && source.store().kind() != StoreKind::Memory;
        if is_one || Arc::ptr_eq(source.shared(), target.shared()) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("{} would be copied into itself", source.describe()),
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
                // What it put there was removed since: it begins anew.
                (false, true) => covered.forget().await?,
                _ => {}
            }
        }
        let plan = target.plan(&begun.schema).await?;
        match plan.rejected.first() {
            None => Ok(begun),
            Some(first) => Err(Error::new(
                ErrorKind::SchemaMismatch,
                format!("{} cannot hold what is copied: {first}", target.describe()),
            )
            .with_hint("nothing was changed")),
        }
    }

    /// Counts the records that do not fit views and unique constraints, and records their number in the other store, so
    /// that these are known to lack records before they do. Returns what was found.
    ///
    /// # Errors
    /// A store cannot be read, or the other one not written.
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

    /// Whether a store, as it is known here, has the cursor keys of the one that is copied.
    fn are_keys_of(&self, store: &Recto) -> bool {
        *store.shared().keys.ring().to_bytes() == *self.keys.to_bytes()
    }

    /// That the other store has records of a collection. With the same cursor keys it is this one, reached by another address, or one that
    /// was copied from it: then nobody is told to remove them.
    async fn not_empty(&self, target: &Recto, collection: &str) -> Result<Error> {
        target.cursor_keys().await?;
        let hint = if self.are_keys_of(target) {
            format!(
                "nothing was changed. If an earlier copy ended well, the records are there: use that store, or copy into a new one. To \
                 copy again, first remove the collection there: recto apply --remove {collection} --store STORE. Both stores have \
                 the same cursor keys: if they are one store with two addresses, that command removes the records themselves"
            )
        } else {
            removal(collection)
        };
        let message = format!(
            "{} has records of collection {collection}, which this copy did not put there",
            target.describe()
        );
        Ok(Error::new(ErrorKind::Exists, message).with_hint(hint))
    }

    /// Refuses a collection that the other store declares otherwise.
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
                "{} has a collection {} that is declared otherwise",
                target.describe(),
                collection.name
            ),
        )
        .with_hint(removal(&collection.name)))
    }

    /// Has the other store take over the cursor keys, unless it has other collections, whose cursors would not open any more. Whether
    /// cursors of the one store open in the other then.
    ///
    /// Between the stores the keys are in the memory of this process only.
    pub(super) async fn take_cursor_keys(&self, source: &Recto, target: &Recto) -> Result<bool> {
        let (own, taken) = (&target.shared().keys, &self.keys);
        if own.are_given || source.shared().keys.are_given {
            // They come from configuration, which says which they are.
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

/// What of a schema is to be copied.
fn asked(schema: &Schema, names: &[String]) -> Result<Schema> {
    if let Some(name) = names.iter().find(|name| schema.collection(name).is_none()) {
        return Err(no_collection(schema, name));
    }
    let is_attached = |name: &&String| schema.collection(name).is_some_and(|one| one.attached.is_some());
    if let Some(name) = names.iter().find(is_attached) {
        return Err(Error::new(
            ErrorKind::NotOffered,
            format!("collection {name} is attached: its records are not this store's to copy"),
        )
        .with_hint("attach its table to the other store, too: `recto attach`"));
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

/// Refuses a collection of which records may have the same values of unique fields: in the other store no two could have them.
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
            "records of collection {} may have the same {fields}, which are to be unique and are not yet",
            collection.name
        ),
    )
    .with_hint("apply the schema to the store that is copied: that tells which records have the same values"))
}

/// One collection of a schema, with its types.
fn of_one(schema: &Schema, collection: &Arc<Collection>) -> Schema {
    Schema {
        types: schema.types.clone(),
        collections: vec![Arc::clone(collection)],
        ..Schema::default()
    }
}

/// What a copy of this collection is known by: keys are of one store only, and nobody learns them from it.
fn id(keys: &KeyRing, collection: &Schema) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("recto 2026-11 the copy of a collection");
    hasher.update(&keys.to_bytes());
    hasher.update(collection.to_toml().as_bytes());
    hasher.finalize().to_hex()[..ID_DIGITS].to_owned()
}

/// Whether a store has records of a collection, recorded or not, or knows of some that were deleted, whose versions go on.
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
        "nothing was changed: copy into another store, or remove the collection there first, with all its records \
         (recto apply --remove {collection})"
    )
}

/// What a store has that is not copied.
pub(super) async fn left_out(source: &Recto) -> Result<Vec<String>> {
    let schema = source.schema();
    let attached = schema.collections.iter().filter(|one| one.attached.is_some());
    let attached = attached.map(|one| {
        let name = &one.name;
        format!("collection {name}: it is attached, and its records are not this store's; attach its table there, too")
    });
    let mut lines: Vec<String> = attached.collect();
    let Some(queues) = source.queues_there().await? else {
        return Ok(lines);
    };
    let queues = queues.list().await?;
    let line =
        |name: &str| format!("queue {name}: queues are not copied; let its workers finish, and make it anew");
    lines.extend(queues.iter().map(|queue| line(queue.name())));
    Ok(lines)
}

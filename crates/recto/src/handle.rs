//! A collection as handles know it: they follow the schema that the store holds.

use std::sync::{Arc, PoisonError, RwLock};

use recto_model::record::Record;
use recto_model::schema::{Collection, Schema};

use crate::core::{CollectionCore, no_collection};
use crate::error::{Error, ErrorKind, Result};
use crate::shared::Shared;

/// A collection of an open store, by its name. Whoever asks it is given the collection as the store holds it now, which
/// costs one comparison unless the schema has changed.
#[derive(Debug)]
pub(crate) struct Handle {
    shared: Arc<Shared>,
    name: String,
    /// None: it does not follow. What was begun with the collection as it was goes on with that.
    knows: Option<Knows>,
    /// As last asked for.
    core: RwLock<Arc<CollectionCore>>,
}

/// What the handle's user knows of the collection.
#[derive(Debug)]
enum Knows {
    /// Every field.
    All,
    /// The fields of a record type, in its order.
    Type {
        declared: Box<Collection>,
        fields: &'static [&'static str],
    },
}

impl Handle {
    /// # Errors
    /// The store has no such collection, or its table cannot serve it.
    pub(crate) fn dynamic(shared: &Arc<Shared>, name: &str) -> Result<Self> {
        Self::new(shared, name.to_owned(), Knows::All)
    }

    /// # Errors
    /// As [`dynamic`](Self::dynamic), or the store declares the collection otherwise than `T` does.
    pub(crate) fn typed<T: Record>(shared: &Arc<Shared>) -> Result<Self> {
        let declared = Box::new(T::collection());
        let fields = T::field_names();
        Self::new(shared, declared.name.clone(), Knows::Type { declared, fields })
    }

    /// A handle that does not follow.
    pub(crate) fn pinned(core: Arc<CollectionCore>) -> Self {
        Self {
            shared: Arc::clone(&core.shared),
            name: core.definition.name.clone(),
            knows: None,
            core: RwLock::new(core),
        }
    }

    fn new(shared: &Arc<Shared>, name: String, knows: Knows) -> Result<Self> {
        let core = make(shared, &name, &knows)?;
        Ok(Self {
            shared: Arc::clone(shared),
            name,
            knows: Some(knows),
            core: RwLock::new(Arc::new(core)),
        })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The collection as it was last asked for, be it still there or not.
    pub(crate) fn known(&self) -> Arc<CollectionCore> {
        Arc::clone(&self.core.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The collection as the store holds it now.
    ///
    /// # Errors
    /// It was removed, or is one by now that the record type does not fit; its table cannot serve it.
    pub(crate) fn now(&self) -> Result<Arc<CollectionCore>> {
        let core = self.known();
        if core.is_current() {
            return Ok(core);
        }
        self.changed(core)
    }

    #[cold]
    fn changed(&self, then: Arc<CollectionCore>) -> Result<Arc<CollectionCore>> {
        let Some(knows) = &self.knows else {
            then.check_still_held()?;
            return Ok(then);
        };
        let core = Arc::new(make(&self.shared, &self.name, knows)?);
        *self.core.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&core);
        Ok(core)
    }
}

fn make(shared: &Arc<Shared>, name: &str, knows: &Knows) -> Result<CollectionCore> {
    let held = shared.held();
    held.check_table(name)?;
    let schema = &held.recorded.schema;
    let definition = schema
        .collection(name)
        .ok_or_else(|| no_collection(schema, name))?;
    let core = CollectionCore::new(Arc::clone(shared), &held, Arc::clone(definition));
    match knows {
        Knows::All => Ok(core),
        Knows::Type { declared, fields } => {
            check_fits(declared, definition)?;
            Ok(core.for_fields(fields))
        }
    }
}

/// Refuses a record type that declares its collection otherwise than the store does.
fn check_fits(declared: &Collection, held: &Arc<Collection>) -> Result<()> {
    // Fields, unique constraints and a bucket that the type does not name are no difference.
    let mut declared = declared.keeping(held);
    if let (None, Some(attached)) = (&declared.attached, &held.attached) {
        // The owner of the table says how records are written; a type cannot say it.
        declared.attached = Some(attached.clone());
        declared.writes = held.writes;
    }
    // Nor are views: a query finds those that there are.
    declared.views.clone_from(&held.views);
    let of = |collection| Schema {
        collections: vec![collection],
        ..Schema::default()
    };
    let differences = of(Arc::clone(held)).difference(&of(Arc::new(declared)));
    if differences.is_empty() {
        return Ok(());
    }
    let differences: Vec<String> = differences.iter().map(ToString::to_string).collect();
    Err(Error::new(
        ErrorKind::SchemaMismatch,
        format!(
            "the record type differs from the store's collection: {}",
            differences.join("; ")
        ),
    )
    .with_hint("change the type, or apply the schema that it declares"))
}

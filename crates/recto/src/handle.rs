//! Handle of a collection, which follows changes of the schema.

use std::sync::{Arc, PoisonError, RwLock};

use recto_model::record::Record;
use recto_model::schema::{Collection, Schema};

use crate::core::{CollectionCore, no_collection};
use crate::error::{Error, ErrorKind, Result};
use crate::shared::Shared;

/// Collection of an open store, found by name. The handle returns the collection in its current definition.
/// If the schema is unchanged, this costs one comparison of versions.
#[derive(Debug)]
pub(crate) struct Handle {
    shared: Arc<Shared>,
    name: String,
    /// Fields that the user of the handle knows. `None`: the handle does not follow changes of the
    /// schema, so that work continues with the definition with which it began.
    knows: Option<Knows>,
    /// State of the collection at the last request.
    core: RwLock<Arc<CollectionCore>>,
}

#[derive(Debug)]
enum Knows {
    /// All fields: the user reads dynamic records.
    All,
    /// Fields of a record type, in the order of the type.
    Type {
        declared: Box<Collection>,
        fields: &'static [&'static str],
    },
}

impl Handle {
    /// Creates a handle for dynamic records.
    ///
    /// # Errors
    /// The store does not have the collection, or the collection's table is missing or differs from the
    /// schema.
    pub(crate) fn dynamic(shared: &Arc<Shared>, name: &str) -> Result<Self> {
        Self::new(shared, name.to_owned(), Knows::All)
    }

    /// Creates a handle for records of the type `T`.
    ///
    /// # Errors
    /// The errors of [`dynamic`](Self::dynamic). Or `T` declares the collection differently from
    /// the store.
    pub(crate) fn typed<T: Record>(shared: &Arc<Shared>) -> Result<Self> {
        let declared = Box::new(T::collection());
        let fields = T::field_names();
        Self::new(shared, declared.name.clone(), Knows::Type { declared, fields })
    }

    /// Creates a handle that keeps the definition of `core` and does not follow changes of the schema, for
    /// work that must end as it began.
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

    /// Returns the state of the collection at the last request, even if the collection no longer exists.
    pub(crate) fn known(&self) -> Arc<CollectionCore> {
        Arc::clone(&self.core.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the state of the collection by its current definition.
    ///
    /// # Errors
    /// The collection was removed, or no longer fits the record type, or its table is missing or differs from
    /// the schema.
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

/// Returns an error if a record type declares its collection differently from the store.
fn check_fits(declared: &Collection, held: &Arc<Collection>) -> Result<()> {
    // A record type may leave out fields, unique constraints and the bucket size, so take
    // them from the store.
    let mut declared = declared.keeping(held);
    if let (None, Some(attached)) = (&declared.attached, &held.attached) {
        // A record type cannot say how an attached table is written, so take the setting
        // of the table's owner.
        declared.attached = Some(attached.clone());
        declared.writes = held.writes;
    }
    // A record type need not name the views, because a query finds the existing ones, so
    // compare without views.
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
    .with_hint("change the type, or apply the schema that the type declares"))
}

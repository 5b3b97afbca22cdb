//! Attaching: a table that another program created becomes a collection, which is read in place.
//!
//! | module | content |
//! |---|---|
//! | `declared` | declaration of a table as a collection |

mod declared;

use std::sync::Arc;

use recto_cassandra::{CassandraStore, TableThere};
use recto_model::schema::{AttachedTable, AttachedTableError, Collection, Schema};
use recto_store::{StoreError, StoreErrorKind};

use self::declared::{Candidate, Declaring};
use crate::address::CassandraAddress;
use crate::error::{Error, ErrorKind, Result};
use crate::open;
use crate::recto::Recto;
use crate::session::{AttachReport, AttachRequest, LeftOut};

impl Recto {
    /// Attaches a table of a Cassandra keyspace. The table becomes a collection, which Recto reads and does
    /// not write. Recto records the address of the keyspace without credentials. If the table is already
    /// attached, its declaration is updated.
    ///
    /// Recto creates nothing in the keyspace of the table, and sends only `SELECT` statements to it.
    ///
    /// # Errors
    /// After an error, no collection is changed. If the store fails while Recto writes to it, the address of
    /// the keyspace may be recorded already. Another call completes the attachment.
    /// - [`ErrorKind::NotFound`]: the table does not exist.
    /// - [`ErrorKind::Unauthorized`]: Recto may not read the table.
    /// - [`ErrorKind::Unsupported`]: the key has a column that Recto does not support, which the message names; or
    ///   Recto created the table.
    /// - [`ErrorKind::SchemaMismatch`]: the store has another collection with the requested name.
    /// - The keyspace is unreachable, or the store cannot be written.
    pub async fn attach(&self, request: &AttachRequest) -> Result<AttachReport> {
        let AttachRequest { table, from, .. } = request;
        let from = CassandraAddress {
            keyspace: table.keyspace.clone(),
            ..from.clone()
        };
        let there = open::reach(&from, &self.shared().environment).await?;
        let found = find(&there, table).await?;
        let name = request.name.clone().unwrap_or_else(|| table.table.clone());
        let mut declaring = Declaring::new(&name, table, &found)?;
        for candidate in candidates(&there, request).await? {
            declaring.view(candidate)?;
        }
        let schema = Schema::parse(&declaring.to_toml()).map_err(|errors| {
            Error::new(
                ErrorKind::Unsupported,
                format!("table {table} cannot be attached: {errors}"),
            )
            .with_hint("nothing was changed")
        })?;
        let (catalog, address) = (self.catalog(), from.to_recorded());
        self.reach().reached(&table.keyspace, &address, there);
        // Check the schema before `moved`, so that a rejected schema does not move the other
        // attached tables of the keyspace to the new address.
        self.check_applies(&schema).await?;
        let moved = self.moved(table, &name, &address).await?;
        // Record the address before the schema, so that every process that reads the schema
        // can reach its tables.
        catalog.create().await?;
        catalog.record_attached(&table.keyspace, &address).await?;
        let applied = self.apply(&schema).await?;
        Ok(AttachReport {
            collection: schema.collections[0].clone(),
            address,
            generation: applied.generation,
            changes: applied.changes.into_iter().chain(moved).collect(),
            left_out: declaring.left_out,
        })
    }

    /// Returns a line for each other collection that Recto will read from the new address. All tables of a
    /// keyspace share one address, so a new address also applies to them.
    async fn moved(&self, table: &AttachedTable, name: &str, address: &str) -> Result<Vec<String>> {
        if !self.catalog().exists().await? {
            return Ok(Vec::new());
        }
        let addresses = self.catalog().attached().await?;
        let Some(before) = addresses.get(&table.keyspace).filter(|before| *before != address) else {
            return Ok(Vec::new());
        };
        let schema = self.schema();
        let others = schema.collections.iter().filter(|one| {
            let attached = one.attached.as_ref();
            one.name != name && attached.is_some_and(|other| other.keyspace == table.keyspace)
        });
        let line = |one: &Arc<Collection>| {
            format!(
                "collection {}: Recto reads it from {address} instead of {before}",
                one.name
            )
        };
        Ok(others.map(line).collect())
    }
}

/// Finds the requested table, and checks that Recto may read it.
async fn find(there: &CassandraStore, table: &AttachedTable) -> Result<TableThere> {
    let Some(found) = there.table_there(&table.table).await? else {
        return Err(
            Error::new(ErrorKind::NotFound, format!("there is no table {table}"))
                .with_hint("name a table or a materialized view, as keyspace.table"),
        );
    };
    if found.is_of_recto {
        return Err(of_recto(table));
    }
    let readable = there.check_readable(&table.table).await;
    readable.map_err(|error| may_not_read(table, error))?;
    Ok(found)
}

/// Finds the tables that may become views: the materialized views of the table, and other tables that the
/// request names.
async fn candidates(there: &CassandraStore, request: &AttachRequest) -> Result<Vec<Candidate>> {
    let table = &request.table;
    let mut candidates = Vec::new();
    for view in there.views_there(&table.table).await? {
        let found = there.table_there(&view.name).await?;
        candidates.extend(found.map(|found| Candidate {
            table: found,
            is_partial: view.is_partial,
            is_named: request.views.contains(&view.name),
        }));
    }
    for name in &request.views {
        if candidates.iter().any(|candidate| candidate.table.name == *name) {
            continue;
        }
        let named = AttachedTable::new(&table.keyspace, name).map_err(no_name)?;
        candidates.push(Candidate {
            table: find(there, &named).await?,
            is_partial: false,
            is_named: true,
        });
    }
    Ok(candidates)
}

/// Returns the error for a table that Recto itself created. Such a table keeps deleted and expired
/// records for some days, and marks them in columns that an attached collection does not read. An
/// attached collection would show these records.
#[cold]
fn of_recto(table: &AttachedTable) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("table {table} cannot be attached: it belongs to a collection of Recto"),
    )
    .with_hint(format!(
        "open its keyspace as a store: --store cassandra://HOST/{}",
        table.keyspace
    ))
}

#[cold]
fn no_name(error: AttachedTableError) -> Error {
    Error::new(ErrorKind::InvalidArgument, error.to_string())
        .with_hint("attach only tables with names of lower-case letters, digits and _")
}

/// Returns an error that names the table and the permission that Recto lacks to read it.
#[cold]
fn may_not_read(table: &AttachedTable, error: StoreError) -> Error {
    if error.kind() != StoreErrorKind::Unauthorized {
        return error.into();
    }
    Error::new(
        ErrorKind::Unauthorized,
        format!("the user cannot read table {table}: {error}"),
    )
    .with_hint(format!(
        "GRANT SELECT ON {table} TO the role that Recto uses; it needs nothing else"
    ))
    .with_source(error)
}

impl LeftOut {
    fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            why: why.into(),
        }
    }
}

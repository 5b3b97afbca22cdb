//! Making, extending, listing, emptying and dropping tables.

use std::time::Duration;

use recto_model::{Column, Table};
use recto_store::tables::added_columns;
use recto_store::{StoreError, StoreErrorKind, TableOutcome};
use scylla::errors::ExecutionError;
use scylla::response::query_result::QueryResult;

use crate::client::{Client, Deadline};
use crate::cql::table_name;
use crate::ddl::{
    SchemaColumn, SchemaTable, SchemaUdt, add_columns_one_cql, comment_cql, create_one_table_cql,
    create_type_cql, difference, udts_of,
};
use crate::error::{Effect, Failure, of_execution, of_prepare};
use crate::values::ReadValuesError;

/// How long to wait before asking again whether statements on a table are taken.
const KNOWN_INTERVAL: Duration = Duration::from_millis(50);

/// Of `system_schema.columns`: table, column, kind, clustering order, position, type.
type ColumnRow = (String, String, String, String, i32, String);

impl Client {
    pub(crate) async fn create_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        let deadline = self.deadline(self.config.schema_timeout);
        if self.check_same(table, &deadline).await? {
            return self.await_known(table, &deadline).await;
        }
        if let Some(unknown) = self.create_types(table, &deadline).await? {
            return Ok(unknown);
        }
        let text = create_one_table_cql(&self.config.keyspace, table);
        if let Some(unknown) = self.change_schema(&text, &deadline).await? {
            return Ok(unknown);
        }
        // Another process may have made another one between the two looks.
        self.check_same(table, &deadline).await?;
        self.await_known(table, &deadline).await
    }

    /// Waits until statements on a table that is there are taken. Whoever makes it now may not have
    /// waited to the end, and a node tells of a table in its system tables before it takes statements
    /// on it.
    async fn await_known(&self, table: &Table, deadline: &Deadline) -> Result<TableOutcome, StoreError> {
        if let TableOutcome::Unknown(error) = self.await_agreement(deadline).await? {
            return Ok(TableOutcome::Unknown(error));
        }
        let text = format!(
            "SELECT * FROM {} LIMIT 1",
            table_name(&self.config.keyspace, table.name())
        );
        loop {
            let prepared = match deadline.limit(self.session.prepare(text.as_str())).await {
                Ok(prepared) => prepared.map_err(|error| of_prepare(error).error),
                Err(error) => return Ok(TableOutcome::Unknown(error)),
            };
            match prepared {
                Ok(_) => return Ok(TableOutcome::Done),
                Err(error) if error.kind() != StoreErrorKind::Table => return Err(error),
                Err(error) if deadline.remaining().is_err() => return Ok(TableOutcome::Unknown(error)),
                Err(_) => tokio::time::sleep(KNOWN_INTERVAL).await,
            }
        }
    }

    /// Makes the user-defined types of `table` that are not there.
    async fn create_types(
        &self,
        table: &Table,
        deadline: &Deadline,
    ) -> Result<Option<TableOutcome>, StoreError> {
        let known = self.load_udts(deadline).await?;
        for udt in udts_of(table) {
            match known.iter().find(|known| known.name == udt.name) {
                Some(found) if found.udt(&known).as_ref() == Ok(udt.as_ref()) => continue,
                Some(_) => {
                    return Err(StoreError::new(
                        StoreErrorKind::Table,
                        format!("there is another type {} in the keyspace", udt.name),
                    )
                    .with_hint("name the type otherwise, or use another keyspace"));
                }
                None => {}
            }
            let text = create_type_cql(&self.config.keyspace, &udt);
            if let Some(unknown) = self.change_schema(&text, deadline).await? {
                return Ok(Some(unknown));
            }
        }
        Ok(None)
    }

    /// Adds the columns first and tells of them in the comment after. A column that no comment
    /// tells of is no part of its table, so whatever interrupts this leaves the table as it was, and
    /// doing it again goes on from there.
    ///
    /// Cassandra sets a comment without comparing: of two who add different columns at once, the last
    /// to write it may be the one whose schema is not recorded in the end. So where the comment tells
    /// otherwise than `recorded`, what is recorded is believed, if its columns are there, and the comment is
    /// set right. Columns are never dropped, so who uses one that a comment left out is served meanwhile.
    pub(crate) async fn add_columns(
        &self,
        recorded: &Table,
        table: &Table,
    ) -> Result<TableOutcome, StoreError> {
        let is_addition = !added_columns(recorded, table)?.is_empty();
        let deadline = self.deadline(self.config.schema_timeout);
        let found = self.load_table(table.name(), &deadline).await?;
        let added = match added_columns(&found.told, table) {
            Ok(added) => added,
            Err(_) if is_addition && found.holds(recorded) => added_columns(recorded, table)?,
            Err(error) => return Err(error),
        };
        if added.is_empty() {
            // Whoever added them may not have waited to the end.
            return self.await_agreement(&deadline).await;
        }
        for column in added {
            if let Some(found) = found.other_than(column) {
                return Err(taken(table.name(), found));
            }
        }
        if let Some(unknown) = self.create_types(table, &deadline).await? {
            return Ok(unknown);
        }
        let keyspace = &self.config.keyspace;
        for text in [
            add_columns_one_cql(keyspace, table.name(), added),
            comment_cql(keyspace, table),
        ] {
            if let Some(unknown) = self.change_schema(&text, &deadline).await? {
                return Ok(unknown);
            }
        }
        // Another process may have added others meanwhile, also of these names.
        let found = self.load_table(table.name(), &deadline).await?;
        if let Some(column) = table.columns().iter().find_map(|column| found.other_than(column)) {
            return Err(taken(table.name(), column));
        }
        if found.holds(table) {
            return self.await_agreement(&deadline).await;
        }
        Ok(TableOutcome::Unknown(StoreError::new(
            StoreErrorKind::Conflict,
            format!("another process changed table {} at the same time", table.name()),
        )))
    }

    /// A table as it is and as its comment tells.
    async fn load_table(&self, name: &str, deadline: &Deadline) -> Result<FoundTable, StoreError> {
        let mut found = self.load_tables(Some(name), deadline).await?;
        let Some(found) = found.pop() else {
            return Err(
                StoreError::new(StoreErrorKind::Table, format!("there is no table {name}"))
                    .with_hint("make the tables of the schema first"),
            );
        };
        let udts = self.load_udts(deadline).await?;
        let told = found.table(&udts).map_err(|reason| changed(name, &reason))?;
        Ok(FoundTable {
            told,
            columns: found.columns,
            udts,
        })
    }

    /// Waits until all nodes that are up know the same schema.
    async fn await_agreement(&self, deadline: &Deadline) -> Result<TableOutcome, StoreError> {
        match deadline.limit(self.session.await_schema_agreement()).await {
            Ok(Ok(_)) => Ok(TableOutcome::Done),
            Ok(Err(error)) => table_outcome(of_execution(ExecutionError::SchemaAgreementError(error))),
            Err(error) => Ok(TableOutcome::Unknown(error)),
        }
    }

    pub(crate) async fn drop_table(&self, name: &str) -> Result<TableOutcome, StoreError> {
        let deadline = self.deadline(self.config.schema_timeout);
        let text = format!("DROP TABLE IF EXISTS {}", table_name(&self.config.keyspace, name));
        let unknown = self.change_schema(&text, &deadline).await?;
        Ok(unknown.unwrap_or(TableOutcome::Done))
    }

    pub(crate) async fn empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        let deadline = self.deadline(self.config.schema_timeout);
        let text = format!(
            "TRUNCATE TABLE {}",
            table_name(&self.config.keyspace, table.name())
        );
        match self.query(&text, (), &deadline).await {
            Ok(_) => Ok(TableOutcome::Done),
            Err(failure) => table_outcome(failure),
        }
    }

    pub(crate) async fn list_tables(&self) -> Result<Vec<Table>, StoreError> {
        let deadline = self.deadline(self.config.schema_timeout);
        let udts = self.load_udts(&deadline).await?;
        let mut tables = Vec::new();
        for found in self.load_tables(None, &deadline).await? {
            if found.is_ours() {
                tables.push(
                    found
                        .table(&udts)
                        .map_err(|reason| changed(&found.name, &reason))?,
                );
            }
        }
        tables.sort_by(|left, right| left.name().cmp(right.name()));
        Ok(tables)
    }

    /// Whether there is an equal table; an error if there is another of its name.
    async fn check_same(&self, table: &Table, deadline: &Deadline) -> Result<bool, StoreError> {
        let found = self.load_tables(Some(table.name()), deadline).await?;
        let Some(found) = found.first() else {
            return Ok(false);
        };
        let udts = self.load_udts(deadline).await?;
        let found = found
            .table(&udts)
            .map_err(|reason| changed(table.name(), &reason))?;
        if found == *table {
            return Ok(true);
        }
        Err(StoreError::new(
            StoreErrorKind::Table,
            format!(
                "there is another table {}: {}",
                table.name(),
                difference(&found, table)
            ),
        )
        .with_hint("drop it, name the new one otherwise, or use another keyspace"))
    }

    /// Changes the schema, and waits until all nodes agree on it; the driver does the latter.
    async fn change_schema(
        &self,
        text: &str,
        deadline: &Deadline,
    ) -> Result<Option<TableOutcome>, StoreError> {
        self.forget_prepared();
        match self.query(text, (), deadline).await {
            Ok(_) => Ok(None),
            Err(failure) => table_outcome(failure).map(Some),
        }
    }

    async fn load_tables(
        &self,
        name: Option<&str>,
        deadline: &Deadline,
    ) -> Result<Vec<SchemaTable>, StoreError> {
        let tables = self
            .query_schema("table_name, comment, gc_grace_seconds", "tables", name, deadline)
            .await?;
        let columns = self
            .query_schema(
                "table_name, column_name, kind, clustering_order, position, type",
                "columns",
                name,
                deadline,
            )
            .await?;
        let mut columns: Vec<ColumnRow> = typed_rows(columns)?;
        columns.sort_by_key(|(.., position, _)| *position);
        let tables: Vec<(String, Option<String>, Option<i32>)> = typed_rows(tables)?;
        Ok(tables
            .into_iter()
            .map(|(name, comment, gc_grace_seconds)| SchemaTable {
                columns: columns
                    .iter()
                    .filter(|column| column.0 == name)
                    .map(|(_, name, kind, clustering_order, _, ty)| SchemaColumn {
                        name: name.clone(),
                        kind: kind.clone(),
                        clustering_order: clustering_order.to_ascii_lowercase(),
                        ty: ty.clone(),
                    })
                    .collect(),
                name,
                comment: comment.unwrap_or_default(),
                gc_grace_seconds: gc_grace_seconds.unwrap_or_default(),
            })
            .collect())
    }

    async fn load_udts(&self, deadline: &Deadline) -> Result<Vec<SchemaUdt>, StoreError> {
        let result = self
            .query_schema("type_name, field_names, field_types", "types", None, deadline)
            .await?;
        let rows: Vec<(String, Vec<String>, Vec<String>)> = typed_rows(result)?;
        Ok(rows
            .into_iter()
            .map(|(name, names, types)| SchemaUdt {
                name,
                fields: names.into_iter().zip(types).collect(),
            })
            .collect())
    }

    async fn query_schema(
        &self,
        columns: &str,
        table: &str,
        name: Option<&str>,
        deadline: &Deadline,
    ) -> Result<QueryResult, StoreError> {
        let text = format!("SELECT {columns} FROM system_schema.{table} WHERE keyspace_name = ?");
        let keyspace = self.config.keyspace.as_str();
        let sent = match name {
            None => self.query(&text, (keyspace,), deadline).await,
            Some(name) => {
                let text = format!("{text} AND table_name = ?");
                self.query(&text, (keyspace, name), deadline).await
            }
        };
        sent.map_err(|failure| failure.error)
    }
}

/// A table of Recto's, as it is.
struct FoundTable {
    /// As its comment tells.
    told: Table,
    /// All columns that it has.
    columns: Vec<SchemaColumn>,
    udts: Vec<SchemaUdt>,
}

impl FoundTable {
    /// The column of the name of `wanted`, if it is there and another. Of a column that no comment tells
    /// of, nobody can say whether it is written plainly or conditionally.
    fn other_than(&self, wanted: &Column) -> Option<&SchemaColumn> {
        let found = self.columns.iter().find(|found| found.name == wanted.name)?;
        let is_wanted = match self.told.column_index(&wanted.name) {
            Some(index) => self.told.columns()[index] == *wanted,
            None => found.is(wanted, &self.udts),
        };
        (!is_wanted).then_some(found)
    }

    /// Whether all columns of `table` are there, and the key and the static columns are the same;
    /// there may be others beside.
    fn holds(&self, table: &Table) -> bool {
        let head = table.columns().len() - table.regular().len();
        let is_there = |column: &Column| {
            self.columns.iter().any(|found| found.name == column.name) && self.other_than(column).is_none()
        };
        self.told.options() == table.options()
            && self.told.columns().len() - self.told.regular().len() == head
            && self.told.columns()[..head] == table.columns()[..head]
            && table.regular().iter().all(is_there)
    }
}

fn table_outcome(failure: Failure) -> Result<TableOutcome, StoreError> {
    match failure.effect {
        Effect::Unknown => Ok(TableOutcome::Unknown(failure.error)),
        Effect::Nothing | Effect::TooFewReplicas => Err(failure.error),
    }
}

fn taken(table: &str, column: &SchemaColumn) -> StoreError {
    let (name, ty) = (&column.name, &column.ty);
    StoreError::new(
        StoreErrorKind::Table,
        format!("table {table} has another column {name}, of type {ty}"),
    )
    .with_hint("another program added it, or an apply that was interrupted: name the new column otherwise")
}

fn changed(table: &str, reason: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Table,
        format!("table {table} is not as Recto made it: {reason}"),
    )
    .with_hint("it was made or changed by another program; undo that, or use another keyspace")
}

/// The rows of a query on system tables.
pub(crate) fn typed_rows<R>(result: QueryResult) -> Result<Vec<R>, StoreError>
where
    R: for<'frame> scylla::deserialize::row::DeserializeRow<'frame, 'frame>,
{
    let frame =
        |error: Box<dyn std::error::Error + Send + Sync>| StoreError::from(ReadValuesError::Frame(error));
    let result = result.into_rows_result().map_err(|error| frame(error.into()))?;
    let rows = result.rows::<R>().map_err(|error| frame(error.into()))?;
    rows.map(|row| row.map_err(|error| frame(error.into()))).collect()
}

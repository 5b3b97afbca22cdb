//! Creating, extending, listing, emptying and dropping tables.

use recto_model::{Column, Table};
use recto_store::tables::added_columns;
use recto_store::{StoreError, StoreErrorKind, TableOutcome};
use scylla::errors::ExecutionError;

use crate::client::{Client, Deadline};
use crate::cql::table_name;
use crate::ddl::{Dialect, SchemaColumn, comment_cql, create_type_cql, drop_table_cql, has_own_id, udts_of};
use crate::error::{Effect, Failure, of_execution};
use crate::schema::FoundTable;

impl Client {
    pub(crate) async fn create_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        let deadline = self.schema_deadline();
        if self.check_same(table, &deadline).await? {
            return self.await_known(table, &deadline).await;
        }
        let dialect = self.dialect_for(std::slice::from_ref(table), &deadline).await?;
        if !has_own_id(table) {
            // Wait until a node that was unreachable knows the new tables, so that it does not
            // create another table of the same name.
            if let TableOutcome::Unknown(error) = self.await_agreement(&deadline).await? {
                return Ok(TableOutcome::Unknown(error));
            }
            if self.check_same(table, &deadline).await? {
                return self.await_known(table, &deadline).await;
            }
        }
        if let Some(unknown) = self.create_types(table, &deadline).await? {
            return Ok(unknown);
        }
        let text = dialect.create_one_table_cql(&self.config.keyspace, table);
        if let Some(unknown) = self.change_schema(&text, &deadline).await? {
            return Ok(unknown);
        }
        // Check again that the table is the requested one, because another process may have created
        // a different table since the first check.
        self.check_same(table, &deadline).await?;
        self.await_known(table, &deadline).await
    }

    /// Creates the tables that do not exist. Succeeds without changes if all tables exist.
    ///
    /// Creates each table only when all nodes of the cluster are connected and know the previous
    /// tables. Otherwise a node that does not know an existing table would create another table
    /// with the same name and another id. The cluster would then drop the existing table with all
    /// its data.
    pub(crate) async fn create_tables_once(&self, tables: &[Table]) -> Result<TableOutcome, StoreError> {
        let deadline = self.schema_deadline();
        let Some(last) = tables.last() else {
            return Ok(TableOutcome::Done);
        };
        if self.missing(tables, &deadline).await?.is_empty() {
            return Ok(TableOutcome::Done);
        }
        let dialect = self.dialect_for(tables, &deadline).await?;
        for table in tables {
            if let TableOutcome::Unknown(error) = self.await_everybody(&deadline).await? {
                return Ok(TableOutcome::Unknown(error));
            }
            if self.check_same(table, &deadline).await? {
                continue;
            }
            let text = dialect.create_one_table_cql(&self.config.keyspace, table);
            if let Some(unknown) = self.change_schema(&text, &deadline).await? {
                return Ok(unknown);
            }
        }
        if let TableOutcome::Unknown(error) = self.await_everybody(&deadline).await? {
            return Ok(TableOutcome::Unknown(error));
        }
        self.check_same(last, &deadline).await?;
        self.await_known(last, &deadline).await
    }

    /// Returns the form of statements that all nodes accept, after a check that the cluster can create
    /// `tables`.
    async fn dialect_for(&self, tables: &[Table], deadline: &Deadline) -> Result<Dialect, StoreError> {
        let capabilities = self.refresh_capabilities(deadline).await?;
        let mut each = tables.iter();
        each.try_for_each(|table| capabilities.check_table(table))?;
        Ok(capabilities.dialect())
    }

    /// Waits until all nodes of the cluster know the same schema. Returns an error if a node is
    /// unreachable; nothing was done in that case.
    async fn await_everybody(&self, deadline: &Deadline) -> Result<TableOutcome, StoreError> {
        let agreed = self.await_agreement(deadline).await?;
        let state = self.session.get_cluster_state();
        match state.get_nodes_info().iter().find(|node| !node.is_connected()) {
            None => Ok(agreed),
            Some(away) => Err(StoreError::new(
                StoreErrorKind::Unavailable,
                format!(
                    "node {} is down, and Recto creates these tables only while all nodes are up",
                    away.address
                ),
            )
            .with_hint(
                "try again when all nodes are up; this happens only once, and later nodes may be down",
            )),
        }
    }

    /// Waits until the nodes accept statements on an existing table. A node lists a table in its
    /// system tables before it accepts statements on the table. The process that creates the table
    /// may not have waited until all nodes accept them.
    async fn await_known(&self, table: &Table, deadline: &Deadline) -> Result<TableOutcome, StoreError> {
        if let TableOutcome::Unknown(error) = self.await_agreement(deadline).await? {
            return Ok(TableOutcome::Unknown(error));
        }
        match self.await_taken(table.name(), deadline).await {
            Ok(()) => Ok(TableOutcome::Done),
            Err(error) if deadline.remaining().is_err() => Ok(TableOutcome::Unknown(error)),
            Err(error) => Err(error),
        }
    }

    /// Creates the user-defined types of `table` that do not exist. Returns an outcome only if it
    /// is unknown; `None` means that all types exist.
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
                        format!("the keyspace has another type named {}", udt.name),
                    )
                    .with_hint("give the type another name, or use another keyspace"));
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

    /// Adds columns to a table: first adds the columns, then lists them in the table's comment. A
    /// column that no comment lists is not part of its table for Recto. An interruption therefore
    /// leaves the table as it was, and repeating the call continues.
    ///
    /// Cassandra sets a comment without comparing it with the previous comment. If two processes
    /// add different columns concurrently, the last comment may come from the process whose schema
    /// Recto does not record in the end. If the comment differs from `recorded`, this function
    /// therefore trusts `recorded`, provided that its columns exist, and corrects the comment.
    /// Columns are never dropped, so a client can still use a column that a comment omits.
    pub(crate) async fn add_columns(
        &self,
        recorded: &Table,
        table: &Table,
    ) -> Result<TableOutcome, StoreError> {
        let is_addition = !added_columns(recorded, table)?.is_empty();
        let deadline = self.schema_deadline();
        let found = self.find_table(table.name(), &deadline).await?;
        let told = found.told.as_ref().ok().map(|told| with_options_of(told, table));
        let added = match told.map(|told| added_columns(&told, table)) {
            Some(Ok(added)) => added,
            Some(Err(error)) if !is_addition => return Err(error),
            _ => match found.difference(recorded) {
                Some(difference) => return Err(another(table.name(), &difference)),
                None => added_columns(recorded, table)?,
            },
        };
        if added.is_empty() {
            // All columns exist. The process that added them may not have waited until the nodes
            // agree on the schema, so wait here.
            return self.await_agreement(&deadline).await;
        }
        for column in added {
            if let Some(found) = found.other_than(column) {
                return Err(taken(table.name(), found));
            }
        }
        let dialect = self.dialect_for(std::slice::from_ref(table), &deadline).await?;
        if let Some(unknown) = self.create_types(table, &deadline).await? {
            return Ok(unknown);
        }
        if let Some(unknown) = self.add_missing(&found, added, dialect, &deadline).await? {
            return Ok(unknown);
        }
        // Update the comment of the table only if Recto wrote it, because an operator may have
        // written another comment.
        if found.is_ours {
            let text = comment_cql(&self.config.keyspace, table);
            if let Some(unknown) = self.change_schema(&text, &deadline).await? {
                return Ok(unknown);
            }
        }
        // Compare again, because another process may have added other columns at the same time,
        // even with the same names.
        let found = self.find_table(table.name(), &deadline).await?;
        if let Some(column) = added.iter().find_map(|column| found.other_than(column)) {
            return Err(taken(table.name(), column));
        }
        if found.difference(table).is_none() {
            return self.await_agreement(&deadline).await;
        }
        Ok(TableOutcome::Unknown(StoreError::new(
            StoreErrorKind::Conflict,
            format!("another process changed table {} at the same time", table.name()),
        )))
    }

    /// Adds the columns that `found` does not have. Returns an outcome only if it is unknown; `None` means
    /// that all columns exist.
    async fn add_missing(
        &self,
        found: &FoundTable,
        added: &[Column],
        dialect: Dialect,
        deadline: &Deadline,
    ) -> Result<Option<TableOutcome>, StoreError> {
        let missing = found.missing(added);
        if missing.is_empty() {
            return Ok(None);
        }
        let text = dialect.add_columns_one_cql(&self.config.keyspace, &found.name, &missing);
        match self.change_schema(&text, deadline).await {
            // Cassandra 4.0 rejects a column that exists. Another process may just have added it.
            Err(error) if !dialect.has_add_if_not_exists => {
                let found = self.find_table(&found.name, deadline).await?;
                if found.missing(&missing).is_empty() {
                    Ok(None)
                } else {
                    Err(error)
                }
            }
            changed => changed,
        }
    }

    /// Waits until all nodes that are up know the same schema.
    async fn await_agreement(&self, deadline: &Deadline) -> Result<TableOutcome, StoreError> {
        match deadline.limit(self.session.await_schema_agreement()).await {
            Ok(Ok(_)) => Ok(TableOutcome::Done),
            Ok(Err(error)) => table_outcome(of_execution(
                ExecutionError::SchemaAgreementError(error),
                deadline.limit,
            )),
            Err(error) => Ok(TableOutcome::Unknown(error)),
        }
    }

    pub(crate) async fn drop_table(&self, name: &str) -> Result<TableOutcome, StoreError> {
        let deadline = self.schema_deadline();
        let text = drop_table_cql(&self.config.keyspace, name);
        let unknown = self.change_schema(&text, &deadline).await?;
        Ok(unknown.unwrap_or(TableOutcome::Done))
    }

    pub(crate) async fn empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        let deadline = self.schema_deadline();
        let text = format!(
            "TRUNCATE TABLE {}",
            table_name(&self.config.keyspace, table.name())
        );
        match self.query(&text, (), &deadline).await {
            Ok(_) => Ok(TableOutcome::Done),
            Err(failure) => table_outcome(Failure {
                error: failure.error.with_table(table.name()),
                ..failure
            }),
        }
    }

    pub(crate) async fn list_tables(&self) -> Result<Vec<Table>, StoreError> {
        let deadline = self.schema_deadline();
        let found = self.find_tables(&[], &deadline).await?;
        let mut tables: Vec<Table> = found.into_iter().filter_map(|found| found.told.ok()).collect();
        tables.sort_by(|left, right| left.name().cmp(right.name()));
        Ok(tables)
    }

    /// Returns whether an equal table exists. Returns an error if a different table has its name.
    async fn check_same(&self, table: &Table, deadline: &Deadline) -> Result<bool, StoreError> {
        let found = self.find_tables(&[table.name()], deadline).await?.pop();
        found.map_or(Ok(false), |found| is_same(&found, table))
    }

    /// Returns the tables that do not exist. Returns an error if an existing table has one of the
    /// names and differs.
    async fn missing<'t>(
        &self,
        tables: &'t [Table],
        deadline: &Deadline,
    ) -> Result<Vec<&'t Table>, StoreError> {
        let names: Vec<&str> = tables.iter().map(Table::name).collect();
        let there = self.find_tables(&names, deadline).await?;
        let mut missing = Vec::new();
        for table in tables {
            match there.iter().find(|found| found.name == table.name()) {
                Some(found) => drop(is_same(found, table)?),
                None => missing.push(table),
            }
        }
        Ok(missing)
    }

    /// Executes a statement that changes the schema, and waits until all nodes agree on the new
    /// schema. Returns an outcome only if it is unknown; `None` means success.
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
}

/// Returns whether an existing table is the requested table. Returns an error if the tables differ.
fn is_same(found: &FoundTable, table: &Table) -> Result<bool, StoreError> {
    let told = found.told.as_ref().ok();
    let difference = found.difference(table).or_else(|| {
        // The table may have more columns than requested. Its comment lists all columns that Recto
        // created, so compare these columns too.
        let obstacle = |told| added_columns(table, &with_options_of(told, table)).err();
        let more = told.filter(|told| told.columns() != table.columns())?;
        Some(obstacle(more).map_or_else(|| "it has more columns".to_owned(), |error| error.to_string()))
    });
    match difference {
        None => Ok(true),
        Some(difference) => Err(another(table.name(), &difference)),
    }
}

fn table_outcome(failure: Failure) -> Result<TableOutcome, StoreError> {
    match failure.effect {
        Effect::Unknown => Ok(TableOutcome::Unknown(failure.error)),
        Effect::Nothing | Effect::TooFewReplicas => Err(failure.error),
    }
}

/// Returns `told`, the table that the comment describes, with the options of `table`. The operator
/// may change the options of an existing table, so they do not count as a difference.
fn with_options_of(told: &Table, table: &Table) -> Table {
    Table::new(told.name(), told.columns().to_vec(), table.options())
        .expect("columns do not depend on options")
}

fn another(table: &str, difference: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Table,
        format!("table {table} exists in another form: {difference}"),
    )
    .with_hint(
        "undo the change if another program changed the table, or drop the table if you do not need its rows",
    )
}

fn taken(table: &str, column: &SchemaColumn) -> StoreError {
    let (name, ty) = (&column.name, &column.ty);
    StoreError::new(
        StoreErrorKind::Table,
        format!("table {table} has another column {name}, of type {ty}"),
    )
    .with_hint("give the new column another name: another program or an interrupted apply added this one")
}

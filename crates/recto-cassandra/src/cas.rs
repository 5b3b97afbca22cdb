//! Conditional writes: one batch of one partition, decided by Paxos.
//!
//! The conditions of each row, and of the static columns, are attached to a statement that leaves
//! one column unset. The mutations follow as in plain writes, but without write timestamps.
//! Cassandra then applies all statements or none. A request is sent again only if no earlier
//! attempt can have had an effect. After any other failure the outcome is unknown, and the caller
//! must find out whether the write was applied.

use std::sync::Arc;

use recto_model::Cells;
use recto_store::{
    Cas, CasCondition, CasOutcome, ConsistencyLevel, RowAddress, StoreError, StoreErrorKind, WriteOptions,
};
use scylla::deserialize::row::ColumnIterator;
use scylla::response::query_result::QueryRowsResult;
use scylla::statement::batch::BatchType;
use scylla::statement::{Consistency, SerialConsistency};

use crate::client::{Call, Client, Prepared, Settings};
use crate::cql::{Request, Statements};
use crate::error::Effect;
use crate::read::rows_of;
use crate::values::{ReadValuesError, Values};
use crate::write::requests;

/// Column of a conditional write's result that says whether Cassandra applied the write.
const APPLIED: &str = "[applied]";

/// Column of a condition (its index), and the value that the column must have.
type Compared<'a> = (u16, Option<&'a [u8]>);

impl Client {
    pub(crate) async fn cas(&self, cas: &Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        let checked = self
            .check_partition(&cas.table, &cas.partition)
            .and_then(|()| self.limits.check_cas(cas));
        if let Err(error) = checked {
            return Ok(CasOutcome::Refused(error));
        }
        let settings = self.cas_settings(options);
        let mut statements: Vec<(Arc<Prepared>, Values)> = Vec::new();
        for request in self.cas_requests(cas) {
            let prepared = self.prepare(&request, &settings.deadline).await?;
            statements.push((prepared, request.values));
        }
        let call = Call::Batch(BatchType::Unlogged, &statements);
        match self.send(call, &settings).await {
            // If the response cannot be read, the write may still be applied, so its outcome is
            // unknown.
            Ok(answer) => Ok(rows_of(answer)
                .and_then(|result| read_outcome(&result, cas))
                .unwrap_or_else(CasOutcome::Unknown)),
            Err(failure) if failure.effect == Effect::Nothing => Err(failure.error),
            Err(failure) => Ok(CasOutcome::Unknown(failure.error)),
        }
    }

    fn cas_requests<'a>(&'a self, cas: &'a Cas) -> Vec<Request<'a>> {
        let statements = Statements::new(&self.config.keyspace, &cas.table);
        let mut carriers: Vec<(&RowAddress, Vec<Compared<'_>>)> = Vec::new();
        for condition in &cas.conditions {
            let compared = (condition.column, condition.expected.as_deref());
            match carriers.iter_mut().find(|(row, _)| **row == condition.row) {
                Some((_, conditions)) => conditions.push(compared),
                None => carriers.push((&condition.row, vec![compared])),
            }
        }
        let mut all: Vec<Request<'a>> = carriers
            .iter()
            .map(|(row, conditions)| {
                let row = match row {
                    RowAddress::Static => None,
                    RowAddress::Row(clustering) => Some(clustering),
                };
                statements.condition(&cas.partition, row, conditions)
            })
            .collect();
        for mutation in &cas.mutations {
            all.extend(requests(
                &self.config.keyspace,
                &cas.table,
                &cas.partition,
                mutation,
            ));
        }
        all
    }

    /// Returns the settings of a conditional write. Cassandra decides the write at the serial level
    /// and commits it at the normal level. A serial level in `options` sets the level of the
    /// decision.
    fn cas_settings(&self, options: WriteOptions) -> Settings {
        let mut settings = self.settings(options.consistency, options.timeout);
        settings.idempotent = false;
        settings.balancing = Some(self.one_coordinator());
        match options.consistency {
            Some(ConsistencyLevel::Serial) => {
                settings.serial_consistency = SerialConsistency::Serial;
                settings.consistency = Consistency::Quorum;
            }
            Some(ConsistencyLevel::LocalSerial) => {
                settings.serial_consistency = SerialConsistency::LocalSerial;
                settings.consistency = Consistency::LocalQuorum;
            }
            _ => {}
        }
        settings
    }
}

fn read_outcome(result: &QueryRowsResult, cas: &Cas) -> Result<CasOutcome, StoreError> {
    let answer = Rows::new(result)?;
    let applied = answer.column(APPLIED)?;
    let first = answer
        .rows
        .first()
        .ok_or_else(|| malformed("a conditional write has no result"))?;
    if first[applied] == Some(&[1][..]) {
        return Ok(CasOutcome::Applied);
    }
    let current = cas
        .conditions
        .iter()
        .map(|condition| answer.current(cas, condition))
        .collect::<Result<_, _>>()?;
    Ok(CasOutcome::NotApplied { current })
}

/// Result of a conditional write that was not applied: the existing rows that its conditions refer
/// to, each with the static cells.
struct Rows<'r> {
    result: &'r QueryRowsResult,
    rows: Vec<Vec<Option<&'r [u8]>>>,
}

impl<'r> Rows<'r> {
    fn new(result: &'r QueryRowsResult) -> Result<Self, StoreError> {
        let mut rows = Vec::new();
        for row in result
            .rows::<ColumnIterator<'r, 'r>>()
            .map_err(ReadValuesError::frame)?
        {
            let row = row
                .map_err(ReadValuesError::frame)?
                .map(|column| column.map(|column| column.slice.map(|slice| slice.as_slice())))
                .collect::<Result<Vec<_>, _>>()
                .map_err(ReadValuesError::frame)?;
            rows.push(row);
        }
        Ok(Self { result, rows })
    }

    fn column(&self, name: &str) -> Result<usize, StoreError> {
        self.result
            .column_specs()
            .get_by_name(name)
            .map(|(index, _)| index)
            .ok_or_else(|| malformed(&format!("a conditional write's result lacks the column {name}")))
    }

    /// Returns the current value of the column of `condition`.
    fn current(&self, cas: &Cas, condition: &CasCondition) -> Result<Option<Vec<u8>>, StoreError> {
        let columns = match condition.row {
            RowAddress::Static => cas.table.statics(),
            RowAddress::Row(_) => cas.table.regular(),
        };
        let column = &columns[usize::from(condition.column)].name;
        let row = match &condition.row {
            // Every row of the result contains the static cells, so the first row suffices.
            RowAddress::Static => self.rows.first(),
            RowAddress::Row(clustering) => self.row_at(cas, clustering)?,
        };
        // If the row does not exist, the result may have only the column `[applied]`. The cell then
        // counts as null.
        Ok(match row {
            Some(row) if row.len() > 1 => row[self.column(column)?].map(<[u8]>::to_vec),
            _ => None,
        })
    }

    fn row_at(&self, cas: &Cas, clustering: &Cells) -> Result<Option<&Vec<Option<&'r [u8]>>>, StoreError> {
        for row in &self.rows {
            if row.len() == 1 {
                continue;
            }
            let mut found = Cells::new();
            for column in cas.table.clustering() {
                found.push(row[self.column(&column.name)?]);
            }
            let whole = found.iter().all(|cell| cell.is_some());
            if whole && cas.table.compare_clustering(&found, clustering).is_eq() {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}

fn malformed(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, message)
}

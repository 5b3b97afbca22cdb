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
use scylla::frame::response::result::ColumnSpec;
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
                .and_then(|result| Reply::read(&result)?.outcome(cas))
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

/// Result of a conditional write, as the names of its columns and its rows. The column [`APPLIED`] is always
/// there. What else is there depends on the database:
///
/// - Cassandra returns further columns only if the write was not applied and a row exists to which a condition
///   refers. Then the result has these rows, in clustering order, each with the static cells.
/// - `ScyllaDB` always returns all columns, and a row for each condition in the order of the statements, whether
///   or not the write was applied. A row that does not exist has null in its key columns
///   (<https://docs.scylladb.com/manual/stable/kb/lwt-differences.html>).
struct Reply<'r> {
    columns: Vec<&'r str>,
    rows: Vec<Vec<Option<&'r [u8]>>>,
}

impl<'r> Reply<'r> {
    fn read(result: &'r QueryRowsResult) -> Result<Self, StoreError> {
        let columns = result.column_specs().iter().map(ColumnSpec::name);
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
        Ok(Self {
            columns: columns.collect(),
            rows,
        })
    }

    fn outcome(&self, cas: &Cas) -> Result<CasOutcome, StoreError> {
        let applied = self.column(APPLIED)?;
        let first = self.rows.first();
        let first = first.ok_or_else(|| malformed("a conditional write has no result"))?;
        if first[applied] == Some(&[1][..]) {
            return Ok(CasOutcome::Applied);
        }
        let current = cas.conditions.iter();
        let current = current.map(|condition| self.current(cas, condition));
        Ok(CasOutcome::NotApplied {
            current: current.collect::<Result<_, _>>()?,
        })
    }

    fn column(&self, name: &str) -> Result<usize, StoreError> {
        let missing = || malformed(&format!("a conditional write's result lacks the column {name}"));
        self.columns
            .iter()
            .position(|column| *column == name)
            .ok_or_else(missing)
    }

    /// Returns the current value of the column of `condition`.
    fn current(&self, cas: &Cas, condition: &CasCondition) -> Result<Option<Vec<u8>>, StoreError> {
        // If no row exists, the result may have only the column `[applied]`. The cell then counts as null.
        if self.columns.len() == 1 {
            return Ok(None);
        }
        let index = usize::from(condition.column);
        let cell = match &condition.row {
            RowAddress::Static => {
                let column = self.column(&cas.table.statics()[index].name)?;
                // Rows of other conditions may lack the static cells.
                self.rows.iter().find_map(|row| row[column])
            }
            RowAddress::Row(clustering) => {
                let column = self.column(&cas.table.regular()[index].name)?;
                self.row_at(cas, clustering)?.and_then(|row| row[column])
            }
        };
        Ok(cell.map(<[u8]>::to_vec))
    }

    fn row_at(&self, cas: &Cas, clustering: &Cells) -> Result<Option<&Vec<Option<&'r [u8]>>>, StoreError> {
        let key = cas.table.clustering().iter();
        let key = key.map(|column| self.column(&column.name));
        let key = key.collect::<Result<Vec<_>, _>>()?;
        Ok(self.rows.iter().find(|row| {
            let found: Cells = key.iter().map(|column| row[*column]).collect();
            let exists = found.iter().all(|cell| cell.is_some());
            exists && cas.table.compare_clustering(&found, clustering).is_eq()
        }))
    }
}

fn malformed(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, message)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use recto_model::table::{ColumnKind, Direction, TableOptions, WriteKind};
    use recto_model::{Column, Table, Type};

    use super::*;

    const TRUE: Option<&[u8]> = Some(&[1]);
    const FALSE: Option<&[u8]> = Some(&[0]);
    const ONE: Option<&[u8]> = Some(&[0, 0, 0, 1]);
    const TWO: Option<&[u8]> = Some(&[0, 0, 0, 2]);
    const SEVEN: Option<&[u8]> = Some(&[0, 0, 0, 7]);
    const ALL: [&str; 5] = ["[applied]", "p", "c", "s", "v"];

    /// Returns a conditional write of the static column and of the rows 1 and 2 of a partition.
    fn cas() -> Cas {
        let column = |name: &str, kind| Column {
            name: name.to_owned(),
            ty: Type::Int,
            kind,
        };
        let columns = vec![
            column("p", ColumnKind::Partition),
            column("c", ColumnKind::Clustering(Direction::Ascending)),
            column("s", ColumnKind::Static(WriteKind::Cas)),
            column("v", ColumnKind::Regular(WriteKind::Cas)),
        ];
        let table = Table::new("t", columns, TableOptions::default()).unwrap();
        let key = |cell| std::iter::once(cell).collect::<Cells>();
        let rows = [
            RowAddress::Static,
            RowAddress::Row(key(ONE)),
            RowAddress::Row(key(TWO)),
        ];
        let conditions = rows.map(|row| CasCondition {
            row,
            column: 0,
            expected: None,
        });
        Cas {
            table: Arc::new(table),
            partition: key(SEVEN),
            conditions: conditions.to_vec(),
            mutations: Vec::new(),
        }
    }

    fn outcome(columns: &[&str], rows: &[&[Option<&[u8]>]]) -> CasOutcome {
        let reply = Reply {
            columns: columns.to_vec(),
            rows: rows.iter().map(|row| row.to_vec()).collect(),
        };
        reply.outcome(&cas()).unwrap()
    }

    fn current(outcome: CasOutcome) -> [Option<Vec<u8>>; 3] {
        match outcome {
            CasOutcome::NotApplied { current } => current.try_into().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reads_the_replies_of_cassandra() {
        assert!(matches!(outcome(&ALL[..1], &[&[TRUE]]), CasOutcome::Applied));
        assert_eq!(current(outcome(&ALL[..1], &[&[FALSE]])), [None, None, None]);
        // Only row 2 exists.
        let rows: [&[Option<&[u8]>]; 1] = [&[FALSE, SEVEN, TWO, ONE, SEVEN]];
        let bytes = |cell: Option<&[u8]>| cell.map(<[u8]>::to_vec);
        assert_eq!(current(outcome(&ALL, &rows)), [bytes(ONE), None, bytes(SEVEN)]);
    }

    #[test]
    fn reads_a_reply_with_a_row_for_each_condition() {
        let none: &[Option<&[u8]>] = &[TRUE, None, None, None, None];
        assert!(matches!(outcome(&ALL, &[none, none, none]), CasOutcome::Applied));
        let none: &[Option<&[u8]>] = &[FALSE, None, None, None, None];
        assert_eq!(current(outcome(&ALL, &[none, none, none])), [None, None, None]);
        // Row 1 does not exist, and the row of the static column has no clustering key.
        let of_static: &[Option<&[u8]>] = &[FALSE, SEVEN, None, TWO, None];
        let of_two: &[Option<&[u8]>] = &[FALSE, SEVEN, TWO, None, SEVEN];
        let expected = [TWO, None, SEVEN].map(|cell| cell.map(<[u8]>::to_vec));
        assert_eq!(current(outcome(&ALL, &[of_static, none, of_two])), expected);
        assert_eq!(current(outcome(&ALL, &[none, of_static, of_two])), expected);
    }

    #[test]
    fn rejects_replies_that_lack_something() {
        let reply = |columns: &[&'static str], rows| Reply {
            columns: columns.to_vec(),
            rows,
        };
        for reply in [
            reply(&ALL[..1], Vec::new()),
            reply(&ALL[1..2], vec![vec![SEVEN]]),
            reply(&ALL[..3], vec![vec![FALSE, SEVEN, ONE]]),
        ] {
            let error = reply.outcome(&cas()).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Corrupt);
        }
    }
}

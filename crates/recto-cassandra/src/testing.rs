//! Tools for tests that show the effects of deletions: plain CQL statements, as a program without
//! Recto sends them, and the report of each node about a read.

use std::time::Duration;

use recto_model::Environment;
use recto_store::{StoreError, StoreErrorKind};
use scylla::client::session::Session;
use scylla::response::query_result::QueryResult;
use scylla::statement::unprepared::Statement;
use scylla::value::{CqlValue, Row};

use crate::config::CassandraConfig;
use crate::connect::connect;

/// Maximum number of times that a statement is sent until its trace reports a read.
const MAX_TRACES: u32 = 20;
const TRACE_PAUSE: Duration = Duration::from_millis(200);

/// Number of rows and tombstones that one node read for a statement, according to Cassandra's
/// trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Met {
    /// Number of live rows that the node read.
    pub rows: usize,
    /// Number of deleted rows and cells that the node read.
    pub tombstones: usize,
}

impl Met {
    /// Parses a line of a trace, such as `Read 17 live rows and 0 tombstone cells`. Returns `None`
    /// for other lines.
    fn in_words(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let ["Read", rows, "live", "rows", "and", tombstones, "tombstone", ..] = words[..] else {
            return None;
        };
        Some(Self {
            rows: rows.parse().ok()?,
            tombstones: tombstones.parse().ok()?,
        })
    }
}

/// Connection to one keyspace that sends plain CQL statements, as a program without Recto does.
pub struct PlainCql(Session);

impl PlainCql {
    /// Connects to an existing keyspace. Table names in statements refer to this keyspace.
    ///
    /// # Errors
    /// The cluster cannot be reached.
    pub async fn connect(config: CassandraConfig, environment: Environment) -> Result<Self, StoreError> {
        let keyspace = config.keyspace.clone();
        let session = connect(config, environment).await?.session;
        let used = session.use_keyspace(&keyspace, false).await;
        used.map_err(|error| failed(&keyspace, "it cannot be used").with_source(error))?;
        Ok(Self(session))
    }

    /// Sends a statement and ignores its result.
    ///
    /// # Errors
    /// The cluster rejects the statement.
    pub async fn send(&self, text: &str) -> Result<(), StoreError> {
        self.answer(Statement::new(text)).await.map(drop)
    }

    /// Returns the first column of all rows that a statement selects, as text.
    ///
    /// # Errors
    /// The cluster rejects the statement, or the column contains neither texts nor integers.
    pub async fn first_column(&self, text: &str) -> Result<Vec<String>, StoreError> {
        let answer = self.answer(Statement::new(text)).await?;
        let rows = answer.into_rows_result();
        let rows = rows.map_err(|error| failed(text, "it selects nothing").with_source(error))?;
        let rows = rows.rows::<Row>();
        let rows = rows.map_err(|error| failed(text, "its rows cannot be read").with_source(error))?;
        let first = |row: Row| match row.columns.into_iter().next()?? {
            CqlValue::Text(text) => Some(text),
            CqlValue::BigInt(number) => Some(number.to_string()),
            CqlValue::Int(number) => Some(number.to_string()),
            _ => None,
        };
        let read = |row: Result<Row, _>| row.ok().and_then(first);
        rows.map(|row| read(row).ok_or_else(|| failed(text, "its first column is another type's")))
            .collect()
    }

    /// Returns the rows and tombstones that each node read for a statement, from the statement's
    /// trace. Nodes write their traces after their responses, so the statement is sent again if no
    /// trace reports a read.
    ///
    /// # Errors
    /// The cluster rejects the statement, or no trace reports a read after the maximum number of attempts.
    pub async fn met(&self, text: &str) -> Result<Vec<Met>, StoreError> {
        for _ in 0..MAX_TRACES {
            let told = self.trace(text).await?;
            let met: Vec<Met> = told.iter().filter_map(|line| Met::in_words(line)).collect();
            if !met.is_empty() {
                return Ok(met);
            }
            tokio::time::sleep(TRACE_PAUSE).await;
        }
        Err(failed(text, "its traces report no read"))
    }

    /// Sends a statement with tracing, and returns the messages of the nodes in the trace.
    async fn trace(&self, text: &str) -> Result<Vec<String>, StoreError> {
        let mut statement = Statement::new(text);
        statement.set_tracing(true);
        let answered = self.answer(statement).await?;
        let id = answered
            .tracing_id()
            .ok_or_else(|| failed(text, "it was not traced"))?;
        let traced = self.0.get_tracing_info(&id).await;
        let traced = traced.map_err(|error| failed(text, "its trace cannot be read").with_source(error))?;
        Ok(traced
            .events
            .into_iter()
            .filter_map(|event| event.activity)
            .collect())
    }

    async fn answer(&self, statement: Statement) -> Result<QueryResult, StoreError> {
        let text = statement.contents.clone();
        let answered = self.0.query_unpaged(statement, ()).await;
        answered.map_err(|error| failed(&text, "it failed").with_source(error))
    }
}

fn failed(text: &str, what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Other, format!("{text}: {what}"))
}

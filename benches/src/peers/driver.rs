//! Peer: pages read from Cassandra with hand-optimized statements of the driver, without Recto.

use std::cmp::Reverse;

use futures::future::join_all;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use scylla::value::CqlTimestamp;

use crate::flights::{CARRIER, CARRIERS, COLUMNS};
use crate::peers::Start;

/// Row of the flights table, with the types to which the driver decodes its columns.
#[derive(Debug, scylla::DeserializeRow)]
#[allow(dead_code, clippy::struct_field_names)] // the driver decodes every column, as for a program that uses them
pub(crate) struct Row {
    year: i16,
    month: i8,
    day: i8,
    dep_time: Option<i16>,
    sched_dep_time: i16,
    dep_delay: Option<i16>,
    arr_time: Option<i16>,
    sched_arr_time: i16,
    arr_delay: Option<i16>,
    carrier: String,
    flight: i32,
    tailnum: Option<String>,
    origin: String,
    dest: String,
    air_time: Option<i16>,
    distance: i16,
    hour: i8,
    minute: i8,
    time_hour: CqlTimestamp,
}

impl Row {
    /// Returns the key that identifies the flight.
    pub(crate) fn key(&self) -> (i64, String, i32) {
        (self.time_hour.0, self.carrier.clone(), self.flight)
    }
}

/// Page that the driver read, with the cost of reading it.
pub(crate) struct Page {
    pub(crate) rows: Vec<Row>,
    pub(crate) round_trips: u32,
    pub(crate) statements: u32,
    pub(crate) rows_read: usize,
}

/// Connection to Cassandra with the prepared statements for pages.
pub(crate) struct Driver {
    session: Session,
    first: PreparedStatement,
    down_after: PreparedStatement,
    down_before: PreparedStatement,
    same_after: PreparedStatement,
    same_from: PreparedStatement,
    older: PreparedStatement,
    same_before: PreparedStatement,
    newer: PreparedStatement,
}

/// Prepares a statement, which may be a conditional write, with the consistency levels that Recto
/// uses.
pub(super) async fn conditional(session: &Session, text: &str) -> PreparedStatement {
    let mut statement = session.prepare(text).await.unwrap();
    statement.set_consistency(Consistency::LocalQuorum);
    statement.set_serial_consistency(Some(SerialConsistency::LocalSerial));
    statement
}

/// Opens a session of the driver on an existing keyspace.
pub(crate) async fn session(address: &str, keyspace: &str) -> Session {
    let builder = SessionBuilder::new().known_node(address);
    builder.use_keyspace(keyspace, false).build().await.unwrap()
}

/// Drops the keyspaces of a finished phase, because a Cassandra node keeps memory for each table.
pub(crate) async fn drop_keyspaces(address: &str, keyspaces: &[String]) {
    let session = session(address, &keyspaces[0]).await;
    for keyspace in keyspaces {
        let statement = format!("DROP KEYSPACE {keyspace}");
        session.query_unpaged(statement, ()).await.unwrap();
    }
}

impl Driver {
    /// Connects to a keyspace that has the tables of flights, and prepares the statements for
    /// pages.
    pub(crate) async fn connect(address: &str, keyspace: &str) -> Self {
        let session = session(address, keyspace).await;
        let prepare = async |table: &str, condition: &str, order: &str| {
            let text = format!("SELECT {COLUMNS} FROM {table} WHERE carrier = ? {condition} {order} LIMIT ?");
            let mut statement = session.prepare(text).await.unwrap();
            statement.set_consistency(Consistency::LocalQuorum);
            statement.set_is_idempotent(true);
            statement
        };
        let up = "ORDER BY time_hour ASC, flight DESC";
        Self {
            first: prepare("flights", "", "").await,
            down_after: prepare("flights_down", "AND (time_hour, flight) < (?, ?)", "").await,
            down_before: prepare(
                "flights_down",
                "AND (time_hour, flight) > (?, ?)",
                "ORDER BY time_hour ASC, flight ASC",
            )
            .await,
            same_after: prepare("flights", "AND time_hour = ? AND flight > ?", "").await,
            same_from: prepare("flights", "AND time_hour = ? AND flight >= ?", "").await,
            older: prepare("flights", "AND time_hour < ?", "").await,
            same_before: prepare("flights", "AND time_hour = ? AND flight < ?", up).await,
            newer: prepare("flights", "AND time_hour > ?", up).await,
            session,
        }
    }

    async fn rows(&self, statement: &PreparedStatement, values: impl SerializeRow) -> Vec<Row> {
        let answer = self.session.execute_unpaged(statement, values).await.unwrap();
        let answer = answer.into_rows_result().unwrap();
        answer.rows::<Row>().unwrap().map(Result::unwrap).collect()
    }

    /// Converts the rows of one statement to a page. The statement read one row more than `size`,
    /// to learn whether more rows follow.
    fn page(mut rows: Vec<Row>, size: i32, backward: bool) -> Page {
        let rows_read = rows.len();
        rows.truncate(size as usize);
        if backward {
            rows.reverse();
        }
        Page {
            rows,
            round_trips: 1,
            statements: 1,
            rows_read,
        }
    }

    /// Returns the first page of one carrier.
    pub(crate) async fn first(&self, size: i32) -> Page {
        let rows = self.rows(&self.first, (CARRIER, size + 1)).await;
        Self::page(rows, size, false)
    }

    /// Returns the page after or before the row `start`, in the table whose sort columns have the
    /// same direction. One statement is enough.
    pub(crate) async fn one_direction(&self, start: &Start, size: i32, backward: bool) -> Page {
        let statement = if backward {
            &self.down_before
        } else {
            &self.down_after
        };
        let values = (CARRIER, CqlTimestamp(start.time_hour), start.flight, size + 1);
        Self::page(self.rows(statement, values).await, size, backward)
    }

    /// Returns the page after or before the row `start`, in the table whose sort columns have
    /// different directions. Two statements are necessary: for the other rows of the same time, and
    /// for the rows of earlier or later times.
    pub(crate) async fn mixed(&self, start: &Start, size: i32, backward: bool) -> Page {
        let (same, beyond) = if backward {
            (&self.same_before, &self.newer)
        } else {
            (&self.same_after, &self.older)
        };
        let moment = CqlTimestamp(start.time_hour);
        let (rows, statements) = self
            .both(CARRIER, (same, beyond), moment, start.flight, size + 1)
            .await;
        Page {
            round_trips: statements,
            statements,
            ..Self::page(rows, size, backward)
        }
    }

    async fn both(
        &self,
        carrier: &str,
        (same, beyond): (&PreparedStatement, &PreparedStatement),
        moment: CqlTimestamp,
        flight: i32,
        limit: i32,
    ) -> (Vec<Row>, u32) {
        let mut rows = self.rows(same, (carrier, moment, flight, limit)).await;
        if rows.len() == limit as usize {
            return (rows, 1);
        }
        let left = limit - rows.len() as i32;
        rows.extend(self.rows(beyond, (carrier, moment, left)).await);
        (rows, 2)
    }

    /// Returns the page after the row `start` over eight carriers. Reads the page of each carrier
    /// concurrently, and merges the rows by time.
    pub(crate) async fn merged(&self, start: Option<&Start>, size: i32) -> Page {
        let reads = CARRIERS.map(|carrier| async move {
            let Some(start) = start else {
                return (self.rows(&self.first, (carrier, size + 1)).await, 1);
            };
            // Rows of the merged page are ordered by time, flight number and carrier. If a carrier
            // comes after the carrier of `start`, its row with the same time and number is also
            // after `start`.
            let same = if carrier > start.carrier.as_str() {
                &self.same_from
            } else {
                &self.same_after
            };
            let moment = CqlTimestamp(start.time_hour);
            self.both(carrier, (same, &self.older), moment, start.flight, size + 1)
                .await
        });
        let found = join_all(reads).await;
        let round_trips = found.iter().map(|(_, statements)| *statements).max().unwrap_or(0);
        let statements = found.iter().map(|(_, statements)| statements).sum();
        let mut rows: Vec<Row> = found.into_iter().flat_map(|(rows, _)| rows).collect();
        let rows_read = rows.len();
        rows.sort_by(|left, right| {
            let key = |row: &Row| (Reverse(row.time_hour.0), row.flight);
            key(left)
                .cmp(&key(right))
                .then_with(|| left.carrier.cmp(&right.carrier))
        });
        rows.truncate(size as usize);
        Page {
            rows,
            round_trips,
            statements,
            rows_read,
        }
    }

    /// Returns the version of the connected Cassandra server.
    pub(crate) async fn version(&self) -> String {
        let text = "SELECT release_version FROM system.local";
        let answer = self.session.query_unpaged(text, ()).await.unwrap();
        let (version,) = answer
            .into_rows_result()
            .unwrap()
            .single_row::<(String,)>()
            .unwrap();
        version
    }

    pub(crate) async fn drop_keyspace(&self, keyspace: &str) {
        drop_keyspace(&self.session, keyspace).await;
    }
}

/// Drops the keyspace of a finished benchmark.
pub(crate) async fn drop_keyspace(session: &Session, keyspace: &str) {
    let text = format!("DROP KEYSPACE {keyspace}");
    session.query_unpaged(text, ()).await.unwrap();
}

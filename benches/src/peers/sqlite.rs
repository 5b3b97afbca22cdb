//! Peer: SQLite with an index for the measured query.

use std::path::{Path, PathBuf};

use recto::types::Timestamp;
use rusqlite::{Connection, OpenFlags, Row, params};

use super::sql::{self, Dialect};
use super::{Filter, Peer, Question, Start};
use crate::flights::{COLUMNS, Flight};

/// How SQLite stores the flights: in a plain table with an index, or sorted by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Plain table, with an index in the order of the pages.
    Indexed,
    /// Table whose rows are stored in the order of the pages (`WITHOUT ROWID`).
    WithoutRowid,
}

impl Layout {
    pub(crate) const ALL: [Self; 2] = [Self::Indexed, Self::WithoutRowid];

    pub(crate) fn file(self, folder: &Path) -> PathBuf {
        folder.join(match self {
            Self::Indexed => "indexed.sqlite",
            Self::WithoutRowid => "without_rowid.sqlite",
        })
    }
}

const DIALECT: Dialect = Dialect {
    marker: '?',
    moment: str::to_owned,
};

/// Open SQLite database as a compared program.
pub(crate) struct Sqlite {
    connection: Connection,
}

/// Opens an SQLite database file. `map` allows SQLite to map the file into memory. `synchronous` is
/// FULL (a commit is on disk when it returns) or NORMAL.
pub(crate) fn open(path: &Path, cache_bytes: u64, map: bool, synchronous: &str) -> Connection {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).unwrap();
    connection.set_prepared_statement_cache_capacity(128);
    let map_bytes = if map { cache_bytes } else { 0 };
    connection
        .execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous};
             PRAGMA cache_size = -{}; PRAGMA mmap_size = {map_bytes}; PRAGMA busy_timeout = 60000;",
            cache_bytes / 1024
        ))
        .unwrap();
    connection
}

/// Creates the table of flights.
pub(crate) fn create(connection: &Connection, layout: Layout) {
    let (key, suffix) = match layout {
        Layout::Indexed => ("", ""),
        Layout::WithoutRowid => (", PRIMARY KEY (carrier, time_hour DESC, flight)", "WITHOUT ROWID"),
    };
    connection
        .execute_batch(&format!("CREATE TABLE flights ({COLUMNS}{key}) {suffix}"))
        .unwrap();
}

/// Creates the index of a plain table. Other tables need none. Call it after the rows are inserted,
/// because that is fastest in SQLite.
pub(crate) fn index(connection: &Connection, layout: Layout) {
    if layout == Layout::Indexed {
        connection
            .execute_batch("CREATE UNIQUE INDEX by_carrier ON flights (carrier, time_hour DESC, flight)")
            .unwrap();
    }
    connection
        .execute_batch("ANALYZE; PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
}

/// Inserts flights in one transaction.
pub(crate) fn insert(connection: &Connection, flights: &[Flight]) {
    let transaction = connection.unchecked_transaction().unwrap();
    {
        let values = vec!["?"; 19].join(", ");
        let mut insert = transaction
            .prepare_cached(&format!("INSERT INTO flights ({COLUMNS}) VALUES ({values})"))
            .unwrap();
        for f in flights {
            let time_hour = f.time_hour.0;
            #[rustfmt::skip]
            insert.execute(params![
                f.year, f.month, f.day, f.dep_time, f.sched_dep_time, f.dep_delay, f.arr_time,
                f.sched_arr_time, f.arr_delay, f.carrier, f.flight, f.tailnum, f.origin, f.dest, f.air_time,
                f.distance, f.hour, f.minute, time_hour
            ]).unwrap();
        }
    }
    transaction.commit().unwrap();
}

impl Sqlite {
    /// Opens an existing SQLite database. With `map`, SQLite may map the file into memory.
    pub(crate) fn open(folder: &Path, layout: Layout, cache_bytes: u64, map: bool) -> Self {
        Self {
            connection: open(&layout.file(folder), cache_bytes, map, "NORMAL"),
        }
    }

    /// Returns the page after `offset` rows, which SQLite skips by OFFSET.
    pub(crate) fn at_offset(&self, question: &Question, offset: u64) -> Vec<Flight> {
        let mut statement = self
            .connection
            .prepare_cached(&sql::at_offset(question, offset))
            .unwrap();
        statement
            .query_map([], flight)
            .unwrap()
            .map(Result::unwrap)
            .collect()
    }
}

impl Peer for Sqlite {
    fn pages(
        &mut self,
        question: &Question,
        starts: &[Start],
        at_end: bool,
        take: &mut dyn FnMut(&[Flight]),
    ) {
        let text = sql::page(DIALECT, question, at_end);
        for start in starts {
            let mut statement = self.connection.prepare_cached(&text).unwrap();
            let found = match (at_end, question.filter) {
                (true, _) => statement.query_map([], flight),
                (false, Filter::AnyOf) => {
                    statement.query_map(params![start.time_hour, start.flight, start.carrier], flight)
                }
                (false, _) => statement.query_map(params![start.time_hour, start.flight], flight),
            };
            let mut rows: Vec<Flight> = found.unwrap().map(Result::unwrap).collect();
            if question.backward {
                rows.reverse();
            }
            take(&rows);
        }
    }
}

fn flight(row: &Row<'_>) -> rusqlite::Result<Flight> {
    Ok(Flight {
        year: row.get(0)?,
        month: row.get(1)?,
        day: row.get(2)?,
        dep_time: row.get(3)?,
        sched_dep_time: row.get(4)?,
        dep_delay: row.get(5)?,
        arr_time: row.get(6)?,
        sched_arr_time: row.get(7)?,
        arr_delay: row.get(8)?,
        carrier: row.get(9)?,
        flight: row.get(10)?,
        tailnum: row.get(11)?,
        origin: row.get(12)?,
        dest: row.get(13)?,
        air_time: row.get(14)?,
        distance: row.get(15)?,
        hour: row.get(16)?,
        minute: row.get(17)?,
        time_hour: Timestamp(row.get(18)?),
    })
}

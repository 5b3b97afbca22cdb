//! SQLite with the matching index: the peer.

use std::path::Path;

use recto::types::Timestamp;
use rusqlite::{Connection, Row, params};

use crate::Start;
use crate::flights::Flight;

/// How the peer keeps its rows.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Layout {
    /// A plain table with an index in the page's order.
    Indexed,
    /// A table that is stored in the page's order.
    WithoutRowid,
}

const COLUMNS: &str = "year, month, day, dep_time, sched_dep_time, dep_delay, arr_time, sched_arr_time, \
    arr_delay, carrier, flight, tailnum, origin, dest, air_time, distance, hour, minute, time_hour";

const PAGE: &str = "SELECT year, month, day, dep_time, sched_dep_time, dep_delay, arr_time, sched_arr_time, \
    arr_delay, carrier, flight, tailnum, origin, dest, air_time, distance, hour, minute, time_hour \
    FROM flights WHERE carrier = ?1 AND time_hour <= ?2 AND (time_hour < ?2 OR flight > ?3) \
    ORDER BY time_hour DESC, flight LIMIT ?4";

/// An open database.
pub(crate) struct Peer {
    connection: Connection,
}

impl Peer {
    /// A new database of `flights`.
    pub(crate) fn load(path: &Path, layout: Layout, flights: &[Flight]) -> Self {
        let mut connection = Connection::open(path).unwrap();
        connection
            .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -262144; PRAGMA mmap_size = 1073741824;")
            .unwrap();
        let key = match layout {
            Layout::Indexed => "",
            Layout::WithoutRowid => ", PRIMARY KEY (carrier, time_hour DESC, flight)",
        };
        let suffix = if layout == Layout::WithoutRowid {
            "WITHOUT ROWID"
        } else {
            ""
        };
        connection
            .execute_batch(&format!("CREATE TABLE flights ({COLUMNS}{key}) {suffix}"))
            .unwrap();
        let transaction = connection.transaction().unwrap();
        {
            let values = vec!["?"; 19].join(", ");
            let mut insert = transaction
                .prepare(&format!("INSERT INTO flights ({COLUMNS}) VALUES ({values})"))
                .unwrap();
            for f in flights {
                insert
                    .execute(params![
                        f.year,
                        f.month,
                        f.day,
                        f.dep_time,
                        f.sched_dep_time,
                        f.dep_delay,
                        f.arr_time,
                        f.sched_arr_time,
                        f.arr_delay,
                        f.carrier,
                        f.flight,
                        f.tailnum,
                        f.origin,
                        f.dest,
                        f.air_time,
                        f.distance,
                        f.hour,
                        f.minute,
                        f.time_hour.0
                    ])
                    .unwrap();
            }
        }
        transaction.commit().unwrap();
        if layout == Layout::Indexed {
            connection
                .execute_batch("CREATE UNIQUE INDEX by_carrier ON flights (carrier, time_hour DESC, flight)")
                .unwrap();
        }
        connection.execute_batch("ANALYZE").unwrap();
        Self { connection }
    }

    /// The page after a place.
    pub(crate) fn page(&self, start: &Start, rows: u32) -> Vec<Flight> {
        let mut statement = self.connection.prepare_cached(PAGE).unwrap();
        let found = statement
            .query_map(params!["UA", start.time_hour, start.flight, rows], flight)
            .unwrap();
        found.map(Result::unwrap).collect()
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

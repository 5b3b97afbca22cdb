//! The flights, as records.

use std::io::Cursor;

use recto::Record;
use recto::types::Timestamp;

/// The flights of 2013 out of New York, as the demo carries them.
const ARCHIVE: &[u8] = include_bytes!("../../crates/recto-cli/data/flights.csv.zip");

/// A flight.
#[allow(clippy::struct_field_names)] // the column's name in the data
#[derive(Debug, Clone, PartialEq, Record)]
#[record(
    collection = "flights",
    key = ["time_hour", "carrier", "flight"],
    partition = ["carrier"],
    order = ["-time_hour"],
    writes = "append"
)]
pub(crate) struct Flight {
    pub(crate) year: i16,
    pub(crate) month: i8,
    pub(crate) day: i8,
    pub(crate) dep_time: Option<i16>,
    pub(crate) sched_dep_time: i16,
    pub(crate) dep_delay: Option<i16>,
    pub(crate) arr_time: Option<i16>,
    pub(crate) sched_arr_time: i16,
    pub(crate) arr_delay: Option<i16>,
    pub(crate) carrier: String,
    pub(crate) flight: i32,
    pub(crate) tailnum: Option<String>,
    pub(crate) origin: String,
    pub(crate) dest: String,
    pub(crate) air_time: Option<i16>,
    pub(crate) distance: i16,
    pub(crate) hour: i8,
    pub(crate) minute: i8,
    pub(crate) time_hour: Timestamp,
}

/// All flights, in the file's order.
pub(crate) fn read() -> Vec<Flight> {
    let mut archive = zip::ZipArchive::new(Cursor::new(ARCHIVE)).unwrap();
    let file = archive.by_index(0).unwrap();
    let mut reader = csv::Reader::from_reader(file);
    reader.records().map(|record| flight(&record.unwrap())).collect()
}

fn flight(record: &csv::StringRecord) -> Flight {
    let number = |index: usize| record[index].parse().unwrap();
    let small = |index: usize| record[index].parse().unwrap();
    let maybe = |index: usize| (&record[index] != "NA").then(|| record[index].parse().unwrap());
    Flight {
        year: number(0),
        month: small(1),
        day: small(2),
        dep_time: maybe(3),
        sched_dep_time: number(4),
        dep_delay: maybe(5),
        arr_time: maybe(6),
        sched_arr_time: number(7),
        arr_delay: maybe(8),
        carrier: record[9].to_owned(),
        flight: record[10].parse().unwrap(),
        tailnum: (&record[11] != "NA").then(|| record[11].to_owned()),
        origin: record[12].to_owned(),
        dest: record[13].to_owned(),
        air_time: maybe(14),
        distance: number(15),
        hour: small(16),
        minute: small(17),
        time_hour: Timestamp(milliseconds(&record[18])),
    }
}

/// The milliseconds of `2013-01-01T10:00:00Z`.
fn milliseconds(text: &str) -> i64 {
    let timestamp: jiff::Timestamp = text.parse().unwrap();
    timestamp.as_millisecond()
}

//! Benchmark data: flights out of New York in 2013, as records. Shifted copies of the flights
//! follow until there are enough rows.

use std::io::Cursor;

use recto::Record;
use recto::types::Timestamp;

/// Zip archive with a CSV file of the flights. The demo of the command line uses the same file.
const ARCHIVE: &[u8] = include_bytes!("../../crates/recto-cli/data/flights.csv.zip");

/// Time by which each copy of the flights is later than the previous one, in milliseconds: 53
/// weeks. Days of the week stay the same, and no two copies have a row with the same key.
pub(crate) const COPY_MILLISECONDS: i64 = 53 * 7 * 24 * 3_600 * 1_000;

/// Code of the carrier with the most flights.
pub(crate) const CARRIER: &str = "UA";

/// Codes of the eight carriers with the most flights.
pub(crate) const CARRIERS: [&str; 8] = ["9E", "AA", "B6", "DL", "EV", "MQ", "UA", "US"];

/// Row type of a peer that can return the key of its flight. The benchmark compares keys to check
/// that peers return the same rows.
pub(crate) trait Keyed {
    /// Returns the key of the flight: time in milliseconds, carrier and flight number.
    fn key(&self) -> (i64, String, i32);
}

macro_rules! flight {
    ($(#[$doc:meta])* $name:ident, $($attribute:tt)*) => {
        $(#[$doc])*
        #[allow(clippy::struct_field_names)] // name of the column in the data
        #[derive(Debug, Clone, PartialEq, Record)]
        #[record(key = ["time_hour", "carrier", "flight"], partition = ["carrier"], writes = "append", $($attribute)*)]
        pub(crate) struct $name {
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

        impl Keyed for $name {
            fn key(&self) -> (i64, String, i32) {
                (self.time_hour.0, self.carrier.clone(), self.flight)
            }
        }
    };
}

flight!(
    /// Flight, in a collection that is sorted by time (newest first), then by ascending flight number.
    Flight, collection = "flights", order = ["-time_hour"]
);
flight!(
    /// Flight, in a collection that is sorted by time (newest first), then by descending flight
    /// number. All sort columns have the same direction, unlike those of `Flight`.
    FlightDown, collection = "flights_down", order = ["-time_hour", "-flight"]
);

impl From<&Flight> for FlightDown {
    fn from(f: &Flight) -> Self {
        let f = f.clone();
        Self {
            year: f.year,
            month: f.month,
            day: f.day,
            dep_time: f.dep_time,
            sched_dep_time: f.sched_dep_time,
            dep_delay: f.dep_delay,
            arr_time: f.arr_time,
            sched_arr_time: f.sched_arr_time,
            arr_delay: f.arr_delay,
            carrier: f.carrier,
            flight: f.flight,
            tailnum: f.tailnum,
            origin: f.origin,
            dest: f.dest,
            air_time: f.air_time,
            distance: f.distance,
            hour: f.hour,
            minute: f.minute,
            time_hour: f.time_hour,
        }
    }
}

/// SQL names of the columns of a flight, in the order of the input file.
pub(crate) const COLUMNS: &str = "year, month, day, dep_time, sched_dep_time, dep_delay, arr_time, sched_arr_time, \
    arr_delay, carrier, flight, tailnum, origin, dest, air_time, distance, hour, minute, time_hour";

/// Returns the flights of the archive in the order of the file: by day within each month.
pub(crate) fn read() -> Vec<Flight> {
    let mut archive = zip::ZipArchive::new(Cursor::new(ARCHIVE)).unwrap();
    let file = archive.by_index(0).unwrap();
    let mut reader = csv::Reader::from_reader(file);
    reader.records().map(|record| flight(&record.unwrap())).collect()
}

/// Returns `rows` flights. If `flights` has fewer, copies follow, each 53 weeks later than the
/// previous one.
pub(crate) fn scaled(flights: &[Flight], rows: u64) -> impl Iterator<Item = Flight> {
    let copies = (0..).flat_map(move |copy| flights.iter().map(move |flight| later(flight, copy)));
    copies.take(usize::try_from(rows).unwrap())
}

fn later(flight: &Flight, copies: i64) -> Flight {
    let mut later = flight.clone();
    later.time_hour = Timestamp(flight.time_hour.0 + copies * COPY_MILLISECONDS);
    later
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

/// Converts text such as `2013-01-01T10:00:00Z` to milliseconds since 1970.
fn milliseconds(text: &str) -> i64 {
    let timestamp: jiff::Timestamp = text.parse().unwrap();
    timestamp.as_millisecond()
}

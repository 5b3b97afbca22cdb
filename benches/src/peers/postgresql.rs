//! Peer: PostgreSQL 15 with an index for the measured query. The server has its own data folder,
//! listens on a local socket, and statements are prepared.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use postgres::types::{FromSql, ToSql, Type};
use postgres::{Client, NoTls, Row, Statement};
use recto::types::Timestamp;

use super::sql::{self, Dialect};
use super::{Filter, Peer, Question, Start};
use crate::flights::{COLUMNS, Flight};

/// Folder in which Debian installs the programs of PostgreSQL 15.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";
/// User that runs the PostgreSQL server if this process runs as root, because the server refuses to
/// run as root.
const USER: &str = "postgres";
/// Start of PostgreSQL's timestamps, the year 2000, in microseconds since 1970.
const EPOCH_MICROS: i64 = 946_684_800_000_000;
/// Maximum number of connections of the server: more than the writers of any phase.
const MAX_CONNECTIONS: u32 = 100;

const DIALECT: Dialect = Dialect {
    marker: '$',
    moment: |milliseconds| format!("to_timestamp({milliseconds}::bigint / 1000)"),
};

/// PostgreSQL server of the benchmark. Dropping this value stops the server and removes its data.
pub(crate) struct Cluster {
    folder: PathBuf,
    is_running: bool,
}

impl Cluster {
    /// Creates the data folder of a server, without starting it.
    ///
    /// # Errors
    /// Returns a message if PostgreSQL is not installed.
    pub(crate) fn new() -> Result<Self, String> {
        if !Path::new(PROGRAMS).join("initdb").exists() {
            return Err(
                "PostgreSQL 15 is not installed. hint: apt-get install postgresql-15, \
                or use --without-postgresql"
                    .to_owned(),
            );
        }
        let folder = run(&["mktemp", "-d", "/tmp/recto-benches-postgresql.XXXXXX"])?;
        let cluster = Self {
            folder: PathBuf::from(folder.trim()),
            is_running: false,
        };
        let data = cluster.data();
        run(&[
            "initdb",
            "-D",
            &data,
            "-U",
            USER,
            "-E",
            "UTF8",
            "--locale=C",
            "-A",
            "trust",
        ])?;
        Ok(cluster)
    }

    fn data(&self) -> String {
        self.folder.join("data").to_str().unwrap().to_owned()
    }

    /// Starts or restarts the server with `cache_bytes` of memory for cached pages, and without
    /// autovacuum.
    pub(crate) fn start(&mut self, cache_bytes: u64) {
        self.start_with(cache_bytes, "off");
    }

    /// Starts or restarts the server with autovacuum, which removes deleted rows during the
    /// measurement.
    pub(crate) fn start_vacuuming(&mut self, cache_bytes: u64) {
        self.start_with(cache_bytes, "on");
    }

    fn start_with(&mut self, cache_bytes: u64, autovacuum: &str) {
        self.stop();
        let options = format!(
            "-c listen_addresses='' -c unix_socket_directories={} -c shared_buffers={}kB \
             -c max_connections={MAX_CONNECTIONS} -c max_wal_size=8GB -c checkpoint_timeout=30min \
             -c maintenance_work_mem=512MB -c autovacuum={autovacuum}",
            self.folder.display(),
            cache_bytes / 1024
        );
        let log = self.folder.join("log");
        run(&[
            "pg_ctl",
            "start",
            "-w",
            "-D",
            &self.data(),
            "-l",
            log.to_str().unwrap(),
            "-o",
            &options,
        ])
        .unwrap();
        self.is_running = true;
    }

    fn stop(&mut self) {
        if std::mem::take(&mut self.is_running) {
            run(&["pg_ctl", "stop", "-w", "-m", "fast", "-D", &self.data()]).unwrap();
        }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.options(), NoTls).unwrap()
    }

    /// Returns the connection string with which a client connects to the server.
    pub(crate) fn options(&self) -> String {
        format!("host={} user={USER} dbname=postgres", self.folder.display())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Ignore errors, because remaining files are in a temporary folder.
        if self.is_running {
            let _ = run(&["pg_ctl", "stop", "-w", "-m", "immediate", "-D", &self.data()]);
        }
        let _ = run(&["rm", "-rf", self.folder.to_str().unwrap()]);
    }
}

/// Runs a program of PostgreSQL, as a user that may run the server. Returns the program's output.
fn run(words: &[&str]) -> Result<String, String> {
    let program = Path::new(PROGRAMS).join(words[0]);
    let program = if program.exists() {
        program
    } else {
        words[0].into()
    };
    let is_root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout == b"0\n");
    let mut command = if is_root {
        let mut command = Command::new("runuser");
        command.args(["-u", USER, "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    // `pg_ctl start` passes its standard output to the server. Discard that output: reading it to its end
    // would wait until the server stops.
    let is_start = words.get(1) == Some(&"start");
    command.args(&words[1..]).current_dir("/").stdin(Stdio::null());
    if is_start {
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        let is_done = status.is_ok_and(|status| status.success());
        return is_done
            .then(String::new)
            .ok_or_else(|| format!("{words:?} failed"));
    }
    let output = command.output().map_err(|error| format!("{words:?}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{words:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// Creates the table of flights.
pub(crate) fn create(client: &mut Client) {
    client
        .batch_execute(
            "CREATE TABLE flights (year smallint NOT NULL, month smallint NOT NULL, day smallint NOT NULL,
             dep_time smallint, sched_dep_time smallint NOT NULL, dep_delay smallint, arr_time smallint,
             sched_arr_time smallint NOT NULL, arr_delay smallint, carrier text NOT NULL, flight int NOT NULL,
             tailnum text, origin text NOT NULL, dest text NOT NULL, air_time smallint,
             distance smallint NOT NULL, hour smallint NOT NULL, minute smallint NOT NULL,
             time_hour timestamptz NOT NULL)",
        )
        .unwrap();
}

/// Creates the index for the measured queries. Call it after the rows are stored, which is faster.
pub(crate) fn index(client: &mut Client) {
    // Send each statement in its own request: the statements of one request form a transaction, in
    // which VACUUM cannot run.
    for text in [
        "CREATE UNIQUE INDEX by_carrier ON flights (carrier, time_hour DESC, flight)",
        "VACUUM (ANALYZE) flights",
        "CHECKPOINT",
    ] {
        client.batch_execute(text).unwrap();
    }
}

/// Inserts flights by one COPY statement.
pub(crate) fn copy(client: &mut Client, flights: &[Flight]) {
    let mut writer = client
        .copy_in(&format!("COPY flights ({COLUMNS}) FROM STDIN"))
        .unwrap();
    for flight in flights {
        writeln!(writer, "{}", line(flight)).unwrap();
    }
    writer.finish().unwrap();
}

fn line(f: &Flight) -> String {
    let maybe = |value: Option<i16>| value.map_or_else(|| "\\N".to_owned(), |value| value.to_string());
    let moment = jiff::Timestamp::from_millisecond(f.time_hour.0).unwrap();
    format!(
        "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{moment}",
        f.year,
        f.month,
        f.day,
        maybe(f.dep_time),
        f.sched_dep_time,
        maybe(f.dep_delay),
        maybe(f.arr_time),
        f.sched_arr_time,
        maybe(f.arr_delay),
        f.carrier,
        f.flight,
        f.tailnum.as_deref().unwrap_or("\\N"),
        f.origin,
        f.dest,
        maybe(f.air_time),
        f.distance,
        f.hour,
        f.minute,
    )
}

/// Returns the INSERT statement for one flight. The parameter of its time is in milliseconds since
/// 1970.
pub(crate) fn insert_text() -> String {
    let values: Vec<String> = (1..=18).map(|number| format!("${number}")).collect();
    let moment = (DIALECT.moment)("$19");
    format!(
        "INSERT INTO flights ({COLUMNS}) VALUES ({}, {moment})",
        values.join(", ")
    )
}

/// Inserts one flight in its own transaction.
pub(crate) fn insert(client: &mut Client, statement: &Statement, f: &Flight) {
    let (month, day) = (i16::from(f.month), i16::from(f.day));
    let (hour, minute) = (i16::from(f.hour), i16::from(f.minute));
    #[rustfmt::skip]
    let values: [&(dyn ToSql + Sync); 19] = [
        &f.year, &month, &day, &f.dep_time, &f.sched_dep_time, &f.dep_delay, &f.arr_time, &f.sched_arr_time,
        &f.arr_delay, &f.carrier, &f.flight, &f.tailnum, &f.origin, &f.dest, &f.air_time, &f.distance, &hour,
        &minute, &f.time_hour.0,
    ];
    client.execute(statement, &values).unwrap();
}

/// Returns the sizes of the table and of its index, in bytes.
pub(crate) fn bytes(client: &mut Client) -> (u64, u64) {
    let row = client
        .query_one("SELECT pg_table_size('flights'), pg_indexes_size('flights')", &[])
        .unwrap();
    (row.get::<_, i64>(0) as u64, row.get::<_, i64>(1) as u64)
}

/// PostgreSQL client as a compared program, with its prepared statements.
pub(crate) struct Postgresql {
    client: Client,
    prepared: HashMap<String, Statement>,
}

impl Postgresql {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            prepared: HashMap::new(),
        }
    }

    fn prepare(&mut self, text: &str) -> Statement {
        if let Some(statement) = self.prepared.get(text) {
            return statement.clone();
        }
        let statement = self.client.prepare(text).unwrap();
        self.prepared.insert(text.to_owned(), statement.clone());
        statement
    }

    /// Returns the page after `offset` rows, which PostgreSQL skips by OFFSET.
    pub(crate) fn at_offset(&mut self, question: &Question, offset: u64) -> Vec<Flight> {
        let statement = self.prepare(&sql::at_offset(question, offset));
        self.client
            .query(&statement, &[])
            .unwrap()
            .iter()
            .map(flight)
            .collect()
    }
}

impl Peer for Postgresql {
    fn pages(
        &mut self,
        question: &Question,
        starts: &[Start],
        at_end: bool,
        take: &mut dyn FnMut(&[Flight]),
    ) {
        let statement = self.prepare(&sql::page(DIALECT, question, at_end));
        for start in starts {
            let values: [&(dyn ToSql + Sync); 3] = [&start.time_hour, &start.flight, &start.carrier];
            let values = match (at_end, question.filter) {
                (true, _) => &values[..0],
                (false, Filter::AnyOf) => &values[..],
                (false, _) => &values[..2],
            };
            let found = self.client.query(&statement, values).unwrap();
            let mut rows: Vec<Flight> = found.iter().map(flight).collect();
            if question.backward {
                rows.reverse();
            }
            take(&rows);
        }
    }
}

/// Timestamp as PostgreSQL sends it: microseconds since the year 2000.
struct Moment(i64);

impl<'a> FromSql<'a> for Moment {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(i64::from_be_bytes(raw.try_into()?)))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }
}

fn flight(row: &Row) -> Flight {
    let small = |index: usize| row.get::<_, i16>(index) as i8;
    Flight {
        year: row.get(0),
        month: small(1),
        day: small(2),
        dep_time: row.get(3),
        sched_dep_time: row.get(4),
        dep_delay: row.get(5),
        arr_time: row.get(6),
        sched_arr_time: row.get(7),
        arr_delay: row.get(8),
        carrier: row.get(9),
        flight: row.get(10),
        tailnum: row.get(11),
        origin: row.get(12),
        dest: row.get(13),
        air_time: row.get(14),
        distance: row.get(15),
        hour: small(16),
        minute: small(17),
        time_hour: Timestamp((row.get::<_, Moment>(18).0 + EPOCH_MICROS) / 1_000),
    }
}

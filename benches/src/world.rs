//! Flights in the databases of all peers, which several phases share. They are stored once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::arguments::Arguments;
use crate::flights::{self, Flight, scaled};
use crate::peers::engine::Engine;
use crate::peers::ours::Ours;
use crate::peers::postgresql::{self, Cluster, Postgresql};
use crate::peers::sqlite::{self, Layout, Sqlite};
use crate::progress::Progress;

/// Number of flights that are inserted per call.
const CHUNK_ROWS: usize = 10_000;
/// Cache of each database in bytes, except PostgreSQL. It can contain all data.
const WARM_CACHE_BYTES: u64 = 4 << 30;
/// Maximum cache of PostgreSQL in bytes. It is smaller than the other caches, because PostgreSQL
/// allocates its whole cache at the start.
const POSTGRESQL_CACHE_BYTES: u64 = 2 << 30;
/// Minimum cache of a database in bytes.
const MIN_CACHE_BYTES: u64 = 4 << 20;

/// Name of the file that marks the data in a folder as complete.
const COMPLETE: &str = "complete";

/// State that all phases share: arguments, progress output, and stored flights.
pub(crate) struct World {
    pub(crate) arguments: Arguments,
    pub(crate) progress: Progress,
    /// Folder for databases that exist only during the run.
    pub(crate) folder: PathBuf,
    _temporary: Option<tempfile::TempDir>,
    pub(crate) data: Option<Data>,
}

/// Flights stored in the databases of all peers.
pub(crate) struct Data {
    folder: PathBuf,
    pub(crate) rows: u64,
    /// Time in seconds that each database took to store the flights, by its name. Empty if the
    /// flights were stored by an earlier run.
    pub(crate) seconds: BTreeMap<&'static str, f64>,
    pub(crate) cluster: Option<Cluster>,
}

/// Cache size of a database, relative to its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cache {
    /// Cache that can contain all data.
    Whole,
    /// Cache of a tenth of the data's size.
    Tenth,
}

impl World {
    pub(crate) fn new(arguments: Arguments) -> Self {
        let (folder, temporary) = if let Some(folder) = &arguments.folder {
            (folder.clone(), None)
        } else {
            let temporary = tempfile::tempdir().unwrap();
            (temporary.path().to_owned(), Some(temporary))
        };
        fs::create_dir_all(&folder).unwrap();
        Self {
            arguments,
            progress: Progress::new(),
            folder,
            _temporary: temporary,
            data: None,
        }
    }

    /// Returns the stored flights, and stores them first if necessary.
    ///
    /// # Errors
    /// Returns a message if a database that should take part is not installed.
    pub(crate) fn data(&mut self) -> Result<&mut Data, String> {
        if self.data.is_none() {
            self.data = Some(Data::make(self)?);
        }
        Ok(self.data.as_mut().unwrap())
    }
}

impl Data {
    fn make(world: &mut World) -> Result<Self, String> {
        let rows = world.arguments.rows;
        let folder = world.folder.join(format!("flights-{rows}"));
        let cluster = if world.arguments.postgresql {
            Some(Cluster::new()?)
        } else {
            None
        };
        let mut data = Self {
            folder,
            rows,
            seconds: BTreeMap::new(),
            cluster,
        };
        let base = flights::read();
        let complete = data.folder.join(COMPLETE);
        if !complete.exists() {
            let _ = fs::remove_dir_all(&data.folder);
            fs::create_dir_all(&data.folder).unwrap();
            data.store_ours(&base, &mut world.progress);
            for layout in Layout::ALL {
                data.store_sqlite(layout, &base, &mut world.progress);
            }
            fs::write(complete, b"").unwrap();
        }
        data.store_postgresql(&base, &mut world.progress);
        Ok(data)
    }

    /// Marks the databases as changed, so that no later run uses them.
    pub(crate) fn spoil(&self) {
        let _ = fs::remove_file(self.folder.join(COMPLETE));
    }

    pub(crate) fn recto(&self) -> PathBuf {
        self.folder.join("recto")
    }

    /// Returns the path of Recto's data file with the flights.
    pub(crate) fn recto_file(&self) -> PathBuf {
        self.recto().join("data.redb")
    }

    /// Returns the path of a copy of Recto's data file, which the phases read with redb directly.
    fn copy(&self) -> PathBuf {
        self.folder.join("copy.redb")
    }

    pub(crate) fn sqlite_file(&self, layout: Layout) -> PathBuf {
        layout.file(&self.folder)
    }

    fn store_ours(&mut self, base: &[Flight], progress: &mut Progress) {
        let started = Instant::now();
        let ours = Ours::open(&self.recto(), 1 << 30);
        for_chunks(base, self.rows, |chunk, done| {
            progress.say(&format!("storing in Recto, {done} rows"));
            ours.runtime.block_on(ours.flights.put_all(chunk)).unwrap();
        });
        self.seconds.insert("Recto", started.elapsed().as_secs_f64());
        drop(ours);
        fs::copy(self.recto_file(), self.copy()).unwrap();
    }

    fn store_sqlite(&mut self, layout: Layout, base: &[Flight], progress: &mut Progress) {
        let started = Instant::now();
        let connection = sqlite::open(&self.sqlite_file(layout), 1 << 30, false, "NORMAL");
        sqlite::create(&connection, layout);
        for_chunks(base, self.rows, |chunk, done| {
            progress.say(&format!("storing in SQLite {layout:?}, {done} rows"));
            sqlite::insert(&connection, chunk);
        });
        sqlite::index(&connection, layout);
        let name = if layout == Layout::Indexed {
            "SQLite"
        } else {
            "SQLite WITHOUT ROWID"
        };
        self.seconds.insert(name, started.elapsed().as_secs_f64());
    }

    fn store_postgresql(&mut self, base: &[Flight], progress: &mut Progress) {
        let Some(cluster) = &mut self.cluster else { return };
        cluster.start(POSTGRESQL_CACHE_BYTES);
        let started = Instant::now();
        let mut client = cluster.connect();
        postgresql::create(&mut client);
        for_chunks(base, self.rows, |chunk, done| {
            progress.say(&format!("storing in PostgreSQL, {done} rows"));
            postgresql::copy(&mut client, chunk);
        });
        progress.say("creating the index of PostgreSQL");
        postgresql::index(&mut client);
        self.seconds.insert("PostgreSQL", started.elapsed().as_secs_f64());
    }

    /// Returns a cache size in bytes. `file` is the data file of the database, whose size
    /// determines [`Cache::Tenth`].
    pub(crate) fn cache_bytes(cache: Cache, file: &Path) -> u64 {
        match cache {
            Cache::Whole => WARM_CACHE_BYTES,
            Cache::Tenth => (fs::metadata(file).unwrap().len() / 10).max(MIN_CACHE_BYTES),
        }
    }

    pub(crate) fn ours(&self, cache: Cache) -> Ours {
        Ours::open(&self.recto(), Self::cache_bytes(cache, &self.recto_file()))
    }

    pub(crate) fn engine(&self, cache: Cache) -> Engine {
        Engine::open(&self.copy(), Self::cache_bytes(cache, &self.recto_file()))
    }

    pub(crate) fn sqlite(&self, layout: Layout, cache: Cache) -> Sqlite {
        let bytes = Self::cache_bytes(cache, &self.sqlite_file(layout));
        Sqlite::open(&self.folder, layout, bytes, cache == Cache::Whole)
    }

    /// Starts PostgreSQL with the given cache size, unless it is disabled.
    pub(crate) fn start_postgresql(&mut self, cache: Cache) {
        let Some(cluster) = &mut self.cluster else { return };
        let bytes = match cache {
            Cache::Whole => POSTGRESQL_CACHE_BYTES,
            Cache::Tenth => {
                cluster.start(POSTGRESQL_CACHE_BYTES);
                let (table, index) = postgresql::bytes(&mut cluster.connect());
                ((table + index) / 10).max(MIN_CACHE_BYTES)
            }
        };
        cluster.start(bytes);
    }

    /// Connects to the running PostgreSQL server. `None` if PostgreSQL is disabled.
    pub(crate) fn postgresql(&self) -> Option<Postgresql> {
        Some(Postgresql::new(self.cluster.as_ref()?.connect()))
    }

    /// Returns the time span of the flights in milliseconds, without its first and its last
    /// fiftieth.
    pub(crate) fn span(&self) -> (i64, i64) {
        let base = flights::read();
        let whole_copies = (self.rows / base.len() as u64).max(1);
        let stored = &base[..base.len().min(self.rows as usize)];
        let first = stored.iter().map(|flight| flight.time_hour.0).min().unwrap();
        let last = stored.iter().map(|flight| flight.time_hour.0).max().unwrap();
        let last = last + (whole_copies as i64 - 1) * flights::COPY_MILLISECONDS;
        let part = (last - first) / 50;
        // Round to whole seconds, because all peers write whole seconds in the same form.
        let whole = |moment: i64| moment / 1_000 * 1_000;
        (whole(first + part), whole(last - part))
    }

    /// Returns a lower bound of the number of flights of the largest carrier within
    /// [`span`](Self::span).
    pub(crate) fn deepest(&self) -> u64 {
        let base = flights::read();
        let of_carrier = base
            .iter()
            .filter(|flight| flight.carrier == flights::CARRIER)
            .count() as f64;
        // The span ends with the last whole copy of the flights, so ignore the rows after that
        // copy.
        let copies = (self.rows as f64 / base.len() as f64).floor();
        let copies = if copies < 1.0 {
            self.rows as f64 / base.len() as f64
        } else {
            copies
        };
        (of_carrier * copies * 0.9) as u64
    }
}

/// Calls `take` with consecutive chunks of `rows` flights. The second argument of `take` is the
/// number of flights up to the end of the chunk.
pub(crate) fn for_chunks(base: &[Flight], rows: u64, mut take: impl FnMut(&[Flight], usize)) {
    let mut all = scaled(base, rows);
    let mut done = 0;
    loop {
        let chunk: Vec<Flight> = all.by_ref().take(CHUNK_ROWS).collect();
        if chunk.is_empty() {
            return;
        }
        done += chunk.len();
        take(&chunk, done);
    }
}

//! Simulated process: the engine behind a connection with delays, and its clients.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use recto::store::{ConsistencyLevel, Store};
use recto::{Environment, ErrorKind, OpenOptions, Recto};
use recto_protocol::views::Version;

use super::clock::{Clock, Clocks, Random};
use super::gate::Gate;
use super::history::{ChangeAnswer, History};
use super::reader::Reader;
use super::records::{
    self, ChangeEffect, Fields, LEDGERS, Place, RARE, RECORDS, RecordChange, STAYING, Tables,
};

/// Maximum duration of a store request, and of a change.
const TIME: Duration = Duration::from_secs(3);
/// Maximum pause of a client between two changes, in milliseconds.
const MAX_THINKING_MILLIS: u64 = 700;
/// Number of clients of a process.
const CLIENTS: u64 = 3;
/// Number of different handles (unique values). It is less than the number of records that request
/// one, so that conflicts occur.
const HANDLES: u64 = 8;

/// Simulated process whose clients read and write records.
pub(crate) struct Process {
    pub(crate) gate: Gate,
    pub(crate) clock: Arc<Clock>,
    engine: Recto,
    reader: Reader,
    tables: Rc<Tables>,
    history: Rc<History>,
    random: Random,
    is_resting: Cell<bool>,
}

impl Process {
    pub(crate) async fn start(
        store: Arc<dyn Store>,
        clock: Arc<Clock>,
        seed: u64,
        tables: &Rc<Tables>,
        history: &Rc<History>,
    ) -> Option<Rc<Self>> {
        let gate = Gate::new(store, seed);
        let environment = Environment::new(Clocks(Arc::clone(&clock)));
        let options = OpenOptions::new().environment(environment).request_timeout(TIME);
        let engine = Recto::with_store(Arc::new(gate.clone()), options).await.ok()?;
        Some(Rc::new(Self {
            gate,
            clock,
            reader: Reader::new(engine.clone(), Rc::clone(history), seed),
            engine,
            tables: Rc::clone(tables),
            history: Rc::clone(history),
            random: Random::new(seed ^ 0x5EED),
            is_resting: Cell::new(false),
        }))
    }

    /// Starts the clients and one reader, which send requests until [`rest`](Self::rest) is called.
    pub(crate) fn work(self: &Rc<Self>) {
        let process = Rc::clone(self);
        tokio::task::spawn_local(async move {
            while !process.is_resting.get() {
                process.reader.traverse().await;
            }
        });
        for _ in 0..CLIENTS {
            let process = Rc::clone(self);
            tokio::task::spawn_local(async move {
                while !process.is_resting.get() {
                    process.act().await;
                    let pause = process.random.below(MAX_THINKING_MILLIS);
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
            });
        }
    }

    /// Starts to change the schema, and retries after failures until [`rest`](Self::rest) is
    /// called.
    pub(crate) fn change_schema(self: &Rc<Self>, in_buckets: bool) {
        let process = Rc::clone(self);
        tokio::task::spawn_local(async move {
            while !process.is_resting.get()
                && records::change_schema(&process.engine, in_buckets).await.is_err()
            {
                tokio::time::sleep(TIME).await;
            }
        });
    }

    /// Makes the clients stop, and ends the long delays of the connection.
    pub(crate) fn rest(&self) {
        self.is_resting.set(true);
        self.gate.calm();
    }

    async fn act(&self) {
        let id = if self.random.one_in(3) {
            RECORDS + STAYING + self.below(RARE)
        } else {
            self.below(RECORDS)
        };
        match (id < LEDGERS, self.random.below(8)) {
            (_, 0) => self.reads(id).await,
            (true, 1..=3) | (false, 3 | 4) => self.change(self.moves(id), None).await,
            (true, _) => self.append(id).await,
            (false, 1) => {
                self.change(RecordChange::new(id, ChangeEffect::Deleted), None)
                    .await;
            }
            (false, 2) => {
                let inserted = ChangeEffect::Inserted(self.fields());
                self.change(RecordChange::new(id, inserted), None).await;
            }
            (false, drawn) => {
                let mut put = RecordChange::new(id, ChangeEffect::Put(self.fields()));
                let seconds = 1 + self.random.below(60);
                put.lives_for = (drawn == 5).then_some(Duration::from_secs(seconds));
                self.change(put, None).await;
            }
        }
        if self.random.one_in(20) {
            // Simulate a caller that cancels a change by dropping its future.
            let gone = self.change(self.moves(id), None);
            let soon = Duration::from_millis(self.random.below(100));
            drop(tokio::time::timeout(soon, gone).await);
        }
    }

    fn below(&self, end: i32) -> i32 {
        i32::try_from(self.random.below(u64::from(end.unsigned_abs()))).unwrap()
    }

    fn place(&self) -> Place {
        Place {
            status: self.maybe(3),
            at: self.maybe(4).map(i32::from),
            note: self.maybe(2),
        }
    }

    fn fields(&self) -> Fields {
        Fields {
            handle: self.random.one_in(2).then(|| self.random.below(HANDLES) as u8),
            ..Fields::at(self.place())
        }
    }

    fn maybe(&self, end: u64) -> Option<u8> {
        let drawn = self.random.below(end + 1);
        (drawn < end).then_some(drawn as u8)
    }

    fn moves(&self, id: i32) -> RecordChange {
        RecordChange::new(id, ChangeEffect::Moved(self.place()))
    }

    async fn reads(&self, id: i32) {
        let before = self.history.newest(id);
        let serial = Some(ConsistencyLevel::Serial);
        if let Some(found) = self.tables.read(&self.gate, id, serial).await {
            self.history.reads(id, before, found.row.map(|row| row.version));
        }
    }

    /// Appends an entry to the log of a record, if the record still has the version that was read.
    async fn append(&self, id: i32) {
        let Some(found) = self.tables.read(&self.gate, id, None).await else {
            return;
        };
        let entry = self.history.entry(id);
        // A process that resolved an intent (record of a change in progress) for a missing record
        // may have left a row without a record. Treat the row as missing.
        let found = found.row.and_then(|row| Some((row.version, row.record?)));
        let mut fields = found
            .as_ref()
            .map_or_else(|| self.fields(), |(_, record)| Fields::of(record));
        fields.log += &format!("{entry},");
        let asked = match found {
            None => RecordChange::new(id, ChangeEffect::Inserted(fields)),
            Some((version, _)) => RecordChange {
                if_version: Some(version),
                ..RecordChange::new(id, ChangeEffect::Put(fields))
            },
        };
        self.change(asked, Some(entry)).await;
    }

    async fn change(&self, asked: RecordChange, entry: Option<u64>) {
        let (id, place) = (asked.id, asked.place());
        let before = self.history.newest(id);
        self.history.asks(id, place);
        let begun = self.history.handles.begins(id);
        let said = match asked.ask(&self.engine).await {
            Ok(changed) => {
                let version = Version(changed.version);
                self.history.was(id, version, place, !changed.pending);
                ChangeAnswer::Applied(version)
            }
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => ChangeAnswer::Unknown,
            Err(_) => ChangeAnswer::NotApplied,
        };
        self.history.says(id, entry, before, said);
        if let Err(wrong) = self.history.handles.ends(begun, said, asked.handle()) {
            self.history.is_wrong(wrong);
        }
    }
}

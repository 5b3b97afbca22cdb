//! One process: the product's engine behind a gate, and clients that ask it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use recto::store::{ConsistencyLevel, Store};
use recto::{Environment, ErrorKind, OpenOptions, Recto};
use recto_views::Micros;

use crate::clock::{Clock, Clocks, Random};
use crate::gate::Gate;
use crate::history::{History, Said};
use crate::reader::Reader;
use crate::records::{self, Asked, COLLECTION, Fields, LEDGERS, Place, RECORDS, Tables};

/// How long a change may take.
const TIME: Duration = Duration::from_secs(3);
/// The longest that a client waits between two changes.
const MAX_THINKING_MILLIS: u64 = 700;
/// How many clients a process has.
const CLIENTS: u64 = 3;

/// A process that writes.
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
        let options = OpenOptions::new().environment(environment);
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

    /// Its clients ask until it ends, and one reads.
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

    /// Changes the schema while it can, asking again when it fails.
    pub(crate) fn change_schema(self: &Rc<Self>) {
        let process = Rc::clone(self);
        tokio::task::spawn_local(async move {
            while !process.is_resting.get() && records::change_schema(&process.engine).await.is_err() {
                tokio::time::sleep(TIME).await;
            }
        });
    }

    /// Nobody asks any more.
    pub(crate) fn rest(&self) {
        self.is_resting.set(true);
        self.gate.calm();
    }

    async fn act(&self) {
        let id = i32::try_from(self.random.below(u64::from(RECORDS.unsigned_abs()))).unwrap();
        match (id < LEDGERS, self.random.below(8)) {
            (_, 0) => self.reads(id).await,
            (true, 1..=3) | (false, 3 | 4) => self.change(id, None, self.another_place()).await,
            (true, _) => self.append(id).await,
            (false, 1) => self.change(id, None, records::delete()).await,
            (false, 2) => self.change(id, None, records::insert(id, &self.fields())).await,
            (false, 5) => {
                let ends = self.now() + i64::try_from(self.random.below(60_000_000)).unwrap();
                let put = records::put(id, &self.fields(), Some(ends), None);
                self.change(id, None, put).await;
            }
            (false, _) => {
                let put = records::put(id, &self.fields(), None, None);
                self.change(id, None, put).await;
            }
        }
        if self.random.one_in(20) {
            // A caller that goes away.
            let gone = self.change(id, None, self.another_place());
            let soon = Duration::from_millis(self.random.below(100));
            drop(tokio::time::timeout(soon, gone).await);
        }
    }

    fn now(&self) -> Micros {
        recto_model::environment::Source::now_micros(&Clocks(Arc::clone(&self.clock)))
    }

    fn fields(&self) -> Fields {
        Fields {
            status: self.maybe(3),
            at: self.maybe(4).map(i32::from),
            log: String::new(),
            note: self.maybe(2),
        }
    }

    fn maybe(&self, end: u64) -> Option<u8> {
        let drawn = self.random.below(end + 1);
        (drawn < end).then_some(drawn as u8)
    }

    fn another_place(&self) -> Asked {
        records::move_to(self.maybe(3), self.maybe(4).map(i32::from), self.maybe(2))
    }

    async fn reads(&self, id: i32) {
        let before = self.history.newest(id);
        let serial = Some(ConsistencyLevel::Serial);
        if let Some(found) = self.tables.read(&self.gate, id, serial).await {
            self.history.reads(id, before, found.row.map(|row| row.version));
        }
    }

    /// Adds to a log what it has read of it.
    async fn append(&self, id: i32) {
        let Some(found) = self.tables.read(&self.gate, id, None).await else {
            return;
        };
        let entry = self.history.entry(id);
        // Whoever resolved an intent of a record that there was none of left a row that says so.
        let Some((version, record)) = found.row.and_then(|row| Some((row.version, row.record?))) else {
            let fields = Fields {
                log: format!("{entry},"),
                ..self.fields()
            };
            self.change(id, Some(entry), records::insert(id, &fields)).await;
            return;
        };
        let mut fields = Fields::of(&record);
        fields.log += &format!("{entry},");
        let put = records::put(id, &fields, None, Some(version));
        self.change(id, Some(entry), put).await;
    }

    async fn change(&self, id: i32, entry: Option<u64>, asked: Asked) {
        let (before, place) = (self.history.newest(id), Place::asked(&asked));
        self.history.asks(id, place);
        let answer = self
            .engine
            .change_record(COLLECTION, records::key(id), asked, TIME)
            .await;
        let said = match answer {
            Ok(Ok((version, is_pending))) => {
                self.history.was(id, version, place, !is_pending);
                Said::Applied(version)
            }
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => Said::Unknown,
            Ok(Err(_)) | Err(_) => Said::NotApplied,
        };
        self.history.says(id, entry, before, said);
    }
}

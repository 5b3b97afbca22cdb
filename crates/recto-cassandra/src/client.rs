//! Sending statements: prepared once per shape, each call within its deadline, retried on purpose
//! only.
//!
//! **Retries.** The driver never retries here; this module does, because only it knows what an
//! earlier attempt may have done. A request is sent again, at most [`CassandraConfig::retries`]
//! times within its deadline, if it is idempotent and what failed it may pass (a broken connection,
//! too few replicas, a server-side timeout, an overloaded or starting node). Reads and stamped
//! writes are idempotent. Conditional writes are not, and are sent once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use recto_model::Environment;
use recto_store::{ConsistencyLevel, StoreError, StoreErrorKind};
use scylla::client::session::Session;
use scylla::response::query_result::QueryResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency, Statement};

use crate::config::CassandraConfig;
use crate::cql::Request;
use crate::error::{self, Effect, Failure};
use crate::values::{Values, check_columns};

/// The most statement shapes that are kept prepared; beyond it the one used longest ago goes.
const MAX_PREPARED: usize = 1_024;
/// How long the first retry waits; each further one twice as long.
const FIRST_RETRY_WAIT: Duration = Duration::from_millis(20);
/// The longest a retry waits.
const MAX_RETRY_WAIT: Duration = Duration::from_millis(500);
/// What a row is taken to have before one was seen: with the usual byte limit of a read it makes
/// the first protocol page 256 rows.
const UNSEEN_ROW_BYTES: u64 = 16 << 10;

/// A connection to a cluster.
pub(crate) struct Client {
    pub(crate) session: Session,
    pub(crate) config: CassandraConfig,
    pub(crate) environment: Environment,
    prepared: Mutex<PreparedCache>,
    /// Whether the store was closed: nothing is sent any more.
    pub(crate) closed: AtomicBool,
}

/// When a call must end.
#[derive(Debug, Clone)]
pub(crate) struct Deadline {
    environment: Environment,
    end_nanos: u64,
}

impl Deadline {
    pub(crate) fn after(environment: &Environment, timeout: Duration) -> Self {
        let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        Self {
            environment: environment.clone(),
            end_nanos: environment.monotonic_nanos().saturating_add(nanos),
        }
    }

    /// What is left of it.
    pub(crate) fn remaining(&self) -> Result<Duration, StoreError> {
        match self.end_nanos.saturating_sub(self.environment.monotonic_nanos()) {
            0 => Err(
                StoreError::new(StoreErrorKind::Timeout, "the call's time is over")
                    .with_hint("give the call more time"),
            ),
            nanos => Ok(Duration::from_nanos(nanos)),
        }
    }

    /// What `future` gives, if it does in time.
    pub(crate) async fn limit<T>(&self, future: impl Future<Output = T>) -> Result<T, StoreError> {
        tokio::time::timeout(self.remaining()?, future)
            .await
            .map_err(|_| {
                StoreError::new(StoreErrorKind::Timeout, "Cassandra did not answer in time").with_hint(
                    "give the call more time, or see with `nodetool status` whether the nodes are up",
                )
            })
    }
}

/// A statement shape that Cassandra knows.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) statement: PreparedStatement,
    /// Bytes of an average row that it returned, to choose the size of protocol pages.
    row_bytes: AtomicU64,
}

impl Prepared {
    /// How many rows to ask for in one protocol page so that about `bytes` come, at most `rows`.
    pub(crate) fn page_rows(&self, bytes: u64, rows: u32) -> i32 {
        let fitting = bytes.max(1) / self.row_bytes.load(Ordering::Relaxed).max(1);
        i32::try_from(fitting.clamp(1, u64::from(rows.max(1)))).unwrap_or(i32::MAX)
    }

    /// Notes that `rows` rows had `bytes` bytes.
    pub(crate) fn note_rows(&self, rows: u64, bytes: u64) {
        if let Some(average) = bytes.checked_div(rows) {
            // A rise counts at once, a fall by and by: too small a page costs a round trip, too
            // large a one memory.
            let before = self.row_bytes.load(Ordering::Relaxed);
            let after = average.max(before - before / 2).max(1);
            self.row_bytes.store(after, Ordering::Relaxed);
        }
    }
}

#[derive(Debug, Default)]
struct PreparedCache {
    entries: HashMap<String, (Arc<Prepared>, u64)>,
    clock: u64,
}

impl PreparedCache {
    fn get(&mut self, text: &str) -> Option<Arc<Prepared>> {
        self.clock += 1;
        let (prepared, used) = self.entries.get_mut(text)?;
        *used = self.clock;
        Some(Arc::clone(prepared))
    }

    fn insert(&mut self, text: String, prepared: Arc<Prepared>) {
        if self.entries.len() >= MAX_PREPARED {
            let oldest = self.entries.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(text, _)| text.clone()) {
                self.entries.remove(&oldest);
            }
        }
        self.clock += 1;
        self.entries.insert(text, (prepared, self.clock));
    }
}

/// What to send.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call<'a> {
    /// One statement, all of its result.
    Statement(&'a Prepared, &'a Values),
    /// One statement, a page of its result of so many rows.
    Page(&'a Prepared, &'a Values, i32, &'a PagingState),
    /// Statements as one batch.
    Batch(BatchType, &'a [(Arc<Prepared>, Values)]),
}

/// How to send it.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) consistency: Consistency,
    pub(crate) serial_consistency: SerialConsistency,
    pub(crate) deadline: Deadline,
    pub(crate) idempotent: bool,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) result: QueryResult,
    pub(crate) more: Option<PagingState>,
    /// How often it was sent, one after the other.
    pub(crate) attempts: u32,
}

impl Client {
    pub(crate) fn new(session: Session, config: CassandraConfig, environment: Environment) -> Self {
        Self {
            session,
            config,
            environment,
            prepared: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Refuses to begin anything once the store was closed.
    fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(
                StoreError::new(StoreErrorKind::Unavailable, "the store was closed")
                    .with_hint("open it again"),
            );
        }
        Ok(())
    }

    pub(crate) fn deadline(&self, timeout: Duration) -> Deadline {
        Deadline::after(&self.environment, timeout)
    }

    /// How to send a read or a stamped write.
    pub(crate) fn settings(&self, consistency: Option<ConsistencyLevel>, timeout: Duration) -> Settings {
        Settings {
            consistency: consistency_of(consistency.unwrap_or(self.config.consistency)),
            serial_consistency: serial_of(self.config.serial_consistency),
            deadline: self.deadline(timeout),
            idempotent: true,
        }
    }

    /// `request`, prepared. Checks that the table's columns are of the types the request means.
    pub(crate) async fn prepare(
        &self,
        request: &Request<'_>,
        deadline: &Deadline,
    ) -> Result<Arc<Prepared>, StoreError> {
        self.check_open()?;
        if let Some(prepared) = self.lock_prepared().get(&request.text) {
            return Ok(prepared);
        }
        let statement = deadline
            .limit(self.session.prepare(request.text.as_str()))
            .await?
            .map_err(|error| error::of_prepare(error).error)?;
        check_columns(
            statement.get_variable_col_specs().as_slice(),
            &request.marker_types,
        )?;
        if !request.result_types.is_empty() {
            let results = statement.get_current_result_set_col_specs();
            check_columns(results.get().as_slice(), &request.result_types)?;
        }
        let prepared = Arc::new(Prepared {
            statement,
            row_bytes: AtomicU64::new(UNSEEN_ROW_BYTES),
        });
        self.lock_prepared()
            .insert(request.text.clone(), Arc::clone(&prepared));
        Ok(prepared)
    }

    /// Forgets what was prepared, because a table changed.
    pub(crate) fn forget_prepared(&self) {
        self.lock_prepared().entries.clear();
    }

    fn lock_prepared(&self) -> std::sync::MutexGuard<'_, PreparedCache> {
        // The cache is whole between any two operations, so a panic elsewhere does not spoil it.
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a call, again if that may help and can do no harm. The failure's effect is that of all
    /// attempts together.
    pub(crate) async fn send(&self, call: Call<'_>, settings: &Settings) -> Result<Answer, Failure> {
        let mut attempts = 0;
        let mut effect = Effect::Nothing;
        loop {
            attempts += 1;
            let mut failure = match self.send_once(call, settings).await {
                Ok((result, paging)) => {
                    return Ok(Answer {
                        result,
                        more: paging.into_paging_control_flow().continue_value(),
                        attempts,
                    });
                }
                Err(failure) => failure,
            };
            effect = effect.max(failure.effect);
            failure.effect = effect;
            let again = settings.idempotent && failure.passing && attempts <= self.config.retries;
            let wait = self.retry_wait(attempts);
            let fits = settings.deadline.remaining().is_ok_and(|left| left > wait);
            if !again || !fits {
                return Err(failure);
            }
            tokio::time::sleep(wait).await;
        }
    }

    async fn send_once(
        &self,
        call: Call<'_>,
        settings: &Settings,
    ) -> Result<(QueryResult, PagingStateResponse), Failure> {
        let timeout = settings.deadline.remaining().map_err(|error| Failure {
            error,
            effect: Effect::Nothing,
            passing: false,
        })?;
        let sent = match call {
            Call::Statement(prepared, values) => {
                let statement = configured(prepared, settings, timeout);
                self.session
                    .execute_unpaged(&statement, values)
                    .await
                    .map(|result| (result, PagingStateResponse::NoMorePages))
            }
            Call::Page(prepared, values, rows, from) => {
                let mut statement = configured(prepared, settings, timeout);
                statement.set_page_size(rows);
                self.session
                    .execute_single_page(&statement, values, from.clone())
                    .await
            }
            Call::Batch(batch_type, statements) => {
                let mut batch = Batch::new(batch_type);
                batch.set_consistency(settings.consistency);
                batch.set_serial_consistency(Some(settings.serial_consistency));
                batch.set_is_idempotent(settings.idempotent);
                batch.set_request_timeout(Some(timeout));
                for (prepared, _) in statements {
                    batch.append_statement(prepared.statement.clone());
                }
                let values: Vec<&Values> = statements.iter().map(|(_, values)| values).collect();
                self.session
                    .batch(&batch, values)
                    .await
                    .map(|result| (result, PagingStateResponse::NoMorePages))
            }
        };
        sent.map_err(error::of_execution)
    }

    /// Sends a statement of the schema or about it, which is not prepared.
    pub(crate) async fn query(
        &self,
        text: &str,
        values: impl scylla::serialize::row::SerializeRow,
        deadline: &Deadline,
    ) -> Result<QueryResult, Failure> {
        let not_sent = |error| Failure {
            error,
            effect: Effect::Nothing,
            passing: false,
        };
        self.check_open().map_err(not_sent)?;
        let mut statement = Statement::new(text);
        // The driver's own limit does not cover the wait for schema agreement; the outer one does.
        statement.set_request_timeout(Some(deadline.remaining().map_err(not_sent)?));
        statement.set_consistency(Consistency::LocalOne);
        match deadline
            .limit(self.session.query_unpaged(statement, values))
            .await
        {
            Ok(sent) => sent.map_err(error::of_execution),
            Err(error) => Err(Failure {
                error,
                effect: Effect::Unknown,
                passing: false,
            }),
        }
    }

    /// How long to wait before sending again: doubling, and half of it by chance, so that clients
    /// that failed together do not come back together.
    fn retry_wait(&self, attempt: u32) -> Duration {
        let whole = FIRST_RETRY_WAIT
            .saturating_mul(1 << attempt.saturating_sub(1).min(16))
            .min(MAX_RETRY_WAIT);
        let chance = u32::from(u16::from_be_bytes(self.environment.random::<2>()));
        whole / 2 + whole / 2 * chance / u32::from(u16::MAX)
    }
}

fn configured(prepared: &Prepared, settings: &Settings, timeout: Duration) -> PreparedStatement {
    let mut statement = prepared.statement.clone();
    statement.set_consistency(settings.consistency);
    statement.set_serial_consistency(Some(settings.serial_consistency));
    statement.set_is_idempotent(settings.idempotent);
    statement.set_request_timeout(Some(timeout));
    statement
}

/// A consistency level in the driver's words.
pub(crate) fn consistency_of(level: ConsistencyLevel) -> Consistency {
    match level {
        ConsistencyLevel::One => Consistency::One,
        ConsistencyLevel::LocalOne => Consistency::LocalOne,
        ConsistencyLevel::Quorum => Consistency::Quorum,
        ConsistencyLevel::LocalQuorum => Consistency::LocalQuorum,
        ConsistencyLevel::All => Consistency::All,
        ConsistencyLevel::Serial => Consistency::Serial,
        ConsistencyLevel::LocalSerial => Consistency::LocalSerial,
    }
}

/// Across which replicas a conditional write is decided.
pub(crate) fn serial_of(level: ConsistencyLevel) -> SerialConsistency {
    match level {
        ConsistencyLevel::Serial => SerialConsistency::Serial,
        _ => SerialConsistency::LocalSerial,
    }
}

//! Sends statements. Each shape is prepared once, each call has a deadline, and only safe requests
//! are retried.
//!
//! **Retries.** The driver never retries here. This module does, because only it knows the possible
//! effects of an earlier attempt. It retries a request at most [`CassandraConfig::retries`] times
//! within its deadline. The request must be idempotent, and the failure may be transient: a broken
//! connection, too few replicas, a server-side timeout, an overloaded or starting node. Reads and
//! timestamped writes are idempotent. Conditional writes are not, and are retried only if no
//! attempt can have had an effect.
//!
//! **Nodes that lag.** A node that has just restarted accepts requests before it knows all tables,
//! and answers that a table does not exist. After such an answer, the client asks another node. It
//! retries until the nodes agree on the schema, at most [`MAX_LAGGING_RETRIES`] times.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use recto_model::Environment;
use recto_store::clock::ComparedClock;
use recto_store::read::DEFAULT_MAX_READ_BYTES;
use recto_store::{ConsistencyLevel, Limits, StoreError, StoreErrorKind};
use scylla::client::session::Session;
use scylla::observability::history::HistoryListener;
use scylla::policies::load_balancing::LoadBalancingPolicy;
use scylla::response::query_result::QueryResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency, Statement};

use crate::capabilities::Capabilities;
use crate::columns::SeenColumns;
use crate::config::{CassandraConfig, is_serial};
use crate::coordinator::{OneCoordinator, OtherNodePolicy};
use crate::cql::Request;
use crate::error::{self, Effect, Failure};
use crate::metrics::{Metrics, SentTo, count};
use crate::pace::Pace;
use crate::settings::{Sizes, limits};
use crate::taken::TakenTables;
use crate::values::{Values, check_columns};

/// Maximum number of prepared statement shapes. Beyond it, the least recently used shape is
/// removed.
const MAX_PREPARED: usize = 1_024;
/// Wait before the first retry of a request. Each further wait is twice as long.
const FIRST_RETRY_WAIT: Duration = Duration::from_millis(20);
/// Maximum wait before a retry of a request to the cluster.
const MAX_RETRY_WAIT: Duration = Duration::from_millis(500);
/// Maximum number of retries of one request because a node does not know a table. The retries take
/// about as long as a node needs to learn of the table from the other nodes.
const MAX_LAGGING_RETRIES: u32 = 16;
/// Assumed size of a row before any row was read, in bytes. With the usual byte limit of a read,
/// the first protocol page has 256 rows.
const UNSEEN_ROW_BYTES: u64 = 16 << 10;

/// Connection of a store to a cluster, with the state that its requests share.
pub(crate) struct Client {
    pub(crate) session: Session,
    pub(crate) config: CassandraConfig,
    pub(crate) environment: Environment,
    pub(crate) clock: ComparedClock,
    pub(crate) metrics: Metrics,
    pub(crate) seen_columns: SeenColumns,
    pub(crate) pace: Pace,
    /// Size limits of one request, from the cluster's settings and the configuration.
    pub(crate) limits: Limits,
    /// What the nodes could do when this was last read.
    pub(crate) capabilities: Mutex<Capabilities>,
    /// Policy that sends the conditional writes and serial reads of a partition to one node.
    pub(crate) coordinator: Arc<OneCoordinator>,
    prepared: Mutex<PreparedCache>,
    /// Tables on which the cluster is known to accept statements, so that they are not checked
    /// again.
    pub(crate) taken_tables: TakenTables,
    /// True if the cluster rejected a read of rows of several keys in one request. Further rows are
    /// then read one by one.
    pub(crate) refuses_many: AtomicBool,
    /// True if the store is closed. A closed store sends no more requests.
    pub(crate) closed: AtomicBool,
}

/// Configured limit from which a call has its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeLimit {
    /// Time of a read or a write. A call that sends several requests gives each request the time
    /// that remains.
    Request,
    /// Time to connect ([`CassandraConfig::connect_timeout`]).
    Connect,
    /// Time to read or change the schema ([`CassandraConfig::schema_timeout`]). No parameter of a
    /// store's address sets this time.
    Schema,
}

impl TimeLimit {
    /// Returns the error of a call that reached the limit. The error names no duration, because a
    /// call may have had less time than the user set.
    pub(crate) fn exceeded(self) -> StoreError {
        let hint = match self {
            Self::Request => {
                "raise request_timeout_ms of the store (default: 5000 for a read and 10000 for a write), or \
                 check with `nodetool status` that the nodes are up and not overloaded"
            }
            Self::Connect => {
                "raise connect_timeout_ms of the store, or check with `nodetool status` that the nodes are up"
            }
            Self::Schema => "check with `nodetool status` that the nodes are up, then try again",
        };
        StoreError::new(StoreErrorKind::Timeout, "Cassandra did not answer in time").with_hint(hint)
    }
}

/// Time when a call must end, and the configured limit from which the time results.
#[derive(Debug, Clone)]
pub(crate) struct Deadline {
    environment: Environment,
    end_nanos: u64,
    pub(crate) limit: TimeLimit,
}

impl Deadline {
    pub(crate) fn after(environment: &Environment, timeout: Duration, limit: TimeLimit) -> Self {
        let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        Self {
            environment: environment.clone(),
            end_nanos: environment.monotonic_nanos().saturating_add(nanos),
            limit,
        }
    }

    /// Returns the time until the deadline, or an error if the deadline has passed.
    pub(crate) fn remaining(&self) -> Result<Duration, StoreError> {
        match self.end_nanos.saturating_sub(self.environment.monotonic_nanos()) {
            0 => Err(self.limit.exceeded()),
            nanos => Ok(Duration::from_nanos(nanos)),
        }
    }

    /// Returns the result of `future` if it completes before the deadline.
    pub(crate) async fn limit<T>(&self, future: impl Future<Output = T>) -> Result<T, StoreError> {
        tokio::time::timeout(self.remaining()?, future)
            .await
            .map_err(|_| self.limit.exceeded())
    }
}

/// Statement (its text without values) that Cassandra has prepared.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) statement: PreparedStatement,
    /// Average size of the rows that the statement returned, in bytes. Determines the size of
    /// protocol pages.
    row_bytes: AtomicU64,
}

impl Prepared {
    /// Returns the number of rows to request as one protocol page so that the page has about
    /// `bytes`; at most `rows`.
    pub(crate) fn page_rows(&self, bytes: u64, rows: u32) -> i32 {
        let fitting = fitting_rows(bytes, self.row_bytes.load(Ordering::Relaxed), rows);
        i32::try_from(fitting).unwrap_or(i32::MAX)
    }

    /// Records that a page of `rows` rows had `bytes` bytes, to estimate the size of later rows.
    pub(crate) fn note_rows(&self, rows: u64, bytes: u64) {
        if let Some(average) = bytes.checked_div(rows) {
            // Follow a rise of the average row size at once, and a fall gradually. A page that is
            // too small costs a round trip, and a page that is too large costs memory.
            let before = self.row_bytes.load(Ordering::Relaxed);
            let after = average.max(before - before / 2).max(1);
            self.row_bytes.store(after, Ordering::Relaxed);
        }
    }
}

/// Returns the number of rows of `row_bytes` each that fit into about `bytes`; at least one, at
/// most `rows`.
fn fitting_rows(bytes: u64, row_bytes: u64, rows: u32) -> u32 {
    let fitting = bytes.max(1) / row_bytes.max(1);
    u32::try_from(fitting).unwrap_or(u32::MAX).clamp(1, rows.max(1))
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

/// Statements that are sent to the cluster as one request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call<'a> {
    /// One statement, of which the response contains the whole result.
    Statement(&'a Prepared, &'a Values),
    /// One statement and a page of its result. The number is the maximum number of rows of the
    /// page.
    Page(&'a Prepared, &'a Values, i32, &'a PagingState),
    /// Several statements as one batch.
    Batch(BatchType, &'a [(Arc<Prepared>, Values)]),
}

/// Options of a [`Call`]: consistency, deadline, and choice of the node.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) consistency: Consistency,
    pub(crate) serial_consistency: SerialConsistency,
    pub(crate) deadline: Deadline,
    pub(crate) idempotent: bool,
    /// Policy that selects the node; `None` selects any replica. Paxos requests use
    /// [`OneCoordinator`], so that all requests of one partition go to the same node.
    pub(crate) balancing: Option<Arc<dyn LoadBalancingPolicy>>,
}

/// Response of the cluster to a [`Call`].
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) result: QueryResult,
    pub(crate) more: Option<PagingState>,
    /// Number of attempts at the request, one after the other; at least 1.
    pub(crate) attempts: u32,
    /// Number of tombstones that the read crossed. Cassandra reports it above
    /// `tombstone_warn_threshold` (1,000).
    pub(crate) tombstones: u64,
}

impl Client {
    pub(crate) fn new(
        session: Session,
        config: CassandraConfig,
        environment: Environment,
        coordinator: Arc<OneCoordinator>,
    ) -> Self {
        let pace = Pace::new(config.in_flight);
        let limits = limits(&config, Sizes::default());
        Self {
            session,
            config,
            clock: ComparedClock::new(environment.clone()),
            environment,
            metrics: Metrics::default(),
            seen_columns: SeenColumns::default(),
            pace,
            limits,
            capabilities: Mutex::default(),
            coordinator,
            prepared: Mutex::default(),
            taken_tables: TakenTables::default(),
            refuses_many: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    /// Returns an error if the store is closed.
    fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(
                StoreError::new(StoreErrorKind::Closed, "the store was closed").with_hint("open it again")
            );
        }
        Ok(())
    }

    pub(crate) fn request_deadline(&self, timeout: Duration) -> Deadline {
        Deadline::after(&self.environment, timeout, TimeLimit::Request)
    }

    pub(crate) fn connect_deadline(&self) -> Deadline {
        Deadline::after(&self.environment, self.config.connect_timeout, TimeLimit::Connect)
    }

    pub(crate) fn schema_deadline(&self) -> Deadline {
        Deadline::after(&self.environment, self.config.schema_timeout, TimeLimit::Schema)
    }

    /// Returns the options of a read or a timestamped write. `consistency` `None`: the configured
    /// level.
    pub(crate) fn settings(&self, consistency: Option<ConsistencyLevel>, timeout: Duration) -> Settings {
        let level = consistency.unwrap_or(self.config.consistency);
        Settings {
            consistency: consistency_of(level),
            balancing: is_serial(level).then(|| self.one_coordinator()),
            serial_consistency: serial_of(self.config.serial_consistency),
            deadline: self.request_deadline(timeout),
            idempotent: true,
        }
    }

    /// Prepares `request`. Checks that the table's columns have the types that the request expects.
    pub(crate) async fn prepare(
        &self,
        request: &Request<'_>,
        deadline: &Deadline,
    ) -> Result<Arc<Prepared>, StoreError> {
        self.check_open()?;
        if let Some(prepared) = self.lock_prepared().get(&request.text) {
            return Ok(prepared);
        }
        let statement = self.prepare_text(&request.text, deadline).await?;
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

    async fn prepare_text(&self, text: &str, deadline: &Deadline) -> Result<PreparedStatement, StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let prepared = deadline.limit(self.session.prepare(text)).await?;
            let failure = match prepared.map_err(error::of_prepare) {
                Ok(statement) => return Ok(statement),
                Err(failure) => failure,
            };
            if !self.waits_to_retry(&failure, attempts, deadline).await {
                return Err(failure.error);
            }
        }
    }

    /// Estimates the number of protocol pages that `rows` rows of a statement's result take, from
    /// the rows seen so far.
    pub(crate) fn expected_pages(&self, text: &str, rows: u32) -> u32 {
        let known = self.lock_prepared().get(text);
        let known = known.map(|prepared| prepared.row_bytes.load(Ordering::Relaxed));
        let mut row_bytes = known.unwrap_or(UNSEEN_ROW_BYTES);
        let (mut left, mut pages) = (rows, 0);
        while left > 0 {
            left -= fitting_rows(DEFAULT_MAX_READ_BYTES, row_bytes, left);
            pages += 1;
            if known.is_none() {
                // Each further page assumes half the row size of the previous page. The row size is
                // unknown, and most rows are smaller than the first estimate.
                row_bytes /= 2;
            }
        }
        pages
    }

    /// Removes all statements from the cache of prepared statements, because a table changes.
    pub(crate) fn forget_prepared(&self) {
        self.lock_prepared().entries.clear();
    }

    fn lock_prepared(&self) -> std::sync::MutexGuard<'_, PreparedCache> {
        // Ignore the poison of the lock: each operation leaves the cache consistent, so the panic
        // of another thread does no damage.
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a call. After a transient failure, sends the call again, if the repetition cannot do
    /// harm. The effect in the returned failure covers all attempts.
    pub(crate) async fn send(&self, call: Call<'_>, settings: &Settings) -> Result<Answer, Failure> {
        let mut attempts = 0;
        let mut effect = Effect::Nothing;
        let mut elsewhere: Option<Settings> = None;
        loop {
            attempts += 1;
            let how = elsewhere.as_ref().unwrap_or(settings);
            let mut failure = match self.send_once(call, how).await {
                Ok((result, paging)) => {
                    let tombstones = result.warnings().map(tombstones_in).sum();
                    self.metrics.tombstones.fetch_add(tombstones, Ordering::Relaxed);
                    return Ok(Answer {
                        result,
                        more: paging.into_paging_control_flow().continue_value(),
                        attempts,
                        tombstones,
                    });
                }
                Err(failure) => failure,
            };
            effect = effect.max(failure.effect);
            failure.effect = effect;
            let may_retry = settings.idempotent || effect == Effect::Nothing;
            if !may_retry || !self.waits_to_retry(&failure, attempts, &settings.deadline).await {
                return Err(failure);
            }
            if failure.lags {
                elsewhere = Some(self.elsewhere(settings, failure.node()));
            }
        }
    }

    /// Reads a page of at most `most` rows of a statement's result. If the read crosses too many
    /// tombstones, requests half the number of rows, repeatedly down to one row. Sets `most` to the
    /// number of rows of the last request.
    pub(crate) async fn page(
        &self,
        prepared: &Prepared,
        values: &Values,
        most: &mut i32,
        from: &PagingState,
        settings: &Settings,
    ) -> Result<Answer, StoreError> {
        let mut narrowed = 0;
        loop {
            match self
                .send(Call::Page(prepared, values, *most, from), settings)
                .await
            {
                Ok(mut answer) => {
                    answer.attempts += narrowed;
                    return Ok(answer);
                }
                Err(failure) if failure.error.kind() == StoreErrorKind::Tombstones && *most > 1 => {
                    *most /= 2;
                    narrowed += 1;
                    count(&self.metrics.narrowed_reads);
                }
                Err(failure) => return Err(failure.error),
            }
        }
    }

    /// Decides whether to retry a failed request that can do no harm. If so, waits for the time
    /// before the retry and returns true.
    async fn waits_to_retry(&self, failure: &Failure, attempts: u32, deadline: &Deadline) -> bool {
        let wait = self.retry_wait(attempts);
        let fits = deadline.remaining().is_ok_and(|left| left > wait);
        let is_passing = failure.passing && attempts <= self.config.retries;
        if !fits || !(is_passing || failure.lags && self.may_lag(attempts, deadline).await) {
            return false;
        }
        count(&self.metrics.retries);
        tokio::time::sleep(wait).await;
        true
    }

    /// Returns whether the contacted node may not know a table yet. After the first attempt the
    /// answer is yes (unless retries are disabled), because the node may have learned of the table
    /// since.
    async fn may_lag(&self, attempts: u32, deadline: &Deadline) -> bool {
        if self.config.retries == 0 || attempts > MAX_LAGGING_RETRIES {
            return false;
        }
        let agreed = deadline.limit(self.session.check_schema_agreement());
        attempts == 1 || !matches!(agreed.await, Ok(Ok(Some(_))))
    }

    /// Returns `settings` with a policy that prefers any other node over `node`.
    fn elsewhere(&self, settings: &Settings, node: Option<SocketAddr>) -> Settings {
        let usual = || Arc::clone(&self.coordinator.others);
        let inner = settings.balancing.clone().unwrap_or_else(usual);
        let balancing =
            node.map(|last| Arc::new(OtherNodePolicy { last, inner }) as Arc<dyn LoadBalancingPolicy>);
        Settings {
            balancing: balancing.or(settings.balancing.clone()),
            ..settings.clone()
        }
    }

    async fn send_once(
        &self,
        call: Call<'_>,
        settings: &Settings,
    ) -> Result<(QueryResult, PagingStateResponse), Failure> {
        let timeout = settings.deadline.remaining().map_err(Failure::not_sent)?;
        let sent_to = Arc::new(SentTo::default());
        let sent = match call {
            Call::Statement(prepared, values) => {
                let statement = configured(prepared, settings, timeout, &sent_to);
                self.session
                    .execute_unpaged(&statement, values)
                    .await
                    .map(|result| (result, PagingStateResponse::NoMorePages))
            }
            Call::Page(prepared, values, rows, from) => {
                let mut statement = configured(prepared, settings, timeout, &sent_to);
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
                batch.set_load_balancing_policy(settings.balancing.clone());
                batch.set_request_timeout(Some(timeout));
                batch.set_history_listener(listener(&sent_to));
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
        let limit = settings.deadline.limit;
        self.note(&sent_to, sent.map_err(|error| error::of_execution(error, limit)))
    }

    /// Returns the policy that sends all Paxos requests of a partition to one coordinator.
    pub(crate) fn one_coordinator(&self) -> Arc<dyn LoadBalancingPolicy> {
        Arc::<OneCoordinator>::clone(&self.coordinator)
    }

    /// Counts the request for the node that received it, and adds the address of the node to the
    /// error of a failure.
    fn note<T>(&self, sent_to: &SentTo, sent: Result<T, Failure>) -> Result<T, Failure> {
        let Some(node) = sent_to.node() else {
            return sent;
        };
        let failed = sent.as_ref().err().map(|failure| failure.error.kind());
        self.metrics.sent(node, failed);
        sent.map_err(|failure| Failure {
            error: failure.error.with_node(node.to_string()),
            ..failure
        })
    }

    /// Reads system tables of the cluster. Retries transient failures, as other reads do.
    pub(crate) async fn ask(
        &self,
        text: &str,
        values: impl scylla::serialize::row::SerializeRow + Clone,
        deadline: &Deadline,
    ) -> Result<QueryResult, StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let failure = match self.query(text, values.clone(), deadline).await {
                Ok(result) => return Ok(result),
                Err(failure) => failure,
            };
            if !self.waits_to_retry(&failure, attempts, deadline).await {
                return Err(failure.error);
            }
        }
    }

    /// Sends an unprepared statement that reads or changes the schema.
    pub(crate) async fn query(
        &self,
        text: &str,
        values: impl scylla::serialize::row::SerializeRow,
        deadline: &Deadline,
    ) -> Result<QueryResult, Failure> {
        self.check_open().map_err(Failure::not_sent)?;
        let sent_to = Arc::new(SentTo::default());
        let mut statement = Statement::new(text);
        statement.set_history_listener(listener(&sent_to));
        // The driver's own timeout does not cover the wait for schema agreement. The outer deadline
        // covers it.
        statement.set_request_timeout(Some(deadline.remaining().map_err(Failure::not_sent)?));
        statement.set_consistency(Consistency::LocalOne);
        let sent = match deadline
            .limit(self.session.query_unpaged(statement, values))
            .await
        {
            Ok(sent) => sent.map_err(|error| error::of_execution(error, deadline.limit)),
            Err(error) => Err(Failure::unanswered(error)),
        };
        self.note(&sent_to, sent)
    }

    /// Returns the wait before the retry that follows `attempt`. The wait doubles with each
    /// attempt. Half of it is random, so that clients that failed together do not retry together.
    fn retry_wait(&self, attempt: u32) -> Duration {
        let whole = FIRST_RETRY_WAIT
            .saturating_mul(1 << attempt.saturating_sub(1).min(16))
            .min(MAX_RETRY_WAIT);
        let chance = u32::from(u16::from_be_bytes(self.environment.random::<2>()));
        whole / 2 + whole / 2 * chance / u32::from(u16::MAX)
    }
}

fn configured(
    prepared: &Prepared,
    settings: &Settings,
    timeout: Duration,
    sent_to: &Arc<SentTo>,
) -> PreparedStatement {
    let mut statement = prepared.statement.clone();
    statement.set_consistency(settings.consistency);
    statement.set_serial_consistency(Some(settings.serial_consistency));
    statement.set_is_idempotent(settings.idempotent);
    statement.set_load_balancing_policy(settings.balancing.clone());
    statement.set_request_timeout(Some(timeout));
    statement.set_history_listener(listener(sent_to));
    statement
}

fn listener(sent_to: &Arc<SentTo>) -> Arc<dyn HistoryListener> {
    Arc::<SentTo>::clone(sent_to)
}

/// Returns the number of tombstones in a warning of Cassandra: `Read 1 live rows and 1001 tombstone
/// cells for query …` or `… scanned up to 1001 tombstones …`.
fn tombstones_in(warning: &str) -> u64 {
    let mut words = warning.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if words.peek().is_some_and(|next| next.starts_with("tombstone"))
            && let Ok(number) = word.parse()
        {
            return number;
        }
    }
    0
}

/// Converts a consistency level to the driver's type of levels.
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

/// Converts the consistency level at which conditional writes are decided to the driver's type.
pub(crate) fn serial_of(level: ConsistencyLevel) -> SerialConsistency {
    match level {
        ConsistencyLevel::Serial => SerialConsistency::Serial,
        _ => SerialConsistency::LocalSerial,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_tell_of_tombstones() {
        assert_eq!(
            tombstones_in("Read 0 live rows and 1001 tombstone cells for query SELECT"),
            1001
        );
        assert_eq!(
            tombstones_in("1 nodes scanned up to 2002 tombstones and issued tombstone warnings"),
            2002
        );
        assert_eq!(tombstones_in("Batch for [a.b] is of size 9 KiB"), 0);
    }
}

//! Conversion of the driver's errors to errors of the store: the kind, a hint, the possible effect of the
//! request, and whether a retry may help.

use std::net::SocketAddr;

use recto_store::{StoreError, StoreErrorKind};
use scylla::errors::{ConnectionPoolError, DbError, ExecutionError, PrepareError, RequestAttemptError};

use crate::client::TimeLimit;
use crate::values::ReadValuesError;

/// Possible effect of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// The request has no effect, now or later. It was not sent, or it was rejected because of its content.
    Nothing,
    /// The coordinator found too few live replicas. It checks this before it sends a plain write,
    /// so a plain write has no effect. A conditional write may have completed its first Paxos
    /// round.
    TooFewReplicas,
    /// The request may be applied, now or later.
    Unknown,
}

/// Failed request: its error, its possible effect, and whether a retry may help.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: StoreError,
    pub(crate) effect: Effect,
    /// True if the cause may be transient, so that a retry may help.
    pub(crate) passing: bool,
    /// True if the node may not know tables yet that other nodes know.
    pub(crate) lags: bool,
}

impl Failure {
    fn new(effect: Effect, passing: bool, error: StoreError) -> Self {
        Self {
            error,
            effect,
            passing,
            lags: false,
        }
    }

    /// Returns the address of the node that received the failed request, if one did.
    pub(crate) fn node(&self) -> Option<SocketAddr> {
        self.error.node()?.parse().ok()
    }

    /// Returns the failure of a request that was not sent and will not be sent.
    pub(crate) fn not_sent(error: StoreError) -> Self {
        Self::new(Effect::Nothing, false, error)
    }

    /// Returns the failure of a request that was sent and not answered in time.
    pub(crate) fn unanswered(error: StoreError) -> Self {
        Self::new(Effect::Unknown, false, error)
    }
}

/// Converts the driver's error of an executed request. `limit` determined the deadline of the call.
pub(crate) fn of_execution(error: ExecutionError, limit: TimeLimit) -> Failure {
    match error {
        ExecutionError::LastAttemptError(attempt) => of_attempt(attempt),
        ExecutionError::PrepareError(error) => of_prepare(error),
        ExecutionError::RequestTimeout(_) => Failure::unanswered(limit.exceeded()),
        ExecutionError::ConnectionPoolError(error) => of_pool(error),
        ExecutionError::EmptyPlan => Failure::new(
            Effect::Nothing,
            false,
            StoreError::new(
                StoreErrorKind::Unavailable,
                "there is no Cassandra node to send the request to",
            )
            .with_hint("check the name of the local data center, and check that its nodes are up"),
        ),
        ExecutionError::BadQuery(error) => Failure::new(
            Effect::Nothing,
            false,
            StoreError::new(StoreErrorKind::Invalid, "the values do not match the statement")
                .with_source(error),
        ),
        ExecutionError::SchemaAgreementError(error) => Failure::new(
            Effect::Unknown,
            false,
            StoreError::new(
                StoreErrorKind::Timeout,
                "the nodes did not agree on the schema in time",
            )
            .with_hint("check with `nodetool describecluster` which node disagrees, then try again")
            .with_source(error),
        ),
        other => Failure::new(
            Effect::Unknown,
            false,
            StoreError::new(StoreErrorKind::Other, other.to_string()).with_source(other),
        ),
    }
}

/// Returns the failure to prepare a statement, which has no effect on data.
pub(crate) fn of_prepare(error: PrepareError) -> Failure {
    let failure = match error {
        PrepareError::AllAttemptsFailed { first_attempt } => of_attempt(first_attempt),
        PrepareError::ConnectionPoolError(error) => of_pool(error),
        other => Failure::new(
            Effect::Nothing,
            true,
            StoreError::new(StoreErrorKind::Other, other.to_string()).with_source(other),
        ),
    };
    Failure {
        effect: Effect::Nothing,
        ..failure
    }
}

fn of_pool(error: ConnectionPoolError) -> Failure {
    Failure::new(
        Effect::Nothing,
        true,
        StoreError::new(StoreErrorKind::Unavailable, "no Cassandra node can be reached")
            .with_hint("check that the nodes are up and listen at the addresses that they announce")
            .with_source(error),
    )
}

fn of_attempt(error: RequestAttemptError) -> Failure {
    match error {
        RequestAttemptError::DbError(error, message) => of_database(&error, &message),
        RequestAttemptError::BrokenConnectionError(error) => Failure::new(
            Effect::Unknown,
            true,
            StoreError::new(
                StoreErrorKind::Unavailable,
                "the connection to a Cassandra node was lost",
            )
            .with_hint("check with `nodetool status` whether a node is down or hangs")
            .with_source(error),
        ),
        RequestAttemptError::UnableToAllocStreamId => Failure::new(
            Effect::Nothing,
            true,
            StoreError::new(
                StoreErrorKind::Unavailable,
                "a connection to Cassandra has no room for another request",
            )
            .with_hint("reduce the requests in flight, or open more connections per node"),
        ),
        RequestAttemptError::SerializationError(_) | RequestAttemptError::CqlRequestSerialization(_) => {
            Failure::new(
                Effect::Nothing,
                false,
                StoreError::new(StoreErrorKind::Invalid, "the request cannot be sent").with_source(error),
            )
        }
        other => Failure::new(
            Effect::Unknown,
            false,
            StoreError::new(StoreErrorKind::Other, "the reply of Cassandra cannot be read")
                .with_source(other),
        ),
    }
}

/// Part of Cassandra's message for a read that crosses more tombstones than its threshold allows.
const TOMBSTONES: &str = "TOO_MANY_TOMBSTONES";

/// Part of Cassandra's message for a batch above `batch_size_fail_threshold`.
const BATCH_TOO_LARGE: &str = "Batch too large";

/// Beginning of Cassandra's message for a `TRUNCATE` that failed before any node received it. The
/// outcome of a `TRUNCATE` that fails with another message is unknown.
const TOO_FEW_TO_TRUNCATE: &str = "Error during truncate: Cannot achieve consistency level";

/// Part of Cassandra's message if a guardrail forbids to empty and drop tables.
const MAY_NOT_TRUNCATE: &str = "DROP and TRUNCATE TABLE functionality is not allowed";

/// Part of Cassandra's message if a replica does not know a table or a column in the same form as
/// the coordinator.
const OTHER_SCHEMA: &str = "INCOMPATIBLE_SCHEMA";

/// Part of Cassandra's message for a table option that only later releases have.
const UNKNOWN_OPTION: &str = "Unknown property";

/// Part of Cassandra's message for a compaction strategy that the release does not have.
const UNKNOWN_COMPACTION: &str = "Unable to find compaction strategy class";

/// Part of Cassandra's message for a table that the node lists but has not opened.
const UNKNOWN_TABLE: &str = "Unknown CF ";

fn of_database(error: &DbError, message: &str) -> Failure {
    use StoreErrorKind as Kind;
    let (kind, effect, passing, hint) = match error {
        DbError::Unavailable { .. } => (
            Kind::Unavailable,
            Effect::TooFewReplicas,
            true,
            "start more nodes: too few replicas are up for this consistency level",
        ),
        DbError::Overloaded => (
            Kind::Unavailable,
            Effect::Unknown,
            true,
            "send fewer requests, or add nodes",
        ),
        // The driver prepared the statement again, and the node evicted it again, because the
        // node's cache is too small.
        DbError::Unprepared { .. } => (
            Kind::Unavailable,
            Effect::Nothing,
            true,
            "raise prepared_statements_cache_size: the node evicts prepared statements",
        ),
        DbError::IsBootstrapping => (
            Kind::Unavailable,
            Effect::Nothing,
            true,
            "try again later: the node is still starting",
        ),
        DbError::ReadTimeout { .. } | DbError::WriteTimeout { .. } => (
            Kind::Timeout,
            Effect::Unknown,
            true,
            "check whether replicas are overloaded or just went down: too few answered in time",
        ),
        DbError::ReadFailure { .. } if message.contains(TOMBSTONES) => (
            Kind::Tombstones,
            Effect::Nothing,
            false,
            "read a smaller range, lower gc_grace_seconds, or compact the table: the read passed more \
             tombstones than tombstone_failure_threshold allows",
        ),
        DbError::ReadFailure { .. } | DbError::WriteFailure { .. } if message.contains(OTHER_SCHEMA) => (
            Kind::Unavailable,
            Effect::Unknown,
            true,
            "try again: a replica has just restarted and does not know the tables yet",
        ),
        DbError::ReadFailure { .. } | DbError::WriteFailure { .. } => (
            Kind::Other,
            Effect::Unknown,
            false,
            "read the log of the replica that failed",
        ),
        // A node accepts statements on a table that is being created before it can read or write
        // that table, so a retry can succeed.
        DbError::ServerError if message.contains(UNKNOWN_TABLE) => (
            Kind::Table,
            Effect::Unknown,
            true,
            "try again: the table is being created, or was dropped",
        ),
        DbError::Unauthorized => (
            Kind::Unauthorized,
            Effect::Nothing,
            false,
            "grant the user the missing permission",
        ),
        DbError::AuthenticationError => (
            Kind::Unauthorized,
            Effect::Nothing,
            false,
            "check the user name and the password",
        ),
        DbError::Invalid | DbError::SyntaxError | DbError::ConfigError => {
            let (kind, hint) = of_statement(message);
            (kind, Effect::Nothing, false, hint)
        }
        DbError::AlreadyExists { .. } => (
            Kind::Table,
            Effect::Nothing,
            false,
            "choose another name: this one is in use",
        ),
        DbError::TruncateError => (
            Kind::Unavailable,
            // A coordinator checks whether a known node is down before it sends a request to any
            // node, so no node has emptied the table.
            if message.starts_with(TOO_FEW_TO_TRUNCATE) {
                Effect::Nothing
            } else {
                Effect::Unknown
            },
            false,
            "check with `nodetool status` that all nodes are up: emptying a table needs every node",
        ),
        _ => (Kind::Other, Effect::Unknown, true, "read the log of the node"),
    };
    let error = StoreError::new(kind, format!("Cassandra rejected the request: {message}")).with_hint(hint);
    Failure {
        lags: kind == Kind::Table || message.contains(OTHER_SCHEMA),
        ..Failure::new(effect, passing, error)
    }
}

/// Returns the kind of the error and a hint for a statement that Cassandra rejected because of its content.
fn of_statement(message: &str) -> (StoreErrorKind, &'static str) {
    if names_schema(message) {
        (
            StoreErrorKind::Table,
            "apply the schema, which creates the missing tables; or try again, if a node has just restarted \
             and does not know them yet",
        )
    } else if message.contains(BATCH_TOO_LARGE) {
        (
            StoreErrorKind::Invalid,
            "write smaller batches, and set batch_bytes in the address to the size that all nodes accept \
             (batch_size_fail_threshold)",
        )
    } else if message.contains(MAY_NOT_TRUNCATE) {
        (
            StoreErrorKind::Unauthorized,
            "allow this in the cluster's guardrail drop_truncate_table_enabled, which prevents emptying and \
             dropping tables; or connect as a superuser",
        )
    } else if message.contains(UNKNOWN_OPTION) || message.contains(UNKNOWN_COMPACTION) {
        (
            StoreErrorKind::Other,
            "use Apache Cassandra 5.0, which the tables of Recto need",
        )
    } else {
        (
            StoreErrorKind::Invalid,
            "read the message above, which Cassandra wrote",
        )
    }
}

/// Returns whether Cassandra's message says that a table, column or keyspace is missing or has
/// another type.
fn names_schema(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("does not exist")
        || message.contains("doesn't exist")
        || message.contains("unconfigured table")
        || message.contains("undefined column name")
        || message.contains("unknown identifier")
        // The cluster reports this if the type of a bind marker is not the type of its column.
        || message.contains("cannot assign value")
}

impl From<ReadValuesError> for StoreError {
    fn from(error: ReadValuesError) -> Self {
        match &error {
            ReadValuesError::Columns { .. } => StoreError::new(
                StoreErrorKind::Table,
                format!("the table has an unexpected form: {error}"),
            )
            .with_hint(
                "check whether another program, or another version of the schema, changed or created the \
                 table",
            ),
            ReadValuesError::Truncated | ReadValuesError::Frame(_) => StoreError::new(
                StoreErrorKind::Corrupt,
                "the reply of Cassandra cannot be decoded",
            )
            .with_source(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StoreErrorKind as Kind;
    use scylla::errors::WriteType;
    use scylla::statement::Consistency;

    #[test]
    fn a_table_that_is_being_made_is_no_failing_node() {
        let message = "java.lang.IllegalArgumentException: Unknown CF 4b3ad1d0-e5ea-11f1-8e54-fd4a1ed7d4d0";
        let failure = of_database(&DbError::ServerError, message);
        assert_eq!(failure.error.kind(), Kind::Table);
        assert_eq!(failure.effect, Effect::Unknown);
        assert!(failure.passing, "it is asked again");
    }

    #[test]
    fn classifies_errors_of_reads_and_writes() {
        let level = Consistency::LocalQuorum;
        let write_timeout = |write_type| DbError::WriteTimeout {
            consistency: level,
            received: 1,
            required: 2,
            write_type,
        };
        let write_failure = |write_type| DbError::WriteFailure {
            consistency: level,
            received: 1,
            required: 2,
            numfailures: 1,
            write_type,
        };
        let unavailable = DbError::Unavailable {
            consistency: level,
            required: 2,
            alive: 1,
        };
        let read_failure = DbError::ReadFailure {
            consistency: level,
            received: 0,
            required: 1,
            numfailures: 1,
            data_present: false,
        };
        let unprepared = DbError::Unprepared {
            statement_id: Vec::new().into(),
        };
        for (error, message, kind, effect, passing) in [
            (unavailable, "", Kind::Unavailable, Effect::TooFewReplicas, true),
            (
                write_timeout(WriteType::Simple),
                "",
                Kind::Timeout,
                Effect::Unknown,
                true,
            ),
            (
                write_timeout(WriteType::Cas),
                "",
                Kind::Timeout,
                Effect::Unknown,
                true,
            ),
            (
                write_timeout(WriteType::BatchLog),
                "",
                Kind::Timeout,
                Effect::Unknown,
                true,
            ),
            (DbError::Overloaded, "", Kind::Unavailable, Effect::Unknown, true),
            (unprepared, "", Kind::Unavailable, Effect::Nothing, true),
            (DbError::ServerError, "", Kind::Other, Effect::Unknown, true),
            (
                read_failure.clone(),
                "1 failures: READ_TOO_MANY_TOMBSTONES from /127.0.0.1:7000",
                Kind::Tombstones,
                Effect::Nothing,
                false,
            ),
            (
                read_failure,
                "1 failures: UNKNOWN",
                Kind::Other,
                Effect::Unknown,
                false,
            ),
            (
                DbError::Unauthorized,
                "",
                Kind::Unauthorized,
                Effect::Nothing,
                false,
            ),
            (
                write_failure(WriteType::Simple),
                "1 failures: INCOMPATIBLE_SCHEMA from /127.0.0.2:7000",
                Kind::Unavailable,
                Effect::Unknown,
                true,
            ),
            // Code 0x1700 means that the outcome of a conditional write is unknown.
            (DbError::Other(0x1700), "", Kind::Other, Effect::Unknown, true),
        ] {
            assert_said(&error, message, (kind, effect, passing));
        }
    }

    #[test]
    fn classifies_errors_of_statements_and_truncations() {
        for (error, message, kind, effect, passing) in [
            (
                DbError::Invalid,
                "table t does not exist",
                Kind::Table,
                Effect::Nothing,
                false,
            ),
            (
                DbError::Invalid,
                "Undefined column name x in table k.t",
                Kind::Table,
                Effect::Nothing,
                false,
            ),
            (
                DbError::Invalid,
                "Batch too large",
                Kind::Invalid,
                Effect::Nothing,
                false,
            ),
            (
                DbError::TruncateError,
                "Error during truncate: Cannot achieve consistency level ALL",
                Kind::Unavailable,
                Effect::Nothing,
                false,
            ),
            (
                DbError::TruncateError,
                "Error during truncate: Truncate timed out - received only 2 responses",
                Kind::Unavailable,
                Effect::Unknown,
                false,
            ),
            (
                DbError::TruncateError,
                "Truncate failed on replica /127.0.0.3:7000 -> Cannot achieve consistency level",
                Kind::Unavailable,
                Effect::Unknown,
                false,
            ),
            (
                DbError::Invalid,
                "Guardrail drop_truncate_table_enabled violated: DROP and TRUNCATE TABLE functionality is not allowed",
                Kind::Unauthorized,
                Effect::Nothing,
                false,
            ),
        ] {
            assert_said(&error, message, (kind, effect, passing));
        }
    }

    fn assert_said(error: &DbError, message: &str, said: (Kind, Effect, bool)) {
        let failure = of_database(error, message);
        let found = (failure.error.kind(), failure.effect, failure.passing);
        assert_eq!(found, said, "{error:?} {message}");
        assert!(failure.error.hint().is_some(), "{error:?} has a hint");
    }

    #[test]
    fn no_client_timeout_is_taken_for_nothing_done() {
        let timeout = ExecutionError::RequestTimeout(std::time::Duration::from_secs(1));
        let failure = of_execution(timeout, TimeLimit::Request);
        assert_eq!(failure.error.kind(), Kind::Timeout);
        assert_eq!(failure.effect, Effect::Unknown);
    }

    #[test]
    fn names_the_limit_that_a_user_can_set() {
        for (limit, name) in [
            (TimeLimit::Request, "request_timeout_ms"),
            (TimeLimit::Connect, "connect_timeout_ms"),
        ] {
            let left = ExecutionError::RequestTimeout(std::time::Duration::from_millis(490));
            let error = of_execution(left, limit).error;
            assert!(error.hint().is_some_and(|hint| hint.contains(name)), "{error:?}");
            assert!(!error.to_string().contains("490"), "{error}");
        }
    }
}

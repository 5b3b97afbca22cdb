//! Types of problems, which are HTTP responses to errors (RFC 9457), and the exit codes of the
//! command line.
//!
//! The server, the description of the HTTP API, the client, the command line and the book all use
//! this list.

use crate::error_kind::ErrorKind;
pub use crate::problem_body::ProblemBody;

/// Prefix of the member `type` in the JSON of each problem. The name of the problem type follows
/// it.
pub const TYPE_PREFIX: &str = "urn:recto:problem:";

/// Properties that all problems of one type share: name, statuses, texts and exit code.
#[derive(Debug)]
struct Description {
    name: &'static str,
    statuses: &'static [u16],
    title: &'static str,
    kind: ErrorKind,
    exit_code: u8,
    can_retry: bool,
    meaning: &'static str,
    remedy: &'static str,
}

macro_rules! problem_types {
    ($(
        #[doc = $meaning:literal]
        $variant:ident {
            name: $name:literal,
            statuses: [$($status:literal),+],
            title: $title:literal,
            kind: $kind:ident,
            exit_code: $exit_code:literal,
            can_retry: $can_retry:literal,
            remedy: $remedy:literal,
        }
    )+) => {
        /// Type of a problem. A later release may add types.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ProblemType {
            $(#[doc = $meaning] $variant,)+
        }

        impl ProblemType {
            /// All problem types, in the order of their names.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            const fn description(self) -> &'static Description {
                match self {
                    $(Self::$variant => &Description {
                        name: $name,
                        statuses: &[$($status),+],
                        title: $title,
                        kind: ErrorKind::$kind,
                        exit_code: $exit_code,
                        can_retry: $can_retry,
                        meaning: $meaning,
                        remedy: $remedy,
                    },)+
                }
            }
        }
    };
}

// List the usual status of a type first, because the server uses the first one unless a request
// needs another.
problem_types! {
    /// A record with this key exists already.
    AlreadyExists {
        name: "already-exists",
        statuses: [409, 412],
        title: "A record with this key exists",
        kind: Exists,
        exit_code: 2,
        can_retry: false,
        remedy: "Update the record, or choose another key. With `If-None-Match: *`, the status is 412.",
    }
    /// The console was asked to edit a record of an append collection.
    AppendOnly {
        name: "append-only",
        statuses: [409],
        title: "Records of this collection are never changed",
        kind: InvalidArgument,
        exit_code: 2,
        can_retry: false,
        remedy: "Add another record, or delete this one.",
    }
    /// A backup with this name exists already.
    BackupExists {
        name: "backup-exists",
        statuses: [409],
        title: "The backup exists already",
        kind: Conflict,
        exit_code: 2,
        can_retry: false,
        remedy: "Choose another name.",
    }
    /// The server is processing its maximum number of requests.
    Busy {
        name: "busy",
        statuses: [503],
        title: "The server is busy",
        kind: Unavailable,
        exit_code: 1,
        can_retry: true,
        remedy: "Send the request again, after `Retry-After` seconds if the answer has this header.",
    }
    /// The key in the body is not the key in the path. In the console: another user changed the record.
    Conflict {
        name: "conflict",
        statuses: [409],
        title: "The key does not match the address",
        kind: InvalidArgument,
        exit_code: 2,
        can_retry: false,
        remedy: "Correct the key, or read the record again.",
    }
    /// Stored data is damaged.
    Corrupt {
        name: "corrupt",
        statuses: [500],
        title: "Stored data is damaged",
        kind: Corrupt,
        exit_code: 1,
        can_retry: false,
        remedy: "Tell the operator: see [damage](operating.md).",
    }
    /// A page of another site sent a request that changes something.
    CrossSite {
        name: "cross-site",
        statuses: [403],
        title: "The request came from another site",
        kind: Forbidden,
        exit_code: 1,
        can_retry: false,
        remedy: "Send a bearer token, without `Origin` and `Sec-Fetch-Site`.",
    }
    /// The token does not allow the request, or the server does not offer it.
    Forbidden {
        name: "forbidden",
        statuses: [403],
        title: "Not allowed",
        kind: Forbidden,
        exit_code: 1,
        can_retry: false,
        remedy: "Ask the operator for a grant, as `hint` says.",
    }
    /// The maximum number of queues, work units or messages is reached.
    Full {
        name: "full",
        statuses: [409],
        title: "A maximum number is reached",
        kind: LimitExceeded,
        exit_code: 2,
        can_retry: false,
        remedy: "Delete a queue, end a work unit or acknowledge messages, then send the request again.",
    }
    /// The server has a defect.
    Internal {
        name: "internal",
        statuses: [500],
        title: "The server failed",
        kind: Store,
        exit_code: 1,
        can_retry: false,
        remedy: "Report the defect with the text of `detail`.",
    }
    /// An argument, such as a schema or an option of a queue, is invalid.
    InvalidArgument {
        name: "invalid-argument",
        statuses: [400],
        title: "An argument is invalid",
        kind: InvalidArgument,
        exit_code: 2,
        can_retry: false,
        remedy: "Correct the value that `field` names.",
    }
    /// The body is not JSON, or does not have the form that the resource accepts.
    InvalidBody {
        name: "invalid-body",
        statuses: [400],
        title: "The body is invalid",
        kind: InvalidArgument,
        exit_code: 2,
        can_retry: false,
        remedy: "Correct the value that `field` or `position` names.",
    }
    /// The console got an invalid message.
    InvalidMessage {
        name: "invalid-message",
        statuses: [400],
        title: "The message is invalid",
        kind: InvalidArgument,
        exit_code: 2,
        can_retry: false,
        remedy: "Correct the value that `field` names.",
    }
    /// The console got an invalid number.
    InvalidNumber {
        name: "invalid-number",
        statuses: [400],
        title: "The number is invalid",
        kind: InvalidArgument,
        exit_code: 2,
        can_retry: false,
        remedy: "Correct the value that `field` names.",
    }
    /// The page token or resume token was altered, or belongs to another query.
    InvalidPageToken {
        name: "invalid-page-token",
        statuses: [400],
        title: "The page token is invalid",
        kind: InvalidCursor,
        exit_code: 2,
        can_retry: false,
        remedy: "Begin with the first page.",
    }
    /// A parameter or a header is unknown, given twice, or has an invalid value.
    InvalidParameter {
        name: "invalid-parameter",
        statuses: [400],
        title: "A parameter is invalid",
        kind: InvalidQuery,
        exit_code: 2,
        can_retry: false,
        remedy: "Correct the parameter that `parameter` names.",
    }
    /// The console finds no views for the queries.
    InvalidQueries {
        name: "invalid-queries",
        statuses: [400],
        title: "No views serve the queries",
        kind: InvalidArgument,
        exit_code: 2,
        can_retry: false,
        remedy: "Follow `hint`.",
    }
    /// The filter or the sort is invalid.
    InvalidQuery {
        name: "invalid-query",
        statuses: [400],
        title: "The query is invalid",
        kind: InvalidQuery,
        exit_code: 2,
        can_retry: false,
        remedy: "Correct the text at `position`.",
    }
    /// The record does not fit its collection.
    InvalidRecord {
        name: "invalid-record",
        statuses: [400],
        title: "The record is invalid",
        kind: InvalidRecord,
        exit_code: 2,
        can_retry: false,
        remedy: "Correct the value that `field` names.",
    }
    /// The request, or a part of it, is too large. A filter or a sort has 400, a body 413, a URL 414, headers 431.
    LimitExceeded {
        name: "limit-exceeded",
        statuses: [413, 400, 414, 431],
        title: "A limit was exceeded",
        kind: LimitExceeded,
        exit_code: 2,
        can_retry: false,
        remedy: "Send several smaller requests, or use a body instead of a URL.",
    }
    /// The resource does not have this method.
    MethodNotAllowed {
        name: "method-not-allowed",
        statuses: [405],
        title: "Method not allowed",
        kind: InvalidArgument,
        exit_code: 2,
        can_retry: false,
        remedy: "Use a method that `Allow` names, or the address that `hint` names.",
    }
    /// The request names a host that is not one of the server's names.
    Misdirected {
        name: "misdirected",
        statuses: [421],
        title: "The server does not have this host name",
        kind: InvalidArgument,
        exit_code: 2,
        can_retry: false,
        remedy: "Ask the operator to name the host with `--hosts`.",
    }
    /// No view serves the query.
    NoView {
        name: "no-view",
        statuses: [400],
        title: "No view serves the query",
        kind: NoPlan,
        exit_code: 2,
        can_retry: false,
        remedy: "Add the view that `hint` shows, or fix the fields of `missing_partition_fields` with `=`.",
    }
    /// The collection, record, queue or address does not exist, or the token does not see it.
    NotFound {
        name: "not-found",
        statuses: [404],
        title: "Not found",
        kind: NotFound,
        exit_code: 3,
        can_retry: false,
        remedy: "Check the name.",
    }
    /// The collection does not support the operation, such as a condition on the version of a record that has none.
    NotOffered {
        name: "not-offered",
        statuses: [409],
        title: "The collection does not support this operation",
        kind: NotOffered,
        exit_code: 2,
        can_retry: false,
        remedy: "Leave out the conditions on versions, or use a collection with `writes = \"update\"`. Write to attached tables with CQL.",
    }
    /// Another record has the values of a unique constraint.
    NotUnique {
        name: "not-unique",
        statuses: [409],
        title: "Another record has the same values",
        kind: Conflict,
        exit_code: 2,
        can_retry: false,
        remedy: "Choose other values for `field`.",
    }
    /// The write may or may not have been applied.
    OutcomeUnknown {
        name: "outcome-unknown",
        statuses: [504],
        title: "The write may or may not have been applied",
        kind: OutcomeUnknown,
        exit_code: 5,
        can_retry: true,
        remedy: "Send the same write again to resolve the outcome.",
    }
    /// The queue does not have the version in `If-Match`.
    QueueChanged {
        name: "queue-changed",
        statuses: [412],
        title: "The queue was changed",
        kind: Changed,
        exit_code: 2,
        can_retry: false,
        remedy: "Read the queue again.",
    }
    /// The queue exists with other options, or another queue needs it.
    QueueConflict {
        name: "queue-conflict",
        statuses: [409],
        title: "The queue conflicts with an existing queue",
        kind: Conflict,
        exit_code: 2,
        can_retry: false,
        remedy: "Follow `hint`.",
    }
    /// The client sends too many requests.
    RateLimited {
        name: "rate-limited",
        statuses: [429],
        title: "Too many requests",
        kind: Unavailable,
        exit_code: 1,
        can_retry: true,
        remedy: "Wait for `Retry-After` seconds.",
    }
    /// The server was started with `--read-only`.
    ReadOnly {
        name: "read-only",
        statuses: [403],
        title: "This server is read-only",
        kind: Forbidden,
        exit_code: 1,
        can_retry: false,
        remedy: "Send the request to another server of the store.",
    }
    /// The record does not have the version that the write names.
    RecordChanged {
        name: "record-changed",
        statuses: [412],
        title: "The record was changed",
        kind: Changed,
        exit_code: 2,
        can_retry: false,
        remedy: "Read the record again. `record` has it, if the token may read it.",
    }
    /// An append collection has another record with this key.
    RecordExists {
        name: "record-exists",
        statuses: [409],
        title: "Another record exists",
        kind: Conflict,
        exit_code: 2,
        can_retry: false,
        remedy: "Choose another key.",
    }
    /// The request did not arrive in time. Nothing was changed.
    RequestTimeout {
        name: "request-timeout",
        statuses: [408],
        title: "The request did not arrive in time",
        kind: Timeout,
        exit_code: 1,
        can_retry: true,
        remedy: "Send the request again.",
    }
    /// The schema is not the one that the store records.
    SchemaMismatch {
        name: "schema-mismatch",
        statuses: [409],
        title: "The schema differs",
        kind: SchemaMismatch,
        exit_code: 1,
        can_retry: false,
        remedy: "Apply the schema, or correct it.",
    }
    /// The store failed.
    Store {
        name: "store",
        statuses: [500],
        title: "The store failed",
        kind: Store,
        exit_code: 1,
        can_retry: false,
        remedy: "Tell the operator.",
    }
    /// The time limit was exceeded. Nothing was changed.
    Timeout {
        name: "timeout",
        statuses: [504],
        title: "The time limit was exceeded",
        kind: Timeout,
        exit_code: 1,
        can_retry: true,
        remedy: "Send the request again, or ask for less.",
    }
    /// The maximum number of messages of the queue is in flight.
    TooManyInFlight {
        name: "too-many-in-flight",
        statuses: [429],
        title: "Too many messages are in flight",
        kind: TooManyInFlight,
        exit_code: 2,
        can_retry: true,
        remedy: "Acknowledge messages, or raise `max_in_flight`.",
    }
    /// The request has no token, or an unknown or expired one.
    Unauthorized {
        name: "unauthorized",
        statuses: [401],
        title: "A token is needed",
        kind: Unauthorized,
        exit_code: 1,
        can_retry: false,
        remedy: "Send `Authorization: Bearer TOKEN`.",
    }
    /// The store cannot be reached, or rejects the server.
    Unavailable {
        name: "unavailable",
        statuses: [503],
        title: "The store cannot be reached",
        kind: Unavailable,
        exit_code: 1,
        can_retry: true,
        remedy: "Send the request again later.",
    }
    /// The store already runs the same operation.
    UnderWay {
        name: "under-way",
        statuses: [409],
        title: "The operation is already running",
        kind: Unavailable,
        exit_code: 1,
        can_retry: true,
        remedy: "Send the request again when it has ended.",
    }
    /// The file of a load cannot be read or unpacked.
    UnreadableFile {
        name: "unreadable-file",
        statuses: [400],
        title: "The file cannot be read",
        kind: Io,
        exit_code: 1,
        can_retry: false,
        remedy: "Correct the file or the endings of its name.",
    }
    /// Recto does not support this yet.
    Unsupported {
        name: "unsupported",
        statuses: [501],
        title: "Not yet supported",
        kind: Unsupported,
        exit_code: 2,
        can_retry: false,
        remedy: "Use the alternative that `hint` names.",
    }
    /// The type or the compression of the body is not supported.
    UnsupportedMediaType {
        name: "unsupported-media-type",
        statuses: [415],
        title: "Unsupported media type",
        kind: InvalidArgument,
        exit_code: 2,
        can_retry: false,
        remedy: "Send the type that `hint` names, with gzip, deflate, or uncompressed.",
    }
}

impl ProblemType {
    /// Returns the problem type with this name, such as `no-view`, or `None` if this release does
    /// not know it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.name() == name)
    }

    /// Returns the type of the problem that a server sends for an error of this kind.
    pub const fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::InvalidQuery => Self::InvalidQuery,
            ErrorKind::NoPlan => Self::NoView,
            ErrorKind::InvalidCursor => Self::InvalidPageToken,
            ErrorKind::InvalidRecord => Self::InvalidRecord,
            ErrorKind::InvalidSchema | ErrorKind::InvalidArgument => Self::InvalidArgument,
            ErrorKind::SchemaMismatch => Self::SchemaMismatch,
            ErrorKind::Conflict => Self::RecordExists,
            ErrorKind::Exists => Self::AlreadyExists,
            ErrorKind::Changed => Self::RecordChanged,
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::NotOffered => Self::NotOffered,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Forbidden => Self::Forbidden,
            // For `Unauthorized`, the store rejected the credentials of the server, not those of
            // the client's request.
            ErrorKind::Unavailable | ErrorKind::Unauthorized => Self::Unavailable,
            ErrorKind::Timeout => Self::Timeout,
            ErrorKind::OutcomeUnknown => Self::OutcomeUnknown,
            ErrorKind::LimitExceeded => Self::LimitExceeded,
            ErrorKind::TooManyInFlight => Self::TooManyInFlight,
            ErrorKind::Corrupt => Self::Corrupt,
            ErrorKind::Io | ErrorKind::Store | ErrorKind::Unreadable => Self::Store,
        }
    }

    /// Returns the name of the problem type, such as `no-view`. It follows [`TYPE_PREFIX`] in the
    /// member `type`.
    pub const fn name(self) -> &'static str {
        self.description().name
    }

    /// Returns the HTTP statuses of problems of this type, the usual status first.
    pub const fn statuses(self) -> &'static [u16] {
        self.description().statuses
    }

    /// Returns a short description of the problem type for people.
    pub const fn title(self) -> &'static str {
        self.description().title
    }

    /// Returns the kind of the error that clients create from a problem of this type.
    pub const fn kind(self) -> ErrorKind {
        self.description().kind
    }

    /// Returns the exit code of a command that fails with a problem of this type.
    pub const fn exit_code(self) -> u8 {
        self.description().exit_code
    }

    /// Returns whether the same request, sent again a little later, can succeed.
    pub const fn can_retry(self) -> bool {
        self.description().can_retry
    }

    /// Returns a description of the problem type, in one or two sentences.
    pub fn meaning(self) -> &'static str {
        self.description().meaning.trim_start()
    }

    /// Returns advice for the sender of the request, in Markdown.
    pub const fn remedy(self) -> &'static str {
        self.description().remedy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_sorted_by_name_and_have_distinct_names() {
        let names: Vec<&str> = ProblemType::ALL.iter().map(|one| one.name()).collect();
        assert!(names.is_sorted_by(|one, next| one < next), "{names:?}");
        for one in ProblemType::ALL {
            assert_eq!(ProblemType::named(one.name()), Some(*one));
        }
        assert_eq!(ProblemType::named("too-fast"), None);
    }

    #[test]
    fn a_failed_command_has_the_same_exit_code_here_and_over_http() {
        for one in ProblemType::ALL {
            let local = ProblemType::of(one.kind());
            assert_eq!(one.exit_code(), local.exit_code(), "{one:?}");
        }
    }
}

//! Table of all operations of the HTTP API. The server derives its routes and its API description from it.
//!
//! ```
//! use recto_api::operations::{Method, OPERATIONS, find};
//!
//! let operation = find(Method::Get, "/v1/collections/orders/records").unwrap();
//! assert_eq!(operation.id, "list_{collection}");
//! assert!(OPERATIONS.iter().any(|one| one.waits));
//! ```

mod collections;
mod messages;
mod queues;
mod store;

use std::cmp::Reverse;
use std::sync::LazyLock;

use recto_model::schema::{Collection, WriteMode};

use crate::rights::Right;

/// All operations of the API, in the order of its description.
pub static OPERATIONS: LazyLock<Vec<Operation>> = LazyLock::new(|| {
    [
        collections::OF_ALL,
        store::OPERATIONS,
        queues::OPERATIONS,
        &messages::OF_QUEUE,
        &messages::OF_UNIT,
        collections::OF_ONE,
    ]
    .concat()
});

/// Name in a path in place of a collection, which means the views of all collections (AIP-159).
pub const ANY_COLLECTION: &str = "-";
/// Path of the operation that loads a file; its body is the file.
pub const LOAD_PATH: &str = "/v1/store:load";

/// Operation of the HTTP API: a method and a path.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// Id of the operation in the API description. A server replaces `{collection}` by the name of
    /// each collection.
    pub id: &'static str,
    /// HTTP method. An operation with `GET` also accepts `HEAD`.
    pub method: Method,
    /// Path, in which `{collection}`, `{key}`, `{queue}`, `{unit}` and `{position}` are
    /// placeholders.
    pub path: &'static str,
    /// Right that a token must have to use the operation.
    pub access: Access,
    /// Property without which a collection does not have the operation.
    pub requires: Requires,
    /// Summary of the operation in a few words.
    pub summary: &'static str,
    /// Description of the operation for users of the API; may be empty.
    pub description: &'static str,
    /// Parameters in the URL. With [`Body::Parameters`], the parameters are in the body instead.
    pub parameters: &'static [Parameters],
    /// Conditional request headers that the operation accepts.
    pub conditions: &'static [Condition],
    /// Body of the request.
    pub body: Body,
    /// Possible replies to successful requests. If several replies have one status, a collection has
    /// the last one whose requirement it meets.
    pub replies: &'static [Reply],
    /// HTTP statuses of errors that only some operations have. Errors common to all operations are
    /// not listed.
    pub problems: &'static [u16],
    /// Whether the operation changes stored data. A read-only server rejects it.
    pub changes: bool,
    /// Whether the operation may wait for an event, such as a message that another client sends.
    pub waits: bool,
}

/// HTTP method of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// `GET`, and `HEAD`.
    Get,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `PATCH`.
    Patch,
    /// `DELETE`.
    Delete,
}

/// Tokens that may use an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Every token, also one without any right, may use the operation.
    Everyone,
    /// Tokens that have any right in the collection. For other tokens, the collection does not seem
    /// to exist.
    Seen,
    /// Tokens that have at least one of the listed rights in the collection.
    Collection(&'static [Right]),
    /// Tokens that may read all records of the collection.
    WholeCollection,
    /// Tokens that have the right `repair` for the store, and may read and write all records of the
    /// collection.
    RepairedCollection,
    /// Tokens that have the given right for the queue.
    Queue(Right),
    /// Tokens that have the given right for every queue.
    EveryQueue(Right),
    /// Tokens that have the given right for the store.
    Store(Right),
}

/// Requirement on a collection. An operation, reply or header exists only for collections that meet
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requires {
    /// All collections meet the requirement.
    Nothing,
    /// Collections that Recto writes: all except collections over tables of other programs.
    Writable,
    /// Collections whose records have versions (`writes = "update"`).
    Versions,
    /// Collections of which at least one table is split into buckets.
    Buckets,
}

/// Parameters of an operation: the fields of a struct of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// Name of the struct, as in [`description`](crate::description).
    pub of: &'static str,
    /// Names of the fields that are parameters; if empty, all fields are.
    pub only: &'static [&'static str],
}

/// Conditional request header that an operation accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// `If-None-Match`: if the client already has the current reply, the reply is 304 without a
    /// body.
    IfNoneMatch,
    /// `If-Match`: the server makes the change only if the record or queue has one of the given
    /// versions.
    IfMatch(Requires),
    /// `If-None-Match: *`: the server creates the record or queue only if it does not exist.
    IfAbsent(Requires),
}

/// Kind of body that a request of an operation has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// The request has no body.
    None,
    /// JSON object that matches the schema of the given name.
    Json(&'static str),
    /// JSON object that matches the schema of the given name, or a merge patch (RFC 7396).
    Patch(&'static str),
    /// JSON object with the operation's parameters. The value is the name of its schema.
    Parameters(&'static str),
    /// Content of a file to load.
    File,
}

/// Description of a reply to a successful request.
#[derive(Debug, Clone, Copy)]
pub struct Reply {
    /// HTTP status of the reply.
    pub status: u16,
    /// Description of the reply for users of the API.
    pub description: &'static str,
    /// Body of the reply.
    pub content: Content,
    /// Headers that the reply has.
    pub headers: &'static [Header],
    /// Requirement that a collection must meet for its operations to have the reply.
    pub requires: Requires,
}

/// Header that a reply can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// `ETag`: version of the reply's content.
    ETag,
    /// `Link`: URLs of other pages.
    Link,
    /// `Recto-Cost`: cost of reading the page.
    Cost,
}

/// Kind of body that a reply has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The reply has no body.
    None,
    /// JSON that matches the schema of the given name.
    Json(&'static str),
    /// JSON objects, one per line, each sent as soon as it is available.
    Lines,
}

/// Reply of a long operation, as lines of progress and a last line with the result.
const LINES: Reply = Reply::lines(
    "Progress and result, one JSON object a line: `{\"progress\": …}`. The last line is `{\"result\": …}` or \
     `{\"problem\": …}`. A reply without this last line was interrupted.",
);

/// Returns a sentence for the description of an operation that continues if the client disconnects.
macro_rules! runs_on {
    () => {
        " The operation continues if the client disconnects. A server runs one operation of each kind at a time."
    };
}
use runs_on;

/// Header `ETag`, for replies whose content has a version.
const TAGGED: &[Header] = &[Header::ETag];

impl Operation {
    /// Default values for an operation that only reads: `GET`, and every token may use it.
    const READ: Self = Self {
        id: "",
        method: Method::Get,
        path: "",
        access: Access::Everyone,
        requires: Requires::Nothing,
        summary: "",
        description: "",
        parameters: &[],
        conditions: &[],
        body: Body::None,
        replies: &[],
        problems: &[],
        changes: false,
        waits: false,
    };

    /// Default values for an operation that changes stored data.
    const CHANGE: Self = Self {
        method: Method::Post,
        problems: &[501],
        changes: true,
        ..Self::READ
    };

    /// Returns whether the operation has a reply of lines, which the server sends while it produces
    /// them.
    pub fn streams(&self) -> bool {
        self.replies.iter().any(|reply| reply.content == Content::Lines)
    }

    /// Returns whether `path` matches the path of the operation. A placeholder such as `{key}`
    /// matches any name.
    fn has_path(&self, path: &str) -> bool {
        let mut segments = path.split('/');
        let fits = self.path.split('/').all(|template| {
            let segment = segments.next();
            segment.is_some_and(|segment| fits(template, segment))
        });
        fits && segments.next().is_none()
    }
}

/// Returns whether a segment of a request's path matches a segment of an operation's path. A
/// placeholder matches any text that is not empty; text after the placeholder (`{key}:begin`) must
/// be equal.
fn fits(template: &str, segment: &str) -> bool {
    match template.split_once('}') {
        Some((_, "")) => !segment.is_empty(),
        Some((_, ending)) => segment.len() > ending.len() && segment.ends_with(ending),
        None => template == segment,
    }
}

/// Returns the operation that serves a method and a path, or `None`.
pub fn find(method: Method, path: &str) -> Option<&'static Operation> {
    let of_method = OPERATIONS.iter().filter(|operation| operation.method == method);
    let fitting = of_method.filter(|operation| operation.has_path(path));
    // Several operations can match: `u:begin` also matches `{unit}`, and `-` also matches
    // `{collection}`. Choose the path with the fewest placeholders, then the longest one.
    fitting.max_by_key(|operation| {
        let names = operation.path.matches('{').count();
        (Reverse(names), operation.path.len())
    })
}

/// Returns the methods that the server accepts for the path of an operation, as text for the header
/// `Allow`. Counts only operations for which `is_there` returns true.
pub fn methods(path: &str, is_there: impl Fn(&Operation) -> bool) -> String {
    let mut names: Vec<&str> = Vec::new();
    let of_path = OPERATIONS.iter().filter(|operation| operation.path == path);
    for operation in of_path.filter(|operation| is_there(operation)) {
        names.push(operation.method.as_str());
        if operation.method == Method::Get {
            names.push("HEAD");
        }
    }
    names.push("OPTIONS");
    names.join(", ")
}

impl Method {
    /// Returns the name of the HTTP method, such as `GET`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Returns the HTTP method with this name, or `None`. `HEAD` counts as [`Get`](Self::Get).
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "GET" | "HEAD" => Self::Get,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            _ => return None,
        })
    }
}

impl Header {
    /// Returns the name of the HTTP header, such as `ETag`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ETag => "ETag",
            Self::Link => "Link",
            Self::Cost => "Recto-Cost",
        }
    }

    /// Returns the description of the HTTP header for users of the API.
    pub fn description(self) -> &'static str {
        match self {
            Self::ETag => {
                "Entity tag, which changes whenever the reply changes. For a record or a queue, it is the \
                 version."
            }
            Self::Link => {
                "Addresses of the first, the previous and the next page (RFC 8288), relative to this one."
            }
            Self::Cost => {
                "Cost of the page: rows and bytes read, round trips, statements, tombstones, buckets asked, \
                 reads of their range map, microseconds (a dictionary of RFC 9651). Absent if it would \
                 reveal rows that the token does not see."
            }
        }
    }
}

impl Requires {
    /// Returns whether a collection meets the requirement.
    pub fn holds_for(self, collection: &Collection) -> bool {
        let is_writable = collection.attached.is_none();
        match self {
            Self::Nothing => true,
            Self::Writable => is_writable,
            Self::Versions => is_writable && collection.writes == WriteMode::Update,
            Self::Buckets => collection.sort_orders().iter().any(|one| one.bucket().is_some()),
        }
    }
}

impl Parameters {
    /// Returns all fields of the struct named `of` as parameters.
    const fn all(of: &'static str) -> Self {
        Self { of, only: &[] }
    }
}

impl Reply {
    /// Returns a reply with a JSON body.
    const fn json(status: u16, schema: &'static str, description: &'static str) -> Self {
        Self {
            status,
            description,
            content: Content::Json(schema),
            headers: &[],
            requires: Requires::Nothing,
        }
    }

    /// Returns a reply with a JSON body and the header `ETag`.
    const fn tagged(status: u16, schema: &'static str, description: &'static str) -> Self {
        Self {
            headers: TAGGED,
            ..Self::json(status, schema, description)
        }
    }

    /// Returns a reply with lines of JSON objects.
    const fn lines(description: &'static str) -> Self {
        Self {
            content: Content::Lines,
            ..Self::json(200, "", description)
        }
    }

    /// Returns a reply without a body.
    const fn empty(status: u16, description: &'static str) -> Self {
        Self {
            content: Content::None,
            ..Self::json(status, "", description)
        }
    }

    /// Returns a copy of the reply with other headers.
    const fn with_headers(self, headers: &'static [Header]) -> Self {
        Self { headers, ..self }
    }

    /// Restricts the reply to collections that meet the requirement `requires`.
    const fn only(self, requires: Requires) -> Self {
        Self { requires, ..self }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_operation_is_found_by_its_path() {
        let mut ids = BTreeSet::new();
        for operation in OPERATIONS.iter() {
            assert!(ids.insert(operation.id), "{} stands twice", operation.id);
            assert_eq!(find(operation.method, operation.path).unwrap().id, operation.id);
            assert!(find(operation.method, &format!("{}/", operation.path)).is_none());
            assert!(!operation.summary.is_empty() && !operation.replies.is_empty());
        }
        assert!(find(Method::Get, "/v1/collections//records").is_none());
        assert_eq!(
            find(Method::Post, "/v1/queues/q/units/u:end").unwrap().id,
            "end_unit"
        );
        assert!(find(Method::Post, "/v1/queues/q/units/:end").is_none());
    }

    #[test]
    fn descriptions_can_be_read_alone() {
        for operation in OPERATIONS.iter() {
            let texts = [operation.description]
                .into_iter()
                .chain(operation.replies.iter().map(|reply| reply.description));
            for text in texts.filter(|text| !text.is_empty()) {
                assert!(text.ends_with('.'), "{}: {text}", operation.id);
                let first = text.chars().next().unwrap();
                assert!(first.is_uppercase() || first == '`', "{}: {text}", operation.id);
            }
            assert!(!operation.summary.ends_with('.'), "{}", operation.id);
        }
    }

    #[test]
    fn only_requests_that_change_the_store_say_so() {
        let reads = ["POST", "GET"];
        for operation in OPERATIONS.iter() {
            let may_only_read = reads.contains(&operation.method.as_str());
            assert!(may_only_read || operation.changes, "{}", operation.id);
            assert!(
                operation.method != Method::Get || !operation.changes,
                "{}",
                operation.id
            );
        }
    }

    #[test]
    fn parameters_and_bodies_are_described() {
        for operation in OPERATIONS.iter() {
            for group in operation.parameters {
                let described = crate::description::parameters_named(group.of);
                assert!(!described.is_empty(), "{}", group.of);
                for name in group.only {
                    assert!(described.contains_key(*name), "{}.{name}", group.of);
                }
            }
        }
    }

    #[test]
    fn all_collections_have_a_name() {
        let path = format!("/v1/collections/{ANY_COLLECTION}/views");
        assert_eq!(find(Method::Get, &path).unwrap().id, "list_views");
    }

    #[test]
    fn methods_of_a_path_are_named() {
        let record = "/v1/collections/{collection}/records/{key}";
        assert_eq!(
            methods(record, |_| true),
            "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"
        );
        assert_eq!(
            methods(record, |operation| !operation.changes),
            "GET, HEAD, OPTIONS"
        );
        assert_eq!(methods("/nothing", |_| true), "OPTIONS");
    }
}

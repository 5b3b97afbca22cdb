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

/// All operations, in the order of the description.
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

/// Name that stands for all collections in the path of their views (AIP-159).
pub const ANY_COLLECTION: &str = "-";
/// Path of the operation whose body is a file.
pub const LOAD_PATH: &str = "/v1/store:load";

/// Operation: a method of a path.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// Name in the description. `{collection}` stands for the name of the collection.
    pub id: &'static str,
    /// Method. An operation with `GET` also accepts `HEAD`.
    pub method: Method,
    /// Path. `{collection}`, `{key}`, `{queue}`, `{unit}` and `{position}` are placeholders for names.
    pub path: &'static str,
    /// Tokens that may use the operation.
    pub access: Access,
    /// Collections that have the operation.
    pub requires: Requires,
    /// Summary in a few words.
    pub summary: &'static str,
    /// Description for users; may be empty.
    pub description: &'static str,
    /// Parameters in the address. With [`Body::Parameters`], they are in the body.
    pub parameters: &'static [Parameters],
    /// Conditional request headers that the operation accepts.
    pub conditions: &'static [Condition],
    /// Body of the request.
    pub body: Body,
    /// Replies to successful requests. If two replies have the same status, the last reply that applies to the
    /// collection counts.
    pub replies: &'static [Reply],
    /// Statuses of its problems, in addition to the statuses that every operation has.
    pub problems: &'static [u16],
    /// Whether the operation changes stored data. A read-only server rejects it.
    pub changes: bool,
    /// Whether the operation may wait for an action of another request.
    pub waits: bool,
}

/// Method of HTTP.
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
    /// Every token.
    Everyone,
    /// Tokens that see the collection.
    Seen,
    /// Tokens that have one of these rights in the collection.
    Collection(&'static [Right]),
    /// Tokens that may read all records of the collection.
    WholeCollection,
    /// Tokens that may read and write all records of the collection, and repair the store.
    RepairedCollection,
    /// Tokens that have this right with the queue.
    Queue(Right),
    /// Tokens that have this right with every queue.
    EveryQueue(Right),
    /// Tokens that have this right with the store.
    Store(Right),
}

/// Collections that have an operation, or for which an operation has a reply or a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requires {
    /// All collections.
    Nothing,
    /// Collections that Recto writes: all except attached collections.
    Writable,
    /// Collections whose records have versions (`writes = "update"`).
    Versions,
    /// Collections with a table in buckets.
    Buckets,
}

/// Parameters of an operation: the fields of a struct of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// Name of the struct, as in [`description`](crate::description).
    pub of: &'static str,
    /// Names of its fields that are parameters; empty, all.
    pub only: &'static [&'static str],
}

/// Conditional request header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// `If-None-Match`: the reply is 304 if the client has the newest reply.
    IfNoneMatch,
    /// `If-Match`: the change is made only if the record or queue has one of these versions.
    IfMatch(Requires),
    /// `If-None-Match: *`: the record or queue is created, and an existing one is not replaced.
    IfAbsent(Requires),
}

/// Body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// No body.
    None,
    /// JSON object with this schema.
    Json(&'static str),
    /// JSON object with this schema, also accepted as a merge patch (RFC 7396).
    Patch(&'static str),
    /// JSON object with the parameters of the operation. The name is the name of its schema.
    Parameters(&'static str),
    /// File.
    File,
}

/// Reply to a successful request.
#[derive(Debug, Clone, Copy)]
pub struct Reply {
    /// Status.
    pub status: u16,
    /// Description for users.
    pub description: &'static str,
    /// Body of the reply.
    pub content: Content,
    /// Headers of the reply.
    pub headers: &'static [Header],
    /// Collections for which the operation has this reply.
    pub requires: Requires,
}

/// Header of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// `ETag`.
    ETag,
    /// `Link`.
    Link,
    /// `Recto-Cost`.
    Cost,
}

/// Body of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// No body.
    None,
    /// JSON with this schema.
    Json(&'static str),
    /// JSON objects, one per line, each sent as soon as it is made.
    Lines,
}

/// Reply to an operation that can take long.
const LINES: Reply = Reply::lines(
    "Progress and result, one JSON object a line: `{\"progress\": …}`. The last line is `{\"result\": …}` or \
     `{\"problem\": …}`. A reply without this last line was interrupted.",
);

/// End of the description of an operation that continues without the client.
macro_rules! runs_on {
    () => {
        " The operation continues if the client disconnects. A server runs one operation of each kind at a time."
    };
}
use runs_on;

/// Headers of a reply that has a version.
const TAGGED: &[Header] = &[Header::ETag];

impl Operation {
    /// Defaults of all operations: `GET`, and no change.
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

    /// Defaults of operations that change stored data.
    const CHANGE: Self = Self {
        method: Method::Post,
        problems: &[501],
        changes: true,
        ..Self::READ
    };

    /// Returns whether a reply is sent line by line while it is made.
    pub fn streams(&self) -> bool {
        self.replies.iter().any(|reply| reply.content == Content::Lines)
    }

    /// Returns whether the operation has this path, in which names replace the placeholders.
    fn has_path(&self, path: &str) -> bool {
        let mut segments = path.split('/');
        let fits = self.path.split('/').all(|template| {
            let segment = segments.next();
            segment.is_some_and(|segment| fits(template, segment))
        });
        fits && segments.next().is_none()
    }
}

/// Returns whether a segment of a path matches a segment of a template, which is the same text, or `{name}` with an
/// ending.
fn fits(template: &str, segment: &str) -> bool {
    match template.split_once('}') {
        Some((_, "")) => !segment.is_empty(),
        Some((_, ending)) => segment.len() > ending.len() && segment.ends_with(ending),
        None => template == segment,
    }
}

/// Finds the operation of a method and a path.
pub fn find(method: Method, path: &str) -> Option<&'static Operation> {
    let of_method = OPERATIONS.iter().filter(|operation| operation.method == method);
    let fitting = of_method.filter(|operation| operation.has_path(path));
    // Several templates can match: `u:begin` also matches `{unit}`, and `-` also matches
    // `{collection}`. Choose the template with the fewest placeholders, and then the longest one.
    fitting.max_by_key(|operation| {
        let names = operation.path.matches('{').count();
        (Reverse(names), operation.path.len())
    })
}

/// Returns the methods of a path of the table, in the form of the header `Allow`. `is_there` selects the operations
/// that count.
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
    /// Returns the name of the method in HTTP.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Returns the method with this name. `HEAD` returns [`Get`](Self::Get).
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
    /// Returns the name of the header.
    pub fn name(self) -> &'static str {
        match self {
            Self::ETag => "ETag",
            Self::Link => "Link",
            Self::Cost => "Recto-Cost",
        }
    }

    /// Returns the description of the header for users.
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
    /// Returns all fields of a struct as parameters.
    const fn all(of: &'static str) -> Self {
        Self { of, only: &[] }
    }
}

impl Reply {
    /// Creates a reply in JSON.
    const fn json(status: u16, schema: &'static str, description: &'static str) -> Self {
        Self {
            status,
            description,
            content: Content::Json(schema),
            headers: &[],
            requires: Requires::Nothing,
        }
    }

    /// Creates a reply in JSON that has a version.
    const fn tagged(status: u16, schema: &'static str, description: &'static str) -> Self {
        Self {
            headers: TAGGED,
            ..Self::json(status, schema, description)
        }
    }

    /// Creates a reply of lines.
    const fn lines(description: &'static str) -> Self {
        Self {
            content: Content::Lines,
            ..Self::json(200, "", description)
        }
    }

    /// Creates a reply without a body.
    const fn empty(status: u16, description: &'static str) -> Self {
        Self {
            content: Content::None,
            ..Self::json(status, "", description)
        }
    }

    /// Returns the reply with other headers.
    const fn with_headers(self, headers: &'static [Header]) -> Self {
        Self { headers, ..self }
    }

    /// Returns the reply for collections that meet a requirement.
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

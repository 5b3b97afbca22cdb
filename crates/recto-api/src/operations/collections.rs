//! Operations on collections and their records.

use super::{
    Access, Body, Condition, Header, LINES, Method, Operation, Parameters, Reply, Requires, TAGGED, runs_on,
};
use crate::buckets::BucketsRequest;
use crate::rights::Right::{Delete, Export, Read, Write};

const PAGE: Parameters = Parameters::all("PageRequest");
const EXPLAIN: Parameters = Parameters::all("ExplainOptions");
const SCAN: Parameters = Parameters::all("ScanRequest");
const EXPORT: Parameters = Parameters::all("ExportOptions");

const READS: Access = Access::Collection(&[Read]);
const EXPORTS: Access = Access::Collection(&[Export]);

const STORED: &str = "The record is stored, whether or not it existed.";
const A_PAGE: &str = "Page of records, in the order of the query.";
const AN_EXPLANATION: &str = "Plan of the page, and its cost.";
const EXPORTED: &str = "Records, one JSON object a line, in no order. If an export fails after its start, \
                        the server closes the connection. With `resume_tokens`, it sends a line \
                        `{\"problem\": …}` first.";

/// Returns the description of a `POST` operation that accepts the parameters of a `GET` operation
/// in its body.
macro_rules! in_body {
    ($more:literal) => {
        concat!(
            "Takes the parameters of `GET` as a JSON object, because an address has a maximum length.",
            $more
        )
    };
}

const PAGE_HEADERS: &[Header] = &[Header::ETag, Header::Link, Header::Cost];
const QUERY_HEADERS: &[Header] = &[Header::Link, Header::Cost];

/// Operations that do not belong to a single collection, such as those on the schema.
pub(super) const OF_ALL: &[Operation] = &[
    Operation {
        id: "get_schema",
        path: "/v1/schema",
        summary: "Get the schema",
        description: "Returns the schema as the store has it, in the schema language. A token that may read every queue also gets the \
                      options of queues.",
        conditions: &[Condition::IfNoneMatch],
        replies: &[Reply::tagged(200, "StoreSchema", "Schema.")],
        ..Operation::READ
    },
    Operation {
        id: "list_collections",
        path: "/v1/collections",
        summary: "List the collections",
        conditions: &[Condition::IfNoneMatch],
        replies: &[Reply::tagged(200, "Collections", "Collections.")],
        ..Operation::READ
    },
    Operation {
        id: "list_views",
        path: "/v1/collections/-/views",
        summary: "List the views of all collections",
        conditions: &[Condition::IfNoneMatch],
        replies: &[Reply::tagged(200, "Views", "Views, each with its state.")],
        ..Operation::READ
    },
];

/// Operations on one collection.
pub(super) const OF_ONE: &[Operation] = &[
    Operation {
        id: "describe_{collection}",
        path: "/v1/collections/{collection}",
        access: Access::Seen,
        summary: "Get the fields, the key and the views",
        conditions: &[Condition::IfNoneMatch],
        replies: &[Reply::tagged(200, "Collection", "Collection.")],
        ..Operation::READ
    },
    Operation {
        id: "list_views_of_{collection}",
        path: "/v1/collections/{collection}/views",
        access: READS,
        summary: "List the views",
        conditions: &[Condition::IfNoneMatch],
        replies: &[Reply::tagged(200, "Views", "Views, each with its state.")],
        ..Operation::READ
    },
    Operation {
        id: "list_{collection}",
        path: "/v1/collections/{collection}/records",
        access: READS,
        summary: "List records",
        description: "Returns a page. A request has at most one of `page_token`, `from`, `around` and `last`.",
        parameters: &[PAGE],
        conditions: &[Condition::IfNoneMatch],
        replies: &[Reply::tagged(200, "{collection}.page", A_PAGE).with_headers(PAGE_HEADERS)],
        problems: &[501],
        ..Operation::READ
    },
    Operation {
        id: "query_{collection}",
        method: Method::Post,
        path: "/v1/collections/{collection}/records:query",
        access: READS,
        summary: "List records, with parameters in the body",
        description: in_body!(""),
        parameters: &[PAGE],
        body: Body::Parameters("{collection}.query"),
        replies: &[Reply::json(200, "{collection}.page", A_PAGE).with_headers(QUERY_HEADERS)],
        problems: &[501],
        ..Operation::READ
    },
    Operation {
        id: "explain_{collection}",
        path: "/v1/collections/{collection}/records:explain",
        access: READS,
        summary: "Explain a page",
        description: "Takes the parameters of the list. Returns the plan of the page, and its cost.",
        parameters: &[PAGE, EXPLAIN],
        replies: &[Reply::json(200, "Explanation", AN_EXPLANATION)],
        problems: &[501],
        ..Operation::READ
    },
    Operation {
        id: "explain_{collection}_by_body",
        method: Method::Post,
        path: "/v1/collections/{collection}/records:explain",
        access: READS,
        summary: "Explain a page, with parameters in the body",
        description: in_body!(" Returns the plan of the page, and its cost."),
        parameters: &[PAGE, EXPLAIN],
        body: Body::Parameters("{collection}.explain"),
        replies: &[Reply::json(200, "Explanation", AN_EXPLANATION)],
        problems: &[501],
        ..Operation::READ
    },
    Operation {
        id: "export_{collection}",
        path: "/v1/collections/{collection}/records:export",
        access: EXPORTS,
        summary: "Export all records",
        description: "If pages can be served for the filter, Recto reads only the records that satisfy it. With any other filter, it \
                      reads all records of the collection.",
        parameters: &[SCAN, EXPORT],
        replies: &[Reply::lines(EXPORTED)],
        ..Operation::READ
    },
    Operation {
        id: "export_{collection}_by_body",
        method: Method::Post,
        path: "/v1/collections/{collection}/records:export",
        access: EXPORTS,
        summary: "Export all records, with parameters in the body",
        description: in_body!(""),
        parameters: &[SCAN, EXPORT],
        body: Body::Parameters("{collection}.export"),
        replies: &[Reply::lines(EXPORTED)],
        ..Operation::READ
    },
    Operation {
        id: "get_{collection}",
        path: "/v1/collections/{collection}/records/{key}",
        access: READS,
        summary: "Get a record",
        parameters: &[Parameters::all("GetOptions")],
        conditions: &[Condition::IfNoneMatch],
        replies: &[Reply::tagged(200, "{collection}.found", "Record.")],
        ..Operation::READ
    },
    Operation {
        id: "put_{collection}",
        method: Method::Put,
        path: "/v1/collections/{collection}/records/{key}",
        access: Access::Collection(&[Write]),
        requires: Requires::Writable,
        summary: "Put a record",
        description: "Stores the record under the key of the path. The body may leave out the fields of the key. If a record \
                      has this key, an `overwrite` collection and an `update` collection replace it. In an `update` collection \
                      `If-Match` replaces only the version that the caller saw, and `If-None-Match: *` replaces none. An `append` \
                      collection accepts the same record again. An embedded store rejects another record with this key with \
                      409. Cassandra does not notice it: fields that are not null replace those of the first record.",
        parameters: &[Parameters::all("PutOptions")],
        conditions: &[
            Condition::IfMatch(Requires::Versions),
            Condition::IfAbsent(Requires::Versions),
        ],
        body: Body::Json("{collection}.put"),
        replies: &[
            Reply::empty(
                201,
                "The request had `If-None-Match: *`, and the record is created.",
            )
            .with_headers(TAGGED)
            .only(Requires::Versions),
            PENDING.with_headers(TAGGED),
            Reply::empty(204, STORED),
            Reply::empty(204, STORED)
                .with_headers(TAGGED)
                .only(Requires::Versions),
        ],
        problems: &[409, 501],
        ..Operation::CHANGE
    },
    Operation {
        id: "patch_{collection}",
        method: Method::Patch,
        path: "/v1/collections/{collection}/records/{key}",
        access: Access::Collection(&[Write]),
        requires: Requires::Versions,
        summary: "Change some fields of a record",
        description: "The body is a merge patch (RFC 7396). Fields that the body does not have do not \
                      change, and null clears a field. A list, a map or another value with parts is replaced \
                      as a whole. The body has no fields of the key, or the same values as the path.",
        conditions: &[Condition::IfMatch(Requires::Versions)],
        body: Body::Patch("{collection}.put"),
        replies: &[
            PENDING.with_headers(TAGGED),
            Reply::empty(204, "The record is changed.").with_headers(TAGGED),
        ],
        problems: &[409, 501],
        ..Operation::CHANGE
    },
    Operation {
        id: "delete_{collection}",
        method: Method::Delete,
        path: "/v1/collections/{collection}/records/{key}",
        access: Access::Collection(&[Delete]),
        requires: Requires::Writable,
        summary: "Delete a record",
        conditions: &[Condition::IfMatch(Requires::Versions)],
        replies: &[PENDING, Reply::empty(204, "No record has this key now.")],
        problems: &[409, 501],
        ..Operation::CHANGE
    },
    Operation {
        id: "batch_write_{collection}",
        path: "/v1/collections/{collection}/records:batchWrite",
        access: Access::Collection(&[Write, Delete]),
        requires: Requires::Writable,
        summary: "Make several changes at once",
        description: "A change applies to this collection, or to another collection that it names. A request \
                      cannot mix collections that have versions with collections that have none. In \
                      collections with versions, Recto makes each change separately, and each change has an \
                      outcome. It makes changes of one record in their order. If a change is invalid for \
                      every state of the store, Recto rejects the request before it makes any change. In \
                      other collections, an embedded store makes all changes or none. On Cassandra the \
                      changes are one logged batch: in the end it makes all or none, and a reader may see \
                      some of them first. Of two changes of one record, the last one wins. Two puts of one \
                      key to an `append` collection must have the same record: otherwise Recto rejects them \
                      with 409.",
        body: Body::Json("{collection}.batch"),
        replies: &[Reply::json(
            200,
            "BatchResult",
            "The changes are made. In collections with versions, each outcome says whether its change is \
             made.",
        )],
        problems: &[409, 501],
        ..Operation::CHANGE
    },
    Operation {
        id: "list_bucket_partitions_of_{collection}",
        path: "/v1/collections/{collection}/partitions",
        access: Access::WholeCollection,
        requires: Requires::Buckets,
        summary: "List the partitions that are in buckets",
        description: "Returns the number of buckets of each partition, and their size. A request lists at \
                      most 256 partitions.",
        parameters: &[Parameters {
            of: "BucketsRequest",
            only: BucketsRequest::OF_PARTITIONS,
        }],
        replies: &[Reply::json(
            200,
            "BucketPartitions",
            "Partitions, in the order in which the store has them.",
        )],
        problems: &[501],
        ..Operation::READ
    },
    Operation {
        id: "list_buckets_of_{collection}",
        path: "/v1/collections/{collection}/buckets",
        access: Access::WholeCollection,
        requires: Requires::Buckets,
        summary: "List the buckets of a partition",
        description: "The filter names the partition by a value of each partition field; other conditions have no effect. A request \
                      lists at most 256 buckets.",
        parameters: &[Parameters::all("BucketsRequest")],
        replies: &[Reply::json(
            200,
            "Buckets",
            "Buckets, in the order of their rows.",
        )],
        problems: &[501],
        ..Operation::READ
    },
    Operation {
        id: "rebalance_buckets_of_{collection}",
        path: "/v1/collections/{collection}/buckets:rebalance",
        access: Access::RepairedCollection,
        requires: Requires::Buckets,
        summary: "Split buckets that are too large, now",
        description: concat!(
            "Splits buckets that are too large, and completes interrupted splits, as Recto also does in the \
             background. Without a filter, Recto checks all partitions.",
            runs_on!()
        ),
        body: Body::Json("RebalanceRequest"),
        replies: &[LINES],
        problems: &[409, 501],
        ..Operation::CHANGE
    },
];

/// Reply 202: the change of a record is made, but some views do not show it yet.
const PENDING: Reply = Reply::json(
    202,
    "MadeChange",
    "The change is made. Some views show it a little later.",
)
.only(Requires::Versions);

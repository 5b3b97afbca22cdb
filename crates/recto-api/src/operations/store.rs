//! Operations on the whole store, such as backups and checks.

use super::{Access, Body, LINES, LOAD_PATH, Method, Operation, Parameters, Reply, runs_on};
use crate::rights::Right::{Apply, Backup, Check, Compact, CursorKeys, Load, Repair, Verify};

/// Returns the description's end for an operation that compares views with their records: how to
/// continue it, and the members of its result.
macro_rules! compared {
    () => {
        " The operation stops if the client disconnects. To continue it, send the same request with the \
         `resume_token` of its last progress. Recto rejects the token if the schema has changed since. In \
         the result, `views` has each view with its numbers of `records`, of `entries`, and of entries that \
         are `missing`, `orphan` or `differing`. `misfits` are records that do not fit the view, by cause. \
         The store expects `misfits_recorded` of them, and only additional ones are wrong. `examples` has \
         some findings of each kind. A unique constraint is a view named `unique (FIELDS)`. `left_out` names \
         views that are not read yet, or no longer. `buckets` has each table in buckets, with its numbers of \
         `rows` and `buckets`, and `examples`. There, `found` is the number of findings by kind, and \
         `too_large` the number of buckets that are too large. After an interruption, `begun_seconds_ago` is \
         the age of the oldest finding."
    };
}

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        id: "backup_store",
        method: Method::Post,
        path: "/v1/store:backup",
        access: Access::Store(Backup),
        summary: "Copy the store",
        description: concat!(
            "Copies an embedded store to a new folder, in the `backup_folder` of the server.",
            runs_on!(),
            " The result has `bytes` and the `folder`."
        ),
        body: Body::Json("BackupRequest"),
        replies: &[LINES],
        problems: &[409, 501],
        ..Operation::READ
    },
    Operation {
        id: "compact_store",
        path: "/v1/store:compact",
        access: Access::Store(Compact),
        summary: "Return unused space",
        description: concat!(
            "Writes the data file of an embedded store again, without unused space.",
            runs_on!(),
            " The result has `bytes_before` and `bytes_after`."
        ),
        replies: &[LINES],
        problems: &[409, 501],
        ..Operation::CHANGE
    },
    Operation {
        id: "check_store",
        method: Method::Post,
        path: "/v1/store:check",
        access: Access::Store(Check),
        summary: "Check the store",
        description: concat!(
            "Reads all rows of an embedded store, or compares the tables on Cassandra with the schema. \
             Returns the problems.",
            runs_on!(),
            " The result has `rows`, `collections` with the rows of each, `internal_rows`, `tables` that were compared, `problems` and \
             `notes`."
        ),
        replies: &[LINES],
        problems: &[409, 501],
        ..Operation::READ
    },
    Operation {
        id: "get_commit_log",
        path: "/v1/store:commitLog",
        access: Access::Store(Check),
        summary: "Get the state of the commit log",
        description: "Returns the size of the commit log of an embedded store, and its last checkpoint. A store on Cassandra has \
                      no commit log of Recto, so the server replies 501.",
        replies: &[Reply::json(200, "CommitLog", "State of the commit log.")],
        problems: &[501],
        ..Operation::READ
    },
    Operation {
        id: "verify_views",
        method: Method::Post,
        path: "/v1/store:verify",
        access: Access::Store(Verify),
        summary: "Compare views with their records",
        description: concat!(
            "Reads all records and all entries of views, and compares them. For tables in buckets, it checks \
             rows, range maps and samples. It changes nothing. The token needs the right to read each of \
             these collections.",
            compared!()
        ),
        body: Body::Json("CompareRequest"),
        replies: &[LINES],
        problems: &[409, 501],
        ..Operation::READ
    },
    Operation {
        id: "repair_views",
        path: "/v1/store:repair",
        access: Access::Store(Repair),
        summary: "Repair views",
        description: concat!(
            "Compares views with their records as `:verify` does, and makes them match the records while others write. It repairs tables in \
             buckets, too. `repaired` is the number of repaired entries. The token needs the rights to read and write each of these \
             collections.",
            compared!()
        ),
        body: Body::Json("CompareRequest"),
        replies: &[LINES],
        problems: &[409, 501],
        ..Operation::CHANGE
    },
    Operation {
        id: "load_file",
        path: LOAD_PATH,
        access: Access::Store(Load),
        summary: "Load a file",
        description: "The body is the file: CSV with a header line, or NDJSON; plain, or as .gz, .zst or \
                      .zip. The server receives the whole file before it stores anything. A load stops if \
                      the client disconnects. The same file sent again continues where it stopped, and a \
                      file that was loaded to its end is not loaded again without `again`. The request has \
                      no Content-Encoding: the name of the file gives its compression. Lines `{\"rejects\": \
                      …}` before the result have the rejected rows, with reasons, as base64. The result has \
                      `rows_read`, `rows_resumed`, `collections`, `already_loaded` and, if there are \
                      rejects, their format as `rejects`.",
        parameters: &[Parameters::all("LoadOptions"), Parameters::all("CsvOptions")],
        body: Body::File,
        replies: &[LINES],
        problems: &[409, 501],
        ..Operation::CHANGE
    },
    Operation {
        id: "plan_schema",
        method: Method::Post,
        path: "/v1/store:plan",
        access: Access::Store(Apply),
        summary: "Plan a change of the schema",
        description: "Returns the changes that applying the schema would make. It changes nothing.",
        body: Body::Json("SchemaRequest"),
        replies: &[Reply::json(
            200,
            "Plan",
            "Changes, statements, and rejected changes.",
        )],
        ..Operation::READ
    },
    Operation {
        id: "apply_schema",
        path: "/v1/store:apply",
        access: Access::Store(Apply),
        summary: "Apply a schema",
        description: concat!(
            "Makes the store match the schema.",
            runs_on!(),
            " The result has the `generation`, the `changes` that were made, the `kept` parts of the store, \
             and the allowed `misfits`."
        ),
        body: Body::Json("SchemaRequest"),
        replies: &[LINES],
        problems: &[409, 501],
        ..Operation::CHANGE
    },
    Operation {
        id: "list_cursor_keys",
        path: "/v1/store:cursorKeys",
        access: Access::Store(CursorKeys),
        summary: "List the keys of page tokens",
        description: "Returns the numbers and ages of the keys, and never the keys themselves.",
        replies: &[Reply::json(200, "CursorKeys", "Keys, the oldest first.")],
        ..Operation::READ
    },
    Operation {
        id: "rotate_cursor_keys",
        path: "/v1/store:rotateCursorKeys",
        access: Access::Store(CursorKeys),
        summary: "Use a new key for page tokens",
        description: "Adds a key that encrypts new page tokens. From then on, Recto rejects page tokens of \
                      keys that are not kept.",
        body: Body::Json("RotateRequest"),
        replies: &[Reply::json(200, "CursorKeys", "Keys after the change.")],
        ..Operation::CHANGE
    },
];

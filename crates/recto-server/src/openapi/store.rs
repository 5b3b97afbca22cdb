//! What can be asked of the store itself.

use recto::schema::Schema;
use recto::session::{BlobFormat, CsvOptions, MAX_LISTED_MISFITS};
use recto_api::description::parameters_of;
use recto_api::loads::LoadOptions;
use recto_api::store::{BackupRequest, CompareRequest, RotateRequest, SchemaRequest};
use serde_json::{Map, Value as Json, json};

use super::parameters;
use super::responses::{json_of, of_operation};
use super::schemas::reference;
use super::types::object;
use crate::access::{Access, Operation};
use crate::api::{LOAD_PATH, MAX_BACKUP_NAME_CHARACTERS, NDJSON};

/// What the operations are listed under.
pub(super) const TAG: &str = "store";

const LINES: &str = "The answer is lines of JSON: `{\"progress\": …}`, and as the last one `{\"result\": …}` or \
                     `{\"problem\": …}`; without such a last line it was cut.";
const RUNS_ON: &str = "It goes on to its end if its client goes away. One of a kind is done at a time.";

/// The paths of what may be done with the store.
pub(super) fn paths(schema: &Schema, access: &Access) -> Map<String, Json> {
    let of = |operation, path: &str, item| {
        let is_allowed = access.allows_store(operation);
        is_allowed.then(|| (path.to_owned(), item))
    };
    let all = [
        of(Operation::Backup, "/v1/store:backup", json!({ "post": backup() })),
        of(
            Operation::Compact,
            "/v1/store:compact",
            json!({ "post": compact() }),
        ),
        of(Operation::Check, "/v1/store:check", json!({ "post": check() })),
        of(Operation::Verify, "/v1/store:verify", json!({ "post": verify() })),
        of(Operation::Repair, "/v1/store:repair", json!({ "post": repair() })),
        of(
            Operation::Load,
            LOAD_PATH,
            json!({ "post": load(schema, access) }),
        ),
        of(Operation::Apply, "/v1/store:plan", json!({ "post": plan() })),
        of(Operation::Apply, "/v1/store:apply", json!({ "post": apply() })),
        of(
            Operation::CursorKeys,
            "/v1/store:cursorKeys",
            json!({ "get": cursor_keys() }),
        ),
        of(
            Operation::CursorKeys,
            "/v1/store:rotateCursorKeys",
            json!({ "post": rotate_cursor_keys() }),
        ),
    ];
    all.into_iter().flatten().collect()
}

/// The bodies of these.
pub(super) fn schemas() -> Map<String, Json> {
    let texts = || json!({ "type": "array", "items": { "type": "string" } });
    let count = || json!({ "type": "integer", "minimum": 0 });
    let of = |properties: Json, required: &[&str]| {
        let properties = properties.as_object().cloned().unwrap_or_default();
        object(properties, required)
    };
    let key = json!({
        "id": count(),
        "seals": { "type": "boolean", "description": "Whether it seals new tokens; the others open old ones." },
        "made_at_seconds": count(),
        "age_seconds": count(),
    });
    let keys = json!({ "keys": { "type": "array", "items": of(key, &["id", "seals"]) } });
    let plan = json!({
        "generation": count(),
        "changes": texts(),
        "statements": texts(),
        "kept": texts(),
        "refused": texts(),
        "misfits": misfits(),
    });
    Map::from_iter([
        ("CursorKeys".to_owned(), of(keys, &["keys"])),
        (
            "Plan".to_owned(),
            of(
                plan,
                &[
                    "generation",
                    "changes",
                    "statements",
                    "kept",
                    "refused",
                    "misfits",
                ],
            ),
        ),
        ("SchemaText".to_owned(), of_body::<SchemaRequest>(&["toml"])),
        ("Compared".to_owned(), of_body::<CompareRequest>(&[])),
    ])
}

/// Records that do not fit views and unique constraints that would be added.
fn misfits() -> Json {
    let count = |about: &str| json!({ "type": "integer", "minimum": 0, "description": about });
    let text = |about: &str| json!({ "type": "string", "description": about });
    let listed = json!({
        "key": text("Key of the record."),
        "field": text("Field that is the cause."),
        "key_bytes": count("Number of bytes that the key in the view would have; absent if the field is empty."),
    });
    let properties = json!({
        "collection": text("Collection of the records."),
        "view": text("Name of the view; of a unique constraint `unique (FIELDS)`."),
        "empty": count("Number of records whose value of the only partition field is empty."),
        "too_large": count("Number of records whose key in the view would be too large."),
        "listed": {
            "type": "array",
            "maxItems": MAX_LISTED_MISFITS,
            "items": object(members(listed), &["key", "field"]),
            "description": "First of these records.",
        },
    });
    let one = object(
        members(properties),
        &["collection", "view", "empty", "too_large", "listed"],
    );
    json!({
        "type": "array",
        "items": one,
        "description": "Records that do not fit views and unique constraints that would be added.",
    })
}

fn members(properties: Json) -> Map<String, Json> {
    properties.as_object().cloned().unwrap_or_default()
}

/// Returns the schema of a body.
fn of_body<T>(required: &[&str]) -> Json {
    object(parameters_of::<T>().clone(), required)
}

fn operation(id: &str, summary: &str, about: &str) -> Json {
    json!({ "operationId": id, "summary": summary, "description": about, "tags": [TAG] })
}

/// An operation that is answered by lines.
fn work(id: &str, summary: &str, about: &str, besides: &[&str]) -> Json {
    let mut work = operation(id, summary, &format!("{about} {LINES}"));
    let response = json!({
        "description": "How far it is, and what came of it, a JSON object a line.",
        "content": { NDJSON: { "schema": { "type": "string" } } },
    });
    work["responses"] = of_operation(vec![("200", response)], &[&["409", "501"], besides].concat());
    work
}

fn json_body(schema: Json) -> Json {
    json!({ "required": true, "content": { "application/json": { "schema": schema } } })
}

fn backup() -> Json {
    let about = format!(
        "Copies an embedded store into a new folder, inside the one that the server's operator named \
         (`backup_folder`). {RUNS_ON} The result has `bytes` and the `folder`."
    );
    let mut backup = work("backup_store", "Copy the store", &about, &["413", "415"]);
    let pattern = format!(
        "^[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{}}}$",
        MAX_BACKUP_NAME_CHARACTERS - 1
    );
    let mut body = of_body::<BackupRequest>(&["name"]);
    body["properties"]["name"]["pattern"] = pattern.into();
    backup["requestBody"] = json_body(body);
    backup
}

fn compact() -> Json {
    let about = format!(
        "Writes the data file of an embedded store anew, without unused space. {RUNS_ON} The result has \
         `bytes_before` and `bytes_after`."
    );
    work("compact_store", "Give unused space back", &about, &[])
}

fn check() -> Json {
    let about = format!(
        "Reads all of an embedded store, or compares the tables of Cassandra with the schema, and says what is wrong. \
         {RUNS_ON} The result has `rows`, `collections` with the rows of each, `internal_rows`, `tables` that were \
         compared, `problems` and `notes`."
    );
    work("check_store", "Check the store", &about, &[])
}

/// What a comparison of views answers.
const COMPARED: &str = "It stops if its client goes away, who goes on by asking for the same with the `resume_token` that \
                        progress told last; if the schema was changed since, that is refused. The result has the `views` \
                        that were compared, each with its `records`, its `entries`, how many are `missing`, `orphan` or \
                        `differing`, how many are `misfits` (records that do not fit the view, by cause; `misfits_recorded` is how many the \
                        store has recorded, and only more than that are wrong), and `examples` of all these (claims of unique fields are told as views named `unique (FIELDS)`), \
                        and those that were `left_out`, since they are not read yet or any more; and before them `buckets`, what is kept in buckets: each with its `rows`, its `buckets`, \
                        how much is wrong of each kind as `found`, how many are `too_large`, and `examples`. If it went on, `begun_seconds_ago`: what was found before is told as it was found.";

fn compare(id: &str, summary: &str, about: &str) -> Json {
    let mut compare = work(id, summary, &format!("{about} {COMPARED}"), &["413", "415"]);
    compare["requestBody"] = json_body(reference("Compared"));
    compare
}

fn verify() -> Json {
    let about = "Reads records and entries of views whole, and compares them; of what is kept in buckets it looks whether rows, \
                 directories and samples are as they should be. Nothing is changed.";
    compare("verify_views", "Compare views with their records", about)
}

fn repair() -> Json {
    let about = "Compares views with their records as `:verify`, and makes them as the records are, while others write, and \
                 buckets as they should be: `mended` says of each how many. Whoever repairs may write records.";
    compare("repair_views", "Mend views", about)
}

/// Pattern of the names of files that can be loaded.
const FILE_NAME: &str = "^.+[.](?:csv|ndjson|jsonl|zip|(?:csv|ndjson|jsonl)[.](?:gz|zst))$";

fn load(schema: &Schema, access: &Access) -> Json {
    let about = "The body is the file: CSV with a header line or NDJSON, plain or in .gz, .zst or .zip. It is taken \
                 whole before anything of it is stored. A load whose client goes away stops; the same file sent \
                 again goes on where it was, and one that was loaded to its end is not loaded again without \
                 `again`. It has no Content-Encoding: its name says how it is packed. Lines `{\"rejects\": …}` before the result hold the rows that were not right, with \
                 reasons, as base64. The result has `rows_read`, `rows_resumed`, `collections`, `already_loaded` \
                 and, if there are rejects, their format as `rejects`.";
    let mut load = work("load_file", "Load a file", about, &["413", "415"]);
    let names = schema.collections.iter().map(|collection| &collection.name);
    let writable: Vec<&String> = names
        .filter(|name| access.allows(name, Operation::Write))
        .collect();
    let of_load = parameters_of::<LoadOptions>().iter();
    let properties = of_load.chain(parameters_of::<CsvOptions>());
    let parameters = properties.map(|(name, property)| {
        let mut property = property.clone();
        let is_required = matches!(name.as_str(), "collections" | "name");
        match name.as_str() {
            "collections" => {
                property["minItems"] = 1.into();
                property["items"] = json!({ "enum": writable });
            }
            "name" => property["pattern"] = FILE_NAME.into(),
            "map" => property["items"]["pattern"] = "^.*=.*$".into(),
            "blobs" => property["enum"] = json!(BlobFormat::ALL.map(BlobFormat::as_str)),
            _ => {}
        }
        let mut parameter = parameters::in_query(name, property);
        if is_required {
            parameter["required"] = true.into();
        }
        parameter
    });
    load["parameters"] = parameters.collect::<Vec<_>>().into();
    load["requestBody"] = json!({ "required": true, "content": { "application/octet-stream": {} } });
    load
}

fn plan() -> Json {
    let mut plan = operation(
        "plan_schema",
        "What applying a schema would do",
        "Nothing is changed.",
    );
    plan["requestBody"] = json_body(reference("SchemaText"));
    let response = json_of("Plan", "What would be changed, run and refused.");
    plan["responses"] = of_operation(vec![("200", response)], &["413", "415"]);
    plan
}

fn apply() -> Json {
    let about = format!(
        "{RUNS_ON} The result has the `generation`, the `changes` that were made, what was `kept` as it is, and \
         the `misfits` that were allowed."
    );
    let mut apply = work(
        "apply_schema",
        "Make the store hold a schema",
        &about,
        &["413", "415"],
    );
    apply["requestBody"] = json_body(reference("SchemaText"));
    apply
}

fn cursor_keys() -> Json {
    let mut keys = operation(
        "list_cursor_keys",
        "Which keys page tokens are sealed with",
        "Never the keys themselves.",
    );
    let response = json_of("CursorKeys", "The keys, in the order they were made.");
    keys["responses"] = of_operation(vec![("200", response)], &[]);
    keys
}

fn rotate_cursor_keys() -> Json {
    let mut rotate = operation(
        "rotate_cursor_keys",
        "Seal page tokens with a new key",
        "Tokens of keys that are not kept are refused from then on.",
    );
    let mut body = of_body::<RotateRequest>(&["earlier"]);
    body["properties"]["earlier"]["maximum"] = recto::MAX_EARLIER_CURSOR_KEYS.into();
    rotate["requestBody"] = json_body(body);
    let response = json_of("CursorKeys", "The keys there are then.");
    rotate["responses"] = of_operation(vec![("200", response)], &["413", "415"]);
    rotate
}

//! `/v1/store`: maintenance of the store.
//!
//! Replies of long operations are lines of JSON (NDJSON): `{"progress": …}` at most about ten times
//! a second, and as the last line `{"result": …}` or `{"problem": …}`. A reply without such a last
//! line is incomplete. An error at the start is an ordinary problem reply.
//!
//! If the client disconnects:
//!
//! - Backups, compactions, checks and changes of the schema continue to their end.
//! - A load stops. It continues when the client sends the same file again.
//! - A comparison of views stops. It continues from the position in its last progress line.
//!
//! | module | holds |
//! |---|---|
//! | `telling` | lines of progress, and the result |
//! | `load` | upload and load of a file |
//! | `compare` | comparison of views with their records |
//! | `spool` | storage of an uploaded file and its rejected rows |

mod compare;
mod load;
mod spool;
mod telling;

use std::path::Path;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::Uri;
use axum::response::Response;
use recto::schema::Schema;
use recto::session::{CheckOutcome, StoreProgress, ViewProgress};
use recto::{ApplyOptions, Error, ErrorKind, Session};
use recto_api::store::{BackupRequest, CursorKeys, RotateRequest, SchemaRequest};
use serde_json::{Map, Value as Json, json};

use super::caller::Caller;
use super::request;
use super::{answer, body};
use crate::access::Right;
use crate::problem::Problem;
use crate::work::Running;
use recto::problem::ProblemType;

pub(super) use compare::{repair, verify};
pub(super) use load::load;
pub(super) use telling::{LatestProgress, run_on};

/// Maximum length of the name of a backup, in characters.
pub(crate) const MAX_BACKUP_NAME_CHARACTERS: usize = 100;

/// Handles `POST /v1/store:backup` with `{"name": "…"}`: writes a backup to a new folder `name`,
/// inside the folder that the operator configured.
pub(super) async fn backup(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let session = caller.store_session(Right::Backup)?;
    request::no_parameters(&uri)?;
    let BackupRequest { name } = body::read(request).await?.value()?;
    check_backup_name(&name)?;
    let folder = caller.upkeep().backup_folder.as_ref();
    let to = folder.ok_or_else(no_backup_folder)?.join(&name);
    let place = to.clone();
    let taken = tokio::task::spawn_blocking(move || is_taken(&place)).await;
    if taken.unwrap_or(false) {
        return Err(backup_exists(&name));
    }
    let running = caller.begin(Right::Backup)?;
    let told = LatestProgress::default();
    let tells = told.clone();
    let work = async move {
        let copied = async {
            session
                .tools()?
                .backup(&to, &|at| tells.tell(store_progress(at)))
                .await
        };
        let result = copied
            .await
            .map(|copy| json!({ "bytes": copy.bytes, "folder": copy.folder }));
        let ended = running.end(result);
        // Replace the server's path by the name of the backup, because the client knows only the
        // name.
        ended.map_err(|problem| problem.renamed(&to.display().to_string(), &name))
    };
    run_on(caller.upkeep(), told, work).await
}

/// Handles `POST /v1/store:compact`: returns unused space of the store's file to the file system.
pub(super) async fn compact(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let session = caller.store_session(Right::Compact)?;
    request::no_parameters(&uri)?;
    let running = caller.begin(Right::Compact)?;
    let told = LatestProgress::default();
    let tells = told.clone();
    let work = async move {
        let compacted = async {
            session
                .tools()?
                .compact(&|at| tells.tell(store_progress(at)))
                .await
        };
        let result = |(before, after)| json!({ "bytes_before": before, "bytes_after": after });
        running.end(compacted.await.map(result))
    };
    run_on(caller.upkeep(), told, work).await
}

/// Handles `POST /v1/store:check`: checks the store for damage.
pub(super) async fn check(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let session = caller.store_session(Right::Check)?;
    request::no_parameters(&uri)?;
    let running = caller.begin(Right::Check)?;
    let told = LatestProgress::default();
    let tells = told.clone();
    let work = async move {
        let checked = async { session.tools()?.check(&|at| tells.tell(store_progress(at))).await };
        running.end(checked.await.map(|outcome| check_json(&outcome)))
    };
    run_on(caller.upkeep(), told, work).await
}

/// Handles `POST /v1/store:plan` with
/// `{"toml": "…", "remove": ["…"], "rows_per_second": 20000, "allow_misfits": false}`: returns the
/// changes that `POST /v1/store:apply` with the same body would make.
pub(super) async fn plan(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let session = caller.store_session(Right::Apply)?;
    request::no_parameters(&uri)?;
    let (schema, options) = schema(body::read(request).await?.value()?)?;
    let plan = session.tools()?.plan(&schema, &options).await?;
    Ok(answer::json_once(&json!(plan)))
}

/// Handles `POST /v1/store:apply`, whose body is that of `store:plan`: changes the store to the
/// schema.
pub(super) async fn apply(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let session = caller.store_session(Right::Apply)?;
    request::no_parameters(&uri)?;
    let (schema, options) = schema(body::read(request).await?.value()?)?;
    let running = caller.begin(Right::Apply)?;
    let told = LatestProgress::default();
    let tells = told.clone();
    let work = async move {
        let tell = |at: ViewProgress| tells.tell(at.to_json());
        let applied = async { session.tools()?.apply(&schema, &options, &tell).await };
        running.end(applied.await.map(|applied| {
            json!({
                "generation": applied.generation,
                "changes": applied.changes,
                "kept": applied.kept,
                "misfits": applied.misfits,
            })
        }))
    };
    run_on(caller.upkeep(), told, work).await
}

/// Handles `GET /v1/store:commitLog`: returns the state of the commit log of an embedded store.
pub(super) async fn commit_log(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let session = caller.store_session(Right::Check)?;
    request::no_parameters(&uri)?;
    let Some(log) = session.tools()?.commit_log().await? else {
        let error = Error::new(ErrorKind::Unsupported, "only an embedded store has a commit log");
        return Err(error.into());
    };
    Ok(answer::json_once(&json!(log)))
}

/// Handles `GET /v1/store:cursorKeys`: lists the keys that encrypt page tokens, without their
/// secrets.
pub(super) async fn cursor_keys(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let session = caller.store_session(Right::CursorKeys)?;
    request::no_parameters(&uri)?;
    let keys = session.tools()?.cursor_keys().await?;
    Ok(answer::json_once(&json!(CursorKeys { keys })))
}

/// Handles `POST /v1/store:rotateCursorKeys` with `{"earlier": 3}`: adds a key that encrypts page
/// tokens. `earlier` is the number of previous keys that still decrypt page tokens.
pub(super) async fn rotate_cursor_keys(
    caller: Caller,
    uri: Uri,
    request: Request,
) -> Result<Response, Problem> {
    let session = caller.store_session(Right::CursorKeys)?;
    request::no_parameters(&uri)?;
    let RotateRequest { earlier } = body::read(request).await?.value()?;
    let keys = session.tools()?.rotate_cursor_keys(earlier).await?;
    Ok(answer::json_once(&json!(CursorKeys { keys })))
}

impl Caller {
    /// Begins a maintenance operation of the kind `right`. Fails if an operation of the kind is
    /// running.
    fn begin(&self, right: Right) -> Result<Running, Problem> {
        self.upkeep().begin(right, &self.access.name)
    }

    /// Returns a session for maintenance of the store. Fails if the token does not have the right.
    fn store_session(&self, right: Right) -> Result<Arc<dyn Session>, Problem> {
        if !self.access.allows_store(right) {
            return Err(Problem::forbidden_store(right));
        }
        self.access.session_over(self.app_session(), [])
    }
}

/// Checks the name of a backup: letters, digits, `-`, `_` and `.`, and no dot at the start.
fn check_backup_name(name: &str) -> Result<(), Problem> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty()
        || name.len() > MAX_BACKUP_NAME_CHARACTERS
        || name.starts_with('.')
        || !name.chars().all(fits)
    {
        let detail = "a backup through a server needs a name, and not a path: letters, digits, `-`, `_` and \
                      `.`";
        return Err(Problem::invalid_body(detail)
            .with_field("name")
            .with_hint("give only a name: the server's operator set the folder of backups"));
    }
    Ok(())
}

/// Returns whether a path exists and is not an empty folder, so that no backup can be written
/// there.
fn is_taken(path: &Path) -> bool {
    match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => path.exists(),
    }
}

fn backup_exists(name: &str) -> Problem {
    Problem::new(ProblemType::BackupExists, format!("backup {name} exists already"))
        .with_field("name")
        .with_hint("choose another name: a backup overwrites nothing")
}

fn no_backup_folder() -> Problem {
    let detail = "this server has no folder for backups";
    Problem::new(ProblemType::Forbidden, detail).with_hint(
        "ask the operator of the server to set a folder: recto serve --backup-folder FOLDER, or \
         backup_folder in its file",
    )
}

fn schema(request: SchemaRequest) -> Result<(Schema, ApplyOptions), Problem> {
    let schema = Schema::parse(&request.toml).map_err(|errors| {
        Problem::invalid_body(format!("the schema is invalid: {errors}")).with_field("toml")
    })?;
    let mut options = ApplyOptions::new();
    options.remove = request.remove;
    options.rows_per_second = request.rows_per_second;
    options.allow_misfits = request.allow_misfits;
    Ok((schema, options))
}

fn store_progress(at: StoreProgress) -> Json {
    let mut progress = Map::from_iter([("done".to_owned(), at.done.into())]);
    if let Some(total) = at.total {
        progress.insert("total".into(), total.into());
    }
    Json::Object(progress)
}

fn check_json(outcome: &CheckOutcome) -> Json {
    let collections = outcome.collections.iter();
    let collections: Vec<Json> = collections
        .map(|one| json!({ "name": one.name, "rows": one.rows }))
        .collect();
    json!({
        "rows": outcome.rows,
        "collections": collections,
        "internal_rows": outcome.internal_rows,
        "tables": outcome.tables,
        "problems": outcome.problems,
        "notes": outcome.notes,
    })
}

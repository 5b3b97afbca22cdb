//! Upload of a file to the server, and load of its rows.

use axum::extract::Request;
use axum::http::{Uri, header};
use axum::response::Response;
use recto::session::{CsvOptions, LoadProgress, LoadReport, LoadRequest, LoadedCollection};
use recto::{Error, ErrorKind, ErrorPart};
use recto_api::loads::LoadOptions;
use recto_api::parameters::names_of;
use serde_json::{Value as Json, json};

use super::spool::Spool;
use super::telling::{LatestProgress, OperationResult, while_heard};
use crate::access::Right;
use crate::api::caller::Caller;
use crate::api::request;
use crate::problem::Problem;
use recto::problem::ProblemType;

/// Handles `POST /v1/store:load`: loads the rows of the file in the body. The server first receives
/// the whole file, so that it stores nothing of a damaged file. Requests with equal file and
/// options are the same load, even from different clients, so a stopped load continues where it
/// ended.
pub(in crate::api) async fn load(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let known = [names_of::<LoadOptions>(), names_of::<CsvOptions>()].concat();
    let parameters = request::parameters(&uri, &known)?;
    let LoadOptions {
        collections,
        name,
        again,
        ignore_unknown,
    } = parameters.read()?;
    let csv = parameters.read()?;
    if collections.is_empty() {
        let detail = "collections must name the collections to load into, separated by commas";
        return Err(Problem::invalid_parameter("collections", detail));
    }
    if !caller.access.allows_store(Right::Load) {
        return Err(Problem::forbidden_store(Right::Load));
    }
    let needed = collections.iter().map(|name| (name.as_str(), Right::Write));
    let session = caller.access.session_over(caller.app_session(), needed)?;
    for name in &collections {
        caller.definition(name).await?;
    }
    recto::check_load_name(&name).map_err(|error| Problem::from(error).with_parameter("name"))?;
    if let Some(coding) = request.headers().get(header::CONTENT_ENCODING) {
        return Err(Problem::packed_body(&String::from_utf8_lossy(coding.as_bytes())));
    }
    let mut asked = LoadRequest {
        collections,
        csv,
        again,
        ignore_unknown,
        ..LoadRequest::default()
    };
    let running = caller.begin(Right::Load)?;
    let spool = Spool::receive(caller.upkeep(), &name, &asked, request.into_body()).await?;
    asked.file = spool.path().to_owned();
    let told = LatestProgress::default();
    let tells = told.clone();
    let work = async move {
        let load = async {
            session
                .tools()?
                .load(&asked, &|at| tells.tell(progress(at)))
                .await
        };
        let loaded = load.await;
        let unreadable = loaded
            .as_ref()
            .err()
            .filter(|error| is_of_file(error))
            .map(unreadable);
        let rejects = loaded.as_ref().ok().and_then(|report| report.rejects.clone());
        let done = running.end(loaded.map(|report| result(&report)));
        done.map(|result| OperationResult::from(result).with_rejects(rejects))
            .map_err(|problem| spool.name_in(unreadable.unwrap_or(problem)))
    };
    while_heard(caller.upkeep(), told, work).await
}

/// Returns whether the uploaded file cannot be read or decompressed. An error of the file of
/// rejected rows is the server's own.
fn is_of_file(error: &Error) -> bool {
    error.kind() == ErrorKind::Io && error.part() != Some(ErrorPart::Rejects)
}

fn unreadable(error: &Error) -> Problem {
    let problem = Problem::new(ProblemType::UnreadableFile, error.message());
    match error.hint() {
        Some(hint) => problem.with_hint(hint),
        None => problem,
    }
}

fn progress(at: LoadProgress) -> Json {
    json!({
        "rows_read": at.rows_read,
        "rows_stored": at.rows_stored,
        "rows_rejected": at.rows_rejected,
        "bytes_consumed": at.bytes_consumed,
        "bytes_total": at.bytes_total,
    })
}

fn result(report: &LoadReport) -> Json {
    let collections = report.collections.iter().map(LoadedCollection::to_json);
    let mut json = json!({
        "rows_read": report.rows_read,
        "rows_resumed": report.rows_resumed,
        "collections": collections.collect::<Vec<_>>(),
        "already_loaded": report.already_loaded,
    });
    // Report the format of the rejected rows as a file extension. It can differ from that of the
    // uploaded file, which may be an archive.
    let ending = report.rejects.as_ref().and_then(|path| path.extension());
    if let Some(ending) = ending {
        json["rejects"] = ending.to_string_lossy().into();
    }
    json
}

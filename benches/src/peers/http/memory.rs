//! Peer: HTTP server with the library axum that sends recorded responses from memory. It shows the
//! cost of HTTP without a database.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt as _;
use serde::{Deserialize, Serialize};

use super::server::Server;

/// Command-line argument with which this program runs as the server of recorded responses.
pub(crate) const WORD: &str = "serve-from-memory";

/// HTTP response that was recorded, with its request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Path and query of the request.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

type Answers = Arc<HashMap<String, (Vec<(HeaderName, HeaderValue)>, Bytes)>>;

/// Starts a process that serves the recorded responses `kept`. `folder` is for a file with the
/// responses.
pub(crate) fn start(folder: &Path, kept: &[Kept]) -> Result<Server, String> {
    let file = folder.join("answers.json");
    let text = serde_json::to_vec(kept).map_err(|error| error.to_string())?;
    fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    Server::announced(Command::new(program).arg(WORD).arg(&file))
}

/// Serves the recorded responses in `file` until the process is killed.
pub(crate) fn serve(file: &Path) -> Result<(), String> {
    let text = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let kept: Vec<Kept> = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let answers: Answers = Arc::new(kept.into_iter().map(answer).collect());
    // Create the runtime as the program `recto` does, so that both servers have the same number of
    // threads.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let served: std::io::Result<()> = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{}", listener.local_addr()?);
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        let router = Router::new().fallback(from_memory).with_state(answers);
        axum::serve(listener, router).await
    });
    served.map_err(|error| error.to_string())
}

fn answer(kept: Kept) -> (String, (Vec<(HeaderName, HeaderValue)>, Bytes)) {
    let headers = kept
        .headers
        .iter()
        .map(|(name, value)| {
            (
                name.parse().expect("a server sent it"),
                value.parse().expect("a server sent it"),
            )
        })
        .collect();
    (kept.target, (headers, Bytes::from(kept.body)))
}

async fn from_memory(State(answers): State<Answers>, uri: Uri) -> Response {
    let target = uri.path_and_query().map_or("", |target| target.as_str());
    let Some((headers, body)) = answers.get(target) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let mut response = Response::new(body.clone().into());
    for (name, value) in headers {
        response.headers_mut().append(name.clone(), value.clone());
    }
    response
}

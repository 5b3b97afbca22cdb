//! Server for tools that test an API by its `OpenAPI` description. Its embedded store is in a
//! temporary folder, with the schema and some rows of the API's test suite. It prints its address
//! and serves until it is killed.
#![allow(clippy::print_stdout)]

use std::error::Error;

use axum::Extension;
use recto::schema::Schema;
use recto::session::{Action, QueueSettings, RecordChange, Records};
use recto::{LocalSession, OpenOptions, Recto, Session as _, StoreAddress};
use recto_server::access::Access;
use recto_server::{App, router};
use serde_json::json;
use tokio::net::TcpListener;

const SCHEMA: &str = include_str!("../tests/http/api/schema.toml");
/// Collection of records with versions, in addition to those of the test suite. It has no views,
/// because a tool that generates random requests could request a comparison of views at one row a
/// second.
const VERSIONED: &str = r#"
[collection.users]
fields = { id = "int", status = "text", note = "text" }
key = ["id"]
"#;
const ROWS: i32 = 200;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let address = StoreAddress::Embedded(folder.path().join("suite"));
    let recto = Recto::open_with(&address, OpenOptions::new().create()).await?;
    recto
        .apply(&Schema::parse(&format!("{SCHEMA}{VERSIONED}"))?)
        .await?;
    let session = LocalSession::new(recto);
    let row = |at: i32| {
        let record =
            json!({ "tenant": "acme", "at": at, "id": at.to_string(), "title": format!("note {at}") });
        RecordChange::new(
            "notes",
            Action::put(record.as_object().cloned().unwrap_or_default()),
        )
    };
    session.write((0..ROWS).map(row).collect()).await?;
    let user = |id: i32| {
        let record =
            json!({ "id": id, "status": format!("status {}", id % 3), "note": format!("note {id}") });
        RecordChange::new(
            "users",
            Action::put(record.as_object().cloned().unwrap_or_default()),
        )
    };
    session.write((0..ROWS).map(user).collect()).await?;
    session
        .queues()?
        .create_queue("jobs", &QueueSettings::default())
        .await?;
    session.queues()?.begin_unit("jobs", "night").await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(
        listener,
        router(App::new(session)).layer(Extension(Access::all())),
    )
    .await?;
    Ok(())
}

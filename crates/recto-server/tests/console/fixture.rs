//! Fixture of the console's tests: a store with records, and a client of the console.

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use axum::{Extension, Router};
use recto::schema::Schema;
use recto::session::Records as _;
use recto::{CassandraAddress, Environment, LocalSession, OpenOptions, Recto, StoreAddress};
use recto_cassandra::{CassandraConfig, drop_keyspace};
use recto_server::access::Access;
use recto_server::{App, router};
use recto_testkit::rig::{Cluster, unique_keyspace};
use serde_json::{Value as Json, json};
use tower_service::Service as _;

/// Four collections:
///
/// * an append-only collection with pages by carrier
/// * an empty collection with the same fields and pages by destination
/// * a collection whose records are replaced
/// * a collection with versions and a view
const SCHEMA: &str = r#"
[collection.flights]
fields = { carrier = "text", time_hour = "timestamp", flight = "int", dest = "text", dep_delay = "smallint", remark = "text" }
key = ["time_hour", "carrier", "flight"]
partition = ["carrier"]
order = ["-time_hour"]
writes = "append"

[collection.flights_by_dest]
fields = { carrier = "text", time_hour = "timestamp", flight = "int", dest = "text", dep_delay = "smallint", remark = "text" }
key = ["dest", "time_hour", "carrier", "flight"]
partition = ["dest"]
order = ["-time_hour"]
writes = "append"

[collection.places]
fields = { country = "text", name = "text", population = "bigint", capital = "boolean", founded = "date", updated = "timestamp", area = "double", tags = "list<text>", remark = "text" }
key = ["country", "name"]
partition = ["country"]
order = ["name"]
writes = "overwrite"

[collection.people]
fields = { id = "bigint", city = "text", name = "text", age = "int", note = "text" }
key = ["id"]

[collection.people.view.by_city]
partition = ["city"]
order = ["name"]
fields = ["age"]

[collection.people.view.by_age]
partition = ["city"]
order = ["-age"]
"#;

/// Maximum size of a page of the console that the client reads, in bytes.
const MAX_PAGE_BYTES: usize = 4 << 20;
pub(crate) const FLIGHTS: usize = 1_000;

/// Number of flights that are written in one batch, because a logged batch of Cassandra has at most
/// 50 KiB.
const FLIGHTS_AT_ONCE: usize = 100;

/// Open store with records. Dropping the fixture removes the store.
pub(crate) struct Fixture {
    pub(crate) session: LocalSession,
    _place: Place,
}

/// Location of the store, whose drop removes the store.
enum Place {
    Folder(#[allow(dead_code, reason = "removed when dropped")] tempfile::TempDir),
    Keyspace(String),
}

impl Drop for Place {
    fn drop(&mut self) {
        let Self::Keyspace(name) = self else { return };
        let cassandra = Cluster::shared().expect("a keyspace was made, so there is a Cassandra");
        let config = CassandraConfig::new([cassandra.address()], name.clone());
        // Drop the keyspace on a runtime in another thread: the test's own runtime may be shutting
        // down.
        let dropped = std::thread::spawn(|| {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(drop_keyspace(config, Environment::system()))
        });
        let _ = dropped.join();
    }
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = StoreAddress::Embedded(folder.path().join("store"));
        Self::at(&address, Place::Folder(folder)).await
    }

    /// Creates the fixture on Cassandra, in its own keyspace.
    pub(crate) async fn on_cassandra() -> Self {
        let cassandra = Cluster::shared().expect("tests need a Cassandra");
        let keyspace = unique_keyspace("recto_console");
        let address = CassandraAddress::new(vec![cassandra.address().to_owned()], keyspace.clone());
        Self::at(
            &StoreAddress::Cassandra(Box::new(address)),
            Place::Keyspace(keyspace),
        )
        .await
    }

    async fn at(address: &StoreAddress, place: Place) -> Self {
        let recto = Recto::open_with(address, OpenOptions::new().create())
            .await
            .unwrap();
        recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
        let session = LocalSession::new(recto);
        for carrier in ["AA", "UA"] {
            let flights: Vec<_> = (0..FLIGHTS).map(|number| flight(carrier, number)).collect();
            for some in flights.chunks(FLIGHTS_AT_ONCE) {
                session.put("flights", some.to_vec(), None).await.unwrap();
            }
        }
        session.put("places", places(), None).await.unwrap();
        session.put("people", people(), None).await.unwrap();
        Self {
            session,
            _place: place,
        }
    }

    pub(crate) fn client(&self, access: Access) -> Client {
        Client {
            router: router(App::new(self.session.clone())).layer(Extension(access)),
        }
    }
}

fn object(json: Json) -> recto::session::JsonRecord {
    match json {
        Json::Object(record) => record,
        other => panic!("{other} is no record"),
    }
}

fn flight(carrier: &str, number: usize) -> recto::session::JsonRecord {
    let (day, hour) = (1 + number / 24 % 28, number % 24);
    let month = 1 + number / (24 * 28);
    let mut record = object(json!({
        "carrier": carrier,
        "time_hour": format!("2013-{month:02}-{day:02}T{hour:02}:00:00.000Z"),
        "flight": number * 7 % 5_000,
        "dest": (["LAX", "SFO", "ORD"][number % 3]),
        "remark": "A remark that is longer than a column is wide, so that it is cut and can be read in a tooltip",
    }));
    if !number.is_multiple_of(5) {
        record.insert("dep_delay".into(), json!(number % 90));
    }
    record
}

fn places() -> Vec<recto::session::JsonRecord> {
    vec![
        object(json!({
            "country": "CH", "name": "Bern", "population": "133883", "capital": true, "founded": "1191-01-01",
            "updated": "2024-02-29T12:30:15.250Z", "area": 51.6, "tags": ["river", "bears"], "remark": "on the Aare\nand <b>old</b>",
        })),
        object(json!({ "country": "CH", "name": "Zürich & \"more\"", "remark": "" })),
        object(json!({ "country": "CH", "name": "Control", "remark": "a\u{1}b" })),
    ]
}

/// Returns people of two cities. Some of them have no age.
fn people() -> Vec<recto::session::JsonRecord> {
    let names = ["Ada", "Bob", "Cleo", "Dan", "Eve"].into_iter().zip(1..);
    let people = names.map(|(name, id)| {
        let city = if id % 2 == 0 { "Genf" } else { "Bern" };
        let mut person =
            object(json!({ "id": id, "city": city, "name": name, "note": format!("of {city}") }));
        if id < 4 {
            person.insert("age".into(), json!(30 + id));
        }
        person
    });
    people.collect()
}

/// Client of the console that behaves like a browser without scripts.
pub(crate) struct Client {
    router: Router,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) location: Option<String>,
    pub(crate) html: String,
}

impl Client {
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    /// Sends a form, whose fields are already percent-encoded.
    pub(crate) async fn post(&self, path: &str, form: &str) -> Answer {
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.send(request.body(Body::from(form.to_owned())).unwrap())
            .await
    }

    /// Sends JSON to the API of the same server.
    pub(crate) async fn post_json(&self, path: &str, body: &Json) -> Answer {
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap())
            .await
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let answer = self.router.clone().call(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let location = parts.headers.get(header::LOCATION);
        Answer {
            status: parts.status,
            location: location.map(|location| location.to_str().unwrap().to_owned()),
            html: String::from_utf8(to_bytes(body, MAX_PAGE_BYTES).await.unwrap().to_vec()).unwrap(),
        }
    }

    /// Follows the link whose HTML tag contains `mark`.
    pub(crate) async fn follow(&self, answer: &Answer, mark: &str) -> Answer {
        let href = answer.href(mark);
        self.get(&href).await
    }
}

impl Answer {
    /// Returns the address of the link whose HTML tag contains `mark`.
    pub(crate) fn href(&self, mark: &str) -> String {
        let tag = self
            .html
            .split('<')
            .find(|tag| tag.starts_with("a ") && tag.contains(mark));
        let tag = tag.unwrap_or_else(|| panic!("no link with {mark} in\n{}", self.html));
        let href = tag.split("href=\"").nth(1).unwrap().split('"').next().unwrap();
        href.replace("&amp;", "&")
    }

    /// Returns the texts of all cells of a table, by row.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let body = self.html.split("<tbody>").nth(1).unwrap_or_default();
        let body = body.split("</tbody>").next().unwrap();
        let cell = |cell: &str| {
            let cell = cell
                .split_once('>')
                .map_or("", |(_, rest)| rest)
                .split("</td>")
                .next()
                .unwrap();
            without_tags(cell)
        };
        body.split("<tr>")
            .skip(1)
            .map(|row| row.split("<td").skip(1).map(cell).collect())
            .collect()
    }

    /// Returns the main part of the page, one HTML tag per line, without parts that differ between
    /// runs.
    pub(crate) fn main(&self) -> String {
        let main = self
            .html
            .split("<main")
            .nth(1)
            .unwrap()
            .split("</main>")
            .next()
            .unwrap();
        let main = main.replace("><", ">\n<");
        let main = masked(&main, "page_token=", |next| next == '&' || next == '"');
        let main = masked(&main, "<span class=\"time\">", |next| next == '<');
        let main = masked(&main, "name=\"seen\" value=\"", |next| next == '"');
        masked(&main, "requests, ", |next| next == '<')
    }
}

fn masked(text: &str, after: &str, ends: impl Fn(char) -> bool) -> String {
    let mut parts = text.split(after);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(after);
        out.push('…');
        out.push_str(part.find(&ends).map_or("", |end| &part[end..]));
    }
    out
}

fn without_tags(html: &str) -> String {
    html.split('<')
        .map(|part| part.split_once('>').map_or(part, |(_, text)| text))
        .collect()
}

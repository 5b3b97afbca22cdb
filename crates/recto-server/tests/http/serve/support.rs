//! Helpers of the server's tests: a store, a server over it, and a client that sends bytes
//! unchanged.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use recto::schema::Schema;
use recto::session::{JsonRecord, Records as _};
use recto::{Environment, LocalSession, OpenOptions, Recto, StoreAddress};
use recto_server::auth::{TokenFile, parse_grants};
use recto_server::{Config, ServeError, Server};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const SCHEMA: &str = r#"
[collection.orders]
fields = { tenant = "text", id = "int", total = "double", note = "text" }
key = ["tenant", "id"]
partition = ["tenant"]
order = ["id"]
writes = "overwrite"

[collection.secrets]
fields = { id = "int", note = "text" }
key = ["id"]
partition = ["id"]
writes = "overwrite"
"#;

/// Maximum time that a test waits for an event.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const ORDERS: i32 = 10;

/// Running server of a test. Dropping the value shuts it down.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) session: LocalSession,
    pub(crate) folder: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<Result<(), ServeError>>>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    fn parse(text: &str) -> Self {
        let (head, body) = text
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self {
            status,
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(one, _)| *one == name).map(|(_, value)| value)
    }

    /// Returns the response's body as JSON. The body must not be chunked.
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// Opens a new store with orders of two tenants, and a secret.
pub(crate) async fn store(folder: &tempfile::TempDir) -> LocalSession {
    let address: StoreAddress = folder.path().join("store").to_str().unwrap().parse().unwrap();
    store_at(&address).await
}

/// Opens a store with the records of [`store`] at an address.
pub(crate) async fn store_at(address: &StoreAddress) -> LocalSession {
    let recto = Recto::open_with(address, OpenOptions::new().create())
        .await
        .unwrap();
    recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
    let session = LocalSession::new(recto);
    for tenant in ["acme", "umbrella"] {
        let orders = (0..ORDERS).map(|id| {
            let order = json!({ "tenant": tenant, "id": id, "total": 1.5, "note": format!("of {tenant}") });
            order.as_object().unwrap().clone()
        });
        fill(&session, "orders", orders.collect()).await;
    }
    let secret = json!({ "id": 1, "note": "hidden" });
    fill(&session, "secrets", vec![secret.as_object().unwrap().clone()]).await;
    session
}

/// Puts records. Retries, because a store with a short time limit may need several attempts on a
/// busy machine.
async fn fill(session: &LocalSession, collection: &str, records: Vec<JsonRecord>) {
    let began = Instant::now();
    while let Err(error) = session.put(collection, records.clone(), None).await {
        assert!(began.elapsed() < PATIENCE, "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Starts a server without tokens, on a free port of the loopback address.
pub(crate) async fn serve(change: impl FnOnce(&mut Config)) -> Served {
    let folder = tempfile::tempdir().unwrap();
    start(folder, change).await
}

/// Starts a server with one token for each grant. Returns the texts of the tokens, too.
pub(crate) async fn serve_with_tokens(grants: &[&str]) -> (Served, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    let texts = grants
        .iter()
        .map(|grant| make_token(&path, grant, None))
        .collect();
    let served = start(folder, |config| config.tokens = Some(path)).await;
    (served, texts)
}

pub(crate) fn make_token(path: &std::path::Path, grants: &str, lifetime_seconds: Option<i64>) -> String {
    let grants: BTreeMap<_, _> = parse_grants(grants.split("; ")).unwrap();
    let environment = Environment::system();
    let (text, _) = TokenFile::create(path, &environment, "tester", lifetime_seconds, grants).unwrap();
    text.reveal()
}

async fn start(folder: tempfile::TempDir, change: impl FnOnce(&mut Config)) -> Served {
    let session = store(&folder).await;
    serve_store(session, folder, change).await
}

/// Starts a server over an open store. The server removes the folder at its end.
pub(crate) async fn serve_store(
    session: LocalSession,
    folder: tempfile::TempDir,
    change: impl FnOnce(&mut Config),
) -> Served {
    let mut config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        load_folder: Some(folder.path().join("loads")),
        ..Config::default()
    };
    change(&mut config);
    let server = Server::bind(session.clone(), &config).await.unwrap();
    let address = server.address();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    Served {
        address,
        session,
        folder,
        stop: Some(stop),
        task: Some(task),
    }
}

impl Served {
    /// Stops the server, and starts another one over the same store and folder.
    pub(crate) async fn again(mut self, change: impl FnOnce(&mut Config)) -> Self {
        self.tell();
        self.ended().await.unwrap();
        serve_store(self.session, self.folder, change).await
    }

    pub(crate) fn tokens(&self) -> PathBuf {
        self.folder.path().join("tokens.toml")
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes on a new connection, and reads until the connection ends.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Reply {
        Reply::parse(&self.exchange(bytes).await)
    }

    /// Sends bytes on a new connection. Returns the text that the server sends until the connection ends.
    async fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        // Ignore an error: a server that rejects early may close the connection before it gets all
        // bytes.
        let _ = stream.write_all(bytes).await;
        read_to_end(&mut stream).await
    }

    /// Sends a request with the given header lines.
    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Reply {
        let host = if headers.iter().any(|line| line.starts_with("Host:")) {
            String::new()
        } else {
            format!("Host: localhost:{}\r\n", self.address.port())
        };
        let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let length = body.len();
        let text = format!(
            "{method} {path} HTTP/1.1\r\n{host}{headers}Content-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        );
        self.send(text.as_bytes()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[], "").await
    }

    /// Sends a request with an access token.
    pub(crate) async fn with(&self, token: &str, method: &str, path: &str, body: &str) -> Reply {
        self.ask(method, path, &[&format!("Authorization: Bearer {token}")], body)
            .await
    }

    /// Returns the value of a metric; 0 if there is none. `/metrics` must be open to everybody. Asks
    /// again if the server closes the connection without a response: on a busy machine, the request
    /// may exceed the short time limits of a test.
    pub(crate) async fn metric(&self, line: &str) -> f64 {
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let answer = async {
            loop {
                let answer = self.exchange(request).await;
                if !answer.is_empty() {
                    return Reply::parse(&answer).body;
                }
            }
        };
        let text = tokio::time::timeout(PATIENCE, answer).await.expect("an answer");
        let value = text
            .lines()
            .find_map(|one| one.strip_prefix(line)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Stops the server, and returns the result of its run.
    pub(crate) async fn stop(mut self) -> Result<(), ServeError> {
        self.tell();
        self.ended().await
    }

    /// Tells the server to shut down.
    pub(crate) fn tell(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    /// Waits until the server has ended, and returns the result of its run.
    pub(crate) async fn ended(&mut self) -> Result<(), ServeError> {
        let task = self.task.take().unwrap();
        tokio::time::timeout(PATIENCE, task).await.unwrap().unwrap()
    }
}

/// Reads until the server closes the connection. Returns the bytes before an error, if one occurs.
pub(crate) async fn read_to_end(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let read = async {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            bytes.extend_from_slice(&buffer[..count]);
        }
    };
    tokio::time::timeout(PATIENCE, read)
        .await
        .expect("the server closes");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads one response that has a `Content-Length`, and leaves the connection open.
pub(crate) async fn read_reply(stream: &mut TcpStream) -> Reply {
    let mut bytes = Vec::new();
    let read = async {
        loop {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if text.contains("\r\n\r\n") {
                let reply = Reply::parse(&text);
                let length: usize = reply.header("content-length").unwrap().parse().unwrap();
                if reply.body.len() >= length {
                    return reply;
                }
            }
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).await.unwrap();
            assert!(count > 0, "closed after {text:?}");
            bytes.extend_from_slice(&buffer[..count]);
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("an answer")
}

/// Waits until `holds` returns true. `what` describes the condition for the error.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait)
        .await
        .unwrap_or_else(|_| panic!("{what}"));
}

/// Approximate number of bytes that [`put_large_orders`] writes.
pub(crate) const LARGE_BYTES: usize = 400 * 60_000;

/// Writes more orders than the buffers of a connection hold, so that an export that nobody reads
/// stalls.
pub(crate) async fn put_large_orders(served: &Served) {
    let note = "x".repeat(60_000);
    for batch in 0..40 {
        let records = (0..10).map(|id| {
            let record = json!({ "tenant": "large", "id": batch * 10 + id, "note": note });
            record.as_object().unwrap().clone()
        });
        let records = records.collect();
        served.session.put("orders", records, None).await.unwrap();
    }
}

/// Starts an export, and stops reading when its first bytes arrive.
pub(crate) async fn begin_export(served: &Served, token: &str) -> TcpStream {
    let mut stream = served.connect().await;
    let head = format!(
        "GET /v1/collections/orders/records:export HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.readable().await.unwrap();
    stream
}

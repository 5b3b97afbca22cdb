//! Test of the TLS parameters of a store's address, with a real Cassandra node that also requires
//! certificates of clients.

use std::path::Path;

use recto::schema::Schema;
use recto::{DynamicRecord, Error, ErrorKind, OpenOptions, Recto, Value};
use recto_testkit::rig::certificates::{Authority, Certificate, client_encryption};
use recto_testkit::rig::{Cluster, ClusterOptions, Nodes};

const SCHEMA: &str = r#"
[collection.events]
fields = { day = "date", number = "int" }
key = ["day", "number"]
partition = ["day"]
order = ["-number"]
writes = "append"
"#;
const ROWS: i32 = 95;
const PAGE_ROWS: u32 = 10;
/// Number of attempts to connect to a node that rejects the client.
const ATTEMPTS: usize = 10;

async fn open(address: &str) -> recto::Result<Recto> {
    Recto::open_with(address, OpenOptions::new().create()).await
}

/// Percent-encodes those characters of a path that have a meaning in an address.
fn value(path: &Path) -> String {
    let path = path.to_str().unwrap();
    path.replace('%', "%25").replace('&', "%26").replace('@', "%40")
}

fn with_client(address: &str, client: &Certificate) -> String {
    let (certificate, key) = (value(&client.certificate), value(&client.key));
    format!("{address}&tls_certificate={certificate}&tls_key={key}")
}

async fn refused(address: &str) -> Error {
    let error = open(address).await.expect_err("it must be refused");
    println!("{error:?}");
    assert!(error.hint().is_some(), "{error:?}");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn the_parameters_of_an_address_make_the_handshake() {
    // The name of this folder has characters that must be encoded in an address.
    let dir = tempfile::Builder::new().prefix("tls & 100%").tempdir().unwrap();
    let authority = Authority::new("nodes", dir.path()).unwrap();
    let clients = Authority::new("clients", dir.path()).unwrap();
    // The certificate must name every address that the node may get.
    let names: Vec<String> = (1..100).map(|block| format!("127.0.{block}.1")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let keystore = authority.issue("node", &names).unwrap();
    let encryption = client_encryption(&keystore, Some(&clients));
    let options = ClusterOptions::new(Nodes::One)
        .heap("512M")
        .setting("client_encryption_options", &encryption)
        .encrypted();
    let cluster = Cluster::start_with(&options, dir.path().join("cluster")).unwrap();
    let plain = format!(
        "cassandra://{}/secured?connect_timeout_ms=20000",
        cluster.node(1).address()
    );
    let tls = format!("{plain}&tls=true&tls_ca={}", value(authority.file()));

    let error = refused(&plain).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.hint().unwrap().contains("tls=true"), "{error:?}");
    let error = refused(&format!("{plain}&tls=true")).await;
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "no authorities");
    let error = refused(&format!(
        "{plain}&tls_ca={}",
        value(&dir.path().join("absent.pem"))
    ))
    .await;
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("absent.pem"), "{error:?}");

    // The node may end the connection at different moments of the handshake. Repeat the attempt,
    // because the error must always be the same.
    for _ in 0..ATTEMPTS {
        let error = refused(&tls).await;
        assert_eq!(
            error.kind(),
            ErrorKind::Unauthorized,
            "no certificate of a client"
        );
        assert!(error.hint().unwrap().contains("tls_certificate"), "{error:?}");
    }
    let foreign = authority.issue("foreign", &["me.example"]).unwrap();
    let error = refused(&with_client(&tls, &foreign)).await;
    assert_eq!(
        error.kind(),
        ErrorKind::Unauthorized,
        "one that the node does not trust"
    );
    let client = clients.issue("client", &["me.example"]).unwrap();
    let error = refused(&format!("{tls}&tls_certificate={}", value(&client.certificate))).await;
    assert_eq!(
        error.kind(),
        ErrorKind::InvalidArgument,
        "a certificate without its key"
    );
    let mixed = Certificate {
        key: foreign.key,
        ..client.clone()
    };
    let error = refused(&with_client(&tls, &mixed)).await;
    assert_eq!(
        error.kind(),
        ErrorKind::InvalidArgument,
        "a key of another certificate"
    );

    let recto = open(&with_client(&tls, &client)).await.unwrap();
    recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
    page_through(&recto).await;
}

/// Stores rows, and reads pages of them in both directions.
async fn page_through(recto: &Recto) {
    let events = recto.dynamic("events").unwrap();
    let schema = recto.schema();
    let definition = schema.collection("events").unwrap();
    let records: Vec<DynamicRecord> = (0..ROWS)
        .map(|number| {
            let mut record = DynamicRecord::new(std::sync::Arc::clone(definition));
            record.set("day", Some(Value::Date(15_706))).unwrap();
            record.set("number", Some(Value::Int(number))).unwrap();
            record
        })
        .collect();
    events.put_all(&records).await.unwrap();
    let query = events.query().filter(r#"day = "2013-01-01""#);
    let mut found = Vec::new();
    let mut page = query.clone().first(PAGE_ROWS).await.unwrap();
    loop {
        found.extend_from_slice(page.items());
        let Some(cursor) = page.next_cursor() else { break };
        page = query.clone().first(PAGE_ROWS).after(cursor).await.unwrap();
    }
    assert!(found.iter().eq(records.iter().rev()));
    let last = query.clone().last(PAGE_ROWS).await.unwrap();
    assert_eq!(last.items(), &found[found.len() - PAGE_ROWS as usize..]);
    let before = query
        .last(PAGE_ROWS)
        .before(last.previous_cursor().unwrap())
        .await
        .unwrap();
    let end = found.len() - PAGE_ROWS as usize;
    assert_eq!(before.items(), &found[end - PAGE_ROWS as usize..end]);
}

//! Attached tables: those that are rejected, and values that only Cassandra has.

use futures::TryStreamExt as _;
use recto::session::{AttachRequest, PageRequest, Pages, ScanRequest};
use recto::{CassandraAddress, Environment, Error, ErrorKind, LocalSession, Recto, StoreAddress};
use recto_cassandra::CassandraConfig;
use recto_cassandra::testing::PlainCql;
use serde_json::json;

use crate::common::stores::{kind_of, parse};
use crate::common::{Fresh, Kind};

const SCHEMA: &str = r#"
[collection.users]
fields = { id = "int", name = "text" }
key = ["id"]

[collection.users.view.by_name]
partition = ["name"]
order = ["id"]

[collection.lines]
fields = { id = "int", name = "text" }
key = ["id"]
writes = "append"
"#;

fn request(table: &str, from: &CassandraAddress) -> AttachRequest {
    AttachRequest {
        table: format!("{}.{table}", from.keyspace).parse().unwrap(),
        from: from.clone(),
        name: None,
        views: Vec::new(),
    }
}

/// The address of a new store on Cassandra, whose keyspace is there.
async fn keyspace() -> CassandraAddress {
    let source = Fresh::named(Kind::Cassandra, "attached");
    source.open().await.close().await.unwrap();
    match source.address {
        StoreAddress::Cassandra(address) => *address,
        _ => unreachable!("the source is on Cassandra"),
    }
}

/// Tables of Recto hold deleted and expired records for some days.
pub(crate) async fn rejects_tables_of_recto(recto: Recto) {
    let source = Fresh::named(Kind::Cassandra, "attached");
    let users = source.open().await;
    users.apply(&parse(SCHEMA)).await.unwrap();
    let StoreAddress::Cassandra(from) = &source.address else {
        unreachable!("the source is on Cassandra")
    };
    let recto = Fresh::new(kind_of(&recto)).open().await;
    for table in ["users", "lines"] {
        let error = recto.attach(&request(table, from)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(
            error.to_string().contains("belongs to a collection of Recto"),
            "{error}"
        );
        assert!(error.hint().unwrap().contains(&from.keyspace), "{error:?}");
    }
    assert!(recto.schema().collections.is_empty());
}

/// Cassandra has values of no bytes of every type. Its drivers show null. In a key, such a value has no place that Recto
/// could name.
pub(crate) async fn reads_empty_values_as_null(recto: Recto) {
    let from = keyspace().await;
    let config = CassandraConfig::new(from.hosts.clone(), from.keyspace.clone());
    let cql = PlainCql::connect(config, Environment::system()).await.unwrap();
    let keyspace = &from.keyspace;
    let types = [
        "int",
        "bigint",
        "double",
        "boolean",
        "uuid",
        "timestamp",
        "inet",
        "decimal",
        "varint",
        "text",
    ];
    let columns: Vec<String> = types.iter().map(|ty| format!("v_{ty} {ty}")).collect();
    let mut statements = vec![format!(
        "CREATE TABLE {keyspace}.empties (p int, c int, {}, PRIMARY KEY (p, c))",
        columns.join(", ")
    )];
    statements.extend(types.iter().zip(0..).map(|(ty, c)| {
        format!("INSERT INTO {keyspace}.empties (p, c, v_{ty}) VALUES (1, {c}, blob_as_{ty}(0x))")
    }));
    statements.push(format!(
        "INSERT INTO {keyspace}.empties (p, c, v_int) VALUES (2, blob_as_int(0x), 1)"
    ));
    statements.push(format!(
        "INSERT INTO {keyspace}.empties (p, c, v_int) VALUES (2, 3, 1)"
    ));
    for text in &statements {
        cql.send(text)
            .await
            .unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    let recto = Fresh::new(kind_of(&recto)).open().await;
    recto.attach(&request("empties", &from)).await.unwrap();
    let session = LocalSession::new(recto);
    let page = |filter: &str| PageRequest {
        filter: filter.to_owned(),
        ..PageRequest::default()
    };

    let read = session.page("empties", &page("p = 1")).await.unwrap();
    assert_eq!(read.records.len(), types.len());
    for (record, ty) in read.records.iter().zip(types) {
        let value = record.get(&format!("v_{ty}")).filter(|value| !value.is_null());
        let expected = json!("");
        assert_eq!(value, (ty == "text").then_some(&expected), "{record:?}");
    }

    let error = session.page("empties", &page("p = 2")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("column c of its key"), "{error}");
    let passed = session.page("empties", &page("p = 2 AND c >= -2147483648")).await;
    assert_eq!(passed.unwrap().records.len(), 1);
    let scanned: Result<Vec<_>, Error> = session
        .scan("empties", &ScanRequest::default())
        .try_collect()
        .await;
    assert!(scanned.unwrap_err().to_string().contains("column c of its key"));
}

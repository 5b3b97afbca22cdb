//! Tests of attached tables (tables of other programs, which Recto only reads): tables that Recto
//! rejects, and values that only Cassandra can store.

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

/// Creates a keyspace in Cassandra, and returns its address.
async fn keyspace() -> CassandraAddress {
    let source = Fresh::named(Kind::Cassandra, "attached");
    source.open().await.close().await.unwrap();
    match source.address {
        StoreAddress::Cassandra(address) => *address,
        _ => unreachable!("the source is on Cassandra"),
    }
}

/// Checks that Recto rejects a table that belongs to another Recto store. Such a table contains
/// deleted and expired records for some days.
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

/// Checks that Recto reads a value of zero bytes as null, as drivers do, if its type is not a text.
/// If the value is in a key, Recto rejects the page, because the row has no position in Recto's
/// order.
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
        let (first, rest) = ty.split_at(1);
        let function = format!("blobAs{}{rest}", first.to_uppercase());
        format!("INSERT INTO {keyspace}.empties (p, c, v_{ty}) VALUES (1, {c}, {function}(0x))")
    }));
    statements.push(format!(
        "INSERT INTO {keyspace}.empties (p, c, v_int) VALUES (2, blobAsInt(0x), 1)"
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

/// Number of rows after the row with an empty key. It exceeds one step of a scan.
const ROWS_BEHIND: i32 = 1_005;

/// Checks that a filter can exclude a row with an empty key, and that the scan then returns every
/// row after it.
pub(crate) async fn scans_past_empty_keys(recto: Recto) {
    let from = keyspace().await;
    let config = CassandraConfig::new(from.hosts.clone(), from.keyspace.clone());
    let cql = PlainCql::connect(config, Environment::system()).await.unwrap();
    let keyspace = &from.keyspace;
    let mut statements = vec![
        format!("CREATE TABLE {keyspace}.passed (p int, q int, c int, PRIMARY KEY ((p, q), c))"),
        format!("INSERT INTO {keyspace}.passed (p, q, c) VALUES (1, 1, blobAsInt(0x))"),
        format!("INSERT INTO {keyspace}.passed (p, q, c) VALUES (2, blobAsInt(0x), 7)"),
    ];
    let rows: Vec<i32> = (0..ROWS_BEHIND).collect();
    for rows in rows.chunks(250) {
        let inserts = rows
            .iter()
            .map(|c| format!("INSERT INTO {keyspace}.passed (p, q, c) VALUES (1, 1, {c});"));
        let inserts: String = inserts.collect();
        statements.push(format!("BEGIN UNLOGGED BATCH {inserts} APPLY BATCH"));
    }
    for text in &statements {
        cql.send(text)
            .await
            .unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    let recto = Fresh::new(kind_of(&recto)).open().await;
    recto.attach(&request("passed", &from)).await.unwrap();
    let session = LocalSession::new(recto);
    let scan = async |filter: &str| -> Result<Vec<i64>, Error> {
        let request = ScanRequest {
            filter: filter.to_owned(),
            ..ScanRequest::default()
        };
        let steps: Vec<_> = session.scan("passed", &request).try_collect().await?;
        let records = steps.into_iter().flat_map(|step| step.records);
        let mut rows: Vec<i64> = records.map(|record| record["c"].as_i64().unwrap()).collect();
        rows.sort_unstable();
        Ok(rows)
    };
    let lowest = i32::MIN;
    let read = scan(&format!("q >= {lowest} AND c >= {lowest}")).await.unwrap();
    assert_eq!(read, (0..i64::from(ROWS_BEHIND)).collect::<Vec<_>>());
    let error = scan(&format!("c >= {lowest}")).await.unwrap_err();
    assert!(error.to_string().contains("column q of its key"), "{error}");
    // An empty value is less than all others, so a condition without a lower bound does not exclude
    // it. Recto must reject the scan.
    let error = scan(&format!("q >= {lowest} AND c <= 3")).await.unwrap_err();
    assert!(error.to_string().contains("column c of its key"), "{error}");
}

/// Checks how Recto reads elements of zero bytes inside other values. In a tuple, the element
/// becomes null. In a list, set or map, it causes an error that names the field.
pub(crate) async fn reads_empty_elements(recto: Recto) {
    let from = keyspace().await;
    let config = CassandraConfig::new(from.hosts.clone(), from.keyspace.clone());
    let cql = PlainCql::connect(config, Environment::system()).await.unwrap();
    let keyspace = &from.keyspace;
    let statements = [
        format!(
            "CREATE TABLE {keyspace}.elements (p int PRIMARY KEY, t tuple<int, text>, l list<int>, \
             s set<int>, m map<text, int>, lt list<frozen<tuple<int, text>>>)"
        ),
        format!("INSERT INTO {keyspace}.elements (p, t) VALUES (1, (blobAsInt(0x), 'a'))"),
        format!("INSERT INTO {keyspace}.elements (p, lt) VALUES (2, [(blobAsInt(0x), '')])"),
        format!("INSERT INTO {keyspace}.elements (p, l) VALUES (3, [1, blobAsInt(0x)])"),
        format!("INSERT INTO {keyspace}.elements (p, s) VALUES (4, {{blobAsInt(0x)}})"),
        format!("INSERT INTO {keyspace}.elements (p, m) VALUES (5, {{'a': blobAsInt(0x)}})"),
    ];
    for text in &statements {
        cql.send(text)
            .await
            .unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    let recto = Fresh::new(kind_of(&recto)).open().await;
    recto.attach(&request("elements", &from)).await.unwrap();
    let session = LocalSession::new(recto);
    let page = |p: i32, fields: &[&str]| PageRequest {
        filter: format!("p = {p}"),
        fields: fields.iter().map(|&field| field.to_owned()).collect(),
        ..PageRequest::default()
    };

    for (p, field, value) in [(1, "t", json!([null, "a"])), (2, "lt", json!([[null, ""]]))] {
        let read = session.page("elements", &page(p, &[])).await.unwrap();
        assert_eq!(read.records[0].get(field), Some(&value), "{read:?}");
    }
    for (p, field) in [(3, "l"), (4, "s"), (5, "m")] {
        let error = session.page("elements", &page(p, &[])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert_eq!(error.field(), Some(field), "{error}");
        let error = session.page_text("elements", &page(p, &[])).await.unwrap_err();
        assert_eq!(error.field(), Some(field), "{error}");
        let others = session.page("elements", &page(p, &["p"])).await.unwrap();
        assert_eq!(others.records.len(), 1);
    }
    let request = ScanRequest {
        fields: vec!["p".to_owned()],
        ..ScanRequest::default()
    };
    let steps: Vec<_> = session.scan("elements", &request).try_collect().await.unwrap();
    let records: usize = steps.iter().map(|step| step.records.len()).sum();
    assert_eq!(records, 5);
}

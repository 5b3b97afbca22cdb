//! Tests of stores on each release of Cassandra that Recto supports, from 4.0 to 6.0, and of the upgrade of a
//! cluster under a store.

use recto::schema::Schema;
use recto::session::{AttachRequest, VerifyRequest};
use recto::{
    CassandraAddress, Collection, DynamicRecord, Environment, ErrorKind, OpenOptions, Recto, StoreAddress,
};
use recto_cassandra::CassandraConfig;
use recto_cassandra::testing::PlainCql;
use recto_testkit::rig::{Cluster, ClusterOptions, Nodes, Version};
use serde_json::{Value as Json, json};

const SCHEMA: &str = r#"
[collection.orders]
fields = { id = "int", status = "text", created = "timestamp", email = "text" }
key = ["id"]
unique = [["email"]]
[collection.orders.view.by_status]
partition = ["status"]
order = ["-created"]
[collection.events]
fields = { day = "text", n = "int", note = "text" }
key = ["day", "n"]
partition = ["day"]
order = ["n"]
writes = "append"
bucket = { rows = 100 }
"#;
/// Schema with a field that the first schema does not have.
const EXTENDED: [&str; 2] = [r#"email = "text" }"#, r#"email = "text", note = "text" }"#];
const VECTORS: &str = r#"
[collection.images]
fields = { id = "int", embedding = "vector<float, 3>" }
key = ["id"]
"#;
const ORDERS: i64 = 40;
const EVENTS: i64 = 450;
const PAGE: u32 = 7;

/// Node of one release, and the address of a store on it.
struct Subject {
    cluster: Cluster,
    address: StoreAddress,
    _dir: tempfile::TempDir,
}

impl Subject {
    /// Starts a node as Cassandra configures it by default: it keeps a snapshot of each emptied table.
    fn start(version: Version) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let views = match version {
            Version::V4_0 => "enable_materialized_views",
            _ => "materialized_views_enabled",
        };
        let options = ClusterOptions::new(Nodes::One)
            .version(version)
            .heap("384M")
            .setting("auto_snapshot", "true")
            .setting(views, "true");
        let cluster = Cluster::start_with(&options, dir.path()).unwrap();
        let address = format!("cassandra://{}/shop", cluster.addresses()[0]);
        Self {
            cluster,
            address: address.parse().unwrap(),
            _dir: dir,
        }
    }

    async fn open(&self) -> Recto {
        Recto::open_with(&self.address, OpenOptions::new().create())
            .await
            .unwrap()
    }
}

fn schema(text: &str) -> Schema {
    Schema::parse(text).unwrap()
}

fn record(collection: &Collection<DynamicRecord>, json: Json) -> DynamicRecord {
    DynamicRecord::from_json(collection.definition(), json.as_object().unwrap()).unwrap()
}

/// Returns one field of each record of a query, read in pages in one direction.
async fn walk(collection: &Collection<DynamicRecord>, filter: &str, name: &str, forward: bool) -> Vec<Json> {
    let query = || collection.query().filter(filter);
    let mut page = if forward {
        query().first(PAGE)
    } else {
        query().last(PAGE)
    }
    .await
    .unwrap();
    let mut pages = Vec::new();
    loop {
        let items = page.items().iter();
        pages.push(
            items
                .map(|record| json!(record.to_json())[name].clone())
                .collect::<Vec<_>>(),
        );
        let next = if forward {
            page.next_cursor()
        } else {
            page.previous_cursor()
        };
        let Some(cursor) = next else { break };
        page = if forward {
            query().after(cursor).first(PAGE)
        } else {
            query().before(cursor).last(PAGE)
        }
        .await
        .unwrap();
    }
    if !forward {
        pages.reverse();
    }
    pages.into_iter().flatten().collect()
}

/// Uses collections with views, unique constraints and buckets as on every other store.
async fn check_collections(store: &Recto) {
    store.apply(&schema(SCHEMA)).await.unwrap();
    let orders = store.dynamic("orders").unwrap();
    for id in 0..ORDERS {
        let day = 1 + id % 28;
        let order = json!({
            "id": id, "status": "open", "created": format!("2026-01-{day:02}T00:00:00Z"), "email": format!("e{id}"),
        });
        orders.put(&record(&orders, order)).await.unwrap();
    }
    for id in 0..10 {
        orders.update(id).set("status", "closed").await.unwrap();
    }
    let taken = orders
        .put(&record(&orders, json!({ "id": 99, "email": "e3" })))
        .await;
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::Conflict);
    check_orders(store).await;
    let events = store.dynamic("events").unwrap();
    let all: Vec<_> = (0..EVENTS)
        .map(|n| {
            record(
                &events,
                json!({ "day": "monday", "n": n, "note": "x".repeat(50) }),
            )
        })
        .collect();
    for some in all.chunks(50) {
        events.put_all(some).await.unwrap();
    }
    check_events(store).await;
    check_verified(store).await;
}

async fn check_orders(store: &Recto) {
    let orders = store.dynamic("orders").unwrap();
    let mut open: Vec<i64> = (10..ORDERS).collect();
    open.sort_by_key(|id| (-(id % 28), *id));
    let open: Vec<Json> = open.into_iter().map(Json::from).collect();
    for forward in [true, false] {
        assert_eq!(
            walk(&orders, "status = \"open\"", "id", forward).await,
            open,
            "{forward}"
        );
    }
}

async fn check_events(store: &Recto) {
    let events = store.dynamic("events").unwrap();
    let all: Vec<Json> = (0..EVENTS).map(Json::from).collect();
    for forward in [true, false] {
        assert_eq!(
            walk(&events, "day = \"monday\"", "n", forward).await,
            all,
            "{forward}"
        );
    }
}

async fn check_verified(store: &Recto) {
    let verified = store.verify(&VerifyRequest::default(), &|_| {}).await.unwrap();
    assert_eq!(verified.wrong(), 0, "{verified:?}");
    assert_eq!(verified.views.len(), 2);
}

/// Adds a field by two processes at the same time.
async fn check_added_field(store: &Recto, other: &Recto) {
    let extended = schema(&SCHEMA.replace(EXTENDED[0], EXTENDED[1]));
    let (first, second) = tokio::join!(store.apply(&extended), other.apply(&extended));
    first.unwrap();
    second.unwrap();
    store.refresh().await.unwrap();
    let orders = store.dynamic("orders").unwrap();
    orders.update(20).set("note", "hello").await.unwrap();
    let order = orders.get(20).await.unwrap().unwrap();
    assert_eq!(order.to_json()["note"], "hello");
    check_orders(store).await;
}

/// Pages a table that plain CQL created.
async fn check_attached(subject: &Subject) {
    let host = subject.cluster.addresses()[0].clone();
    let config = CassandraConfig::new([host.clone()], "system");
    let cql = PlainCql::connect(config, Environment::system()).await.unwrap();
    for text in [
        "CREATE KEYSPACE plain WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE plain.posts (user_id int, post_id int, topic text, PRIMARY KEY (user_id, post_id))",
        "CREATE MATERIALIZED VIEW plain.posts_by_topic AS SELECT topic, user_id, post_id FROM plain.posts WHERE topic IS \
         NOT NULL AND user_id IS NOT NULL AND post_id IS NOT NULL PRIMARY KEY (topic, user_id, post_id)",
    ] {
        cql.send(text).await.unwrap();
    }
    for post in 0..20 {
        let values = format!("(1, {post}, 'topic {}')", post % 2);
        let text = format!("INSERT INTO plain.posts (user_id, post_id, topic) VALUES {values}");
        cql.send(&text).await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let store = Recto::open_with(folder.path().join("view"), OpenOptions::new().create());
    let store = store.await.unwrap();
    let request = AttachRequest {
        table: "plain.posts".parse().unwrap(),
        from: CassandraAddress::new(vec![host], "plain"),
        name: None,
        views: Vec::new(),
    };
    store.attach(&request).await.unwrap();
    let posts = store.dynamic("posts").unwrap();
    for forward in [true, false] {
        let all: Vec<Json> = (0..20).map(Json::from).collect();
        assert_eq!(walk(&posts, "user_id = 1", "post_id", forward).await, all);
        let even: Vec<Json> = (0..10).map(|post| Json::from(2 * post)).collect();
        assert_eq!(
            walk(&posts, "topic = \"topic 0\"", "post_id", forward).await,
            even
        );
    }
    store.close().await.unwrap();
}

/// Checks that what the release lacks is refused before anything changes, with the reason.
async fn check_lacks(store: &Recto, version: Version) {
    let status = store.cluster_status().unwrap();
    assert_eq!(status.versions, [version.number()]);
    let is_old = matches!(version, Version::V4_0 | Version::V4_1);
    assert_eq!(status.lacks.len(), if is_old { 2 } else { 0 }, "{status:?}");
    let generation = store.generation();
    let vectors = schema(&format!("{SCHEMA}{VECTORS}"));
    let planned = store.plan(&vectors).await;
    if !is_old {
        assert!(planned.unwrap().rejected.is_empty());
        return;
    }
    let applied = store.apply(&vectors).await;
    for error in [planned.unwrap_err(), applied.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Store, "the schema is right");
        assert!(error.to_string().contains("has no type vector"), "{error}");
    }
    let refused = store.queues().await.err();
    let refused = refused.expect("snapshots would keep each message");
    assert_eq!(refused.kind(), ErrorKind::Store);
    assert!(
        refused.hint().unwrap().contains("auto_snapshot: false"),
        "{refused:?}"
    );
    assert_eq!(store.generation(), generation);
}

async fn check_release(version: Version) {
    let subject = Subject::start(version);
    let store = subject.open().await;
    let plan = store.plan(&schema(SCHEMA)).await.unwrap();
    assert!(
        plan.notes[0].ends_with(", 5 after the change"),
        "{:?}",
        plan.notes
    );
    check_collections(&store).await;
    let other = subject.open().await;
    check_added_field(&store, &other).await;
    check_lacks(&store, version).await;
    check_attached(&subject).await;
    check_verified(&store).await;
    other.close().await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn collections_work_on_cassandra_4_1() {
    check_release(Version::V4_1).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: downloads Cassandra 4.0"]
async fn collections_work_on_cassandra_4_0() {
    check_release(Version::V4_0).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: downloads Cassandra 6.0"]
async fn collections_work_on_cassandra_6_0() {
    check_release(Version::V6_0).await;
}

/// Checks that a store continues after its node was upgraded, and that the store then uses what the newer
/// release has.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: starts a node three times"]
async fn a_store_survives_the_upgrade_from_4_1_to_5_0() {
    let mut subject = Subject::start(Version::V4_1);
    let store = subject.open().await;
    check_collections(&store).await;
    store.close().await.unwrap();
    subject.cluster.upgrade(Version::V5_0).unwrap();
    let store = subject.open().await;
    check_orders(&store).await;
    check_events(&store).await;
    check_verified(&store).await;
    let vectors = schema(&format!("{SCHEMA}{VECTORS}"));
    store.apply(&vectors).await.unwrap();
    let images = store.dynamic("images").unwrap();
    let image = record(&images, json!({ "id": 1, "embedding": [0.5, 1.0, 1.5] }));
    images.put(&image).await.unwrap();
    let queues = store.queues().await.unwrap();
    let jobs = queues
        .create("jobs", recto::queues::QueueOptions::default())
        .await
        .unwrap();
    jobs.send(recto::queues::NewMessage::new("one")).await.unwrap();
    store.close().await.unwrap();
}

//! Tests of attached tables: tables that plain CQL created, and that Recto only reads. Recto's user
//! has only the `SELECT` right in their keyspace. The tests use every feature of pages, and check
//! that Recto changes nothing in the keyspace. Their Cassandra node requires credentials and has
//! materialized views.

use std::sync::Arc;
use std::time::{Duration, Instant};

use recto::session::{AttachReport, AttachRequest, Pages as _, VerifyRequest};
use recto::store::Store;
use recto::store::memory::MemoryStore;
use recto::{
    ApplyOptions, CassandraAddress, Collection, DynamicRecord, Environment, ErrorKind, LocalSession,
    OpenOptions, PageQuery, Recto, Secret,
};
use recto_cassandra::CassandraConfig;
use recto_cassandra::testing::PlainCql;
use recto_testkit::rig::{Cluster, ClusterOptions, Nodes};
use serde_json::{Value as Json, json};

/// Initial user of a new Cassandra node. In the tests, the password of a user is its name.
const SUPERUSER: &str = "cassandra";
const READER: &str = "reader";
/// Maximum time until a started node accepts connections and has created its initial user.
const MADE: Duration = Duration::from_secs(90);
/// Maximum time until Recto's requests are affected by a changed right or a changed table.
const KNOWN: Duration = Duration::from_secs(30);

/// CQL statements that create tables for attachment, with materialized views, and a table that
/// Recto must reject.
const TABLES: [&str; 9] = [
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE shop.timeline (user_id int, post_id int, content text, likes set<text>, \"Hidden\" text, name text STATIC, \
     PRIMARY KEY (user_id, post_id)) WITH CLUSTERING ORDER BY (post_id DESC)",
    "CREATE TABLE shop.suspensions (user_id int PRIMARY KEY, status text, occurred_on timestamp, reason text)",
    "CREATE MATERIALIZED VIEW shop.suspensions_by_reason AS SELECT user_id, status, reason FROM shop.suspensions WHERE \
     reason IS NOT NULL AND user_id IS NOT NULL PRIMARY KEY (reason, user_id)",
    "CREATE MATERIALIZED VIEW shop.suspensions_of_three AS SELECT user_id, status, reason FROM shop.suspensions WHERE \
     reason IS NOT NULL AND user_id = 3 PRIMARY KEY (reason, user_id)",
    "CREATE TABLE shop.suspensions_by_status (status text, occurred_on timestamp, user_id int, reason text, PRIMARY KEY \
     (status, occurred_on, user_id)) WITH CLUSTERING ORDER BY (occurred_on DESC, user_id ASC)",
    "CREATE TABLE shop.hits (page text, day date, \"select\" int, count counter, PRIMARY KEY ((page), day, \"select\"))",
    "CREATE TABLE shop.prices (price decimal, id int, name text, PRIMARY KEY (price, id))",
    "CREATE ROLE reader WITH PASSWORD = 'reader' AND LOGIN = true",
];

/// Number of added partitions that have only static columns, and thus no rows. It is larger than
/// the number of partitions that one step of a listing examines.
const WITHOUT_POSTS: i32 = 1_100;

/// Returns the user and the post of each row of the table `timeline`.
fn posts() -> impl Iterator<Item = (i32, i32)> {
    (0..3).flat_map(|user| (0..40).map(move |post| (user, post)))
}

struct Shop {
    address: String,
    cql: PlainCql,
    folder: tempfile::TempDir,
    cluster: Cluster,
    _dir: tempfile::TempDir,
}

impl Shop {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = ClusterOptions::new(Nodes::One)
            .setting("authenticator", "PasswordAuthenticator")
            .setting("authorizer", "CassandraAuthorizer")
            .setting("permissions_validity", "100ms")
            .setting("materialized_views_enabled", "true");
        let cluster = Cluster::start_with(&options, dir.path()).unwrap();
        let address = cluster.addresses()[0].clone();
        let mut config = CassandraConfig::new([address.clone()], "system");
        (config.username, config.password) = (Some(SUPERUSER.to_owned()), Some(SUPERUSER.to_owned()));
        let begun = Instant::now();
        let cql = loop {
            match PlainCql::connect(config.clone(), Environment::system()).await {
                Ok(cql) => break cql,
                Err(error) => assert!(begun.elapsed() < MADE, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        let shop = Self {
            address,
            cql,
            folder: tempfile::tempdir().unwrap(),
            cluster,
            _dir: dir,
        };
        for text in TABLES {
            shop.send(text).await;
        }
        shop.send("GRANT SELECT ON KEYSPACE shop TO reader").await;
        shop.fill().await;
        shop
    }

    async fn send(&self, text: &str) {
        self.cql
            .send(text)
            .await
            .unwrap_or_else(|error| panic!("{error:?}"));
    }

    async fn fill(&self) {
        for (user, post) in posts() {
            self.send(&format!(
                "INSERT INTO shop.timeline (user_id, post_id, content, likes, name) VALUES ({user}, {post}, 'post {post}', \
                 {{'a', 'b{post}'}}, 'user {user}')"
            ))
            .await;
        }
        self.send("INSERT INTO shop.timeline (user_id, name) VALUES (9, 'who wrote nothing')")
            .await;
        for user in 0..60 {
            let (status, reason) = (
                if user % 3 == 0 { "open" } else { "closed" },
                if user % 2 == 0 { "spam" } else { "other" },
            );
            let day = 1 + user % 20;
            for table in ["suspensions", "suspensions_by_status"] {
                self.send(&format!(
                    "INSERT INTO shop.{table} (user_id, status, occurred_on, reason) VALUES ({user}, '{status}', \
                     '2026-01-{day:02}T00:00:00Z', '{reason}')"
                ))
                .await;
            }
        }
        for day in 1..10 {
            self.send(&format!(
                "UPDATE shop.hits SET count = count + {day} WHERE page = 'home' AND day = '2026-01-0{day}' AND \"select\" = 1"
            ))
            .await;
        }
    }

    fn options() -> OpenOptions {
        let options = OpenOptions::new().create();
        options
            .cassandra_parameter("username", READER)
            .cassandra_parameter("password", READER)
    }

    async fn open(&self) -> Recto {
        Recto::open_with(self.folder.path().join("view"), Self::options())
            .await
            .unwrap()
    }

    fn request(&self, table: &str) -> AttachRequest {
        let mut from = CassandraAddress::new(vec![self.address.clone()], "shop");
        (from.username, from.password) = (Some(READER.to_owned()), Some(Secret::new(READER)));
        AttachRequest {
            table: table.parse().unwrap(),
            from,
            name: None,
            views: Vec::new(),
        }
    }
}

fn left_out(report: &AttachReport) -> Vec<&str> {
    report.left_out.iter().map(|one| one.what.as_str()).collect()
}

/// Returns the values of one field of each record, in the order of the records.
fn field(records: &[DynamicRecord], name: &str) -> Vec<Json> {
    records
        .iter()
        .map(|record| json!(record.to_json())[name].clone())
        .collect()
}

/// Returns all records of a query, read with cursors in pages of `size` records. `forward` gives
/// the direction.
async fn walk(
    collection: &Collection<DynamicRecord>,
    filter: &str,
    size: u32,
    forward: bool,
) -> Vec<DynamicRecord> {
    walk_by(&collection.query().filter(filter), size, forward).await
}

async fn walk_by(query: &PageQuery<DynamicRecord>, size: u32, forward: bool) -> Vec<DynamicRecord> {
    let query = || query.clone();
    let mut page = if forward {
        query().first(size)
    } else {
        query().last(size)
    }
    .await
    .unwrap();
    let mut pages = Vec::new();
    loop {
        let next = if forward {
            page.next_cursor()
        } else {
            page.previous_cursor()
        };
        let is_end = if forward {
            page.has_next()
        } else {
            page.has_previous()
        } == Some(false);
        pages.push(page.into_items());
        let (Some(cursor), false) = (next, is_end) else {
            break;
        };
        page = if forward {
            query().first(size).after(cursor)
        } else {
            query().last(size).before(cursor)
        }
        .await
        .unwrap();
    }
    if !forward {
        pages.reverse();
    }
    pages.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_are_there() {
    let shop = Shop::start().await;
    let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'shop'";
    let before = shop.cql.first_column(tables).await.unwrap();
    timelines(&shop).await;
    suspensions(&shop).await;
    check_unusual_tables(&shop).await;
    nothing_is_written(&shop).await;
    cursors_survive(&shop).await;
    tables_change(&shop).await;
    rights_are_missing(&shop).await;
    the_cluster_is_away(&shop).await;
    forgotten(&shop).await;
    // The connections of the test itself recover a little later than the node, so try again.
    let begun = Instant::now();
    let after = loop {
        match shop.cql.first_column(tables).await {
            Ok(after) => break after,
            Err(error) => assert!(begun.elapsed() < MADE, "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert_eq!(after, before, "nothing was made, nothing dropped");
}

/// Checks pages of the table `timeline`, which has static columns and sets. The pages are read in
/// both directions, from a value, around a row, of merged partitions, and of ranges of tuples.
async fn timelines(shop: &Shop) {
    let store = shop.open().await;
    let report = store.attach(&shop.request("shop.timeline")).await.unwrap();
    assert_eq!(left_out(&report), ["column Hidden"]);
    assert_eq!(report.collection.base().to_string(), "(user_id), -post_id");
    assert!(!report.address.contains(READER), "{}", report.address);
    let timeline = store.dynamic("timeline").unwrap();
    let expected: Vec<Json> = (0..40).rev().map(Json::from).collect();
    for (size, forward) in [(7, true), (7, false), (40, true), (1_000, false)] {
        let walked = walk(&timeline, "user_id = 1", size, forward).await;
        assert_eq!(field(&walked, "post_id"), expected, "{size} {forward}");
        assert!(
            field(&walked, "name").iter().all(|name| name == "user 1"),
            "statics are read with each row"
        );
        assert_eq!(field(&walked, "likes")[0], json!(["a", "b39"]));
    }
    let merged = walk(&timeline, "user_id = 0 OR user_id = 2", 9, true).await;
    let pairs: Vec<(Json, Json)> = field(&merged, "post_id")
        .into_iter()
        .zip(field(&merged, "user_id"))
        .collect();
    let mut sorted = pairs.clone();
    sorted.sort_by_key(|(post, user)| (-post.as_i64().unwrap(), user.as_i64()));
    assert_eq!((pairs.len(), &pairs), (80, &sorted));
    let range = timeline
        .query()
        .filter("user_id = 1 AND post_id > 10 AND post_id <= 13")
        .first(10)
        .await
        .unwrap();
    assert_eq!(field(range.items(), "post_id"), [13, 12, 11].map(Json::from));
    let from = timeline
        .query()
        .filter("user_id = 1")
        .from([20])
        .first(2)
        .await
        .unwrap();
    assert_eq!(field(from.items(), "post_id"), [20, 19].map(Json::from));
    let around = timeline
        .query()
        .filter("user_id = 1")
        .around(from.cursor(0))
        .page_size(5)
        .await
        .unwrap();
    let found = field(around.items(), "post_id");
    assert!(
        found.contains(&json!(21)) && found.contains(&json!(20)) && found.contains(&json!(19)),
        "{found:?}"
    );
    let ascending = timeline
        .query()
        .filter("user_id = 1")
        .order_by("post_id")
        .first(2)
        .await
        .unwrap();
    assert_eq!(field(ascending.items(), "post_id"), [0, 1].map(Json::from));
    let budget = timeline
        .query()
        .filter("user_id = 1 AND content = \"post 3\"")
        .allow_filter_scan();
    let cut = budget.scan_budget(10).first(1).await.unwrap();
    assert!(cut.is_empty() && cut.stop().is_some() && cut.next_cursor().is_some());
    let refused = timeline
        .query()
        .filter("content = \"post 3\"")
        .first(1)
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoPlan, "{refused}");
    let one = timeline.get((1, 5)).await.unwrap().unwrap();
    assert_eq!(one.to_json()["content"], "post 5");
    let scanned = futures::TryStreamExt::try_collect::<Vec<_>>(timeline.scan().stream())
        .await
        .unwrap();
    assert_eq!(
        scanned.len(),
        posts().count(),
        "a partition of statics alone has no record"
    );
    partitions_of_statics(shop, store).await;
}

/// Checks that a listing of partitions leaves out partitions that have only static columns. There
/// are more of them than one step of the listing examines.
async fn partitions_of_statics(shop: &Shop, store: Recto) {
    for user in 1_000..1_000 + WITHOUT_POSTS {
        shop.send(&format!(
            "INSERT INTO shop.timeline (user_id, name) VALUES ({user}, 'silent')"
        ))
        .await;
    }
    let session = LocalSession::new(store.clone());
    let steps = session.partitions("timeline");
    let steps: Vec<_> = futures::TryStreamExt::try_collect::<Vec<_>>(steps).await.unwrap();
    let mut users: Vec<Json> = steps
        .into_iter()
        .flatten()
        .map(|one| one["user_id"].clone())
        .collect();
    users.sort_by_key(Json::as_i64);
    assert_eq!(users, [0, 1, 2].map(Json::from));
    store.close().await.unwrap();
}

/// Returns a query that explicitly uses the table `suspensions_by_status` as its view. Recto would
/// not choose this view itself, because it lacks records without a time.
fn of_status(held: &Collection<DynamicRecord>, filter: &str) -> PageQuery<DynamicRecord> {
    held.query().filter(filter).view("suspensions_by_status")
}

/// Checks queries that the table `suspensions` itself cannot serve. A materialized view serves some
/// of them. A plain table, which the request for attachment names as a view, serves the others.
async fn suspensions(shop: &Shop) {
    let store = shop.open().await;
    let mut request = shop.request("shop.suspensions");
    request.views = vec!["suspensions_by_status".to_owned()];
    request.name = Some("held".to_owned());
    let report = store.attach(&request).await.unwrap();
    assert_eq!(left_out(&report), ["view suspensions_of_three"]);
    let again = store.attach(&request).await.unwrap();
    assert_eq!((again.changes.len(), again.generation), (0, report.generation));
    let held = store.dynamic("held").unwrap();
    for forward in [true, false] {
        let open = walk_by(&of_status(&held, "status = \"open\""), 6, forward).await;
        let mut expected: Vec<(i64, i64)> = (0..60)
            .filter(|user| user % 3 == 0)
            .map(|user| (-(user % 20), user))
            .collect();
        expected.sort_unstable();
        let expected: Vec<Json> = expected.into_iter().map(|(_, user)| Json::from(user)).collect();
        assert_eq!(field(&open, "user_id"), expected);
        assert!(open.iter().all(|record| record.to_json()["reason"].is_string()));
    }
    let tuple = "status = \"open\" AND (occurred_on, user_id) < (\"2026-01-10T00:00:00Z\", 5)";
    let below = walk_by(&of_status(&held, tuple), 4, true).await;
    let expected = (0..60)
        .filter(|user| user % 3 == 0 && (user % 20 < 9 || user % 20 == 9 && *user < 5))
        .count();
    assert_eq!(below.len(), expected);
    // The materialized view does not have all fields, so Recto must read the missing field from the
    // table.
    let spam = walk(&held, "reason = \"spam\"", 8, true).await;
    assert_eq!(spam.len(), 30);
    assert!(
        spam.iter()
            .all(|record| record.to_json()["occurred_on"].is_string())
    );
    let explained = store.views().await.unwrap();
    assert!(
        explained.iter().all(|view| view.state == "ready"),
        "{explained:?}"
    );
    let verified = store.verify(&VerifyRequest::default(), &|_| {}).await.unwrap();
    assert!(
        verified.views.is_empty() && verified.left_out.len() == 2,
        "{verified:?}"
    );
    let asked = VerifyRequest {
        collections: vec!["held".to_owned()],
        ..VerifyRequest::default()
    };
    let refused = store.verify(&asked, &|_| {}).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotOffered);
    store.close().await.unwrap();
}

/// Checks that Recto reads counters, and columns whose names are reserved words of CQL. Recto must
/// reject a table with a decimal in its partition key, a missing table, and a view of another
/// table.
async fn check_unusual_tables(shop: &Shop) {
    let store = shop.open().await;
    store.attach(&shop.request("shop.hits")).await.unwrap();
    let hits = walk(
        &store.dynamic("hits").unwrap(),
        "page = \"home\" AND day >= \"2026-01-08\"",
        5,
        true,
    )
    .await;
    assert_eq!(field(&hits, "count"), ["8", "9"].map(Json::from));
    let refused = store.attach(&shop.request("shop.prices")).await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.field()),
        (ErrorKind::Unsupported, Some("price")),
        "{refused}"
    );
    let absent = store.attach(&shop.request("shop.nothing")).await.unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::NotFound, "{absent}");
    let absent = store.attach(&shop.request("depot.nothing")).await.unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::NotFound, "{absent}");
    let mut named = shop.request("shop.suspensions");
    named.views = vec!["hits".to_owned()];
    let refused = store.attach(&named).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    let schema = store.schema();
    let mut names: Vec<&str> = schema.collections.iter().map(|one| one.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["held", "hits", "timeline"],
        "what was refused changed nothing"
    );
    store.close().await.unwrap();
}

/// Returns the collection `timeline` of an open store. Waits until it is available, because opening
/// a store does not wait for the clusters of attached tables.
async fn timeline_of(store: &Recto) -> Collection<DynamicRecord> {
    let begun = Instant::now();
    loop {
        match store.dynamic("timeline") {
            Ok(timeline) => return timeline,
            Err(error) => assert!(begun.elapsed() < MADE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn nothing_is_written(shop: &Shop) {
    let store = shop.open().await;
    let timeline = timeline_of(&store).await;
    let record = json!({ "user_id": 1, "post_id": 99 });
    let record = DynamicRecord::from_json_text(timeline.definition(), &record.to_string()).unwrap();
    let is_refused = |error: recto::Error| {
        assert_eq!(error.kind(), ErrorKind::NotOffered, "{error}");
        assert!(
            error.message().contains("timeline is read-only") && error.hint().is_some(),
            "{error}"
        );
    };
    is_refused(timeline.put(&record).await.unwrap_err());
    is_refused(timeline.insert(&record).await.unwrap_err());
    is_refused(timeline.delete((1, 5)).await.unwrap_err());
    is_refused(timeline.put_all([&record]).await.unwrap_err());
    let counted = shop
        .cql
        .first_column("SELECT CAST(count(*) AS text) FROM shop.timeline WHERE user_id = 1")
        .await;
    assert_eq!(counted.unwrap(), ["40"]);
    store.close().await.unwrap();
}

/// Checks that a cursor of an attached table remains valid when the store is closed and opened
/// again.
async fn cursors_survive(shop: &Shop) {
    let store = shop.open().await;
    let query = |store: &Recto| of_status(&store.dynamic("held").unwrap(), "status = \"open\"");
    let cursor = query(&store)
        .first(5)
        .await
        .unwrap()
        .next_cursor()
        .unwrap()
        .to_string();
    let expected = field(query(&store).first(10).await.unwrap().items(), "user_id")[5..].to_vec();
    store.close().await.unwrap();
    let store = shop.open().await;
    let page = query(&store).first(5).after(cursor).await.unwrap();
    assert_eq!(field(page.items(), "user_id"), expected);
    store.close().await.unwrap();
}

/// Returns the number of rows of the query's first page. The page size is three.
async fn rows_of(query: &PageQuery<DynamicRecord>) -> usize {
    query.clone().first(3).await.unwrap().len()
}

/// Checks that a changed table makes only its own collection unavailable. When the table is
/// attached again, Recto must accept its new definition.
async fn tables_change(shop: &Shop) {
    let store = shop.open().await;
    shop.send("ALTER TABLE shop.timeline ADD place text").await;
    let timeline = timeline_of(&store).await;
    store.refresh().await.unwrap();
    assert_eq!(
        rows_of(&timeline.query().filter("user_id = 1")).await,
        3,
        "further columns are no matter"
    );
    shop.send("ALTER TABLE shop.timeline DROP content").await;
    let begun = Instant::now();
    while store.unavailable_collections().is_empty() {
        assert!(begun.elapsed() < KNOWN);
        tokio::time::sleep(Duration::from_millis(100)).await;
        store.refresh().await.unwrap();
    }
    let error = timeline.query().filter("user_id = 1").first(3).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
    assert!(error.message().contains("column content is missing"), "{error}");
    assert!(error.hint().unwrap().contains("recto attach"), "{error:?}");
    let held = store.dynamic("held").unwrap();
    assert_eq!(rows_of(&of_status(&held, "status = \"open\"")).await, 3);
    store.close().await.unwrap();
    let store = shop.open().await;
    // When the store opens, Recto notices the changed table. On a busy machine, the other tables
    // may still be unavailable then, so refresh until they are available.
    let begun = Instant::now();
    while store.unavailable_collections().len() > 1 {
        assert!(begun.elapsed() < KNOWN, "{:?}", store.unavailable_collections());
        tokio::time::sleep(Duration::from_millis(100)).await;
        store.refresh().await.unwrap();
    }
    assert_eq!(store.unavailable_collections().len(), 1);
    let report = store.attach(&shop.request("shop.timeline")).await.unwrap();
    assert!(report.collection.field("place").is_some() && report.collection.field("content").is_none());
    assert_eq!(report.changes.len(), 2, "{:?}", report.changes);
    let timeline = store.dynamic("timeline").unwrap();
    assert_eq!(rows_of(&timeline.query().filter("user_id = 1")).await, 3);
    assert!(store.unavailable_collections().is_empty());
    store.close().await.unwrap();
}

/// Checks that the error for a missing right names the right and the table.
async fn rights_are_missing(shop: &Shop) {
    let store = shop.open().await;
    let timeline = timeline_of(&store).await;
    shop.send("REVOKE SELECT ON KEYSPACE shop FROM reader").await;
    let begun = Instant::now();
    let error = loop {
        match timeline.query().filter("user_id = 1").first(3).await {
            Ok(_) => assert!(begun.elapsed() < KNOWN),
            Err(error) => break error,
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    assert!(
        error.message().contains("SELECT") && error.message().contains("shop.timeline"),
        "{error}"
    );
    let error = store.attach(&shop.request("shop.hits")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    assert!(
        error.hint().unwrap().contains("GRANT SELECT ON shop.hits"),
        "{error:?}"
    );
    shop.send("GRANT SELECT ON KEYSPACE shop TO reader").await;
    store.close().await.unwrap();
    // The store must open without credentials for the cluster of attached tables. The error of a
    // read must name the environment variable for the credentials.
    let store = Recto::open_with(shop.folder.path().join("view"), OpenOptions::new())
        .await
        .unwrap();
    let error = of_timeline(&store).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    assert!(
        error.hint().unwrap().contains("RECTO_CASSANDRA_USERNAME"),
        "{error:?}"
    );
    store.close().await.unwrap();
}

/// Returns the number of posts on the first page of user 1 in the collection `timeline`. The page
/// size is three.
async fn of_timeline(store: &Recto) -> recto::Result<usize> {
    let timeline = store.dynamic("timeline")?;
    let page = timeline.query().filter("user_id = 1").first(3).await?;
    Ok(page.len())
}

/// Schema of a collection that the store itself keeps, next to the attached tables.
const NOTES: &str = "[collection.notes]\nfields = { id = \"int\", text = \"text\" }\nkey = [\"id\"]\n";

/// Checks that the store's own collection serves reads and writes while the cluster of the attached
/// tables is down. A read of an attached collection must report the error `Unavailable`. `id` is
/// the key of the record that this function writes.
async fn own_is_served(shop: &Shop, store: &Recto, id: i32) {
    let notes = store.dynamic("notes").unwrap();
    let record = json!({ "id": id, "text": "mine" }).to_string();
    let record = DynamicRecord::from_json_text(notes.definition(), &record).unwrap();
    notes.put(&record).await.unwrap();
    assert!(notes.get((id,)).await.unwrap().is_some());
    store.refresh().await.unwrap();
    let error = of_timeline(store).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.message().contains(&shop.address), "{error}");
    assert!(
        error
            .hint()
            .is_some_and(|hint| hint.contains("other collections stay available")),
        "{error:?}"
    );
    assert!(
        store
            .views()
            .await
            .unwrap()
            .iter()
            .any(|view| view.collection == "held")
    );
    assert_eq!(store.unavailable_collections().len(), 3);
    let schema = recto::schema::Schema::parse(NOTES).unwrap();
    assert!(store.apply(&schema).await.unwrap().changes.is_empty());
}

/// Returns an open store whose attached tables got another address while it was open. Another
/// handle of the same store attached the keyspace by the other address.
async fn by_another_address(shop: &Shop) -> Recto {
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new(Environment::system()));
    let open = || Recto::with_store(Arc::clone(&memory), Shop::options());
    let [store, other] = [open().await.unwrap(), open().await.unwrap()];
    let mut request = shop.request("shop.timeline");
    store.attach(&request).await.unwrap();
    assert_eq!(of_timeline(&store).await.unwrap(), 3);
    request.from.hosts.push(shop.address.clone());
    other.refresh().await.unwrap();
    // A rejected attachment must not change the address of other tables in the keyspace.
    let own = recto::schema::Schema::parse(NOTES).unwrap();
    other.apply(&own).await.unwrap();
    let mut refused = shop.request("shop.hits");
    refused.name = Some(own.collections[0].name.clone());
    refused.from.hosts = vec![shop.address.clone(); 3];
    let error = other.attach(&refused).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
    let is_moved = |changes: &[String], name: &str| {
        changes
            .iter()
            .any(|line| line.starts_with(&format!("collection {name}: Recto reads it from")))
    };
    let hits = other.attach(&shop.request("shop.hits")).await.unwrap();
    assert!(!is_moved(&hits.changes, "timeline"), "{:?}", hits.changes);
    // The report of a successful attachment must name the other collections that Recto now reads
    // from the new address.
    let changes = other.attach(&request).await.unwrap().changes;
    assert!(
        is_moved(&changes, "hits") && !is_moved(&changes, "timeline"),
        "{changes:?}"
    );
    other.close().await.unwrap();
    store.refresh().await.unwrap();
    assert_eq!(of_timeline(&store).await.unwrap(), 3);
    store
}

/// Checks attached collections while their cluster is stopped. One store was open before, and
/// another is opened during that time. After the cluster has started again, the collections must
/// become available.
async fn the_cluster_is_away(shop: &Shop) {
    let moved = by_another_address(shop).await;
    let store = shop.open().await;
    store
        .apply(&recto::schema::Schema::parse(NOTES).unwrap())
        .await
        .unwrap();
    assert!(store.unavailable_collections().is_empty());
    // The store `unwatched` has no background maintenance. The error of its reads must contain the
    // address of the cluster.
    let memory = Arc::new(MemoryStore::new(Environment::system()));
    let unwatched = Recto::with_store(memory, Shop::options()).await.unwrap();
    unwatched.attach(&shop.request("shop.timeline")).await.unwrap();
    shop.cluster.node(1).kill().unwrap();
    let error = of_timeline(&unwatched).await.unwrap_err();
    assert!(error.message().contains(&shop.address), "{error}");
    unwatched.close().await.unwrap();
    let begun = Instant::now();
    while store.unavailable_collections().is_empty() {
        assert!(begun.elapsed() < KNOWN);
        tokio::time::sleep(Duration::from_millis(100)).await;
        store.refresh().await.unwrap();
    }
    own_is_served(shop, &store, 1).await;
    store.close().await.unwrap();
    while moved.unavailable_collections().is_empty() {
        assert!(begun.elapsed() < KNOWN);
        tokio::time::sleep(Duration::from_millis(100)).await;
        moved.refresh().await.unwrap();
    }
    let error = of_timeline(&moved).await.unwrap_err();
    let both = format!("{0},{0}", shop.address);
    assert!(error.message().contains(&both), "{error}");
    let store = shop.open().await;
    own_is_served(shop, &store, 2).await;
    shop.cluster.node(1).start().unwrap();
    // The collection must become available without a call of `refresh`.
    let begun = Instant::now();
    while let Err(error) = of_timeline(&store).await {
        assert!(begun.elapsed() < MADE, "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(store.unavailable_collections().is_empty());
    store.close().await.unwrap();
    while let Err(error) = of_timeline(&moved).await {
        assert!(begun.elapsed() < MADE, "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    moved.close().await.unwrap();
}

/// Checks that the removal of an attached collection from the schema does not change its table.
async fn forgotten(shop: &Shop) {
    let store = shop.open().await;
    let mut options = ApplyOptions::default();
    options.remove = ["timeline", "held", "hits"].map(str::to_owned).to_vec();
    let none = recto::schema::Schema::default();
    let plan = store.plan_with(&none, &options).await.unwrap();
    assert!(plan.rejected.is_empty() && plan.statements.is_empty(), "{plan:?}");
    assert!(
        plan.changes.iter().all(|line| line.contains("stays unchanged")),
        "{plan:?}"
    );
    store.apply_with(&none, &options).await.unwrap();
    assert_eq!(store.schema().collections.len(), 1, "the folder's own");
    store.close().await.unwrap();
}

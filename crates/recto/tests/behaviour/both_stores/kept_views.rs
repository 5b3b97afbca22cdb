//! Tests of views with a retention time: they show only rows that are recent enough. Their records
//! are kept, or have their own retention time. `verify` must not report rows that a view lacks
//! because they are too old.

use futures::future::join_all;
use recto::session::{LoadRequest, RebalanceRequest, Session, VerifyRequest};
use recto::{Collection, DynamicRecord, LocalSession, OpenOptions, PageQuery, Recto};
use serde_json::json;

use super::listing::both_ways;
use crate::common::clocks::Standing;
use crate::common::stores::{Kind, kind_of, parse};
use crate::common::{Fresh, key_of};

/// Schema of records that are kept forever.
const READINGS: &str = r#"
[collection.readings]
fields = { id = "int", sensor = "text", at = "timestamp", value = "int" }
key = ["id"]
writes = "append"
"#;

const READINGS_VIEWS: &str = r#"
[collection.readings.view.recent]
partition = ["sensor"]
order = ["-at"]
nulls = "skip"
bucket = { time = "at", width = "1 day", keep = "8 days" }

[collection.readings.view.sized]
order = ["at"]
nulls = "skip"
bucket = { target = "64KiB", keep = "8 days" }

[collection.readings.view.all]
partition = ["sensor"]
order = ["at"]
"#;

/// Schema of records with a retention time. Its views have shorter retention times and other bucket
/// sizes.
const LATEST: &str = r#"
[collection.latest]
fields = { stream = "text", at = "timestamp", id = "int", note = "text" }
key = ["stream", "at", "id"]
partition = ["stream"]
order = ["-at"]
writes = "overwrite"
bucket = { time = "at", width = "1 day", keep = "8 days" }

[collection.latest.view.by_week]
order = ["at"]
bucket = { time = "at", width = "1 week", keep = "8 days" }

[collection.latest.view.looked_up]
order = ["at"]
fields = []
bucket = { time = "at", width = "1 week", keep = "8 days", shards = 2 }

[collection.latest.view.short]
order = ["-at", "stream"]
bucket = { target = "64KiB", keep = "4 days" }
"#;

const DAY_MS: i64 = 24 * 3_600_000;
/// First day of the tests, in milliseconds since 1970: 2024-02-19T00:00:00Z, a Monday.
const START_MS: i64 = 1_708_300_800_000;
const DAYS: i32 = 12;
/// First day whose records are retained on the last day of the test.
const FIRST: i32 = 3;
const EACH_DAY: i32 = 6;

struct Kept {
    recto: Recto,
    clock: Standing,
}

impl Kept {
    async fn new(recto: &Recto, schema: &str) -> Self {
        let clock = Standing::at(START_MS);
        let options = OpenOptions::new().environment(clock.environment());
        let recto = Fresh::new(kind_of(recto)).open_with(options).await;
        recto.apply(&parse(schema)).await.unwrap();
        Self { recto, clock }
    }

    /// Sets the store's clock to a day of the test. An embedded store does not trust a clock that
    /// jumped, so the test confirms the clock.
    async fn at(&self, day: i32) {
        self.clock.put(START_MS + i64::from(day) * DAY_MS);
        if kind_of(&self.recto) == Kind::Embedded {
            self.recto.confirm_clock().await.unwrap();
        }
    }

    fn of(&self, name: &str) -> Collection<DynamicRecord> {
        self.recto.dynamic(name).unwrap()
    }

    fn query(&self, view: &str) -> PageQuery<DynamicRecord> {
        match view {
            "recent" | "all" => self.of("readings").query().filter(r#"sensor = "s""#).view(view),
            "sized" => self.of("readings").query().view(view),
            "latest" => self.of("latest").query().filter(r#"stream = "a""#),
            _ => self.of("latest").query().view(view),
        }
    }

    async fn shows(&self, view: &str, mut ids: Vec<i32>) {
        if ["recent", "latest", "short"].contains(&view) {
            ids.reverse();
        }
        let found = both_ways(&self.query(view), 10).await;
        assert_eq!(found, (ids.clone(), ids), "{view}");
    }

    /// Asserts that a view shows the records with these ids. On Cassandra it may show more records:
    /// a view with buckets by size keeps a whole bucket as long as one row in it is retained.
    async fn shows_about(&self, view: &str, ids: Vec<i32>) {
        if kind_of(&self.recto) == Kind::Embedded {
            return self.shows(view, ids).await;
        }
        let (forwards, backwards) = both_ways(&self.query(view), 10).await;
        assert_eq!(forwards, backwards, "{view}");
        assert!(ids.iter().all(|id| forwards.contains(id)), "{view}: {forwards:?}");
    }

    /// Stores the records of each day in `days`, with the clock set to that day.
    async fn put(&self, name: &str, days: std::ops::Range<i32>) {
        for day in days {
            self.at(day).await;
            let of = self.of(name);
            let some: Vec<_> = of_days(day..day + 1)
                .into_iter()
                .map(|id| record(&of, id))
                .collect();
            of.put_all(&some).await.unwrap();
        }
    }

    /// Deletes rows that are too old from the given views of a collection. An empty name means the
    /// collection's base table.
    async fn rebalance(&self, name: &str, views: &[&str]) {
        let session = LocalSession::new(self.recto.clone());
        let tools = session.tools().unwrap();
        let requests: Vec<_> = views
            .iter()
            .map(|view| RebalanceRequest {
                view: (*view).to_owned(),
                ..RebalanceRequest::default()
            })
            .collect();
        let rebalancing = requests
            .iter()
            .map(|request| tools.rebalance_buckets(name, request, &|_| {}));
        for repaired in join_all(rebalancing).await {
            repaired.unwrap();
        }
    }

    /// Asserts that `verify` finds no missing and no superfluous rows in the views, with and
    /// without repair.
    async fn is_well(&self) {
        for repair in [false, true] {
            let request = VerifyRequest {
                repair,
                ..VerifyRequest::default()
            };
            let verified = self.recto.verify(&request, &|_| {}).await.unwrap();
            assert_eq!(verified.wrong(), 0, "{verified:?}");
        }
    }

    async fn loads(&self, name: &str, file: &std::path::Path) -> String {
        let rejects = file.with_extension("rejects");
        let request = LoadRequest {
            file: file.to_owned(),
            collections: vec![name.to_owned()],
            rejects: Some(rejects.clone()),
            ..LoadRequest::default()
        };
        let session = LocalSession::new(self.recto.clone());
        session.tools().unwrap().load(&request, &|_| {}).await.unwrap();
        std::fs::read_to_string(rejects).unwrap_or_default()
    }
}

/// Returns the ids of the records of the given days.
fn of_days(days: std::ops::Range<i32>) -> Vec<i32> {
    (days.start * EACH_DAY..days.end * EACH_DAY).collect()
}

fn time(id: i32) -> String {
    let at = START_MS + i64::from(id) * DAY_MS / i64::from(EACH_DAY);
    jiff::Timestamp::from_millisecond(at).unwrap().to_string()
}

fn record(of: &Collection<DynamicRecord>, id: i32) -> DynamicRecord {
    let definition = of.definition();
    let json = match definition.name.as_str() {
        "readings" => json!({ "id": id, "sensor": "s", "at": time(id) }),
        _ => json!({ "stream": "a", "at": time(id), "id": id }),
    };
    DynamicRecord::from_json(definition, json.as_object().unwrap()).unwrap()
}

pub(crate) async fn show_what_is_kept_of_records_that_stay(recto: Recto) {
    let kept = Kept::new(&recto, &format!("{READINGS}{READINGS_VIEWS}")).await;
    kept.put("readings", 0..DAYS).await;
    let readings = kept.of("readings");
    // Records that are too old for `recent` are stored: alone, with others, and repeatedly. Only the
    // view `all`, which has no retention time, must show them.
    let late = DAYS * EACH_DAY;
    let put = |id: i32, at: i32| {
        let row = json!({ "id": id, "sensor": "s", "at": time(at), "value": 1 });
        DynamicRecord::from_json(readings.definition(), row.as_object().unwrap()).unwrap()
    };
    readings.put(&put(late, 1)).await.unwrap();
    let both = [put(late + 1, 2), put(late + 2, late), put(late + 3, 3)];
    readings.put_all(&both).await.unwrap();
    readings.put(&put(late, 1)).await.unwrap();
    let found = readings.get(late).await.unwrap();
    assert_eq!(found, Some(put(late, 1)));
    if kind_of(&recto) == Kind::Embedded {
        // The error must name the conflicting change by its index in the request, even if the view
        // leaves out earlier changes that are too old.
        let another = [put(late + 4, 4), put(late + 5, late), put(late + 2, late - 2)];
        let conflict = readings.put_all(&another).await.unwrap_err();
        assert_eq!(conflict.change(), Some(2), "{conflict}");
    }
    let mut expected = of_days(FIRST..DAYS);
    expected.push(late + 2);
    let mut all = of_days(0..DAYS);
    all.push(late + 2);
    for (after, id) in [(1, late), (3, late + 1), (5, late + 3)] {
        all.insert(after + 1, id);
    }
    kept.rebalance("readings", &["recent", "sized"]).await;
    kept.shows("recent", expected.clone()).await;
    kept.shows_about("sized", expected.clone()).await;
    kept.shows("all", all.clone()).await;
    kept.is_well().await;
    kept.shows("recent", expected.clone()).await;
    // A record without a row in `recent` can be deleted like any other record.
    for id in [late, 0, late + 2] {
        readings.delete(id).await.unwrap();
        expected.retain(|one| *one != id);
        all.retain(|one| *one != id);
    }
    readings.put(&put(0, 0)).await.unwrap();
    all.insert(0, 0);
    kept.shows("recent", expected.clone()).await;
    kept.shows_about("sized", expected).await;
    kept.shows("all", all).await;
    kept.is_well().await;
}

pub(crate) async fn are_loaded_and_built_with_what_is_kept(recto: Recto) {
    const TO: i32 = 20;
    let kept = Kept::new(&recto, &format!("{READINGS}{LATEST}")).await;
    kept.at(TO).await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, first: (&str, &str)| {
        let mut text = format!("{},at,id\n", first.0);
        for id in of_days(0..TO) {
            text += &format!("{},{},{id}\n", first.1, time(id));
        }
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    };
    let readings = file("readings.csv", ("sensor", "s"));
    assert_eq!(kept.loads("readings", &readings).await, "");
    let latest = file("latest.csv", ("stream", "a"));
    let rejected = kept.loads("latest", &latest).await;
    let late = usize::try_from((TO - 8) * EACH_DAY).unwrap();
    assert_eq!(
        rejected.matches("older than the retention time").count(),
        late,
        "{rejected}"
    );
    for view in ["latest", "by_week", "looked_up"] {
        kept.shows(view, of_days(TO - 8..TO)).await;
    }
    kept.shows("short", of_days(TO - 4..TO)).await;
    // A view that is added later must be filled with the rows within its retention time.
    let schema = format!("{READINGS}{READINGS_VIEWS}{LATEST}");
    kept.recto.apply(&parse(&schema)).await.unwrap();
    kept.shows("recent", of_days(TO - 8..TO)).await;
    kept.shows("sized", of_days(TO - 8..TO)).await;
    kept.shows("all", of_days(0..TO)).await;
    kept.is_well().await;
    // With a longer retention time, the view must also show rows that it left out before.
    let longer = schema.replacen(
        "width = \"1 day\", keep = \"8 days\"",
        "width = \"1 day\", keep = \"10 days\"",
        1,
    );
    kept.recto.apply(&parse(&longer)).await.unwrap();
    kept.shows("recent", of_days(TO - 10..TO)).await;
    kept.is_well().await;
    // A second load of the same file must find nothing new, and must restore no deleted rows.
    kept.loads("readings", &readings).await;
    kept.shows("recent", of_days(TO - 10..TO)).await;
    kept.is_well().await;
}

pub(crate) async fn are_well_where_a_clock_was_ahead(recto: Recto) {
    let kept = Kept::new(&recto, &format!("{READINGS}{READINGS_VIEWS}")).await;
    kept.put("readings", 0..DAYS).await;
    kept.at(DAYS + 3).await;
    kept.rebalance("readings", &["recent", "sized"]).await;
    kept.at(DAYS - 1).await;
    let first = FIRST + 4;
    kept.shows("recent", of_days(first..DAYS)).await;
    kept.is_well().await;
    // The record is within the retention time by the clock of this process. But the store has
    // recorded a later retention bound (older rows are deleted), so the view must not show the
    // record.
    let readings = kept.of("readings");
    let late = DAYS * EACH_DAY;
    let row = json!({ "id": late, "sensor": "s", "at": time(first * EACH_DAY - 1) });
    let row = DynamicRecord::from_json(readings.definition(), row.as_object().unwrap()).unwrap();
    readings.put(&row).await.unwrap();
    assert_eq!(readings.get(late).await.unwrap(), Some(row));
    kept.shows("recent", of_days(first..DAYS)).await;
    kept.shows_about("sized", of_days(first..DAYS)).await;
    kept.is_well().await;
}

/// Checks a view whose retention bound (older rows are deleted) moves in larger steps than the
/// bound of its collection. Between two steps, the view has rows whose records are already deleted.
pub(crate) async fn go_on_between_two_floors(recto: Recto) {
    let kept = Kept::new(&recto, LATEST).await;
    kept.put("latest", 0..DAYS).await;
    kept.rebalance("latest", &["", "by_week", "looked_up", "short"])
        .await;
    // The view by week keeps all rows of its first week, although the collection has deleted
    // records of that week.
    kept.shows("latest", of_days(FIRST..DAYS)).await;
    kept.shows("by_week", of_days(0..DAYS)).await;
    kept.shows("looked_up", of_days(FIRST..DAYS)).await;
    kept.shows_about("short", of_days(DAYS - 5..DAYS)).await;
    kept.is_well().await;
    kept.shows("by_week", of_days(0..DAYS)).await;
    let latest = kept.of("latest");
    // A record that is older than the collection's retention bound must be rejected, so no view
    // shows it.
    let late = record(&latest, EACH_DAY);
    let refused = latest.put(&late).await.unwrap_err();
    assert!(
        refused.to_string().contains("older than the retention time"),
        "{refused}"
    );
    assert_eq!(latest.get(&key_of(&late)[..]).await.unwrap(), None);
    latest.delete(&key_of(&record(&latest, 0))[..]).await.unwrap();
    // Some days later, the whole first week is older than the retention bound, so the view by week
    // must delete it.
    kept.at(DAYS + 4).await;
    kept.rebalance("latest", &["", "by_week", "looked_up", "short"])
        .await;
    kept.shows("latest", of_days(DAYS - 4..DAYS)).await;
    kept.shows("by_week", of_days(7..DAYS)).await;
    kept.is_well().await;
}

//! Tests of views that sort by a time rounded down, for example to the minute.

use recto::schema::{Width, WidthUnit};
use recto::session::{PageRequest, Pages};
use recto::{DynamicRecord, Error, ErrorKind, LocalSession, PageQuery, Recto, Value};
use recto_model::{Type, json};
use serde_json::{Value as Json, json};

use super::listing::{both_ways, ids};
use crate::common::Fresh;
use crate::common::exact::{assert_views_are_exact, assert_views_are_well};
use crate::common::stores::{kind_of, parse};

const SCHEMA: &str = r#"
[collection.sessions]
fields = { id = "int", team = "text", seen = "timestamp", kind = "int", note = "text" }
key = ["id"]

[collection.sessions.view.recent]
partition = ["team"]
order = ["-seen"]
ROUNDING

[collection.sessions.view.by_kind]
partition = ["team"]
order = ["kind", "seen"]
nulls = "skip"
rounding = "1 minute"
fields = []
"#;

const MINUTE: Width = Width {
    count: 1,
    unit: WidthUnit::Minute,
};
/// Time of the first record, in milliseconds since 1970: 2013-05-17T10:30:00Z.
const START_MS: i64 = 1_368_786_600_000;
const RECORDS: i32 = 60;

fn schema(rounding: &str) -> recto::schema::Schema {
    parse(&SCHEMA.replace("ROUNDING", rounding))
}

/// Returns the time of the record with an id, in milliseconds since 1970, or `None` if it has no
/// time. All times are within six minutes, some at the ends of minutes.
fn seen_ms(id: i32) -> Option<i64> {
    let minute = i64::from((id / 6 + id * 5 % 7) % 6);
    let edges = [0, 1, 999, 59_999, 60_000, 30_000];
    let part = edges[id.unsigned_abs() as usize % edges.len()];
    (id % 10 != 3).then(|| START_MS + minute * 60_000 + part)
}

struct Sessions {
    recto: Recto,
    /// Copies of the stored records: id, time in milliseconds, and kind.
    all: Vec<(i32, Option<i64>, i32)>,
}

impl Sessions {
    async fn new(recto: &Recto, rounding: &str) -> Self {
        let recto = Fresh::new(kind_of(recto)).open().await;
        recto.apply(&schema(rounding)).await.unwrap();
        let all = (0..RECORDS).map(|id| (id, seen_ms(id), id % 3)).collect();
        let sessions = Self { recto, all };
        let put = sessions.recto.dynamic("sessions").unwrap();
        for one in &sessions.all {
            put.put(&sessions.record(*one)).await.unwrap();
        }
        sessions
    }

    fn record(&self, (id, seen, kind): (i32, Option<i64>, i32)) -> DynamicRecord {
        let definition = self.recto.dynamic("sessions").unwrap().definition();
        let mut record = json!({ "id": id, "team": "red", "kind": kind });
        if let Some(seen) = seen {
            record["seen"] = text(seen).into();
        }
        DynamicRecord::from_json(definition, record.as_object().unwrap()).unwrap()
    }

    async fn see(&mut self, id: i32, seen: Option<i64>) {
        let place = self.all.iter().position(|(one, ..)| *one == id).unwrap();
        self.all[place].1 = seen;
        let record = self.record(self.all[place]);
        self.recto
            .dynamic("sessions")
            .unwrap()
            .put(&record)
            .await
            .unwrap();
    }

    fn query(&self, filter: &str) -> PageQuery<DynamicRecord> {
        let sessions = self.recto.dynamic("sessions").unwrap();
        let filter = match filter {
            "" => r#"team = "red""#.to_owned(),
            filter => format!(r#"team = "red" AND {filter}"#),
        };
        sessions.query().filter(filter)
    }

    /// Returns the ids of the records whose time `is_asked` selects, in the order of the view.
    fn expected(&self, is_asked: impl Fn(Option<i64>) -> bool) -> Vec<i32> {
        let mut asked: Vec<_> = self.all.iter().filter(|(_, seen, _)| is_asked(*seen)).collect();
        asked.sort_by_key(|(id, seen, _)| {
            (
                seen.is_none(),
                seen.map(|seen| std::cmp::Reverse(MINUTE.floor_ms(seen))),
                *id,
            )
        });
        asked.into_iter().map(|(id, ..)| *id).collect()
    }
}

fn text(ms: i64) -> String {
    json::to_text(&Type::Timestamp, &Value::Timestamp(ms))
}

const ROUNDING: &str = r#"rounding = { seen = "1 minute" }"#;

pub(crate) async fn records_stand_in_the_order_of_what_is_rounded(recto: Recto) {
    let sessions = Sessions::new(&recto, ROUNDING).await;
    let all = sessions.expected(|_| true);
    for size in [7, 100] {
        assert_eq!(
            both_ways(&sessions.query(""), size).await,
            (all.clone(), all.clone())
        );
    }
    // A page around a row must have the rows before and after the row.
    let page = sessions.query("").first(10).await.unwrap();
    let around = sessions.query("").around(page.cursor(8)).first(6).await.unwrap();
    assert_eq!(ids(&around), all[5..11]);
    let from = |values: Json| sessions.query("").from_json(values.to_string());
    // A page from a time must start at the first record of the minute, because the view does not
    // distinguish times within a minute.
    let third = START_MS + 2 * 60_000;
    let from_third = sessions.expected(|seen| seen.is_none_or(|seen| seen < third + 60_000));
    for part in [0, 1, 59_999] {
        let page = from(json!([text(third + part)])).first(100).await.unwrap();
        assert_eq!(ids(&page), from_third, "from {part} ms on");
    }
    let id = from_third[2];
    let page = from(json!([text(third + 5), id])).first(100).await.unwrap();
    assert_eq!(ids(&page), from_third[2..]);
    let session = LocalSession::new(sessions.recto.clone());
    let request = PageRequest {
        filter: r#"team = "red""#.into(),
        ..PageRequest::default()
    };
    let explained = session.explain("sessions", &request, false).await.unwrap();
    assert_eq!(explained.order_text(), "seen rounded to 1 minute desc, id asc");
    assert!(explained.filter_scan.is_empty(), "{explained}");
    assert_eq!(assert_views_are_exact(&sessions.recto, "sessions").await, 60);
}

pub(crate) async fn ranges_are_exact(recto: Recto) {
    let sessions = Sessions::new(&recto, ROUNDING).await;
    let mut cases: Vec<(String, Vec<i32>)> = Vec::new();
    // The conditions begin or end at both ends of a minute, and within a minute.
    for edge in [0, 60_000, 60_001, 89_999, 90_000, 119_999, 120_000, 1_000_000, -1] {
        let at = START_MS + edge;
        let is =
            |how: fn(&i64, &i64) -> bool| sessions.expected(|seen| seen.is_some_and(|seen| how(&seen, &at)));
        let quoted = text(at);
        cases.push((format!(r#"seen < "{quoted}""#), is(i64::lt)));
        cases.push((format!(r#"seen <= "{quoted}""#), is(i64::le)));
        cases.push((format!(r#"seen > "{quoted}""#), is(i64::gt)));
        cases.push((format!(r#"seen >= "{quoted}""#), is(i64::ge)));
        cases.push((format!(r#"seen = "{quoted}""#), is(i64::eq)));
        for width in [1, 30_000, 60_000, 200_000] {
            let (to, rows) = (
                at + width,
                sessions.expected(|seen| seen.is_some_and(|seen| seen >= at && seen < at + width)),
            );
            cases.push((format!(r#"seen >= "{quoted}" AND seen < "{}""#, text(to)), rows));
            let rows = sessions.expected(|seen| seen.is_some_and(|seen| seen > at && seen <= at + width));
            cases.push((format!(r#"seen > "{quoted}" AND seen <= "{}""#, text(to)), rows));
            let rows = sessions.expected(|seen| seen == Some(at) || seen == Some(at + width));
            cases.push((format!(r#"(seen = "{quoted}" OR seen = "{}")"#, text(to)), rows));
        }
    }
    for (filter, expected) in &cases {
        let sizes: &[u32] = if expected.len() % 3 == 0 { &[4] } else { &[100] };
        for size in sizes {
            let found = both_ways(&sessions.query(filter), *size).await;
            assert_eq!(found, (expected.clone(), expected.clone()), "{filter} by {size}");
        }
    }
    // A range between starts of minutes needs no filter scan, so no row at its ends is read in
    // vain.
    let (from, to) = (text(START_MS + 60_000), text(START_MS + 180_000));
    let whole = sessions.query(&format!(r#"seen >= "{from}" AND seen < "{to}""#));
    let page = whole.first(100).await.unwrap();
    let session = LocalSession::new(sessions.recto.clone());
    let explained = async |filter: String| {
        let request = PageRequest {
            filter: format!(r#"team = "red" AND {filter}"#),
            page_size: Some(5),
            ..PageRequest::default()
        };
        session.explain("sessions", &request, true).await.unwrap()
    };
    assert!(!page.is_empty());
    let exact = explained(format!(r#"seen >= "{from}" AND seen < "{to}""#)).await;
    assert!(exact.filter_scan.is_empty(), "{exact}");
    // A range that begins within a minute needs a filter scan, which the plan must report. The scan
    // rejects rows only in the first minute.
    let checked = explained(format!(r#"seen >= "{}""#, text(START_MS + 30_000))).await;
    assert_eq!(checked.filter_scan.len(), 1, "{checked}");
    assert_eq!(checked.shape.to_string(), "scan + filter");
    let read = checked.actual.unwrap().cost.rows_read;
    assert!(
        read <= 12,
        "{read} rows were read for 5, with their base rows: {checked}"
    );
}

/// Checks a view with another field before the rounded field, and a view that lacks some fields.
pub(crate) async fn it_may_stand_behind_other_fields(recto: Recto) {
    let sessions = Sessions::new(&recto, ROUNDING).await;
    let (from, to) = (START_MS + 30_000, START_MS + 150_500);
    let is_asked = |seen: &Option<i64>| seen.is_some_and(|seen| seen > from && seen <= to);
    let mut asked: Vec<_> = sessions
        .all
        .iter()
        .filter(|(_, seen, kind)| *kind == 1 && is_asked(seen))
        .collect();
    asked.sort_by_key(|(id, seen, _)| (seen.map(|seen| MINUTE.floor_ms(seen)), *id));
    let asked: Vec<i32> = asked.into_iter().map(|(id, ..)| *id).collect();
    assert!(asked.len() > 3);
    let filter = format!(
        r#"kind = 1 AND seen > "{}" AND seen <= "{}""#,
        text(from),
        text(to)
    );
    let query = sessions.query(&filter).view("by_kind");
    assert_eq!(both_ways(&query, 3).await, (asked.clone(), asked));
    // A merge of several kinds must order records by the rounded time.
    let filter = filter.replace("kind = 1", "(kind = 1 OR kind = 2)");
    let merged = sessions.query(&filter).view("by_kind").first(100).await.unwrap();
    assert!(!merged.is_empty());
    assert_eq!(
        merged.len(),
        sessions
            .all
            .iter()
            .filter(|(_, seen, kind)| *kind > 0 && is_asked(seen))
            .count()
    );
}

pub(crate) async fn a_sort_by_the_field_itself_is_refused(recto: Recto) {
    let sessions = Sessions::new(&recto, ROUNDING).await;
    for (sort, view) in [
        ("-seen", ""),
        ("seen", ""),
        ("-seen", "recent"),
        ("-seen, id", ""),
    ] {
        let mut query = sessions.query("").order_by(sort);
        if !view.is_empty() {
            query = query.view(view);
        }
        let refused: Error = query.await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoPlan, "{sort} {view}");
        let said = refused.to_string();
        assert!(
            said.contains("orders by seen rounded down to 1 minute") && said.contains("view=recent"),
            "{said}"
        );
    }
    // If the filter fixes the time, the sort by time has no effect, so Recto must accept it.
    let at = sessions.all[1].1.unwrap();
    let pinned = sessions
        .query(&format!(r#"seen = "{}""#, text(at)))
        .order_by("-seen");
    let expected = sessions.expected(|seen| seen == Some(at));
    assert_eq!(ids(&pinned.await.unwrap()), expected);
}

pub(crate) async fn a_record_that_moves_a_little_stays(recto: Recto) {
    let mut sessions = Sessions::new(&recto, ROUNDING).await;
    let query = sessions.query("");
    let before = sessions.expected(|_| true);
    let first = query.clone().first(20).await.unwrap();
    // Change times within their minutes, both of records that were shown and of others. No record
    // may move or appear twice.
    for &id in &before[10..40] {
        if let Some(seen) = seen_ms(id) {
            sessions.see(id, Some(MINUTE.floor_ms(seen) + 12_345)).await;
        }
    }
    assert_eq!(sessions.expected(|_| true), before);
    let rest = query
        .clone()
        .page_size(100)
        .page_token(first.next_cursor().unwrap());
    assert_eq!(ids(&rest.await.unwrap()), before[20..]);
    // Conditions must use the last written times, although the rows in the view did not move.
    let at = before[30];
    let expected = sessions.expected(|seen| seen.is_some_and(|seen| seen % 60_000 == 12_345));
    assert!(expected.contains(&at) || seen_ms(at).is_none());
    let seen = sessions.all[at.unsigned_abs() as usize].1;
    if let Some(seen) = seen {
        let filter = format!(r#"seen = "{}""#, text(seen));
        assert!(ids(&sessions.query(&filter).first(100).await.unwrap()).contains(&at));
    }
    // Let records move far away, lose their time, or get a time.
    sessions.see(before[0], Some(START_MS - 3_600_000)).await;
    sessions.see(before[1], None).await;
    sessions
        .see(*before.last().unwrap(), Some(START_MS + 3_600_000))
        .await;
    let after = sessions.expected(|_| true);
    assert_ne!(after, before);
    assert_eq!(both_ways(&query, 9).await, (after.clone(), after));
    assert_views_are_well(&sessions.recto, "sessions").await;
    let sessions_of = sessions.recto.dynamic("sessions").unwrap();
    sessions_of.delete(before[2]).await.unwrap();
    sessions.all.retain(|(id, ..)| *id != before[2]);
    let left = sessions.expected(|_| true);
    assert_eq!(ids(&query.first(100).await.unwrap()), left);
}

pub(crate) async fn it_is_switched_on_off_and_over(recto: Recto) {
    let sessions = Sessions::new(&recto, "").await;
    let exact = |sessions: &Sessions| {
        let mut all: Vec<_> = sessions.all.clone();
        all.sort_by_key(|(id, seen, _)| (seen.is_none(), seen.map(std::cmp::Reverse), *id));
        all.into_iter().map(|(id, ..)| id).collect::<Vec<_>>()
    };
    let query = sessions.query("").view("recent");
    let sorted = sessions.query("").view("recent").order_by("-seen");
    assert_eq!(ids(&sorted.clone().first(100).await.unwrap()), exact(&sessions));
    let mut cursors = vec![query.clone().first(9).await.unwrap().next_cursor().unwrap()];
    for (rounding, is_by) in [
        (ROUNDING, Some(MINUTE)),
        (r#"rounding = "2 minutes""#, Some(Width { count: 2, ..MINUTE })),
        ("", None),
        (ROUNDING, Some(MINUTE)),
    ] {
        sessions.recto.apply(&schema(rounding)).await.unwrap();
        let mut all = sessions.all.clone();
        all.sort_by_key(|(id, seen, _)| {
            let at = seen.map(|seen| is_by.map_or(seen, |width| width.floor_ms(seen)));
            (at.is_none(), at.map(std::cmp::Reverse), *id)
        });
        let all: Vec<i32> = all.into_iter().map(|(id, ..)| id).collect();
        assert_eq!(ids(&query.clone().first(100).await.unwrap()), all, "{rounding}");
        assert_eq!(sorted.clone().await.is_ok(), is_by.is_none(), "{rounding}");
        assert_views_are_exact(&sessions.recto, "sessions").await;
        // A cursor must continue in every table with its own sort order, and in no table with
        // another order.
        for (index, cursor) in cursors.iter().enumerate() {
            let is_of_it = match (index, is_by) {
                (0, None) => true,
                (1, Some(width)) => width == MINUTE,
                (2, Some(width)) => width != MINUTE,
                _ => false,
            };
            match query.clone().page_size(100).page_token(cursor.clone()).await {
                Ok(page) => {
                    assert!(is_of_it, "cursor {index} with {rounding}");
                    assert_eq!(ids(&page), all[9..]);
                }
                Err(error) => {
                    assert!(!is_of_it, "cursor {index} with {rounding}: {error}");
                    assert_eq!(error.kind(), ErrorKind::InvalidCursor);
                }
            }
        }
        if is_by.is_some() && cursors.len() < 3 {
            cursors.push(query.clone().first(9).await.unwrap().next_cursor().unwrap());
        }
    }
}

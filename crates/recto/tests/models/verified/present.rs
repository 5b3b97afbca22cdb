//! Tests of base rows that are not records: those of deleted and of expired records. No read may
//! return them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::TryStreamExt;
use recto::session::Pages;
use recto::{DynamicRecord, LocalSession, Value};
use serde_json::json;

use super::planted::Planted;
use super::{SCHEMA, run, store};

fn ids(records: &[DynamicRecord]) -> Vec<i32> {
    let id = |record: &DynamicRecord| match record.get("id") {
        Some(Value::Int(id)) => *id,
        other => panic!("{other:?}"),
    };
    let mut ids: Vec<i32> = records.iter().map(id).collect();
    ids.sort_unstable();
    ids
}

/// Returns a collection with four base rows, of which two are records: record 1, and record 4,
/// which will expire later. Record 2 was deleted, and record 3 has expired.
async fn four() -> Planted {
    let mut planted = Planted::new(store(), SCHEMA).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64;
    let hour = Duration::from_secs(3_600).as_micros() as i64;
    for (id, expires_at) in [(1, None), (2, None), (3, Some(now - 1)), (4, Some(now + hour))] {
        let record = planted.cells(&json!({ "id": id, "status": "open", "reason": "spam" }));
        planted.put(&record).await;
        if id == 2 {
            planted.delete(&record).await;
        } else {
            planted.decide(&record, false, expires_at).await;
        }
    }
    planted
}

#[test]
fn hides_deleted_and_expired_records() {
    run(async {
        let planted = four().await;
        let collection = planted.recto.dynamic("suspensions").unwrap();
        for (id, is_there) in [(1, true), (2, false), (3, false), (4, true), (5, false)] {
            let found = collection.get_versioned(id).await.unwrap();
            assert_eq!(found.is_some(), is_there, "{id}");
            let page = collection.query().filter(format!("id = {id}")).await.unwrap();
            assert_eq!(page.len(), usize::from(is_there), "{id}");
            let record = planted.cells(&json!({ "id": id }));
            if let Some(found) = found {
                assert_eq!(found.version, Some(planted.version(&record).0));
                assert_eq!(page.version(0), found.version);
                assert_eq!(page.items(), [found.record]);
            }
        }
        let list = collection
            .query()
            .filter("id = 1 OR id = 2 OR id = 3 OR id = 4 OR id = 5");
        let page = list.clone().order_by("id").await.unwrap();
        assert_eq!((ids(page.items()), page.has_next()), (vec![1, 4], Some(false)));
        // The page must skip base rows that are not records, and continue after them.
        let page = list.clone().order_by("id").first(1).await.unwrap();
        assert_eq!((ids(page.items()), page.has_next()), (vec![1], Some(true)));
        let next = list
            .order_by("id")
            .page_token(page.next_cursor().unwrap())
            .await
            .unwrap();
        assert_eq!((ids(next.items()), next.has_next()), (vec![4], Some(false)));
        let all: Vec<DynamicRecord> = collection.scan().stream().try_collect().await.unwrap();
        assert_eq!(ids(&all), [1, 4]);
        let spam = collection.scan().filter(r#"reason = "spam""#).stream();
        assert_eq!(ids(&spam.try_collect::<Vec<_>>().await.unwrap()), [1, 4]);
        let session = LocalSession::new(planted.recto.clone());
        let partitions: Vec<Vec<_>> = session.partitions("suspensions").try_collect().await.unwrap();
        let mut partitions: Vec<i64> = partitions
            .iter()
            .flatten()
            .map(|one| one["id"].as_i64().unwrap())
            .collect();
        partitions.sort_unstable();
        assert_eq!(partitions, [1, 4]);
    });
}

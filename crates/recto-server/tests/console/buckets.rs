//! Checks the page that draws the buckets (ranges) of a partition.

use axum::http::StatusCode;
use recto::schema::Schema;
use recto::session::{ApplyOptions, Records as _, Session as _};
use recto_server::access::Access;
use serde_json::json;

use crate::browser::fill_by_time;
use crate::fixture::{Answer, Fixture};

/// Returns the heights of the bars for buckets, in percent of the drawing's height.
fn heights(page: &Answer) -> Vec<f64> {
    let bars = page.html.split("<rect class=\"bar\"").skip(1);
    let height = |bar: &str| bar.split("height=\"").nth(1)?.split('"').next()?.parse().ok();
    bars.map(|bar| height(bar).unwrap()).collect()
}

#[tokio::test]
async fn buckets_by_time_have_no_target() {
    let fixture = Fixture::new().await;
    fill_by_time(&fixture).await;
    let client = fixture.client(Access::all());
    let map = client
        .get("/collections/samples/buckets?filter=sensor%20%3D%20%22s00%22")
        .await;
    assert_eq!(map.status, StatusCode::OK);
    assert!(
        map.html.contains("64 buckets shown · by time, without a target"),
        "{}",
        map.main()
    );
    assert!(!map.html.contains("<line class=\"target\""), "{}", map.main());
    let heights = heights(&map);
    assert_eq!(heights.len(), 64);
    let tall = heights.iter().filter(|height| **height > 99.0).count();
    assert_eq!(tall, 1, "the largest is as high as the map: {heights:?}");
    let visible = heights.iter().filter(|height| **height >= 2.0).count();
    assert_eq!(visible, 64, "all have rows: {heights:?}");
    let all = client.get("/collections/samples/buckets").await;
    assert!(all.html.contains("by time, without a target"), "{}", all.main());
}

/// Collection with a view that rounds a field. No query can sort by a rounded field.
const VISITS: &str = r#"
[collection.visits]
fields = { id = "int", team = "text", seen = "timestamp" }
key = ["id"]

[collection.visits.view.recent]
partition = ["team"]
order = ["-seen"]
rounding = { seen = "1 minute" }
bucket = { rows = 20 }
"#;

#[tokio::test]
async fn shows_no_internal_names_of_rounded_fields() {
    let fixture = Fixture::new().await;
    let tools = fixture.session.tools().unwrap();
    let schema = Schema::parse(VISITS).unwrap();
    tools.apply(&schema, &ApplyOptions::new(), &|_| {}).await.unwrap();
    let visit = |id: usize| {
        let seen = format!("2026-01-01T00:{id:02}:30Z");
        let visit = json!({ "id": id, "team": "red", "seen": seen });
        visit.as_object().unwrap().clone()
    };
    fixture
        .session
        .put("visits", (0..60).map(visit).collect(), None)
        .await
        .unwrap();
    let client = fixture.client(Access::all());
    let page = client
        .get("/collections/visits?filter=team%20%3D%20%22red%22&page_size=20")
        .await;
    assert_eq!(page.rows().len(), 20, "{}", page.main());
    assert!(page.html.contains("seen rounded to 1 minute"), "{}", page.main());
    let map = client.follow(&page, "Buckets of this partition").await;
    assert!(map.html.contains("-seen rounded to 1 minute"), "{}", map.main());
    for shown in [&page, &map] {
        assert!(!shown.html.contains("recto_grain"), "{}", shown.main());
    }
    let bar = client.follow(&map, "from=").await;
    assert_eq!(bar.status, StatusCode::OK, "{}", bar.main());
    assert!(!bar.rows().is_empty(), "{}", bar.main());
}

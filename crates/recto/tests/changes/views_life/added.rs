//! Tests of adding views to existing records, and of changing and removing views.

use std::sync::Arc;
use std::time::Duration;

use recto::{ApplyOptions, ErrorKind, OpenOptions, Recto};

use super::{BASE, VIEWS, assert_all_is_well, fill, tables, with_views};
use crate::common::clocks::Clocks;
use crate::common::stores::parse;

/// Number of records. It exceeds the number of records that one step of a backfill writes.
const RECORDS: i32 = 2_500;

pub(crate) async fn a_view_that_is_added_has_every_record(recto: Recto) {
    recto.apply(&parse(BASE)).await.unwrap();
    fill(&recto, RECORDS).await;
    let plan = recto.plan(&with_views()).await.unwrap();
    assert_eq!(plan.rejected, [""; 0]);
    let filled = "it is filled from the collection's records";
    let told = plan.changes.iter().filter(|line| line.ends_with(filled));
    assert_eq!(told.count(), 3, "{plan:?}");
    let applied = recto.apply(&with_views()).await.unwrap();
    assert_eq!(applied.generation, recto.generation());
    let without_what = (RECORDS + 12) / 13;
    let without_age = (RECORDS + 2) / 3;
    let expected = RECORDS - without_what + RECORDS + RECORDS - without_age;
    assert_eq!(
        assert_all_is_well(&recto).await,
        u64::from(expected.unsigned_abs())
    );
    // Queries must use the new views.
    let people = recto.dynamic("people").unwrap();
    let page = people
        .query()
        .filter(r#"city = "c1" AND age > 88"#)
        .await
        .unwrap();
    assert!(!page.items().is_empty());
    // A second apply of the same schema must change nothing.
    let again = recto.apply(&with_views()).await.unwrap();
    assert_eq!((again.changes.len(), again.generation), (0, applied.generation));
    // Records written after the apply must be in the views at once.
    fill(&recto, 10).await;
    assert_all_is_well(&recto).await;
}

pub(crate) async fn a_view_that_changes_is_made_anew(recto: Recto) {
    recto.apply(&with_views()).await.unwrap();
    fill(&recto, RECORDS).await;
    let before = tables(&recto).await;
    let numbers = |views: &[recto::session::ViewStatus]| -> Vec<u64> {
        let by_city = views.iter().filter(|view| view.view == "by_city");
        by_city.map(|view| view.number).collect()
    };
    let number = numbers(&recto.views().await.unwrap())[0];
    let changed = format!("{BASE}{VIEWS}").replace(r#"order = ["age"]"#, r#"order = ["-age"]"#);
    let plan = recto.plan(&parse(&changed)).await.unwrap();
    let old = format!("people_by_city_{number}");
    assert!(
        plan.statements.iter().any(|statement| statement.contains(&old)),
        "{plan:?}"
    );
    recto.apply(&parse(&changed)).await.unwrap();
    let views = recto.views().await.unwrap();
    assert_eq!(views.len(), 3, "the one before is forgotten");
    let by_city = views.iter().find(|view| view.view == "by_city").unwrap();
    assert!(by_city.number > number, "numbers do not recur");
    assert_eq!(by_city.sort_order, "(city), -age, id");
    let after = tables(&recto).await;
    assert!(!after.contains(&old) && after.len() == before.len(), "{after:?}");
    assert_all_is_well(&recto).await;
}

pub(crate) async fn a_view_is_dropped_by_name(recto: Recto) {
    recto.apply(&with_views()).await.unwrap();
    fill(&recto, 100).await;
    let less = format!(
        "{BASE}{}",
        VIEWS.split("[collection.people.view.ages]").next().unwrap()
    );
    let kept = recto.apply(&parse(&less)).await.unwrap();
    assert_eq!(kept.kept, ["view ages of collection people"]);
    assert_eq!(recto.views().await.unwrap().len(), 3);
    let options = ApplyOptions::new().remove("people.ages");
    recto.apply_with(&parse(&less), &options).await.unwrap();
    assert_eq!(recto.views().await.unwrap().len(), 2);
    let left = tables(&recto).await;
    assert!(
        !left.iter().any(|name| name.starts_with("people_ages")),
        "{left:?}"
    );
    fill(&recto, 200).await;
    assert_all_is_well(&recto).await;
}

/// Time that exceeds the time for which a process may use an old state of the catalog.
const OLD: Duration = Duration::from_secs(16);

/// Checks that a process that only reads notices a dropped view. It can learn of the removal only
/// from the catalog, because the view's table may exist for a long time.
pub(crate) async fn notices_a_dropped_view_in_a_reading_process(recto: Recto) {
    recto.apply(&with_views()).await.unwrap();
    fill(&recto, 100).await;
    let clocks = Clocks::default();
    let options = OpenOptions::new().environment(clocks.environment());
    let reader = Recto::with_store(Arc::clone(recto.store()), options)
        .await
        .unwrap();
    let people = reader.dynamic("people").unwrap();
    let query = people.query().filter(r#"city = "c1""#).first(100);
    let there = query.clone().await.unwrap();
    assert!(!there.is_empty());
    assert_eq!(query.clone().await.unwrap().items(), there.items());
    let first = reader.generation();
    let options = ApplyOptions::new().remove("people.by_city").remove("people.ages");
    let less = parse(BASE);
    let dropped = recto.apply_with(&less, &options);
    let asked = async {
        // Processes must stop reading the view long before its table is dropped.
        tokio::time::sleep(OLD).await;
        clocks.jump(OLD);
        let error = query.clone().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoPlan, "{error}");
        assert!(reader.generation() > first);
        assert_eq!(recto.views().await.unwrap().len(), 3);
    };
    let (dropped, ()) = futures::future::join(dropped, asked).await;
    dropped.unwrap();
}

pub(crate) async fn a_table_that_is_gone_is_filled_anew(recto: Recto) {
    recto.apply(&with_views()).await.unwrap();
    fill(&recto, RECORDS).await;
    let views = recto.views().await.unwrap();
    let lost = views.iter().find(|view| view.view == "by_what").unwrap();
    recto.store().drop_table(&lost.table).await.unwrap();
    recto.refresh().await.unwrap();
    let plan = recto.plan(&with_views()).await.unwrap();
    let line = "view by_what of collection events: its table is missing, and is filled again";
    assert!(plan.changes.contains(&line.to_owned()), "{plan:?}");
    recto.apply(&with_views()).await.unwrap();
    assert_eq!(recto.unavailable_collections().len(), 0);
    assert_all_is_well(&recto).await;
}

pub(crate) async fn a_field_that_is_added_is_in_full_views(recto: Recto) {
    recto.apply(&with_views()).await.unwrap();
    fill(&recto, 100).await;
    let wider = format!("{BASE}{VIEWS}").replace(r#"note = "text""#, r#"note = "text", more = "int""#);
    recto.apply(&parse(&wider)).await.unwrap();
    let people = recto.dynamic("people").unwrap();
    let known = serde_json::json!({ "id": 1, "city": "c9", "more": 7 });
    people.put(&super::record(&people, &known)).await.unwrap();
    let page = people
        .query()
        .filter(r#"city = "c9""#)
        .view("by_city")
        .await
        .unwrap();
    assert_eq!(page.items()[0].to_json()["more"], 7);
    assert_all_is_well(&recto).await;
}

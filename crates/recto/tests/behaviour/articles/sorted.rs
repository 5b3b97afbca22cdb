//! Cases of the article *Sorted Pagination in Cassandra*, with one collection for each of its
//! tables.

use std::collections::BTreeSet;

use futures::StreamExt;
use recto::session::{Pages, ScanRequest};
use recto::{DynamicRecord, LocalSession, PageQuery, Recto};
use serde_json::{Value as Json, json};

use crate::common::Subject;
use crate::common::subject::{words, words_of};

/// Id of the user whose timeline the article reads.
const USER: &str = "346e896a-c6b4-4d4e-826d-a5a9eda50636";
const OTHER_USER: &str = "446e896a-c6b4-4d4e-826d-a5a9eda50636";

const NOBODY: &str = "546e896a-c6b4-4d4e-826d-a5a9eda50636";

/// Returns the id of a post: a time UUID for the time `hour` hours after a fixed time. A later hour
/// gives a greater UUID.
fn post(hour: u32) -> String {
    // Put the hour into the middle field of the time, because the low field counts only steps of
    // 100 ns.
    format!("00000000-{:04x}-11e6-80de-cf8ecd4cf053", 0xd000 + hour)
}

async fn timeline(recto: &Recto, user: &str, posts: &[(u32, &str)]) -> Subject {
    let mut timeline = Subject::new(recto, "timeline");
    let row = |(hour, content): &(u32, &str)| json!({ "user_id": user, "post_id": post(*hour), "content": content });
    timeline.put(posts.iter().map(row)).await;
    timeline
}

pub(crate) async fn the_newest_posts_of_a_user(recto: Recto) {
    let today = 14 * 24;
    let posts = [
        (today, "Hi"),
        (today - 24, "Hola"),
        (today - 168, "Bye"),
        (0, "Ciao"),
    ];
    let timeline = timeline(&recto, USER, &posts).await;
    let of_user = format!(r#"user_id = "{USER}""#);

    // The article says: "It will return four rows sorted by post_id DESC."
    let page = timeline.text(&of_user, "").await.unwrap();
    assert_eq!(words(&page, &["content"]), "Hi, Hola, Bye, Ciao");
    assert_eq!((page.has_previous(), page.has_next()), (Some(false), Some(false)));

    // The article says: "LIMIT 1 … will return Hi."
    let page = timeline.text(&of_user, "").first(1).await.unwrap();
    assert_eq!(words(&page, &["content"]), "Hi");

    // The article says: "post_id > today LIMIT 2 … will return Hola and Bye". In fact, that query
    // returns nothing, because both posts are older than today. The operator `<` returns both.
    let than_today = |operator: &str| format!(r#"{of_user} AND post_id {operator} "{}""#, post(today));
    assert!(
        timeline
            .text(&than_today(">"), "")
            .first(2)
            .await
            .unwrap()
            .is_empty()
    );
    let page = timeline.text(&than_today("<"), "").first(2).await.unwrap();
    assert_eq!(words(&page, &["content"]), "Hola, Bye");
    // The page after the newest post contains Hola and Bye. With Recto, the client needs only the
    // cursor. In the article, the application changes the filter for each page.
    let newest = timeline.text(&of_user, "").first(1).await.unwrap();
    let page = timeline
        .text(&of_user, "")
        .first(2)
        .after(newest.next_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!(words(&page, &["content"]), "Hola, Bye");

    // A user without posts has an empty page.
    let nobody = timeline
        .text(&format!(r#"user_id = "{NOBODY}""#), "")
        .await
        .unwrap();
    assert_eq!(
        (nobody.len(), nobody.has_previous(), nobody.has_next()),
        (0, Some(false), Some(false))
    );
}

pub(crate) async fn the_timeline_in_pages(recto: Recto) {
    let contents: Vec<String> = (0..45).map(|hour| format!("post {hour}")).collect();
    let posts: Vec<(u32, &str)> = (0..).zip(contents.iter().map(String::as_str)).collect();
    let timeline = timeline(&recto, OTHER_USER, &posts).await;
    let query: PageQuery<DynamicRecord> = timeline
        .text(&format!(r#"user_id = "{OTHER_USER}""#), "")
        .first(20);
    let expected = |newest: u32, oldest: u32| -> String {
        let names: Vec<String> = (oldest..=newest)
            .rev()
            .map(|hour| format!("post {hour}"))
            .collect();
        names.join(", ")
    };
    let newest = query.clone().await.unwrap();
    assert_eq!(words(&newest, &["content"]), expected(44, 25));
    let next = query
        .clone()
        .page_token(newest.next_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!(words(&next, &["content"]), expected(24, 5));
    let last = query
        .clone()
        .page_token(next.next_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!(words(&last, &["content"]), expected(4, 0));
    assert_eq!(last.has_next(), Some(false));
    let previous = query
        .clone()
        .page_token(last.previous_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!(words(&previous, &["content"]), expected(24, 5));
    let first = query
        .clone()
        .page_token(previous.previous_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!(words(&first, &["content"]), expected(44, 25));
    // A query that begins at the oldest post reads the same timeline in the other direction.
    let oldest = timeline
        .text(&format!(r#"user_id = "{OTHER_USER}""#), "post_id")
        .first(3)
        .await
        .unwrap();
    assert_eq!(words(&oldest, &["content"]), "post 0, post 1, post 2");
}

pub(super) fn user(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

fn suspension(status: &str, day: u32, number: u32) -> Json {
    json!({
        "status": status,
        "occurred_on": format!("2016-04-{day:02}T12:00:00Z"),
        "user_id": user(number),
        "reason": format!("reason {number}"),
    })
}

pub(crate) async fn suspended_users_by_status(recto: Recto) {
    let mut users = Subject::new(&recto, "users_by_status");
    // As in the article, users 4 and 3 were "suspended at the very exact time", so `user_id`
    // determines their order.
    let days = [(1, 1), (2, 2), (3, 4), (3, 3), (5, 5), (28, 6)];
    users
        .put(days.map(|(day, number)| suspension("SUSPENDED", day, number)))
        .await;
    users.put([suspension("ACTIVE", 9, 7)]).await;
    let query = users.text(r#"status = "SUSPENDED""#, "").first(2);
    let reasons = |page: &recto::Page<DynamicRecord>| words(page, &["reason"]);
    let newest = query.clone().await.unwrap();
    assert_eq!(reasons(&newest), "reason 6, reason 5");
    let next = query.clone().after(newest.cursor(1)).await.unwrap();
    assert_eq!(reasons(&next), "reason 3, reason 4");
    // A cursor between the two users with the same time must be valid.
    let between = query.clone().after(next.cursor(0)).await.unwrap();
    assert_eq!(reasons(&between), "reason 4, reason 2");
    let back = query.before(between.cursor(0)).await.unwrap();
    assert_eq!(reasons(&back), "reason 5, reason 3");
}

pub(crate) async fn suspended_users_by_bucket_and_status(recto: Recto) {
    let mut users = Subject::new(&recto, "users_by_bucket");
    let row = |bucket: &str, month: u32, day: u32, number: u32| {
        json!({
            "bucket": bucket, "status": "SUSPENDED", "user_id": user(number),
            "occurred_on": format!("2016-{month:02}-{day:02}T00:00:00Z"), "reason": format!("{month}/{day}"),
        })
    };
    let march = [1, 15, 31].map(|day| row("03-2016", 3, day, day));
    let april = [1, 2, 30].map(|day| row("04-2016", 4, day, day));
    users.put(march.into_iter().chain(april)).await;
    let reasons = |page: &recto::Page<DynamicRecord>| words(page, &["reason"]);

    // As in the article, read the users in one bucket (here: one month).
    let one = users.text(r#"bucket = "04-2016" AND status = "SUSPENDED""#, "");
    assert_eq!(reasons(&one.await.unwrap()), "4/30, 4/2, 4/1");

    // Read both buckets (months) as one list, newest first, and go back over their border.
    let filter = r#"(bucket = "03-2016" OR bucket = "04-2016") AND status = "SUSPENDED""#;
    let both = users.text(filter, "occurred_on desc").first(2);
    let first = both.clone().await.unwrap();
    assert_eq!(reasons(&first), "4/30, 4/2");
    let second = both.clone().after(first.next_cursor().unwrap()).await.unwrap();
    assert_eq!(reasons(&second), "4/1, 3/31");
    let third = both.clone().after(second.next_cursor().unwrap()).await.unwrap();
    assert_eq!(reasons(&third), "3/15, 3/1");
    assert_eq!(third.has_next(), Some(false));
    let back = both.page_token(third.previous_cursor().unwrap()).await.unwrap();
    assert_eq!(reasons(&back), "4/1, 3/31");

    // A filter without the bucket does not fix the whole partition key, so Recto rejects it.
    let error = users.text(r#"status = "SUSPENDED""#, "").await.unwrap_err();
    assert_eq!(error.kind(), recto::ErrorKind::NoPlan);
    assert!(error.to_string().contains("bucket"), "{error}");
}

/// Checks that a reverse lookup finds the time of a suspension, and that one batch deletes both
/// rows. The article says: "The manager doesn't know when the suspension happened, they only know
/// who is the user".
pub(crate) async fn unsuspending_by_reverse_lookup(recto: Recto) {
    let mut by_status = Subject::new(&recto, "users_by_status");
    let mut lookup = Subject::new(&recto, "suspended_users");
    by_status
        .put([suspension("LOOKED UP", 7, 70), suspension("LOOKED UP", 8, 80)])
        .await;
    let occurred_on =
        |day: u32| json!({ "user_id": user(day * 10), "occurred_on": format!("2016-04-{day:02}T12:00:00Z") });
    lookup.put([occurred_on(7), occurred_on(8)]).await;

    let found = lookup.collection.get((user(80),)).await.unwrap().unwrap();
    let when = words_of(std::slice::from_ref(&found), &["occurred_on"]);
    let mut batch = recto.batch();
    batch
        .delete(&by_status.collection, ("LOOKED UP".to_owned(), when, user(80)))
        .unwrap();
    batch.delete(&lookup.collection, (user(80),)).unwrap();
    batch.commit().await.unwrap();

    assert!(lookup.collection.get((user(80),)).await.unwrap().is_none());
    let left = by_status.text(r#"status = "LOOKED UP""#, "").await.unwrap();
    assert_eq!(words(&left, &["reason"]), "reason 70");
    // The deletion of a deleted record succeeds and has no effect.
    lookup.collection.delete((user(80),)).await.unwrap();
    // The key of the lookup table is the user, so another suspension of the same user replaces the
    // record.
    lookup
        .put([json!({ "user_id": user(70), "occurred_on": "2016-05-01T00:00:00Z" })])
        .await;
    let found = lookup.collection.get((user(70),)).await.unwrap().unwrap();
    assert_eq!(words_of(&[found], &["occurred_on"]), "2016-05-01T00:00:00.000Z");
}

/// Checks that a scan returns every user once, in no meaningful order, and that it continues where
/// an earlier scan stopped. The article says: "Using the token function we could paginate large
/// sets of data".
pub(crate) async fn a_whole_table_by_token(recto: Recto) {
    const USERS: u32 = 2_500;
    let mut users = Subject::new(&recto, "all_users");
    let row = |number: u32| json!({ "user_id": user(number), "occurred_on": "2016-04-01T00:00:00Z" });
    let expected: BTreeSet<String> = (0..USERS).map(user).collect();
    let mut batch = recto.batch();
    batch.each_for_itself();
    for number in 0..USERS {
        batch
            .put(&users.collection, &users.record(&users.row(&row(number))))
            .unwrap();
    }
    batch.commit().await.unwrap();
    users.oracle.put(users.row(&row(0)));

    let session = LocalSession::new(recto);
    for parallel in [1, 4] {
        let mut request = ScanRequest {
            fields: vec!["user_id".into()],
            parallel,
            ..ScanRequest::default()
        };
        let mut found = Vec::new();
        let mut readings = 0;
        // Drop each scan after one step, and resume with its token.
        loop {
            let mut steps = session.scan("all_users", &request);
            let Some(step) = steps.next().await else { break };
            let step = step.unwrap();
            found.extend(
                step.records
                    .iter()
                    .map(|record| record["user_id"].as_str().unwrap().to_owned()),
            );
            readings += 1;
            match step.resume {
                Some(resume) => request.resume_token = Some(resume),
                None => break,
            }
        }
        assert!(readings > 1, "{readings} readings");
        assert_eq!(found.len(), USERS as usize, "each user once");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}

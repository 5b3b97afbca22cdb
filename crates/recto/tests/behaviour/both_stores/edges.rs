//! Tests of the page properties that say whether rows exist before and after the page.

use recto::Recto;

use super::pages::{events, times};

pub(crate) async fn in_the_direction_of_travel_they_are_exact(recto: Recto) {
    let (_, query) = events(&recto, "edges_exact", 5).await;
    let first = query.clone().first(2).await.unwrap();
    assert_eq!(
        (first.has_previous(), first.has_next()),
        (Some(false), Some(true))
    );
    let second = query
        .clone()
        .first(2)
        .after(first.next_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!((second.has_previous(), second.has_next()), (None, Some(true)));
    let third = query
        .clone()
        .first(2)
        .after(second.next_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!((third.has_previous(), third.has_next()), (None, Some(false)));
    assert!(third.next_cursor().is_none());
    let back = query
        .clone()
        .page_size(2)
        .page_token(third.previous_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!((back.has_previous(), back.has_next()), (Some(true), None));
    let last = query.last(2).await.unwrap();
    assert_eq!((last.has_previous(), last.has_next()), (Some(true), Some(false)));
}

pub(crate) async fn the_other_end_is_unknown_unless_asked_for(recto: Recto) {
    let (_, query) = events(&recto, "edges_both", 5).await;
    let all = query.clone().await.unwrap();
    let second = query
        .clone()
        .first(2)
        .after(all.cursor(1))
        .both_edges()
        .await
        .unwrap();
    assert_eq!(
        (second.has_previous(), second.has_next()),
        (Some(true), Some(true))
    );
    let from_start = query.clone().first(2).from([100]).both_edges().await.unwrap();
    assert_eq!(
        (from_start.has_previous(), from_start.has_next()),
        (Some(false), Some(true))
    );
    let from_start = query.clone().first(2).from([100]).await.unwrap();
    assert_eq!(
        (from_start.has_previous(), from_start.has_next()),
        (None, Some(true))
    );
    // A previous-page token is absent only if no rows can precede the page. The token exists here,
    // and must lead to an empty page.
    let nothing = query
        .page_size(2)
        .page_token(from_start.previous_cursor().unwrap())
        .await
        .unwrap();
    assert!(nothing.is_empty());
    assert_eq!(nothing.has_previous(), Some(false));
}

pub(crate) async fn at_the_ends_of_an_exactly_full_page(recto: Recto) {
    let (_, query) = events(&recto, "edges_full", 4).await;
    let page = query.clone().first(4).await.unwrap();
    assert_eq!(
        (page.len(), page.has_previous(), page.has_next()),
        (4, Some(false), Some(false))
    );
    let page = query.clone().last(4).await.unwrap();
    assert_eq!(
        (page.len(), page.has_previous(), page.has_next()),
        (4, Some(false), Some(false))
    );
    let first = query.clone().first(2).await.unwrap();
    let second = query.first(2).after(first.cursor(1)).await.unwrap();
    assert_eq!((second.len(), second.has_next()), (2, Some(false)));
}

pub(crate) async fn of_an_empty_page_beyond_the_end(recto: Recto) {
    let (_, query) = events(&recto, "edges_beyond", 3).await;
    let all = query.clone().await.unwrap();
    let beyond = query.clone().after(all.cursor(2)).await.unwrap();
    assert!(beyond.is_empty());
    assert_eq!((beyond.has_previous(), beyond.has_next()), (None, Some(false)));
    // The empty page must have a previous-page token that leads back to the rows.
    let back = query
        .clone()
        .page_size(2)
        .page_token(beyond.previous_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!(times(&back), "1 0");
    let beyond = query.clone().after(all.cursor(2)).both_edges().await.unwrap();
    assert_eq!(beyond.has_previous(), Some(true));
    let before = query.before(all.cursor(0)).both_edges().await.unwrap();
    assert_eq!(
        (before.has_previous(), before.has_next()),
        (Some(false), Some(true))
    );
}

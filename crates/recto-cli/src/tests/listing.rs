//! Tests of the output of `recto page`, `explain`, `scan` and `describe`.

use super::*;
use crate::console::Key;

const UNITED: [&str; 4] = ["page", "flights", "--filter", "carrier = \"UA\""];

fn with(more: &[&'static str]) -> Vec<&'static str> {
    UNITED.iter().chain(more).copied().collect()
}

#[tokio::test]
async fn a_page_fits_the_terminal_and_prints_the_token_of_the_next() {
    insta::assert_snapshot!(run(FakeSession::new(), console(), &with(&[])).await);
}

#[tokio::test]
async fn a_page_has_colours_on_a_terminal() {
    let (console, screen) = Console::captured(60);
    let shown = run(
        FakeSession::new(),
        (console.coloured(), screen),
        &with(&["--fields", "carrier,flight,tailnum"]),
    )
    .await;
    insta::assert_snapshot!(shown.replace('\u{1b}', "␛"));
}

#[tokio::test]
async fn a_page_in_a_pipe_is_not_cut() {
    let (console, screen) = console();
    let shown = run(
        FakeSession::new(),
        (console.piped(), screen),
        &with(&["--page-token", "1", "--row-page-tokens"]),
    )
    .await;
    insta::assert_snapshot!(shown);
}

#[tokio::test]
async fn a_page_as_json_is_the_http_list() {
    insta::assert_snapshot!(
        run(
            FakeSession::new(),
            console(),
            &with(&["--json", "--row-page-tokens", "--last"])
        )
        .await
    );
}

#[tokio::test]
async fn keys_turn_pages() {
    use Key::{Character, First, Last, Next, Other, Previous, Quit};
    let keys = vec![
        Character('p'),
        Character('n'),
        Next,
        Other,
        Character('n'),
        Character('x'),
        Previous,
        Last,
        First,
        Character('l'),
        Character('f'),
        Quit,
    ];
    let (console, screen) = Console::captured(60);
    let fields = [
        "--fields",
        "carrier,flight",
        "--from",
        "[\"2013-07-04T12:00:00Z\"]",
    ];
    insta::assert_snapshot!(
        run(
            FakeSession::new(),
            (console.pressing(keys), screen),
            &with(&fields)
        )
        .await
    );
}

#[tokio::test]
async fn a_narrow_terminal_has_the_keys_without_their_names() {
    let (console, screen) = Console::captured(40);
    let keys = vec![Key::Next, Key::Interrupt];
    insta::assert_snapshot!(
        run(
            FakeSession::new(),
            (console.pressing(keys), screen),
            &with(&["--fields", "carrier,flight"])
        )
        .await
    );
}

#[tokio::test]
async fn a_page_without_rows_says_so() {
    insta::assert_snapshot!(
        run(
            FakeSession {
                pages: 0,
                ..FakeSession::new()
            },
            console(),
            &with(&[])
        )
        .await
    );
}

#[tokio::test]
async fn a_page_that_a_budget_cut_says_so() {
    let shown = run(
        FakeSession::new(),
        console(),
        &with(&["--allow-filter-scan", "--fields", "carrier"]),
    )
    .await;
    insta::assert_snapshot!(shown);
}

#[tokio::test]
async fn errors_point_into_the_text_they_are_about() {
    let mut all = String::new();
    for more in [
        &["--order-by", "time_hour upwards"][..],
        &["--filter", "origin = \"JFK\" AND carier = \"UA\""],
        &["--filter", "distance = 5"],
        &["--page-token", "garbage"],
    ] {
        let line: Vec<&str> = ["page", "flights"].iter().chain(more).copied().collect();
        all.push_str(&run(FakeSession::new(), console(), &line).await);
    }
    all.push_str(&run(FakeSession::new(), console(), &["page", "flihgts"]).await);
    all.push_str(
        &run(
            FakeSession {
                empty: true,
                ..FakeSession::new()
            },
            console(),
            &["page", "posts"],
        )
        .await,
    );
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn an_explanation_shows_sources_bounds_and_costs() {
    let line = ["explain", "flights", "--allow-filter-scan"];
    insta::assert_snapshot!(run(FakeSession::new(), console(), &line).await);
}

#[tokio::test]
async fn an_explanation_as_json_without_reading_the_page() {
    let line = ["explain", "flights", "--plan-only", "--json"];
    insta::assert_snapshot!(run(FakeSession::new(), console(), &line).await);
}

#[tokio::test]
async fn a_scan_prints_ndjson() {
    let line = [
        "scan",
        "flights",
        "--parallel",
        "4",
        "--resume-token",
        "T0",
        "--fields",
        "carrier, flight",
    ];
    insta::assert_snapshot!(run(FakeSession::new(), console(), &line).await);
}

#[tokio::test]
async fn a_scan_that_fails_says_how_to_go_on() {
    let session = FakeSession {
        failing_scan: true,
        ..FakeSession::new()
    };
    insta::assert_snapshot!(run(session, console(), &["scan", "flights"]).await);
}

#[tokio::test]
async fn a_store_and_a_collection_are_described() {
    let mut all = String::new();
    for line in [
        &["describe"][..],
        &["describe", "flights"],
        &["describe", "flights", "--json"],
        &["describe", "x"],
    ] {
        all.push_str(&run(FakeSession::new(), console(), line).await);
    }
    all.push_str(
        &run(
            FakeSession {
                empty: true,
                ..FakeSession::new()
            },
            console(),
            &["describe"],
        )
        .await,
    );
    insta::assert_snapshot!(all);
}

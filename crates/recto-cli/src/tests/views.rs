//! Tests of the output of `recto views`, `verify` and `repair`.

use super::*;

/// Returns the output without durations, which differ between runs.
fn timeless(shown: &str) -> String {
    let lines = shown.lines().filter(|line| !line.starts_with("in "));
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

#[tokio::test]
async fn views_are_listed_with_their_states() {
    let mut all = String::new();
    for line in [&["views"][..], &["views", "--json"]] {
        all.push_str(&run(FakeSession::new(), console(), line).await);
    }
    let empty = FakeSession {
        empty: true,
        ..FakeSession::new()
    };
    all.push_str(&run(empty, console(), &["views"]).await);
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn reports_differences_and_exits_with_4() {
    let mut all = String::new();
    for line in [
        &["verify"][..],
        &["verify", "flights", "--rate", "5", "--memory-mib", "1"],
        &["repair"],
        &["repair", "--json"],
    ] {
        let drifted = FakeSession {
            rejected: 24,
            ..FakeSession::new()
        };
        all.push_str(&timeless(&run(drifted, console(), line).await));
    }
    all.push_str(&timeless(&run(FakeSession::new(), console(), &["verify"]).await));
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn how_far_it_is_stands_in_a_file_until_it_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("place");
    let line = ["verify", "--checkpoint", path.to_str().unwrap()];
    let begun = run(FakeSession::new(), console(), &line).await;
    assert!(begun.contains("resume: None"), "{begun}");
    assert!(!path.exists(), "it is done");
    std::fs::write(&path, "from-here\n").unwrap();
    let gone_on = run(FakeSession::new(), console(), &line).await;
    assert!(gone_on.contains("resume: Some(\"from-here\")"), "{gone_on}");
    assert!(gone_on.contains("began 3 h 20 min ago"), "{gone_on}");
    assert!(!path.exists(), "it is done");
}

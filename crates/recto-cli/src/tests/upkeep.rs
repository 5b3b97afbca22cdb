//! Tests of the output of `recto backup`, `compact`, `check` and `cursor-keys`.

use super::*;

#[tokio::test]
async fn upkeep_says_what_was_done() {
    let mut all = String::new();
    for line in [
        &["backup", "copy", "--json"][..],
        &["compact", "--json", "--quiet"],
        &["check", "--json"],
    ] {
        all.push_str(&run(FakeSession::new(), console(), line).await);
    }
    for line in [&["backup", "copy"][..], &["compact"], &["check"]] {
        let shown = run(FakeSession::new(), console(), line).await;
        assert!(shown.starts_with("✓ "), "{shown}");
    }
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn a_check_that_finds_problems_exits_with_4() {
    let problems = (0..30)
        .map(|row| format!("flights row {row}: the checksum is not right"))
        .collect();
    let shown = run(
        FakeSession {
            problems,
            ..FakeSession::new()
        },
        console(),
        &["check"],
    )
    .await;
    let (first, rest) = shown.split_once('\n').unwrap();
    assert!(
        first.starts_with("✗ 336,779 rows checked in ") && first.ends_with("; 30 problems"),
        "{first}"
    );
    insta::assert_snapshot!(rest);
}

#[tokio::test]
async fn cursor_keys_are_numbers_and_ages() {
    let mut all = String::new();
    for line in [
        &["cursor-keys", "list"][..],
        &["cursor-keys", "list", "--json"],
        &["cursor-keys", "rotate"],
        &["cursor-keys", "rotate", "--earlier", "2", "--json"],
    ] {
        all.push_str(&run(FakeSession::new(), console(), line).await);
    }
    let empty = FakeSession {
        empty: true,
        ..FakeSession::new()
    };
    all.push_str(&run(empty, console(), &["cursor-keys", "list"]).await);
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn reports_what_was_recovered() {
    let mut all = String::new();
    let embedded = || FakeSession {
        empty: true,
        ..FakeSession::new()
    };
    let left = || FakeSession {
        rejected: 1,
        ..FakeSession::new()
    };
    for (session, line) in [
        (FakeSession::new(), &["recover", "--json"][..]),
        (FakeSession::new(), &["recover", "--watch", "--json"]),
        (left(), &["recover", "--json"]),
        (embedded(), &["recover"]),
        (embedded(), &["recover", "--watch"]),
        (embedded(), &["recover", "--json"]),
    ] {
        all.push_str(&run(session, console(), line).await);
        all.push('\n');
    }
    let failing = || FakeSession {
        failing_scan: true,
        ..FakeSession::new()
    };
    for line in [&["recover", "--watch", "--json"][..], &["recover", "--json"]] {
        all.push_str(&run(failing(), console(), line).await);
        all.push('\n');
    }
    for (session, mark) in [(FakeSession::new(), "✓ "), (left(), "✗ ")] {
        let shown = run(session, console(), &["recover"]).await;
        assert!(shown.starts_with(mark), "{shown}");
    }
    insta::assert_snapshot!(all);
}

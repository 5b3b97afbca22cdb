//! Tests of the output of `recto buckets`.

use super::*;

/// Returns the output without durations, which differ between runs.
fn timeless(shown: &str) -> String {
    let line = |line: &str| line.split(", in ").next().unwrap_or_default().to_owned();
    shown.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

#[tokio::test]
async fn buckets_are_listed_and_mended() {
    let mut all = String::new();
    for line in [
        &["buckets", "flights.tailnum"][..],
        &[
            "buckets",
            "flights.tailnum",
            "--page-size",
            "5",
            "--page-token",
            "x",
            "--json",
        ],
        &["buckets", "flights.tailnum", "--filter", "tailnum = \"N14228\""],
        &[
            "buckets",
            "flights.tailnum",
            "--filter",
            "tailnum = \"N\"",
            "--at",
            "[1]",
            "--json",
        ],
        &["buckets", "flights", "--filter", "carier = 1"],
        &["buckets", "fligts"],
        &["buckets", "flights.tailnum", "--rebalance"],
        &[
            "buckets",
            "flights",
            "--rebalance",
            "--clear",
            "--filter",
            "carrier = \"UA\"",
            "--json",
        ],
    ] {
        all.push_str(&format!("$ recto {}\n", line.join(" ")));
        all.push_str(&timeless(&run(FakeSession::new(), console(), line).await));
    }
    insta::assert_snapshot!(all);
}

//! `tune`, where it needs no store.

use super::*;

#[tokio::test]
async fn what_follows_of_a_target_is_said_and_drawn() {
    let mut all = String::new();
    for line in [
        &["tune", "--row", "1kB"][..],
        &[
            "tune",
            "--target",
            "100MB",
            "--row",
            "300",
            "--largest-row",
            "1MB",
            "--samples",
            "24",
            "--epsilon",
            "1e-9",
        ],
        &["tune", "--chance", "1/512", "--samples", "40"],
        &["tune", "--chance", "1/512", "--samples", "40", "--json"],
        &["tune", "--row", "1kB", "--json"],
    ] {
        all.push_str(&run(FakeSession::new(), console(), line).await);
    }
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let mut all = String::new();
    for line in [
        &["tune", "--row", "1MB"][..],
        &["tune", "--row", "1kB", "--target", "10kB"],
        &["tune", "--row", "1kB", "--target", "2GB"],
        &["tune", "--row", "1kB", "--epsilon", "0.5"],
        &["tune", "--row", "1kB", "--epsilon", "0"],
        &["tune", "--row", "1kB", "--samples", "0"],
        &["tune", "--chance", "0", "--samples", "40"],
        &["tune", "--chance", "3/2", "--samples", "40"],
        &["tune", "--chance", "1/0", "--samples", "40"],
    ] {
        all.push_str(&run(FakeSession::new(), console(), line).await);
    }
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn a_drawing_is_a_document_that_names_mean_and_target() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("buckets.svg");
    let line = ["tune", "--row", "1kB", "--svg", file.to_str().unwrap()];
    run(FakeSession::new(), console(), &line).await;
    let image = std::fs::read_to_string(file).unwrap();
    assert!(image.starts_with("<svg") && image.trim_end().ends_with("</svg>"));
    assert!(
        image.contains("mean 3.75") && image.contains("target 10.00"),
        "{image}"
    );
    let nowhere = folder.path().join("none/buckets.svg");
    let line = ["tune", "--row", "1kB", "--svg", nowhere.to_str().unwrap()];
    let shown = run(FakeSession::new(), console(), &line).await;
    assert!(
        shown.contains("buckets.svg cannot be written") && shown.ends_with("--- exit 1\n"),
        "{shown}"
    );
}

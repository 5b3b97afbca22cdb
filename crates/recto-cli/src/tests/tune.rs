//! Tests of `recto tune` without a store.

use super::*;

#[tokio::test]
async fn shows_the_size_distribution_for_a_target() {
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

/// Returns the output without the lines of the plot (Braille characters).
fn words(shown: &str) -> String {
    let is_drawn = |character| ('\u{2800}'..='\u{28ff}').contains(&character);
    let lines = shown.lines().filter(|line| !line.contains(is_drawn));
    lines.map(|line| format!("{line}\n")).collect()
}

#[tokio::test]
async fn distinguishes_tiny_probabilities_from_zero() {
    let mut all = String::new();
    for line in [
        // The output shows the probability that a bucket is smaller than a tenth of the target. In
        // the first case, it is too small for a floating-point number. In the second, it is 0: a
        // bucket has more samples than a tenth of the target has rows.
        &["tune", "--target", "1GB", "--row", "20", "--samples", "1024"][..],
        &["tune", "--target", "64KiB", "--row", "40", "--samples", "500"],
        &["tune", "--chance", "1e-9", "--samples", "1024"],
        &["tune", "--chance", "1", "--samples", "3"],
        &["tune", "--chance", "1/2", "--samples", "1"],
    ] {
        all.push_str(&words(&run(FakeSession::new(), console(), line).await));
    }
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn it_fits_a_narrow_terminal() {
    for width in [80, 40, 20, 1] {
        let line = ["tune", "--chance", "1/512", "--samples", "40"];
        let shown = run(FakeSession::new(), Console::captured(width), &line).await;
        let is_wide = |line: &&str| line.chars().count() > usize::from(width).max(80);
        assert_eq!(shown.lines().find(is_wide), None, "in {width}");
    }
}

#[tokio::test]
async fn rejects_options_out_of_range() {
    let mut all = String::new();
    for line in [
        &["tune", "--row", "1MB"][..],
        &["tune", "--row", "100MB"],
        &["tune", "--row", "1kB", "--target", "10kB"],
        &["tune", "--row", "1kB", "--target", "2GB"],
        &["tune", "--row", "1kB", "--epsilon", "0.5"],
        &["tune", "--row", "1kB", "--epsilon", "0"],
        &["tune", "--row", "1kB", "--samples", "0"],
        &["tune", "--chance", "0", "--samples", "40"],
        &["tune", "--chance", "3/2", "--samples", "40"],
        &["tune", "--chance", "1e-10", "--samples", "40"],
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
        image.contains("mean 3.8 MB") && image.contains("target 10.0 MB"),
        "{image}"
    );
    // The image has the declared size, and no background.
    assert!(
        image.contains(r#"width="860" height="420" viewBox="0 0 3440 1680""#),
        "{image}"
    );
    assert!(
        !image.contains("#FFFFFF") && !image.contains("#000000"),
        "{image}"
    );
    let nowhere = folder.path().join("none/buckets.svg");
    let line = ["tune", "--row", "1kB", "--svg", nowhere.to_str().unwrap()];
    let shown = run(FakeSession::new(), console(), &line).await;
    assert!(
        shown.contains("cannot write") && shown.contains("buckets.svg") && shown.ends_with("--- exit 1\n"),
        "{shown}"
    );
}

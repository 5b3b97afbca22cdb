//! Tests of `recto demo` with a fake session.

use super::*;
use crate::commands::demo::{Demo, show};

/// Runs the demo, and returns its output without durations, which differ between runs.
async fn shown(session: FakeSession) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (mut console, screen) = Console::captured(100);
    let session: Arc<dyn recto::Session> = Arc::new(session);
    let demo = Demo {
        session,
        address: "my demo".into(),
        folder: folder.path(),
        quiet: true,
    };
    let outcome = show(demo, &mut console).await;
    let exit = crate::finish(outcome, &mut console);
    let out: Vec<String> = screen
        .out()
        .lines()
        .map(|line| line.find(" stored in ").map_or(line, |at| &line[..at]).to_owned())
        .collect();
    format!("{}\n{}--- exit {}\n", out.join("\n"), screen.err(), exit.code())
}

#[tokio::test]
async fn a_demo_loads_and_shows_pages() {
    let session = FakeSession {
        empty: true,
        ..FakeSession::new()
    };
    insta::assert_snapshot!(shown(session).await);
}

#[tokio::test]
async fn the_file_is_put_beside_the_store_once_and_mended() {
    let folder = tempfile::tempdir().unwrap();
    for damage in [false, true] {
        let file = folder.path().join("flights.csv.gz");
        if damage {
            std::fs::write(&file, "half").unwrap();
        }
        let (mut console, _) = Console::captured(100);
        let session: Arc<dyn recto::Session> = Arc::new(FakeSession::new());
        let demo = Demo {
            session,
            address: "x".into(),
            folder: folder.path(),
            quiet: true,
        };
        show(demo, &mut console).await.unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().len(), 8_258_759);
    }
}

#[test]
fn the_schema_of_the_demo_is_right() {
    assert_eq!(replies::flights().collections[0].sort_orders().len(), 5);
}

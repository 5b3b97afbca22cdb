//! The console in headless Chromium, which `tests/browser/run.mjs` drives.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use recto_server::{Config, Server};
use tokio::process::Command;
use tokio::sync::oneshot;

use crate::fixture::Fixture;

/// How long the browser may take for everything.
const LIMIT: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_can_use_it_in_a_browser() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    assert!(
        folder.join("node_modules/playwright-core").is_dir(),
        "Playwright is missing: `scripts/test install`, or `npm ci` in {}",
        folder.display()
    );
    let fixture = Fixture::new().await;
    let config = Config {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        ..Config::default()
    };
    let server = Server::bind(fixture.session.clone(), &config).await.unwrap();
    let url = server.url();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.run(async move {
        stopped.await.ok();
    }));
    let screenshots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("console");
    std::fs::create_dir_all(&screenshots).unwrap();
    let mut browser = Command::new("node");
    browser
        .arg(folder.join("run.mjs"))
        .args([&url, screenshots.to_str().unwrap()])
        .kill_on_drop(true);
    let output = tokio::time::timeout(LIMIT, browser.output())
        .await
        .expect("the browser takes too long")
        .expect("node runs");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{said}");
    stop.send(()).ok();
    serving.await.unwrap().unwrap();
}

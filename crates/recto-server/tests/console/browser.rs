//! Checks the console in headless Chromium, controlled by the scripts in `tests/browser`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use recto::Environment;
use recto::schema::Schema;
use recto::session::{ApplyOptions, QueueSettings, Records as _, Session as _};
use recto_server::auth::{TokenFile, parse_grants};
use recto_server::{Config, Server};
use serde_json::json;
use tokio::process::Command;
use tokio::sync::oneshot;

use crate::fixture::Fixture;

/// Maximum time of all browser scripts together.
const LIMIT: Duration = Duration::from_secs(1_800);

/// Collection with one partition, which is stored in several buckets (ranges).
const IN_BUCKETS: &str = r#"
[collection.readings]
fields = { at = "timestamp", id = "int" }
key = ["at", "id"]
partition = []
order = ["-at"]
writes = "append"
bucket = { rows = 60 }
"#;
const READINGS: usize = 400;

/// Collection with unique emails, and with a view that is sorted by the rules of German.
const MEMBERS: &str = r#"
[collection.members]
fields = { id = "int", club = "text", name = "text", email = "text" }
key = ["id"]
unique = ["email"]

[collection.members.view.by_name]
partition = ["club"]
order = ["name"]
collate = "de"
"#;
/// Names in German order, which differs from byte order.
const NAMES: [&str; 5] = ["Adam", "Ärger", "Otto", "Özil", "Zorn"];

/// Writes the members, not in sorted order.
async fn fill_members(fixture: &Fixture) {
    let schema = Schema::parse(MEMBERS).unwrap();
    let tools = fixture.session.tools().unwrap();
    tools.apply(&schema, &ApplyOptions::new(), &|_| {}).await.unwrap();
    let member = |id: usize| {
        let name = NAMES[id * 3 % NAMES.len()];
        let member = json!({ "id": id, "club": "chess", "name": name, "email": format!("{id}@example.org") });
        member.as_object().unwrap().clone()
    };
    let members: Vec<_> = (0..NAMES.len()).map(member).collect();
    fixture.session.put("members", members, None).await.unwrap();
}

/// Creates the collection of [`IN_BUCKETS`], and fills it with one reading per minute.
async fn fill_buckets(fixture: &Fixture) {
    let schema = Schema::parse(IN_BUCKETS).unwrap();
    let tools = fixture.session.tools().unwrap();
    tools.apply(&schema, &ApplyOptions::new(), &|_| {}).await.unwrap();
    let reading = |number: usize| {
        let at = format!("2026-01-01T{:02}:{:02}:00Z", number / 60, number % 60);
        json!({ "at": at, "id": number }).as_object().unwrap().clone()
    };
    let readings: Vec<_> = (0..READINGS).map(reading).collect();
    fixture.session.put("readings", readings, None).await.unwrap();
}

/// Collection of samples by sensor, in buckets by time. There are more sensors than a page lists.
/// The first sensor has more buckets than a drawing shows, and one bucket that is much larger than
/// the others.
const BY_TIME: &str = r#"
[collection.samples]
fields = { sensor = "text", at = "timestamp", id = "int" }
key = ["sensor", "at", "id"]
partition = ["sensor"]
order = ["at"]
writes = "append"
bucket = { time = "at", width = "1 hour" }
"#;
/// Number of sensors. Each sensor except the first has one sample.
const SENSORS: usize = 70;
const SAMPLED_HOURS: usize = 70;
/// Number of samples in the second hour of the first sensor.
const SAMPLES_OF_BUSY_HOUR: usize = 400;

pub(crate) async fn fill_by_time(fixture: &Fixture) {
    let schema = Schema::parse(BY_TIME).unwrap();
    let tools = fixture.session.tools().unwrap();
    tools.apply(&schema, &ApplyOptions::new(), &|_| {}).await.unwrap();
    let sample = |sensor: usize, hour: usize, id: usize| {
        let at = format!("2026-01-{:02}T{:02}:30:00Z", 1 + hour / 24, hour % 24);
        let sample = json!({ "sensor": format!("s{sensor:02}"), "at": at, "id": id });
        sample.as_object().unwrap().clone()
    };
    let busy = (1..SAMPLES_OF_BUSY_HOUR).map(|id| sample(0, 1, id));
    let hours = (0..SAMPLED_HOURS).map(|hour| sample(0, hour, 0));
    let others = (1..SENSORS).map(|sensor| sample(sensor, 0, 0));
    let samples: Vec<_> = busy.chain(hours).chain(others).collect();
    fixture.session.put("samples", samples, None).await.unwrap();
}

/// Creates more queues than one page of the board (the table of queues) shows.
async fn fill_board(fixture: &Fixture) {
    let queues = fixture.session.queues().unwrap();
    for number in 0..100 {
        let name = format!("spare-{number:02}");
        queues
            .create_queue(&name, &QueueSettings::default())
            .await
            .unwrap();
    }
}

/// Runs a browser script against a server. The script gets the server's address, a folder for
/// screenshots, and the secrets in environment variables.
async fn drive(script: &str, fixture: &Fixture, tokens: Option<PathBuf>, secrets: &[(&str, String)]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    assert!(
        folder.join("node_modules/playwright-core").is_dir(),
        "Playwright is missing: `scripts/test install`, or `npm ci` in {}",
        folder.display()
    );
    let config = Config {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        tokens,
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
        .arg(folder.join(script))
        .args([&url, screenshots.to_str().unwrap()])
        .envs(secrets.iter().map(|(name, secret)| (name, secret)))
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: minutes of a browser, which keeps both processors busy"]
async fn people_can_use_it_in_a_browser() {
    let fixture = Fixture::new().await;
    crate::queues::fill(&fixture).await;
    fill_buckets(&fixture).await;
    fill_members(&fixture).await;
    drive("run.mjs", &fixture, None, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: a browser follows each kind of link, minutes in all"]
async fn clicks_each_kind_of_link_and_button() {
    let fixture = Fixture::new().await;
    crate::queues::fill(&fixture).await;
    fill_board(&fixture).await;
    fill_buckets(&fixture).await;
    fill_by_time(&fixture).await;
    fill_members(&fixture).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let grants = parse_grants(["*:all", "queue.*:all", "@store:all"]).unwrap();
    let (token, _) = TokenFile::create(&file, &Environment::system(), "tester", None, grants).unwrap();
    let secrets = [("TOKEN_ALL", token.reveal())];
    drive("crawl.mjs", &fixture, Some(file.clone()), &secrets).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_sign_in_with_a_token() {
    let fixture = Fixture::new().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let token = |grant: &str| {
        let grants = parse_grants([grant]).unwrap();
        let (text, _) = TokenFile::create(&file, &Environment::system(), "tester", None, grants).unwrap();
        text.reveal()
    };
    let secrets = [
        ("TOKEN_ALL", token("*:all")),
        ("TOKEN_UNITED", token("flights:read where carrier = \"UA\"")),
        ("TOKEN_PLACES", token("places:read")),
    ];
    drive("signin.mjs", &fixture, Some(file.clone()), &secrets).await;
}

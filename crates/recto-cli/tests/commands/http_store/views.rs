//! Tests of views through a server.

use std::fmt::Write as _;
use std::path::Path;

use recto::Recto;
use recto::session::Records as _;

use super::{Place, token};
use crate::support::{Server, lose_entries, recto, recto_with};

const SCHEMA: &str = r#"
[collection.users]
fields = { id = "bigint", status = "text", note = "text" }
key = ["id"]

[collection.users.view.by_status]
partition = ["status"]
order = ["-id"]
fields = ["note"]

[collection.words]
fields = { word = "text" }
key = ["word"]
"#;

const NEW_VIEW: &str = "
[collection.users.view.by_note]
partition = [\"note\"]
";

const USERS: u32 = 300;

/// Creates the stores `served` and `local` with equal content. Their view lacks the entries of
/// users with the status `away`.
fn drifted() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("recto.toml"), SCHEMA).unwrap();
    let mut csv = String::from("id,status,note\n");
    for id in 0..USERS {
        let status = if id % 50 == 7 { "away" } else { "here" };
        writeln!(csv, "{id},{status},note {}", id % 9).unwrap();
    }
    std::fs::write(path.join("users.csv"), csv).unwrap();
    recto(path, &["apply", "--yes", "--store", "served"]).done();
    recto(
        path,
        &["load", "users", "users.csv", "--quiet", "--store", "served"],
    )
    .done();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(lose(&path.join("served"), "away"));
    recto(path, &["backup", "local", "--store", "served", "--quiet"]).done();
    folder
}

/// Deletes the entries of one status from a view behind Recto's back, as another program could.
async fn lose(store: &Path, status: &str) {
    let recto = Recto::open(store).await.unwrap();
    let session = recto::LocalSession::new(recto.clone());
    let newest = session.get("users", &[(USERS - 1).to_string()]).await.unwrap();
    let version = newest.unwrap().version.unwrap();
    lose_entries(&recto, "by_status", status, version).await;
    recto.close().await.unwrap();
}

fn place() -> Place {
    let folder = drifted();
    let server = Server::start(folder.path(), &["--store", "served"]);
    Place { folder, server }
}

#[test]
fn views_are_listed_compared_and_mended_the_same() {
    let place = place();
    for (code, line) in [
        (0, &["views"][..]),
        (0, &["views", "users", "--json"]),
        (0, &["views", "words"]),
        (3, &["views", "nowhere"]),
        (4, &["verify", "--quiet"]),
        (4, &["verify", "users", "--rate", "1000000", "--json", "--quiet"]),
        (0, &["verify", "words", "--quiet"]),
        (3, &["verify", "users", "nowhere", "--quiet"]),
        (2, &["verify", "--rate", "0"]),
        (3, &["repair", "nowhere"]),
        (0, &["repair", "users", "--json", "--quiet"]),
        (0, &["repair", "--quiet"]),
        (0, &["verify", "--json"]),
    ] {
        assert_eq!(place.same(line), code, "{line:?}");
    }
    for line in [
        &["verify", "--memory-mib", "1"][..],
        &["repair", "--memory-mib", "1"],
    ] {
        let said = place.http(line).failed(2, "a server chooses the memory");
        assert!(said.contains("hint: leave --memory-mib out"), "{said}");
    }
    let filter = ["page", "users", "--filter", "status = \"away\"", "--json"];
    assert_eq!(place.same(&filter), 0);
}

#[test]
fn versions_are_told_the_same() {
    let place = place();
    let here = [
        "page",
        "users",
        "--filter",
        "status = \"here\"",
        "--page-size",
        "3",
        "--versions",
    ];
    let json = [&here[..], &["--json", "--fields", "id"]].concat();
    for line in [&here[..], &json, &["scan", "users", "--versions"]] {
        assert_eq!(place.same(line), 0, "{line:?}");
    }
    let page: serde_json::Value = serde_json::from_str(&place.http(&json).done()).unwrap();
    let id = page["records"][0]["id"].as_str().unwrap();
    let version = page["versions"][0].as_str().unwrap();
    assert!(
        place.http(&["get", "users", id]).done().contains(version),
        "{page}"
    );
    let shown = place.http(&here).done();
    assert!(shown.contains(&format!("row 1: version {version}")), "{shown}");
}

#[test]
fn rejects_invalid_commands_like_a_local_store() {
    let place = place();
    let all = ["scan", "users", "--versions"];
    let before = place.http(&all).done();
    let long = format!("{{\"id\": 5000, \"status\": \"{}\"}}", "x".repeat(9 << 10));
    for (code, line) in [
        (2, &["insert", "users", "{\"id\": 1}"][..]),
        (2, &["insert", "users", "{\"status\": \"x\"}"]),
        (2, &["insert", "users", "{\"id\": null}"]),
        (2, &["insert", "users", "{\"id\": 5000, \"id\": 5001}"]),
        (2, &["insert", "users", "{\"id\": 5000, \"stauts\": \"x\"}"]),
        (2, &["insert", "users", "{\"id\": \"many\"}"]),
        (2, &["insert", "users", &long]),
        (3, &["insert", "uesrs", "{\"id\": 5000}"]),
        (2, &["update", "users", "1", "stauts=x"]),
        (2, &["update", "users", "1", "id=2"]),
        (2, &["update", "users", "1", "status=a", "status=b"]),
        (2, &["update", "users", "one", "status=a"]),
        (2, &["update", "users", "1", "status=a", "--if-version", "17"]),
        (2, &["update", "users", "1", "status=a", "--if-version", "x"]),
        (3, &["update", "users", "5000", "status=a"]),
        (2, &["put", "users", "{\"id\": 1}", "--if-version", "17"]),
        (2, &["delete", "users", "1", "--if-version", "17"]),
        (2, &["page", "users", "--view", "by_nothing"]),
        (2, &["page", "users", "--filter", "stauts = \"here\""]),
    ] {
        assert_eq!(place.same(line), code, "{line:?}");
    }
    assert_eq!(place.http(&all).done(), before);
    assert_eq!(place.same(&all), 0);
}

#[test]
fn a_view_is_added_through_a_server_as_fast_as_is_said() {
    let place = place();
    std::fs::write(place.path().join("recto.toml"), format!("{SCHEMA}{NEW_VIEW}")).unwrap();
    let apply = ["apply", "--yes", "--rate", "200", "--quiet"];
    let began = std::time::Instant::now();
    place.http(&apply).done();
    // Filling the view reads 300 records, and the following comparison 300 entries. At 200 rows per
    // second, they take about 3 seconds together, so require at least 2.
    let least = std::time::Duration::from_secs(2);
    assert!(began.elapsed() >= least, "{:?}", began.elapsed());
    place.local(&["apply", "--yes", "--quiet"]).done();
    assert_eq!(place.same(&["views", "--json"]), 0);
    let filter = ["page", "users", "--filter", "note = \"note 3\"", "--json"];
    assert_eq!(place.same(&filter), 0);
    place.http(&["repair", "--quiet"]).done();
}

#[test]
fn requires_record_rights_for_verify_and_repair() {
    let folder = drifted();
    let path = folder.path();
    let compares = "@store:verify,repair";
    let with = |grant: &str| {
        let line = ["token", "create", "ada", "--grant", grant, "--grant", compares];
        let line = [&line[..], &["--store", "local", "--json"]].concat();
        let made: serde_json::Value = serde_json::from_str(&recto(path, &line).done()).unwrap();
        made["token"].as_str().unwrap().to_owned()
    };
    let (reads, writes, all) = (with("users:read"), with("users:write"), token(path, "*:all"));
    let both = with("*:read,write");
    let refused = [
        "token",
        "create",
        "ada",
        "--grant",
        "users:read where id = 1",
        "--grant",
        compares,
    ];
    recto(path, &refused).failed(2, "a row filter");
    let server = Server::start(path, &["--store", "served", "--tokens", "tokens.toml"]);
    let run_bare = |line: &[&str], token: &str| {
        let line = [line, &["--store", &server.url]].concat();
        recto_with(path, &line, &[("RECTO_TOKEN", token)], b"")
    };
    let run = |line: &[&str], token: &str| run_bare(&[line, &["--quiet"]].concat(), token);
    for line in [
        &["insert", "users", "{\"id\": 5000}"][..],
        &["update", "users", "1", "note=x"],
    ] {
        run_bare(line, &reads).failed(1, "lacks the right write in users");
    }
    run_bare(&["delete", "users", "1"], &reads).failed(1, "lacks the right delete in users");
    run(&["verify"], &all).failed(1, "lacks the right verify of the store");
    run(&["repair"], &all).failed(1, "lacks the right repair of the store");
    run(&["verify"], &writes).failed(1, "lacks the right read in users");
    run(&["repair"], &writes).failed(1, "lacks the right read in users");
    run(&["repair"], &reads).failed(1, "lacks the right write in users");
    run(&["verify", "words"], &reads).failed(3, "words");
    let found = run(&["verify"], &reads);
    assert_eq!(
        (found.code, found.out.contains("6 missing")),
        (4, true),
        "{found:?}"
    );
    run(&["repair"], &both).done();
    run(&["verify"], &reads).done();
}

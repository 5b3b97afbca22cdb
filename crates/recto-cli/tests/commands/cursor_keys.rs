//! Tests of `recto cursor-keys` with the binary: a page token is valid as long as the key exists
//! that encrypted the token.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value as Json;

const SCHEMA: &str = r#"
[collection.notes]
fields = { shelf = "text", id = "int" }
key = ["shelf", "id"]
partition = ["shelf"]
order = ["id"]
writes = "overwrite"
"#;

fn recto(folder: &Path, line: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_recto"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RECTO_") {
            command.env_remove(name);
        }
    }
    command.args(line).current_dir(folder).output().unwrap()
}

fn done(folder: &Path, line: &[&str]) -> String {
    let output = recto(folder, line);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line:?}: {err}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(folder: &Path, line: &[&str]) -> Json {
    serde_json::from_str(&done(folder, line)).unwrap()
}

fn page<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut line = vec![
        "page",
        "notes",
        "--filter",
        "shelf = \"a\"",
        "--page-size",
        "2",
        "--json",
    ];
    line.extend(more);
    line
}

fn ids(keys: &Json) -> Vec<(u64, bool)> {
    let keys = keys["keys"].as_array().unwrap().iter();
    keys.map(|key| (key["id"].as_u64().unwrap(), key["encrypts"].as_bool().unwrap()))
        .collect()
}

#[test]
fn keys_are_listed_and_rotated_and_never_shown() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    std::fs::write(folder.join("recto.toml"), SCHEMA).unwrap();
    done(folder, &["apply", "--yes"]);
    for id in 0..6 {
        done(
            folder,
            &["put", "notes", &format!("{{\"shelf\": \"a\", \"id\": {id}}}")],
        );
    }
    assert_eq!(
        ids(&json(folder, &["cursor-keys", "list", "--json"])),
        [(1, true)]
    );
    let first = json(folder, &page(&[]));
    let token = first["next_page_token"].as_str().unwrap();

    let rotated = json(folder, &["cursor-keys", "rotate", "--earlier", "1", "--json"]);
    assert_eq!(ids(&rotated), [(1, false), (2, true)]);
    assert!(rotated["keys"][1]["age_seconds"].as_u64().unwrap() < 3_600);
    let second = json(folder, &page(&["--page-token", token]));
    assert_eq!(second["records"][0]["id"], 2);
    let newer = second["next_page_token"].as_str().unwrap();

    let shown = done(folder, &["cursor-keys", "rotate", "--earlier", "1"]);
    assert!(
        shown.starts_with("✓ key 3 encrypts now; 1 earlier key kept\n"),
        "{shown}"
    );
    let third = json(folder, &page(&["--page-token", newer]));
    assert_eq!(third["records"][0]["id"], 4);
    let refused = recto(folder, &page(&["--page-token", token]));
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("unknown key"));

    // The output shows only the id, the age and the use of each key, not its secret.
    let listed = json(folder, &["cursor-keys", "list", "--json"]);
    for key in listed["keys"].as_array().unwrap() {
        let names: Vec<&String> = key.as_object().unwrap().keys().collect();
        assert_eq!(names, ["id", "encrypts", "created_at_seconds", "age_seconds"]);
    }
}

#[tokio::test]
async fn keys_are_listed_beside_who_reads() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    std::fs::write(folder.join("recto.toml"), SCHEMA).unwrap();
    done(folder, &["apply", "--yes"]);
    let options = recto::OpenOptions::new().read_only();
    let reader = recto::Recto::open_with(folder.join("recto.data"), options)
        .await
        .unwrap();
    let listed = json(folder, &["cursor-keys", "list", "--json"]);
    assert_eq!(ids(&listed), [(1, true)]);
    // `cursor-keys rotate` fails while the reader has the store open, because a writer needs the
    // store exclusively.
    let refused = recto(folder, &["cursor-keys", "rotate"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    reader.close().await.unwrap();
}

#[test]
fn rejects_a_rotation_that_keeps_too_many_keys() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    assert_eq!(recto(folder, &["cursor-keys", "list"]).status.code(), Some(3));
    std::fs::write(folder.join("recto.toml"), SCHEMA).unwrap();
    done(folder, &["apply", "--yes"]);
    let refused = recto(folder, &["cursor-keys", "rotate", "--earlier", "16"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("at most 15"));
    assert_eq!(
        ids(&json(folder, &["cursor-keys", "list", "--json"])),
        [(1, true)]
    );
}

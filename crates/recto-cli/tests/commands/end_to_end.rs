//! Tests of the binary on an embedded store: correct and incorrect use of each command.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value as Json;

/// Temporary folder in which the binary runs.
struct Place(tempfile::TempDir);

/// Output and exit code of one run of the binary.
struct Ran {
    out: String,
    err: String,
    code: i32,
}

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Creates a folder with a store that has the empty collection `flights`.
    fn with_store() -> Self {
        let place = Self::new();
        place.write("recto.toml", SCHEMA);
        place.run(&["apply", "--yes"]).done();
        place
    }

    /// Creates a folder with a store of thirty flights.
    fn with_rows() -> Self {
        let place = Self::with_store();
        place.write("flights.csv", &rows(30));
        place.run(&["load", "flights", "flights.csv"]).done();
        place
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_recto"));
        command.args(line).current_dir(self.0.path());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("RECTO_") {
                command.env_remove(name);
            }
        }
        command
    }

    fn run(&self, line: &[&str]) -> Ran {
        Ran::of(&self.command(line).stdin(Stdio::null()).output().unwrap())
    }

    fn run_with_input(&self, line: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command(line);
        let command = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Ignore an error: a command that rejects its arguments closes its input early, and its
        // output shows the reason.
        let _ = child.stdin.take().unwrap().write_all(input);
        Ran::of(&child.wait_with_output().unwrap())
    }
}

impl Ran {
    fn of(output: &Output) -> Self {
        Self {
            out: String::from_utf8(output.stdout.clone()).unwrap(),
            err: String::from_utf8(output.stderr.clone()).unwrap(),
            code: output.status.code().unwrap(),
        }
    }

    /// Checks that the run succeeded. Returns its standard output.
    fn done(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// Checks that the run ended with `code`, printed `text` on standard error, and did not panic. Returns standard
    /// error.
    fn failed(self, code: i32, text: &str) -> String {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        assert!(self.err.contains(text), "{}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self.err
    }
}

const SCHEMA: &str = r#"
[collection.flights]
fields = { carrier = "text", day = "date", flight = "int", delay = "smallint", note = "text" }
key = ["carrier", "day", "flight"]
partition = ["carrier"]
order = ["-day"]
writes = "append"
"#;

/// Returns the text of a CSV file with `count` flights, of two carriers.
fn rows(count: u32) -> String {
    let mut text = String::from("carrier,day,flight,delay,note\n");
    for row in 0..count {
        let carrier = if row % 3 == 0 { "B6" } else { "UA" };
        let (day, delay) = (row % 28 + 1, i64::from(row) - 10);
        writeln!(text, "{carrier},2013-01-{day:02},{row},{delay},").unwrap();
    }
    text
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn flight_numbers(page: &Json) -> Vec<i64> {
    page["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| record["flight"].as_i64().unwrap())
        .collect()
}

const UNITED: [&str; 6] = [
    "page",
    "flights",
    "--filter",
    "carrier = \"UA\"",
    "--page-size",
    "6",
];

fn page(place: &Place, more: &[&str]) -> Json {
    let line: Vec<&str> = UNITED.iter().chain(&["--json"]).chain(more).copied().collect();
    json(&place.run(&line).done())
}

#[test]
fn creates_a_store_only_after_confirmation() {
    let place = Place::new();
    place.run(&["init"]).done();
    let plan = place.run(&["plan"]).done();
    assert!(plan.contains("posts"), "{plan}");
    place.run(&["apply"]).failed(2, "--yes");
    assert!(!place.path("recto.data").exists());
    place.run(&["apply", "--yes"]).done();
    assert!(place.run(&["plan"]).done().contains("nothing to change"));
    assert!(place.run(&["apply"]).done().contains("nothing to change"));
    assert!(place.run(&["describe"]).done().contains("(user_id), -post_id"));
    place.run(&["init"]).failed(2, "already exists");
    let described = json(&place.run(&["describe", "--json"]).done());
    assert_eq!(described["generation"], 1);
    let toml = place.run(&["describe", "--toml"]).done();
    place.write("again.toml", &toml);
    assert!(
        place
            .run(&["plan", "--schema", "again.toml"])
            .done()
            .contains("nothing to change")
    );
}

#[test]
fn loads_good_rows_once_and_writes_a_reject_file() {
    let place = Place::with_store();
    let mut text = rows(10);
    text.push_str("UA,2013-13-45,100,0,\nUA,,101,0,\nUA,2013-02-01,many,0,\n");
    place.write("flights.csv", &text);
    let ran = place.run(&["load", "flights", "flights.csv", "--json"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    let report = json(&ran.out);
    assert_eq!(report["collections"][0]["rows_stored"], 10);
    assert_eq!(report["collections"][0]["rows_rejected"], 3);
    let rejects =
        std::fs::read_to_string(report["rejects"].as_str().map(|file| place.path(file)).unwrap()).unwrap();
    assert!(
        rejects.contains("2013-13-45") && rejects.contains("many"),
        "{rejects}"
    );
    // A repeated load stores nothing and reports the rejected rows again.
    let again = place.run(&["load", "flights", "flights.csv"]);
    assert_eq!(again.code, 4, "{}", again.err);
    assert!(
        again.out.contains("nothing was done") && again.out.contains("3 rejected"),
        "{}",
        again.out
    );
    assert_eq!(
        place
            .run(&["load", "flights", "flights.csv", "--again", "--quiet"])
            .code,
        4
    );
    assert_eq!(place.run(&["scan", "flights"]).done().lines().count(), 10);
}

#[test]
fn a_load_of_rejected_rows_only_has_no_check_mark() {
    let place = Place::with_store();
    place.write("wrong.csv", "carrier,day,flight,note\nUA,2013-01-01,x,b\n");
    let ran = place.run(&["load", "flights", "wrong.csv"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.out.starts_with("✗ wrong.csv: 1 row"), "{}", ran.out);
}

/// Runs `recto load` with `input` as standard input. Returns the result, and the number of
/// temporary files that the command left.
fn load_stdin(place: &Place, options: &[&str], input: &[u8]) -> (Ran, usize) {
    let temporary = place.path("temporary");
    std::fs::create_dir_all(&temporary).unwrap();
    let line = [&["load", "flights", "-"], options].concat();
    let mut command = place.command(&line);
    let command = command
        .env("TMPDIR", &temporary)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input);
    let ran = Ran::of(&child.wait_with_output().unwrap());
    (ran, std::fs::read_dir(temporary).unwrap().count())
}

#[test]
fn standard_input_is_loaded() {
    let place = Place::with_store();
    let csv = b"carrier,day,flight,note\nUA,2013-01-01,1,a\nUA,2013-01-01,x,b\n";
    let (ran, left) = load_stdin(&place, &["--quiet"], csv);
    assert_eq!((ran.code, left), (4, 0), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("standard input: 2 rows"), "{}", ran.out);
    assert!(ran.out.contains("stdin.rejects.csv"), "{}", ran.out);
    assert!(place.read("stdin.rejects.csv").contains(",UA,2013-01-01,x,b"));
    // Two loads of the same content from standard input count as the same load, so the second one
    // does nothing.
    let (ran, _) = load_stdin(&place, &["--quiet"], csv);
    assert!(ran.out.contains("nothing was done"), "{}", ran.out);
    let ndjson = b" {\"carrier\":\"UA\",\"day\":\"2013-01-02\",\"flight\":2}\n";
    let (ran, left) = load_stdin(&place, &[], ndjson);
    assert_eq!((ran.code, left), (0, 0), "{}{}", ran.out, ran.err);
    assert_eq!(place.run(&["scan", "flights"]).done().lines().count(), 2);
    let (ran, left) = load_stdin(&place, &[], b"");
    assert_eq!((ran.code, left), (2, 0), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("standard input is empty"), "{}", ran.err);
}

#[test]
fn csv_of_other_programs_is_loaded() {
    let place = Place::with_store();
    place.write(
        "flights.csv",
        "Carrier;day;flight;delay;note\nUA;31/01/2013;7.0;NA;\"\"\nUA;30/01/2013;8;5;none\n",
    );
    let load = ["load", "flights", "flights.csv"];
    place.run(&load).failed(2, "the separator of the file is ;");
    let mapped = [&load[..], &["--delimiter", ";", "--map", "Carrier=carrier"]].concat();
    let ran = place.run(&mapped);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.out.contains("hint: --time-format"), "{}", ran.out);
    std::fs::remove_file(place.path("flights.csv.rejects.csv")).unwrap();
    let options = [
        "--null",
        "NA",
        "--null",
        "none",
        "--time-format",
        "%d/%m/%Y",
        "--time-zone",
        "-05:00",
    ];
    place.run(&[&mapped[..], &options[..]].concat()).done();
    let scanned = place.run(&["scan", "flights"]).done();
    let expected = [
        r#"{"carrier":"UA","day":"2013-01-31","flight":7,"note":""}"#,
        r#"{"carrier":"UA","day":"2013-01-30","flight":8,"delay":5}"#,
    ];
    assert_eq!(scanned.lines().collect::<Vec<_>>(), expected);
    for (options, words) in [
        (&["--delimiter", "ab"][..], "cannot separate cells"),
        (&["--map", "x"], "does not map a column to a field"),
        (&["--blobs", "octal"], "base64 or hex"),
        (&["--time-zone", "Nowhere"], "there is no time zone"),
        (&["--time-format", "%Q"], "the code %Q does not exist"),
    ] {
        let line = if options[0] == "--delimiter" {
            &load[..]
        } else {
            &mapped[..]
        };
        place.run(&[line, options].concat()).failed(2, words);
    }
}

#[test]
fn pages_are_turned_forwards_and_backwards() {
    let place = Place::with_rows();
    let mut forwards = Vec::new();
    let mut token = String::new();
    loop {
        let page = page(&place, &["--page-token", &token]);
        forwards.push(flight_numbers(&page));
        page["next_page_token"].as_str().unwrap().clone_into(&mut token);
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(forwards.concat().len(), 20);
    let mut page_back = page(&place, &["--last"]);
    let mut backwards = vec![flight_numbers(&page_back)];
    while let Some(token) = page_back["previous_page_token"]
        .as_str()
        .filter(|token| !token.is_empty())
    {
        page_back = page(&place, &["--page-token", token]);
        backwards.push(flight_numbers(&page_back));
    }
    backwards.reverse();
    assert_eq!(backwards.concat(), forwards.concat());
}

#[test]
fn a_page_takes_every_option() {
    let place = Place::with_rows();
    let from = page(
        &place,
        &[
            "--from",
            "[\"2013-01-10\"]",
            "--row-page-tokens",
            "--both-edges",
            "--fields",
            "flight",
        ],
    );
    // The page starts at the newest day that is not after the day in the request.
    assert_eq!(flight_numbers(&from)[0], 8);
    let token = from["row_page_tokens"][2].as_str().unwrap();
    let around = page(&place, &["--around", token]);
    assert_eq!(flight_numbers(&around)[3], flight_numbers(&from)[2]);
    let table = place
        .run(&[&UNITED[..], &["--fields", "day,flight,note"]].concat())
        .done();
    assert!(
        table.contains("null") && table.contains("next page:     --page-token "),
        "{table}"
    );
    let oldest = page(&place, &["--order-by", "day"]);
    assert_eq!(oldest["records"][0]["day"], "2013-01-01");
    let filter = "carrier = \"UA\" AND delay > 0";
    let late = place
        .run(&[
            "page",
            "flights",
            "--filter",
            filter,
            "--allow-filter-scan",
            "--json",
        ])
        .done();
    assert_eq!(flight_numbers(&json(&late)).len(), 13);
}

#[test]
fn records_are_put_got_and_deleted() {
    let place = Place::with_store();
    place
        .run(&[
            "put",
            "flights",
            r#"{"carrier": "A,B", "day": "2013-01-01", "flight": -7, "note": "x"}"#,
        ])
        .done();
    let got = place
        .run(&["get", "flights", "A,B", "2013-01-01", "-7", "--json"])
        .done();
    assert_eq!(json(&got)["note"], "x");
    assert_eq!(
        place
            .run(&["get", "flights", "A%2CB,2013-01-01,-7", "--json"])
            .done(),
        got
    );
    assert!(
        place
            .run(&["get", "flights", "A,B", "2013-01-01", "-7"])
            .done()
            .contains("delay    null")
    );
    place
        .run(&["delete", "flights", "A,B", "2013-01-01", "-7"])
        .done();
    place
        .run(&["get", "flights", "A,B", "2013-01-01", "-7"])
        .failed(3, "has no record");
    let input = "{\"carrier\":\"UA\",\"day\":\"2013-01-01\",\"flight\":1}\n{\"carrier\":\"UA\",\"day\":\"2013-01-02\",\"flight\":2}\n";
    assert!(
        place
            .run_with_input(&["put", "flights"], input.as_bytes())
            .done()
            .contains("2 records")
    );
    let bad = "{\"carrier\":\"UA\",\"day\":\"2013-01-03\",\"flight\":3}\n{\"carrier\":\"UA\",\"day\":\"2013-01-04\",\"flite\":4}\n";
    place
        .run_with_input(&["put", "flights"], bad.as_bytes())
        .failed(2, "flite");
    assert_eq!(
        place.run(&["scan", "flights"]).done().lines().count(),
        2,
        "all of one put, or none"
    );
}

#[test]
fn explain_and_upkeep() {
    let place = Place::with_rows();
    let explained = json(
        &place
            .run(&["explain", "flights", "--filter", "carrier = \"UA\"", "--json"])
            .done(),
    );
    assert_eq!(explained["shape"], "scan");
    assert_eq!(explained["actual"]["rows_returned"], 20);
    let drawn = place
        .run(&[
            "explain",
            "flights",
            "--filter",
            "carrier = \"UA\"",
            "--plan-only",
        ])
        .done();
    assert!(
        drawn.contains("└─ carrier = \"UA\"") && !drawn.contains("actual"),
        "{drawn}"
    );
    let checked = json(&place.run(&["check", "--json"]).done());
    assert_eq!(checked["rows"], 30, "{checked}");
    assert_eq!(checked["collections"], serde_json::json!({ "flights": 30 }));
    assert!(
        checked["internal_rows"].as_u64().unwrap() >= 2,
        "the catalog is checked too: {checked}"
    );
    let drawn = place.run(&["check"]).done();
    assert!(
        drawn.starts_with("✓ 30 rows checked in ") && drawn.ends_with("\n  flights  30\n"),
        "{drawn}"
    );
    place.run(&["backup", "copy"]).done();
    let copied = place.run(&["scan", "flights", "--store", "copy"]).done();
    assert_eq!(copied.lines().count(), 30);
    place
        .run(&["backup", "copy"])
        .failed(2, "a store exists already at copy");
    place.run(&["compact", "--json"]).done();
}

#[test]
fn a_backup_is_checked_and_restored() {
    let place = Place::with_rows();
    place.run(&["backup", "copy"]).done();
    let restored = json(
        &place
            .run(&["restore", "copy", "--store", "new/store", "--json"])
            .done(),
    );
    assert_eq!(
        (&restored["rows"], &restored["to"]),
        (&30.into(), &"new/store".into())
    );
    let copied = place.run(&["scan", "flights", "--store", "new/store"]).done();
    assert_eq!(copied, place.run(&["scan", "flights"]).done());
    let shown = place.run(&["restore", "copy", "--store", "second"]).done();
    assert!(shown.starts_with("✓ restored 30 rows ("), "{shown}");
    let refused = place
        .run(&["restore", "copy"])
        .failed(2, "a store exists already at recto.data");
    assert!(refused.contains("rename its folder"), "{refused}");
    place
        .run(&["restore", "nowhere", "--store", "third"])
        .failed(3, "name the folder of a backup");
    place
        .run(&["restore", "copy", "--store", "http://127.0.0.1:1"])
        .failed(2, "to a folder");
    let note = r#"{"carrier":"UA","day":"2013-01-01","flight":900,"note":"this one will be damaged"}"#;
    place.run(&["put", "flights", note]).done();
    place.run(&["backup", "bad"]).done();
    let path = place.path("bad/data.redb");
    let mut data = std::fs::read(&path).unwrap();
    let note = b"this one will be damaged";
    let at = data.windows(note.len()).position(|part| part == note).unwrap();
    data[at] ^= 1;
    std::fs::write(&path, data).unwrap();
    place
        .run(&["restore", "bad", "--store", "third"])
        .failed(1, "the backup bad is damaged");
    assert!(!place.path("third").exists());
}

#[test]
fn check_counts_records_and_no_marks_of_split_partitions() {
    let place = Place::new();
    let schema = SCHEMA.replace(
        "writes = \"append\"",
        "writes = \"append\"\nbucket = { rows = 8 }",
    );
    place.write("recto.toml", &schema);
    place.run(&["apply", "--yes"]).done();
    place.write("flights.csv", &rows(30));
    place.run(&["load", "flights", "flights.csv"]).done();
    let listed = json(&place.run(&["buckets", "flights", "--json"]).done());
    let is_split = |one: &Json| one["buckets"].as_u64().unwrap() > 1;
    assert!(
        listed["partitions"].as_array().unwrap().iter().any(is_split),
        "{listed}"
    );
    let checked = json(&place.run(&["check", "--json"]).done());
    assert_eq!(checked["collections"], serde_json::json!({ "flights": 30 }));
    assert_eq!(checked["rows"], 30);
}

#[test]
fn a_missing_store_is_refused_in_words_of_commands() {
    let place = Place::new();
    let shown = place
        .run(&["serve", "--store", "nothere"])
        .failed(3, "there is no store at nothere");
    assert!(shown.contains("recto apply --schema FILE"), "{shown}");
}

const PEOPLE: &str = r#"
[collection.people]
fields = { id = "bigint", name = "text", created = "timestamp" }
key = ["id"]

[collection.people.view.by_created]
partition = ["name"]
order = ["-created"]
"#;

/// Checks the error of a query that no view serves: it first shows a view that would serve the query, and
/// then the reason for each existing view.
#[test]
fn a_refused_query_shows_a_view_that_works() {
    let place = Place::new();
    place.write("recto.toml", PEOPLE);
    let applied = place.run(&["apply", "--yes"]).done();
    let is_hidden = ["recto_tokens", "recto_null"]
        .iter()
        .any(|name| applied.contains(name));
    assert!(!is_hidden, "{applied}");
    let records = "{\"id\":1,\"name\":\"eve\"}\n{\"id\":2,\"name\":\"ada\"}\n";
    place
        .run_with_input(&["put", "people"], records.as_bytes())
        .done();
    let sorted = ["page", "people", "--sort", "name"];
    let said = place
        .run(&sorted)
        .failed(2, "error: no view serves this query\nhint:\n");
    assert!(said.lines().all(|line| line.chars().count() < 160), "{said}");
    assert!(
        !said.contains("arrangement") && !said.contains("pinned"),
        "{said}"
    );
    let (_, view) = said.split_once("[collection.people.view.by_name]").unwrap();
    let (view, why) = view.split_once("why not:").unwrap();
    assert!(
        why.contains("\n  view by_created: needs `name = …` in the filter"),
        "{why}"
    );
    place.write(
        "recto.toml",
        &format!("{PEOPLE}\n[collection.people.view.by_name]{view}"),
    );
    place.run(&["apply", "--yes"]).done();
    let shown = place.run(&sorted).done();
    assert!(shown.find("ada").unwrap() < shown.find("eve").unwrap(), "{shown}");
    let newest = ["page", "people", "--filter", "name = \"ada\""];
    let shown = place.run(&newest).done();
    assert!(
        !shown.contains("recto_") && !shown.contains("round trip"),
        "{shown}"
    );
    let explained = place.run(&[&["explain"], &newest[1..]].concat()).done();
    assert!(!explained.contains("0 round trips"), "{explained}");
    let counted = place.run(&[&newest[..], &["--count", "exact"]].concat()).done();
    assert!(counted.contains("rows 1 to"), "{counted}");
}

#[test]
fn a_page_without_a_filter_says_what_to_add() {
    let place = Place::with_rows();
    let said = place
        .run(&["page", "flights"])
        .failed(2, "add `carrier = …` to the filter");
    assert!(said.contains("[collection.flights.view.all]"), "{said}");
    assert!(
        said.contains("order = [\"carrier\", \"day\", \"flight\"]"),
        "{said}"
    );
    let garbage = [
        "page",
        "flights",
        "--filter",
        "carrier = \"UA\"",
        "--page-token",
        "abcd",
    ];
    let said = place.run(&garbage).failed(2, "page token");
    assert!(said.contains("exactly as the page had it"), "{said}");
}

/// Checks that commands distinguish a schema file from a server's configuration file. Both are
/// TOML.
#[test]
fn a_schema_and_a_configuration_are_told_apart() {
    let place = Place::with_store();
    place.write(
        "server.toml",
        "store = \"x\"\n[serve]\nlisten = \"127.0.0.1:0\"\n",
    );
    place
        .run(&["apply", "--yes", "--schema", "server.toml"])
        .failed(2, "a server configuration");
    place
        .run(&["serve", "--config", "recto.toml"])
        .failed(2, "belongs to a schema");
}

#[test]
fn a_second_copy_says_how_to_go_on() {
    let place = Place::with_rows();
    let copy = ["copy", "--from", "recto.data", "--to", "second"];
    place.run(&copy).done();
    let said = place.run(&copy).failed(2, "that are not from this copy");
    assert!(said.contains("recto apply --remove flights --store"), "{said}");
}

#[test]
fn nothing_put_has_no_check_mark() {
    let place = Place::with_store();
    let shown = place.run_with_input(&["put", "flights"], b"").done();
    assert_eq!(shown, "! put 0 records\n");
}

#[test]
fn an_unknown_command_is_taken_for_one_that_it_begins_with() {
    let place = Place::new();
    let shown = place.run(&["pages"]).failed(2, "'page'");
    assert!(!shown.contains("update"), "{shown}");
}

#[test]
fn buckets_are_sized_by_rows_that_are_there() {
    let place = Place::with_rows();
    let note = "x".repeat(40);
    let record = format!(r#"{{"carrier": "UA", "day": "2013-01-01", "flight": 9999, "note": "{note}"}}"#);
    place.run(&["put", "flights", &record]).done();
    let said = json(&place.run(&["tune", "flights", "--json"]).done());
    assert_eq!(said["rows_measured"], 31);
    let [mean, largest] = ["row_bytes", "largest_row_bytes"].map(|name| said[name].as_u64().unwrap());
    assert!(mean > 0 && mean + 20 < largest && largest < 100, "{said}");
    assert_eq!(said["counted_row_bytes"], mean + 64);
    let deviation = said["row_deviation_bytes"].as_f64().unwrap();
    assert!(deviation > 5.0 && deviation < 10.0, "{said}");
    let shown = place.run(&["tune", "flights"]).done();
    assert!(
        shown.contains(&format!("the largest {largest} B; 31 measured")),
        "{shown}"
    );
    let twice = place.run(&["tune", "flights", "--row", "1kB"]);
    assert!(twice.code == 2 && twice.err.contains("--row"), "{}", twice.err);
    let missing = place.run(&["tune", "trains"]);
    assert_eq!(missing.code, 3, "{}", missing.err);
    let empty = Place::with_store().run(&["tune", "flights"]);
    assert!(
        empty.code == 2 && empty.err.contains("has no rows"),
        "{}",
        empty.err
    );
    let neither = place.run(&["tune"]);
    assert!(
        neither.code == 2 && neither.err.contains("--row"),
        "{}",
        neither.err
    );
}

#[test]
fn a_scan_goes_on_and_a_reader_that_goes_away_is_no_error() {
    let place = Place::with_rows();
    let all = place.run(&["scan", "flights", "--parallel", "2"]).done();
    assert_eq!(all.lines().count(), 30);
    let mut child = place
        .command(&["scan", "flights"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ran = Ran::of(&child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn a_store_that_another_process_holds_is_left_alone() {
    let place = Place::with_store();
    let mut command = place.command(&["put", "flights"]);
    let mut holder = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The running `put` keeps the store open while it waits for its input.
    let taken = (0..100).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let ran = place.run(&["describe"]);
        (ran.code != 0).then_some(ran)
    });
    drop(holder.stdin.take());
    holder.wait().unwrap();
    let shown = taken.unwrap().failed(1, "error:");
    assert!(shown.contains(&holder.id().to_string()), "{shown}");
    place.run(&["describe"]).done();
}

/// Checks that readers of a store run concurrently, and that `--wait` makes commands wait for a
/// running write.
#[test]
fn readers_run_side_by_side_and_wait_for_a_writer() {
    let place = Place::with_rows();
    let lines: [&[&str]; 4] = [
        &["page", "flights", "--filter", "carrier = \"UA\"", "--json"],
        &["scan", "flights"],
        &["check"],
        &["explain", "flights", "--filter", "carrier = \"UA\"", "--json"],
    ];
    let spawn = |line: &[&str]| {
        let mut command = place.command(line);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let readers: Vec<_> = (0..8).map(|index| spawn(lines[index % 4])).collect();
    for reader in readers {
        Ran::of(&reader.wait_with_output().unwrap()).done();
    }
    let mut holder = place
        .command(&["put", "flights", "--wait", "60"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    while place.run(&["describe"]).code == 0 {
        assert!(holder.try_wait().unwrap().is_none(), "it waits for its input");
    }
    let mut waiting = spawn(&["describe", "--wait", "60"]);
    let mut said = String::new();
    let mut err = BufReader::new(waiting.stderr.take().unwrap());
    err.read_line(&mut said).unwrap();
    assert!(said.starts_with("waiting up to 60 s for the store: "), "{said}");
    place.write("more.csv", &rows(40));
    let load = place
        .command(&["load", "flights", "more.csv", "--quiet"])
        .env("RECTO_WAIT", "60")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(holder.stdin.take());
    holder.wait().unwrap();
    Ran::of(&waiting.wait_with_output().unwrap()).done();
    let loaded = Ran::of(&load.wait_with_output().unwrap()).done();
    assert!(loaded.contains("40 rows"), "{loaded}");
    place.run(&["init", "--wait", "1"]).failed(2, "leave --wait out");
}

/// Checks that a killed backup leaves no folder, a folder that is marked as unfinished, or a complete backup.
#[test]
fn an_unfinished_backup_is_no_store() {
    let place = Place::with_rows();
    std::fs::create_dir(place.path("unfinished")).unwrap();
    place.write("unfinished/backup.redb.new", "");
    std::fs::create_dir(place.path("new")).unwrap();
    place.write("new/data.redb.new", "");
    for line in [
        &["describe"][..],
        &["check"],
        &["page", "flights"],
        &["put", "flights", "{}"],
        &["compact"],
        &["backup", "again"],
    ] {
        for (folder, code) in [("unfinished", 1), ("new", 3)] {
            place
                .run(&[line, &["--store", folder]].concat())
                .failed(code, "an unfinished");
            assert_eq!(std::fs::read_dir(place.path(folder)).unwrap().count(), 1);
        }
    }
    place
        .run(&["apply", "--yes", "--store", "unfinished"])
        .failed(1, "an unfinished backup");
    // The folder `new` has the unfinished store of an interrupted `apply`. The next `apply` creates
    // the store from the beginning.
    place.run(&["apply", "--yes", "--store", "new"]).done();
    let (mut whole, mut none) = (0, 0);
    for trial in 0..20 {
        let to = format!("copy{trial}");
        let mut backup = place.command(&["backup", &to, "-q"]).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(trial));
        let _ = backup.kill();
        backup.wait().unwrap();
        let checked = place.run(&["check", "--json", "--store", &to]);
        if checked.code == 0 {
            assert_eq!(json(&checked.out)["rows"], 30);
            whole += 1;
        } else {
            assert!(
                checked.err.contains("unfinished") || checked.err.contains("there is no store at"),
                "{}",
                checked.err
            );
            none += 1;
        }
    }
    assert!(none > 0, "{whole} were whole");
}

/// Checks that `apply` completes a view although it was killed several times while filling the
/// view.
#[test]
fn a_view_is_filled_across_kills() {
    let place = Place::with_store();
    place.write("flights.csv", &rows(20_000));
    place.run(&["load", "flights", "flights.csv"]).done();
    let view = "\n[collection.flights.view.by_day]\npartition = [\"day\"]\norder = [\"-delay\"]\n";
    place.write("recto.toml", &format!("{SCHEMA}{view}"));
    let mut filled = Vec::new();
    for trial in 0..4 {
        let mut apply = place
            .command(&["apply", "--yes", "--quiet", "--rate", "8000"])
            .spawn()
            .unwrap();
        // Kill `apply` at different times: before it fills the view, during the search for records
        // that do not fit the view, and during the filling.
        std::thread::sleep(std::time::Duration::from_millis(40 + 1_300 * trial));
        apply.kill().unwrap();
        apply.wait().unwrap();
        let views = json(&place.run(&["views", "--json"]).done());
        filled.push(views[0]["rows_filled"].as_u64());
    }
    assert!(filled.is_sorted() && filled[1] < filled[3], "{filled:?}");
    place.run(&["apply", "--yes", "--quiet"]).done();
    place.run(&["verify", "--json"]).done();
    let page = place.run(&[
        "page",
        "flights",
        "--view",
        "by_day",
        "--filter",
        "day = \"2013-01-01\"",
        "--json",
    ]);
    assert!(!json(&page.done())["records"].as_array().unwrap().is_empty());
}

/// Checks that commands report a damaged store, and exit on their own. One bit of an inner page of
/// the file is wrong.
#[test]
fn a_damaged_store_is_an_error_of_every_command() {
    let place = Place::with_store();
    place.write("flights.csv", &rows(2_000));
    place.run(&["load", "flights", "flights.csv"]).done();
    place.run(&["compact"]).done();
    let path = place.path("recto.data/data.redb");
    let mut data = std::fs::read(&path).unwrap();
    // Damage the page with the most children, which belongs to the collection. Other inner pages belong to
    // redb itself.
    let children = |page: &[u8]| usize::from(u16::from_le_bytes([page[2], page[3]])) + 1;
    let pages = data.chunks_mut(4_096).skip(1).filter(|page| page[0] == 2);
    let page = pages.max_by_key(|page| children(page)).unwrap();
    page[8 + 16 * children(page)] ^= 1;
    std::fs::write(&path, data).unwrap();
    let record = r#"{"carrier":"UA","day":"2013-01-01","flight":5000,"delay":1}"#;
    for line in [
        &["put", "flights", record][..],
        &["page", "flights", "--filter", "carrier = \"UA\""],
        &["scan", "flights"],
        &["backup", "copy"],
        &["compact"],
    ] {
        place.run(line).failed(1, "damaged");
    }
    place.run(&["describe"]).done();
    let checked = place.run(&["check"]);
    assert_eq!(checked.code, 4, "{}", checked.err);
}

/// Checks the error for a store in a folder that the user may not enter: it does not say that the
/// store is missing.
#[cfg(unix)]
#[test]
fn a_store_that_one_may_not_enter_is_no_missing_store() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::with_store();
    let may_enter = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(place.path("recto.data"), permissions).unwrap();
    };
    may_enter(0o000);
    let ran = place.run(&["describe"]);
    may_enter(0o700);
    // Root may enter every folder, so the command succeeds for root.
    if ran.code != 0 {
        ran.failed(1, "Permission denied");
    }
}

#[test]
fn rejects_invalid_commands_and_changes_nothing() {
    let place = Place::with_rows();
    let before = place.run(&["scan", "flights"]).done();
    place
        .run(&["page", "flights", "--filter", "carier = \"UA\""])
        .failed(2, "\n  carier = \"UA\"\n  ^\n");
    place
        .run(&["page", "flights", "--filter", "delay = 3"])
        .failed(2, "[collection.flights.view.by_delay]");
    place
        .run(&[
            "page",
            "flights",
            "--filter",
            "carrier = \"UA\"",
            "--page-token",
            "x y",
        ])
        .failed(2, "page token");
    place
        .run(&[
            "page",
            "flights",
            "--filter",
            "carrier = \"UA\"",
            "--page-size",
            "-1",
        ])
        .failed(2, "page_size");
    place
        .run(&["page", "flights", "--filter", "carrier = \"UA\"", "--from", "{"])
        .failed(2, "error:");
    place.run(&["page", "flihgts"]).failed(3, "did you mean flights?");
    place.run(&["page", "flihgts", "--json"]).failed(3, "flihgts");
    place
        .run(&["scan", "flights", "--resume-token", "garbage"])
        .failed(2, "error:");
    place.run(&["scan", "nothing"]).failed(3, "nothing");
    place.run(&["get", "flights", "UA"]).failed(2, "3 fields");
    place
        .run(&["put", "flights", "{\"carrier\": 1}"])
        .failed(2, "error:");
    place.run(&["put", "flights", "not json"]).failed(2, "not JSON");
    place
        .run_with_input(&["put", "flights"], b"\xff\xfe\n")
        .failed(2, "UTF-8");
    place
        .run(&["load", "flights", "nothing.csv"])
        .failed(3, "nothing.csv");
    place
        .run(&["load", "flights,flights2", "flights.csv"])
        .failed(3, "flights2");
    place
        .run(&["plan", "--schema", "nothing.toml"])
        .failed(3, "recto init");
    place
        .run(&["describe", "--store", "nowhere"])
        .failed(3, "nowhere");
    place
        .run(&["describe", "--store", "http://localhost:1"])
        .failed(1, "cannot be reached");
    place
        .run(&["describe", "--store", "mysql://db/ks"])
        .failed(2, "hint:");
    place
        .run(&[
            "describe",
            "--store",
            "cassandra://127.0.0.1:1/ks?connect_timeout_ms=300",
        ])
        .failed(1, "127.0.0.1:1");
    assert!(!place.path("nowhere").exists());
    assert_eq!(place.run(&["scan", "flights"]).done(), before);
}

#[test]
fn a_schema_with_errors_is_shown_with_its_lines() {
    let place = Place::new();
    place.write(
        "recto.toml",
        "[collection.flights]\nfields = { carrier = \"txt\" }\nkey = [\"carier\"]\n",
    );
    let shown = place.run(&["plan"]).failed(2, "recto.toml:2:");
    assert!(shown.contains('^'), "{shown}");
    place.write("recto.toml", "\u{0}\u{1}garbage");
    place.run(&["apply", "--yes"]).failed(2, "recto.toml:1:");
    std::fs::write(place.path("recto.toml"), b"\xff\xfe").unwrap();
    place.run(&["apply", "--yes"]).failed(1, "UTF-8");
    assert!(!place.path("recto.data").exists());
}

#[test]
fn a_schema_that_this_release_cannot_do_is_refused_by_name() {
    let place = Place::with_store();
    let view =
        "[collection.flights.view.by_flight]\npartition = [\"flight\"]\nbucket = { target = \"1KB\" }\n";
    place.write("recto.toml", &format!("{SCHEMA}\n{view}"));
    let ran = place.run(&["plan"]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("by_flight"), "{}", ran.out);
    place.run(&["apply", "--yes"]).failed(2, "nothing was changed");
    assert!(!place.run(&["describe", "--toml"]).done().contains("by_flight"));
}

#[test]
fn a_unique_constraint_is_dropped_by_name_only() {
    let place = Place::new();
    let users = "[collection.users]\nfields = { id = \"int\", email = \"text\" }\nkey = [\"id\"]\n";
    place.write("recto.toml", &format!("{users}unique = [\"email\"]\n"));
    place.run(&["apply", "--yes"]).done();
    place
        .run(&["insert", "users", r#"{"id": 1, "email": "ada@x"}"#])
        .done();
    place.write("recto.toml", users);
    let shown = place.run(&["plan"]).done();
    assert!(
        shown.contains("Left as they are") && shown.contains("unique (email) of collection users"),
        "{shown}"
    );
    place.run(&["apply", "--yes"]).done();
    let second = ["insert", "users", r#"{"id": 2, "email": "ada@x"}"#];
    place.run(&second).failed(2, "email");
    let remove = ["--remove", "users.unique.email"];
    let planned = place.run(&[&["plan"][..], &remove[..]].concat()).done();
    assert!(planned.contains("unique (email) removed"), "{planned}");
    place.run(&[&["apply", "--yes"][..], &remove[..]].concat()).done();
    place.run(&second).done();
}

#[test]
fn a_password_is_never_printed() {
    let place = Place::new();
    let store = "cassandra://ada:hunter2@127.0.0.1:1/ks?connect_timeout_ms=300";
    for line in [
        &["describe"][..],
        &["page", "--help"],
        &["--help"],
        &["describe", "--nonsense"],
    ] {
        let mut command = place.command(line);
        command
            .env("RECTO_STORE", store)
            .env("RECTO_CASSANDRA_PASSWORD", "hunter2")
            .stdin(Stdio::null());
        let ran = Ran::of(&command.output().unwrap());
        assert!(
            !format!("{}{}", ran.out, ran.err).contains("hunter2"),
            "{}{}",
            ran.out,
            ran.err
        );
    }
    let mut command = place.command(&["describe", "--store", "cassandra://127.0.0.1:1/ks"]);
    let ran = Ran::of(
        &command
            .env("RECTO_CASSANDRA_PASWORD", "hunter2")
            .output()
            .unwrap(),
    );
    assert!(!ran.failed(2, "RECTO_CASSANDRA_PASWORD").contains("hunter2"));
}

#[test]
fn a_folder_that_is_no_store_is_refused() {
    let place = Place::new();
    std::fs::create_dir(place.path("folder")).unwrap();
    place.write("folder/data.redb", "this is no database");
    let ran = place.run(&["describe", "--store", "folder"]);
    assert_ne!(ran.code, 0, "{}", ran.out);
    assert!(
        ran.err.contains("hint:") && !ran.err.contains("panicked"),
        "{}",
        ran.err
    );
    assert_eq!(place.read("folder/data.redb"), "this is no database");
    place.write("file", "text");
    assert_ne!(place.run(&["describe", "--store", "file"]).code, 0);
    assert!(Path::new(&place.path("file")).is_file());
}

/// Waits until the process `id` handles SIGINT (signal 2), which shows that its work has begun.
#[cfg(target_os = "linux")]
fn wait_until_it_listens(id: u32) {
    for _ in 0..500 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let caught = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:"))
            .unwrap();
        if u64::from_str_radix(caught.trim(), 16).unwrap() & 0b10 != 0 {
            std::thread::sleep(std::time::Duration::from_millis(200));
            return;
        }
    }
    panic!("the load does not listen to SIGINT");
}

/// Number of rows of a load that takes some seconds, so that a test can interrupt it.
#[cfg(target_os = "linux")]
const MANY_ROWS: u32 = 200_000;

#[cfg(target_os = "linux")]
/// Returns the peak memory of a process in KiB, measured until the process ends.
#[cfg(target_os = "linux")]
fn peak_memory_kib(child: &mut std::process::Child) -> u64 {
    let path = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        peak = peak.max(kib.unwrap_or_default());
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    peak
}

/// Checks that loads use bounded memory. Parsing a whole record of a test file would take hundreds
/// of megabytes.
#[cfg(target_os = "linux")]
#[test]
fn loads_records_of_many_parts_in_bounded_memory() {
    const PARTS: usize = 12_000_000;
    const MOST_KIB: u64 = 200 << 10;
    let commas = ",".repeat(PARTS);
    let values = "1,".repeat(PARTS);
    let files = [
        ("header.csv", format!("{commas}\n")),
        ("cells.csv", format!("carrier,day,flight\n{commas}\n")),
        (
            "lines.csv",
            format!("carrier,day,flight\n\"\n{}", "1\n".repeat(PARTS / 40)),
        ),
        (
            "unknown.ndjson",
            format!("{{\"carrier\":\"B6\",\"other\":[{values}1]}}\n"),
        ),
        (
            "note.ndjson",
            format!("{{\"carrier\":\"B6\",\"note\":[{values}1]}}\n"),
        ),
    ];
    let place = Place::with_store();
    for (name, text) in files {
        place.write(name, &text);
        let mut command = place.command(&["load", "flights", name, "--buffer-mib", "8"]);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let peak = peak_memory_kib(&mut child);
        assert!(peak > 0 && peak < MOST_KIB, "{name}: {peak} KiB");
        assert!(matches!(child.wait().unwrap().code(), Some(2 | 4)), "{name}");
    }
}

#[test]
fn a_load_that_is_stopped_goes_on_when_the_command_runs_again() {
    let place = Place::with_store();
    let mut text = String::from("carrier,day,flight\n");
    for row in 0..MANY_ROWS {
        writeln!(text, "UA,2013-01-{:02},{row}", row % 28 + 1).unwrap();
    }
    place.write("flights.csv", &text);
    let line = ["load", "flights", "flights.csv"];
    let mut command = place.command(&line);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until_it_listens(child.id());
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(kill.success());
    let stopped = Ran::of(&child.wait_with_output().unwrap());
    stopped.failed(130, "run the same command again to continue");
    place.run(&line).done();
    let scanned = place.run(&["check", "--json"]).done();
    assert_eq!(json(&scanned)["rows"], MANY_ROWS, "{scanned}");
    let last = place.run(&["get", "flights", "UA", "2013-01-24", "199999"]);
    last.done();
}

#[test]
#[ignore = "slow: loads 1.7 million rows"]
fn the_demo_loads_all_flights_once_and_shows_pages_of_them() {
    let place = Place::new();
    let shown = place.run(&["demo", "--quiet"]).done();
    assert!(shown.contains("1,681,368 rows stored"), "{shown}");
    assert!(
        shown.contains("334,264  in by_tailnum   2,512 left out"),
        "{shown}"
    );
    for page in [
        "N471UA",
        "previous_page_token",
        "2013-07-29T18:00:00.000Z",
        "of 336,776 (60 %)",
    ] {
        assert!(shown.contains(page), "{page}: {shown}");
    }
    let again = place.run(&["demo"]).done();
    assert!(
        again.contains("the store already has the flights") && !again.contains("stored in"),
        "{again}"
    );
    // A command that the demo prints must work when the user runs it.
    let filter = "carrier = \"AA\" OR carrier = \"DL\"";
    let line = [
        "page",
        "flights",
        "--store",
        "recto-demo",
        "--filter",
        filter,
        "--order-by",
        "time_hour desc",
    ];
    place.run(&line).done();
}

#[test]
fn the_demo_leaves_a_store_of_others_alone() {
    let place = Place::with_rows();
    place
        .run(&["demo", "--store", "recto.data"])
        .failed(2, "nothing was changed");
    assert_eq!(place.run(&["scan", "flights"]).done().lines().count(), 30);
    assert!(!place.path("recto-demo").exists());
}

/// Checks that numbers are not rounded: two keys that are equal as floating-point numbers name two
/// records.
#[test]
fn numbers_are_exact_or_refused() {
    let place = Place::new();
    place.write(
        "recto.toml",
        r#"
[collection.n]
fields = { p = "text", bi = "bigint", de = "decimal", v = "int" }
key = ["p", "bi", "de"]
partition = ["p"]
order = ["bi", "de"]
writes = "overwrite"
"#,
    );
    place.run(&["apply", "--yes"]).done();
    let numbers = |partition: &str| {
        let filter = format!("p = \"{partition}\"");
        let page = place.run(&["page", "n", "--json", "--filter", &filter]).done();
        let page: Json = serde_json::from_str(&page).unwrap();
        let records = page["records"].as_array().unwrap().iter();
        let records = records.map(|record| format!("{}/{}", record["bi"], record["de"]).replace('"', ""));
        records.collect::<Vec<_>>().join(" ")
    };
    let three = |partition: &str| {
        format!(
            r#"{{"p":"{partition}","bi":9007199254740992,"de":999999999999999999.99,"v":1}}
{{"p":"{partition}","bi":9007199254740992,"de":1000000000000000000.1,"v":2.0}}
{{"p":"{partition}","bi":9007199254740993.0,"de":0.1,"v":3e0}}
"#
        )
    };
    let expected =
        "9007199254740992/999999999999999999.99 9007199254740992/1000000000000000000.1 9007199254740993/0.1";
    place
        .run_with_input(&["put", "n"], three("put").as_bytes())
        .done();
    assert_eq!(numbers("put"), expected);
    place.write("three.ndjson", &three("load"));
    place.run(&["load", "n", "three.ndjson"]).done();
    assert_eq!(numbers("load"), expected);

    let from = ["page", "n", "--filter", "p = \"put\"", "--json", "--from"];
    let page = place.run(&[&from[..], &["[9007199254740993.0]"]].concat()).done();
    let page: Json = serde_json::from_str(&page).unwrap();
    assert_eq!(page["records"].as_array().unwrap().len(), 1, "{page}");
    place
        .run(&[&from[..], &["[9007199254740992.5]"]].concat())
        .failed(2, "found 9007199254740992.5");
    place
        .run(&[&from[..], &["[nope]"]].concat())
        .failed(2, "column 3: a word other than true, false or null");

    let wrong =
        "{\"p\":\"put\",\"bi\":1,\"de\":1}\n{\"p\":\"put\",\"bi\":1,\"de\":1,\"v\":2147483647.0000001}\n";
    place
        .run_with_input(&["put", "n"], wrong.as_bytes())
        .failed(2, "line 2: v: expected an int");
    place.write("wrong.ndjson", wrong);
    assert_eq!(place.run(&["load", "n", "wrong.ndjson"]).code, 4);
    assert_eq!(
        numbers("put").split(' ').count(),
        4,
        "the first line was loaded, nothing else"
    );
}

//! Tests of pages of views that Recto maintains itself, on an embedded store. Whatever the changes
//! of the records were, the content of a page must not depend on the view that serves the page.

use recto::schema::Schema;
use recto::{Collection, DynamicRecord, OpenOptions, Recto};
use recto_testkit::generate::{self, Rng};
use serde_json::{Value as Json, json};

use super::run;

const STORES: u64 = 6;
const ROUNDS: usize = 12;
const CHANGES: usize = 12;
const IDS: i64 = 20;

/// Schema of tasks with several views. Each view lists the tasks of a user in the order `-rank,
/// id`. The view `skips` leaves out tasks without a rank.
const SCHEMA: &str = r#"
[collection.tasks]
fields = { id = "int", user = "text", rank = "int", done = "boolean", note = "text" }
key = ["id"]
WRITES

[collection.tasks.view.all]
partition = ["user"]
order = ["-rank"]

[collection.tasks.view.narrow]
partition = ["user"]
order = ["-rank"]
fields = ["done"]

[collection.tasks.view.skips]
partition = ["user"]
order = ["-rank"]
nulls = "skip"

[collection.tasks.view.first]
partition = ["user"]
order = ["-rank"]
nulls = "first"
"#;

struct Tasks {
    records: Collection<DynamicRecord>,
    /// Expected records, by id. `None`: the record does not exist.
    held: Vec<Option<Json>>,
    rng: Rng,
    replaces: bool,
    _folder: tempfile::TempDir,
}

impl Tasks {
    async fn new(seed: u64, writes: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks");
        let recto = Recto::open_with(path, OpenOptions::new().create()).await.unwrap();
        let schema = SCHEMA.replace("WRITES", writes);
        recto.apply(&Schema::parse(&schema).unwrap()).await.unwrap();
        Self {
            records: recto.dynamic("tasks").unwrap(),
            held: vec![None; IDS as usize],
            rng: generate::rng(seed),
            replaces: writes.is_empty(),
            _folder: folder,
        }
    }

    async fn change(&mut self) {
        let id = self.rng.usize(0..self.held.len());
        if self.rng.usize(0..4) == 0 || (!self.replaces && self.held[id].is_some()) {
            self.records.delete(id as i64).await.unwrap();
            self.held[id] = None;
            return;
        }
        let user = ["ada", "bob"][self.rng.usize(0..2)];
        let mut task = json!({ "id": id, "user": user, "done": self.rng.bool() });
        if self.rng.usize(0..3) > 0 {
            task["rank"] = self.rng.i64(0..5).into();
        }
        if self.rng.bool() {
            task["note"] = format!("{}", self.rng.u16(..)).into();
        }
        let record = DynamicRecord::from_json(self.records.definition(), task.as_object().unwrap());
        self.records.put(&record.unwrap()).await.unwrap();
        self.held[id] = Some(task);
    }

    /// Returns the expected tasks of `users` in a view, from the highest rank. The position of
    /// tasks without a rank depends on the view: first, last, or left out.
    fn expected(&self, users: &[&str], view: &str) -> Vec<Json> {
        let held = self.held.iter().flatten();
        let mut tasks: Vec<Json> = held
            .filter(|task| users.contains(&task["user"].as_str().unwrap()))
            .filter(|task| view != "skips" || task.get("rank").is_some())
            .cloned()
            .collect();
        tasks.sort_by_key(|task| {
            let rank = task.get("rank").and_then(Json::as_i64);
            let without = if view == "first" {
                rank.is_some()
            } else {
                rank.is_none()
            };
            (without, -rank.unwrap_or(0), task["id"].as_i64().unwrap())
        });
        tasks
    }

    async fn check(&mut self) {
        for users in [&["ada"][..], &["ada", "bob"]] {
            let filter: Vec<String> = users.iter().map(|user| format!(r#"user = "{user}""#)).collect();
            let filter = filter.join(" OR ");
            for view in ["", "all", "narrow", "skips", "first"] {
                let size = self.rng.u32(1..8);
                let query = self
                    .records
                    .query()
                    .filter(&filter)
                    .order_by("-rank, id")
                    .view(view);
                let expected = self.expected(users, view);
                for back in [false, true] {
                    let (mut found, mut token) = (Vec::new(), None);
                    loop {
                        let query = query.clone().page_size(size);
                        let page = match token {
                            None if back => query.last(size).await,
                            None => query.await,
                            Some(token) => query.page_token(token).await,
                        };
                        let page = page.unwrap();
                        let rows = page.iter().map(|record| Json::from(record.to_json()));
                        let place = if back { 0 } else { found.len() };
                        found.splice(place..place, rows);
                        for (index, record) in page.iter().enumerate() {
                            let id = record.to_json()["id"].as_i64().unwrap();
                            let held = self.records.get_versioned(id).await.unwrap().unwrap();
                            assert_eq!((page.version(index), record), (held.version, &held.record));
                            assert_eq!(held.version.is_some(), self.replaces);
                        }
                        token = if back {
                            page.previous_cursor()
                        } else {
                            page.next_cursor()
                        };
                        if token.is_none() {
                            break;
                        }
                    }
                    assert_eq!(found, expected, "{filter}, view {view:?}, backwards: {back}");
                }
            }
        }
    }
}

#[test]
fn no_answer_depends_on_the_view() {
    run(async {
        for seed in 0..STORES {
            println!("seed {seed}");
            let writes = ["", "writes = \"append\""][(seed % 2) as usize];
            let mut tasks = Tasks::new(seed, writes).await;
            for _ in 0..ROUNDS {
                for _ in 0..CHANGES {
                    tasks.change().await;
                }
                tasks.check().await;
            }
        }
    });
}

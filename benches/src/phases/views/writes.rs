//! Phase: inserts of records with views, compared with inserts into an SQLite table that has as
//! many indexes.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use recto::schema::Schema;
use recto::{Collection, Record};
use rusqlite::params;
use tokio::runtime::Runtime;

use crate::measure::median;
use crate::peers::sqlite;
use crate::report::{Section, Table, Target};
use crate::world::World;

pub(super) const TEXT: &str = "Records have a number, a time, eight texts and a body of 200 bytes. Each view is \
    partitioned by one of the texts, newest first, and has all fields. `append` writes plainly, `update` reads the record \
    and writes it conditionally. SQLite (WAL, `synchronous = FULL`, one writer) has an index for each view. All puts are \
    durable.";

const VIEWS: [usize; 5] = [0, 1, 2, 4, 8];
const WRITERS: [usize; 2] = [1, 64];
const FIELDS: usize = 8;
/// Time for which each compared database inserts records in a round.
const SPELL: Duration = Duration::from_secs(1);
const ROUNDS: usize = 3;
/// Number of different values that each field has.
const VALUES: i64 = 500;
const BODY_BYTES: usize = 200;

/// Id of the next record to insert.
static NEXT: AtomicI64 = AtomicI64::new(0);

macro_rules! post {
    ($name:ident, $mode:literal) => {
        #[derive(Debug, Clone, Record)]
        #[record(collection = "posts", key = ["id"], writes = $mode)]
        struct $name {
            id: i64,
            at: i64,
            f0: String,
            f1: String,
            f2: String,
            f3: String,
            f4: String,
            f5: String,
            f6: String,
            f7: String,
            body: String,
        }

        impl Post for $name {
            const MODE: &'static str = $mode;

            fn numbered(id: i64) -> Self {
                let f = |field: i64| text(id, field);
                Self {
                    id,
                    at: id,
                    f0: f(0),
                    f1: f(1),
                    f2: f(2),
                    f3: f(3),
                    f4: f(4),
                    f5: f(5),
                    f6: f(6),
                    f7: f(7),
                    body: "x".repeat(BODY_BYTES),
                }
            }
        }
    };
}

post!(Appended, "append");
post!(Updated, "update");

/// Record type of the phase. There is one implementation for each write mode of a collection.
trait Post: Record + Clone + Send + Sync + 'static {
    const MODE: &'static str;

    fn numbered(id: i64) -> Self;
}

/// Returns the text of a field in the record `id`.
fn text(id: i64, field: i64) -> String {
    format!("value-{}", (id * (field * 2 + 7)) % VALUES)
}

pub(super) fn run(world: &mut World, folder: &Path, section: &mut Section) {
    let rounds = world.arguments.rounds(ROUNDS);
    let time = if world.arguments.quick { SPELL / 5 } else { SPELL };
    let runtime = super::runtime();
    let sides: Vec<Side> = VIEWS
        .map(|views| Side::new(&runtime, folder, views))
        .into_iter()
        .collect();
    // Measured rates, by number of views, then by measurement (a database and a number of writers),
    // then by round.
    let mut found = vec![vec![Vec::new(); WRITERS.len() * 2 + 1]; sides.len()];
    for round in 0..rounds {
        for (side, found) in sides.iter().zip(&mut found) {
            world.progress.say(&format!(
                "round {} of {rounds}: puts with {} views",
                round + 1,
                side.views
            ));
            for (index, rate) in side.rates(&runtime, time).into_iter().enumerate() {
                found[index].push(rate);
            }
        }
    }
    let mut table = Table::new(
        "",
        &[
            "puts/s, by views or indexes",
            "append, 1 writer",
            "append, 64",
            "update, 1 writer",
            "update, 64",
            "SQLite",
            "update, 64 / SQLite",
            "update, 64 / append, 64, no views",
        ],
    );
    let rates: Vec<Vec<f64>> = found
        .into_iter()
        .map(|rates| rates.into_iter().map(median).collect())
        .collect();
    for (views, rate) in VIEWS.iter().zip(&rates) {
        let ratios = [rate[3] / rate[4], rate[3] / rates[0][1]];
        let figures = rate.iter().copied().chain(ratios);
        table.push(views.to_string(), figures.map(Some));
        if *views == 4 {
            section.targets.push(Target::at_least(
                "put with 4 views, 64 writers: Recto (update) / SQLite with 4 indexes",
                1.0,
                ratios[0],
            ));
        }
    }
    section.tables.push(table);
}

/// Open databases to compare, for one number of views.
struct Side {
    views: usize,
    appended: Collection<Appended>,
    updated: Collection<Updated>,
    sqlite: rusqlite::Connection,
}

impl Side {
    fn new(runtime: &Runtime, folder: &Path, views: usize) -> Self {
        let appended = runtime.block_on(collection(folder, views));
        let updated = runtime.block_on(collection(folder, views));
        let file = folder.join(format!("posts-{views}.sqlite"));
        let connection = sqlite::open(&file, super::CACHE_BYTES, false, "FULL");
        let names: Vec<String> = (0..FIELDS).map(|field| format!("f{field}")).collect();
        let mut text = format!(
            "CREATE TABLE posts (id INTEGER PRIMARY KEY, at, {}, body);",
            names.join(", ")
        );
        for name in &names[..views] {
            let _ = write!(text, "CREATE INDEX by_{name} ON posts ({name}, at DESC);");
        }
        connection.execute_batch(&text).unwrap();
        Self {
            views,
            appended,
            updated,
            sqlite: connection,
        }
    }

    /// Measures each database. Returns the number of records per second of each measurement.
    fn rates(&self, runtime: &Runtime, time: Duration) -> [f64; 5] {
        let [one, many] = WRITERS;
        [
            put(runtime, &self.appended, one, time),
            put(runtime, &self.appended, many, time),
            put(runtime, &self.updated, one, time),
            put(runtime, &self.updated, many, time),
            self.insert(time),
        ]
    }

    fn insert(&self, time: Duration) -> f64 {
        let insert = "INSERT INTO posts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let mut statement = self.sqlite.prepare(insert).unwrap();
        let (begun, mut count) = (Instant::now(), 0);
        while begun.elapsed() < time {
            let post = Updated::numbered(NEXT.fetch_add(1, Ordering::Relaxed));
            let row = params![
                post.id, post.at, post.f0, post.f1, post.f2, post.f3, post.f4, post.f5, post.f6, post.f7,
                post.body
            ];
            statement.execute(row).unwrap();
            count += 1;
        }
        f64::from(count) / begun.elapsed().as_secs_f64()
    }
}

async fn collection<T: Post>(folder: &Path, views: usize) -> Collection<T> {
    let mut text = recto::schema_of([T::collection()]).to_toml();
    for field in 0..views {
        let _ = write!(
            text,
            "\n[collection.posts.view.by_f{field}]\npartition = [\"f{field}\"]\norder = [\"-at\"]\n"
        );
    }
    let schema = Schema::parse(&text).unwrap();
    let recto = super::open(&folder.join(format!("posts-{}-{views}", T::MODE)), &schema).await;
    recto.collection().unwrap()
}

/// Lets `writers` concurrent writers insert records for some time. Returns their total number of
/// records per second.
fn put<T: Post>(runtime: &Runtime, posts: &Collection<T>, writers: usize, time: Duration) -> f64 {
    let begun = Instant::now();
    let count: u64 = runtime.block_on(async {
        let write = || {
            let posts = posts.clone();
            tokio::spawn(async move {
                let mut count = 0;
                while begun.elapsed() < time {
                    let post = T::numbered(NEXT.fetch_add(1, Ordering::Relaxed));
                    posts.put(&post).await.unwrap();
                    count += 1;
                }
                count
            })
        };
        let tasks: Vec<_> = (0..writers).map(|_| write()).collect();
        let mut count = 0;
        for task in tasks {
            count += task.await.unwrap();
        }
        count
    });
    count as f64 / begun.elapsed().as_secs_f64()
}

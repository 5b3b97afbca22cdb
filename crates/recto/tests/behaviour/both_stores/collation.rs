//! Tests of views that sort text by the rules of a language (a collation).

use std::cmp::Ordering;
use std::sync::Arc;

use recto::session::{PageRequest, Pages, VerifyRequest};
use recto::store::{
    Cas, CasCondition, CasOutcome, Mutation, Operation, PointRead, ReadOptions, RowAddress, WriteOptions,
};
use recto::{DynamicRecord, ErrorKind, LocalSession, PageQuery, Recto};
use recto_model::Cells;
use recto_model::collation::Collation;
use recto_model::schema::Schema;
use serde_json::{Value as Json, json};

use super::listing::{both_ways, ids};
use crate::common::Fresh;
use crate::common::exact::assert_views_are_well;
use crate::common::stores::{kind_of, parse};

const SCHEMA: &str = r#"
[collection.people]
fields = { id = "int", team = "text", name = "text", city = "text", age = "int", note = "text" }
key = ["id"]

[collection.people.view.by_name]
partition = ["team"]
order = ["name"]
COLLATE

[collection.people.view.by_city]
partition = ["team"]
order = ["-city", "name"]
nulls = "first"
collate = { city = "sv", name = "de" }

[collection.people.view.by_age]
partition = ["age"]
order = ["name"]
collate = "de"
fields = []
"#;

const GERMAN: &str = r#"collate = { name = "de" }"#;

/// Names in German order, written by hand. Names that the language treats as equal are in the order
/// of their bytes.
const NAMES: [&str; 22] = [
    "",
    "Aal",
    "apfel",
    "Apfel",
    "Äpfel",
    "Arger",
    "ärger",
    "Ärger",
    "Otto",
    "Ötzi",
    "Oz",
    "Özil",
    "re\u{301}sume\u{301}",
    "résumé",
    "strasse",
    "Strasse",
    "STRASSE",
    "Straße",
    "Vogel",
    "zebra",
    "Zebra",
    "Zorn",
];

/// Cities in Swedish order, written by hand.
const CITIES: [&str; 7] = [
    "Arvika",
    "Örebro",
    "Zinkgruvan",
    "Åmål",
    "Ängelholm",
    "Växjö",
    "Umeå",
];

#[derive(Debug, Clone)]
struct Person {
    id: i32,
    name: Option<&'static str>,
    city: Option<&'static str>,
    age: i32,
}

fn people() -> Vec<Person> {
    let person = |id: i32| {
        let at = (id * 7).unsigned_abs() as usize;
        Person {
            id,
            name: (id % 11 != 5).then(|| NAMES[at % NAMES.len()]),
            city: (id % 9 != 4).then(|| CITIES[(id * 5).unsigned_abs() as usize % CITIES.len()]),
            age: id % 3,
        }
    };
    (0..60).map(person).collect()
}

fn collation(name: &str) -> Collation {
    Collation::named(name).unwrap()
}

fn compare(locale: &str, left: &str, right: &str) -> Ordering {
    collation(locale).compare(left.as_bytes(), right.as_bytes())
}

/// Compares texts in the German collation. Null comes last.
fn compare_names(left: Option<&str>, right: Option<&str>) -> Ordering {
    match (left, right) {
        (Some(left), Some(right)) => compare("de", left, right),
        (left, right) => left.is_none().cmp(&right.is_none()),
    }
}

struct People {
    recto: Recto,
    all: Vec<Person>,
}

fn schema(collate: &str) -> Schema {
    parse(&SCHEMA.replace("COLLATE", collate))
}

impl People {
    async fn new(recto: &Recto, schema: &Schema) -> Self {
        let recto = Fresh::new(kind_of(recto)).open().await;
        recto.apply(schema).await.unwrap();
        let people = Self { recto, all: people() };
        for person in &people.all {
            people.put(person).await;
        }
        people
    }

    async fn put(&self, person: &Person) {
        let people = self.recto.dynamic("people").unwrap();
        let mut record = json!({ "id": person.id, "team": "red", "age": person.age });
        for (field, value) in [("name", person.name), ("city", person.city)] {
            if let Some(value) = value {
                record[field] = value.into();
            }
        }
        let record = DynamicRecord::from_json(people.definition(), record.as_object().unwrap()).unwrap();
        people.put(&record).await.unwrap();
    }

    fn query(&self, filter: &str) -> PageQuery<DynamicRecord> {
        let people = self.recto.dynamic("people").unwrap();
        let filter = match filter {
            "" => r#"team = "red""#.to_owned(),
            filter => format!(r#"team = "red" AND {filter}"#),
        };
        people.query().filter(filter)
    }

    /// Returns the ids of the people that `is_asked` selects, in the order of their names.
    fn by_name(&self, is_asked: impl Fn(&Person) -> bool) -> Vec<i32> {
        let mut asked: Vec<&Person> = self.all.iter().filter(|person| is_asked(person)).collect();
        asked.sort_by(|one, other| compare_names(one.name, other.name).then(one.id.cmp(&other.id)));
        asked.into_iter().map(|person| person.id).collect()
    }

    async fn assert_exact(&self) {
        assert_eq!(assert_views_are_well(&self.recto, "people").await, self.all.len());
    }
}

pub(crate) async fn names_page_as_people_sort_them(recto: Recto) {
    let people = People::new(&recto, &schema(GERMAN)).await;
    // `compare` must agree with the order in which `NAMES` lists the names.
    for (index, one) in NAMES.iter().enumerate() {
        for other in &NAMES[index + 1..] {
            assert!(compare("de", one, other).is_lt(), "{one} before {other}");
        }
    }
    let all = people.by_name(|_| true);
    for size in [1, 7, 100] {
        let (forwards, backwards) = both_ways(&people.query("").order_by("name"), size).await;
        assert_eq!((&forwards, &backwards), (&all, &all), "by {size}");
    }
    let turned: Vec<i32> = all.iter().rev().copied().collect();
    let (forwards, backwards) = both_ways(&people.query("").order_by("-name, -id"), 9).await;
    assert_eq!((&forwards, &backwards), (&turned, &turned));
    let query = people.query("").order_by("name");
    let page = query.clone().first(10).await.unwrap();
    let around = query.clone().around(page.cursor(8)).first(6).await.unwrap();
    assert_eq!(ids(&around), all[5..11]);
    for from in [
        "", "a", "Apfel", "ARGER", "ot", "résumé", "strasse", "strasze", "zz",
    ] {
        let at_least = |person: &Person| person.name.is_none_or(|name| compare("de", name, from).is_ge());
        let page = query
            .clone()
            .from_json(json!([from]).to_string())
            .first(100)
            .await
            .unwrap();
        assert_eq!(ids(&page), people.by_name(at_least), "from {from}");
    }
    let third = all[3];
    let name = people.all[third.unsigned_abs() as usize].name.unwrap();
    let page = query
        .clone()
        .from_json(json!([name, third]).to_string())
        .first(100)
        .await
        .unwrap();
    assert_eq!(ids(&page), all[3..]);
    let session = LocalSession::new(people.recto.clone());
    let request = PageRequest {
        filter: r#"team = "red""#.into(),
        order_by: "name".into(),
        ..PageRequest::default()
    };
    let explained = session.explain("people", &request, false).await.unwrap();
    assert!(explained.filter_scan.is_empty(), "{explained}");
    assert_eq!(explained.order_text(), "name asc, id asc");
    let shown = explained.to_string();
    assert!(shown.contains("name as in de"), "{shown}");
    people.assert_exact().await;
}

pub(crate) async fn fields_have_collations_of_their_own(recto: Recto) {
    let people = People::new(&recto, &schema(GERMAN)).await;
    let mut expected = people.all.clone();
    expected.sort_by(|one, other| {
        let cities = match (one.city, other.city) {
            (Some(one), Some(other)) => compare("sv", other, one),
            (one, other) => one.is_some().cmp(&other.is_some()),
        };
        let names = match (one.name, other.name) {
            (Some(one), Some(other)) => compare("de", one, other),
            (one, other) => one.is_some().cmp(&other.is_some()),
        };
        cities.then(names).then(one.id.cmp(&other.id))
    });
    let expected: Vec<i32> = expected.into_iter().map(|person| person.id).collect();
    let (forwards, backwards) = both_ways(&people.query("").view("by_city"), 8).await;
    assert_eq!((&forwards, &backwards), (&expected, &expected));
    // In Swedish, unlike in German, Å, Ä and Ö come after Z. `city` sorts in Swedish, so the query
    // must return cities that begin with these letters.
    let beyond = people
        .query(r#"city > "Zz""#)
        .view("by_city")
        .first(100)
        .await
        .unwrap();
    let cities: Vec<Json> = beyond
        .items()
        .iter()
        .map(|one| one.to_json()["city"].clone())
        .collect();
    let mut seen = cities.clone();
    seen.dedup();
    assert_eq!(seen, ["Örebro", "Ängelholm", "Åmål"]);
}

pub(crate) async fn ranges_go_by_the_collation_everywhere(recto: Recto) {
    let people = People::new(&recto, &schema(GERMAN)).await;
    let mut cases: Vec<(String, Vec<i32>)> = Vec::new();
    for at in [
        "",
        "apfel",
        "Äpfel",
        "b",
        "Ö",
        "re\u{301}sume\u{301}",
        "résumé",
        "Straße",
        "zebra",
    ] {
        let is = |how: fn(Ordering) -> bool| {
            people.by_name(|person| person.name.is_some_and(|name| how(compare("de", name, at))))
        };
        cases.push((format!(r#"name < "{at}""#), is(Ordering::is_lt)));
        cases.push((format!(r#"name <= "{at}""#), is(Ordering::is_le)));
        cases.push((format!(r#"name > "{at}""#), is(Ordering::is_gt)));
        cases.push((format!(r#"name >= "{at}""#), is(Ordering::is_ge)));
        // Two texts are equal only if they have the same bytes, even if the language treats them as
        // equal.
        cases.push((format!(r#"name = "{at}""#), is(Ordering::is_eq)));
        let between = people.by_name(|person| {
            person
                .name
                .is_some_and(|name| compare("de", name, at).is_gt() && compare("de", name, "Strasse").is_le())
        });
        cases.push((format!(r#"name > "{at}" AND name <= "Strasse""#), between));
        let (id, text) = (30, at);
        let beyond = people.by_name(|person| {
            person
                .name
                .is_some_and(|name| compare("de", name, text).then(person.id.cmp(&id)).is_gt())
        });
        cases.push((format!(r#"(name, id) > ("{text}", {id})"#), beyond));
    }
    let listed = people.by_name(|person| matches!(person.name, Some("Zorn" | "Äpfel" | "résumé" | "apfel")));
    let list = r#"(name = "Zorn" OR name = "Äpfel" OR name = "résumé" OR name = "apfel")"#;
    cases.push((list.into(), listed));
    for (filter, expected) in &cases {
        let sorted = people.query(filter).order_by("name");
        let found = both_ways(&sorted, 5).await;
        assert_eq!(found, (expected.clone(), expected.clone()), "{filter}");
        // A filter scan must check the same conditions on names, in a view with another order.
        let checked = people.recto.dynamic("people").unwrap().query();
        let checked = checked
            .filter(format!("age = 1 AND {filter}"))
            .allow_filter_scan();
        let of_age: Vec<i32> = expected.iter().copied().filter(|id| id % 3 == 1).collect();
        let mut found = ids(&checked.view("by_age").first(100).await.unwrap());
        assert_eq!(found, of_age, "{filter} of one age");
        let other = people.query(filter).view("by_city").allow_filter_scan();
        found = ids(&other.first(100).await.unwrap());
        let mut all = expected.clone();
        found.sort_unstable();
        all.sort_unstable();
        assert_eq!(found, all, "{filter} by city");
    }
}

pub(crate) async fn views_are_intersected_by_it(recto: Recto) {
    let people = People::new(&recto, &schema(GERMAN)).await;
    let session = LocalSession::new(people.recto.clone());
    let request = PageRequest {
        filter: r#"team = "red" AND age = 2"#.into(),
        ..PageRequest::default()
    };
    let explained = session.explain("people", &request, false).await.unwrap();
    assert_eq!(explained.shape.to_string(), "intersect", "{explained}");
    let expected = people.by_name(|person| person.age == 2);
    for filter in ["age = 2", r#"age = 2 AND name >= "apfel""#] {
        let is_asked = |id: &i32| {
            let name = people.all[id.unsigned_abs() as usize].name;
            filter == "age = 2" || name.is_some_and(|name| compare("de", name, "apfel").is_ge())
        };
        let expected: Vec<i32> = expected.iter().copied().filter(is_asked).collect();
        let (forwards, backwards) = both_ways(&people.query(filter).order_by("name"), 4).await;
        assert_eq!((&forwards, &backwards), (&expected, &expected), "{filter}");
    }
}

pub(crate) async fn entries_move_with_their_texts(recto: Recto) {
    let mut people = People::new(&recto, &schema(GERMAN)).await;
    let query = people.query("").order_by("name");
    let first = query.clone().first(20).await.unwrap();
    let cursor = first.next_cursor().unwrap();
    for (id, name) in [(1, Some("Öl")), (2, None), (5, Some("Aal")), (9, Some("strasse"))] {
        people.all[id].name = name;
        people.put(&people.all[id]).await;
    }
    people.recto.dynamic("people").unwrap().delete(3).await.unwrap();
    people.all.retain(|person| person.id != 3);
    let all = people.by_name(|_| true);
    assert_eq!(both_ways(&query, 9).await, (all.clone(), all));
    // The position of a cursor must stay the same when records move.
    let rest = query.clone().page_size(100).page_token(cursor).await.unwrap();
    assert!(rest.len() > 30);
    people.assert_exact().await;
}

pub(crate) async fn rejects_unsupported_queries_and_long_keys(recto: Recto) {
    let people = People::new(&recto, &schema(GERMAN)).await;
    let refused = people.query(r#"startsWith(name, "A")"#).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidQuery);
    let said = refused.to_string();
    assert!(said.contains("name sorts by the collation de"), "{said}");
    // The view's key contains the sort key and the text. Together they may have at most 8 KiB, on
    // both stores.
    let records = people.recto.dynamic("people").unwrap();
    let record = |name: String| {
        let record = json!({ "id": 100, "team": "red", "age": 1, "name": name });
        DynamicRecord::from_json(records.definition(), record.as_object().unwrap()).unwrap()
    };
    records.put(&record("Ä".repeat(1_000))).await.unwrap();
    let refused = records.put(&record("Ä".repeat(3_000))).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LimitExceeded, "{refused}");
    assert!(refused.to_string().contains("by_"), "{refused}");
    // The base table has no sort keys, so it sorts text by its bytes.
    let plain = Fresh::new(kind_of(&recto)).open().await;
    plain.apply(&parse(PLAIN)).await.unwrap();
    let words = plain.dynamic("words").unwrap();
    for text in ["Zorn", "Ärger", "apfel", "zebra"] {
        let record = json!({ "book": "b", "word": text });
        let record = DynamicRecord::from_json(words.definition(), record.as_object().unwrap()).unwrap();
        words.put(&record).await.unwrap();
    }
    let in_order = async |query: PageQuery<DynamicRecord>| {
        let page = query.first(10).await.unwrap();
        let words = page.items().iter().map(|one| one.to_json()["word"].clone());
        words.collect::<Vec<_>>()
    };
    let query = words.query().filter(r#"book = "b""#);
    assert_eq!(in_order(query.clone()).await, ["Zorn", "apfel", "zebra", "Ärger"]);
    let sorted = query.clone().order_by("word");
    assert_eq!(
        in_order(sorted.clone()).await,
        ["apfel", "Ärger", "zebra", "Zorn"]
    );
    let refused = sorted.view("primary").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoPlan);
    let said = refused.to_string();
    assert!(
        said.contains("by the bytes of word, not by its collation de"),
        "{said}"
    );
    assert_eq!(in_order(query.filter(r#"word > "b""#)).await, ["zebra", "Zorn"]);
}

/// Schema of words: the base table sorts them by their bytes, and a view by the rules of a
/// language.
const PLAIN: &str = r#"
[collection.words]
fields = { book = "text", word = "text", page = "int" }
key = ["book", "word"]
partition = ["book"]
order = ["word"]
writes = "append"

[collection.words.view.alphabet]
partition = ["book"]
order = ["word"]
collate = "de"
"#;

pub(crate) async fn they_are_kept_in_buckets(recto: Recto) {
    let bucketed = SCHEMA.replace("COLLATE", &format!("{GERMAN}\nbucket = {{ rows = 10 }}"));
    let people = People::new(&recto, &parse(&bucketed)).await;
    let all = people.by_name(|_| true);
    let query = people.query("").view("by_name").order_by("name");
    assert_eq!(both_ways(&query, 7).await, (all.clone(), all));
    people.assert_exact().await;
}

pub(crate) async fn a_collation_is_added_changed_and_dropped(recto: Recto) {
    const ONE: &str = r#"
[collection.people]
fields = { id = "int", team = "text", name = "text", city = "text", age = "int", note = "text" }
key = ["id"]
[collection.people.view.by_name]
partition = ["team"]
order = ["name"]
COLLATE
"#;
    let schema = |collate: &str| parse(&ONE.replace("COLLATE", collate));
    let people = People::new(&recto, &schema("")).await;
    let query = people.query("").view("by_name").order_by("name");
    let mut cursors: Vec<(&str, _)> = Vec::new();
    for locale in ["", "de", "sv", "", "de"] {
        let collate = if locale.is_empty() {
            String::new()
        } else {
            format!("collate = \"{locale}\"")
        };
        people.recto.apply(&schema(&collate)).await.unwrap();
        let mut all = people.all.clone();
        all.sort_by(|one, other| {
            let names = match (one.name, other.name) {
                (Some(one), Some(other)) if locale.is_empty() => one.cmp(other),
                (Some(one), Some(other)) => compare(locale, one, other),
                (one, other) => one.is_none().cmp(&other.is_none()),
            };
            names.then(one.id.cmp(&other.id))
        });
        let all: Vec<i32> = all.into_iter().map(|person| person.id).collect();
        assert_eq!(ids(&query.clone().first(100).await.unwrap()), all, "{locale}");
        people.assert_exact().await;
        // A cursor must continue in every table with its own sort order, and in no table with
        // another order.
        for (of, cursor) in &cursors {
            match query
                .clone()
                .page_size(100)
                .page_token(String::clone(cursor))
                .await
            {
                Ok(page) => {
                    assert_eq!(*of, locale);
                    assert_eq!(ids(&page), all[9..]);
                }
                Err(error) => {
                    assert_ne!(*of, locale, "{error}");
                    assert_eq!(error.kind(), ErrorKind::InvalidCursor);
                }
            }
        }
        let cursor = query.clone().first(9).await.unwrap().next_cursor().unwrap();
        cursors.push((locale, cursor.to_string()));
    }
}

/// Changes the recorded version of all views' sort keys to `number`, as if another release of Recto
/// had computed them.
async fn record_number(recto: &Recto, number: u32) {
    let tables = recto.store().list_tables().await.unwrap();
    let table = Arc::new(
        tables
            .into_iter()
            .find(|table| table.name() == "recto_catalog")
            .unwrap(),
    );
    let partition: Cells = std::iter::once(Some(&b"schema"[..])).collect();
    let read = PointRead {
        table: Arc::clone(&table),
        partition: partition.clone(),
        clustering: Cells::new(),
    };
    let snapshot = recto.store().snapshot().unwrap();
    let found = snapshot.get(&read, &ReadOptions::default()).await.unwrap();
    let row = found.rows.iter().next().unwrap();
    let cell = |name: &str| {
        let column = table
            .columns()
            .iter()
            .position(|column| column.name == name)
            .unwrap();
        row.get(column).unwrap().to_vec()
    };
    let (version, generation, body) = (cell("version"), cell("generation"), cell("body"));
    let next = i64::from_be_bytes(generation.clone().try_into().unwrap()) + 1;
    let body = String::from_utf8(body).unwrap();
    let body = body.replace("collation 1 view", &format!("collation {number} view"));
    let cas = Cas {
        table,
        partition,
        conditions: vec![CasCondition {
            row: RowAddress::Row(Cells::new()),
            column: 1,
            expected: Some(generation),
        }],
        mutations: vec![Mutation {
            operation: Operation::Put {
                clustering: Cells::new(),
                cells: [
                    Some(&*version),
                    Some(&next.to_be_bytes()[..]),
                    Some(body.as_bytes()),
                ]
                .into_iter()
                .collect(),
                replace: true,
            },
            stamp: None,
            ttl_seconds: None,
        }],
    };
    let outcome = recto.store().cas(cas, WriteOptions::default()).await.unwrap();
    assert!(matches!(outcome, CasOutcome::Applied), "{outcome:?}");
}

pub(crate) async fn keys_of_another_number_are_refused_until_they_are_made_anew(recto: Recto) {
    let store = Fresh::new(kind_of(&recto));
    let schema = schema(GERMAN);
    let cursor = {
        let people = People {
            recto: store.open().await,
            all: people(),
        };
        people.recto.apply(&schema).await.unwrap();
        for person in &people.all {
            people.put(person).await;
        }
        record_number(&people.recto, 7).await;
        let page = people.query("").order_by("name").first(10).await.unwrap();
        people.recto.close().await.unwrap();
        page.next_cursor().unwrap().to_string()
    };
    let people = People {
        recto: store.open().await,
        all: people(),
    };
    let views = people.recto.views().await.unwrap();
    assert!(views.iter().all(|view| view.state == "outdated"), "{views:?}");
    let check = |error: recto::Error, what: &str| {
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
        let said = error.to_string();
        assert!(
            said.contains(what) && said.contains("have collation number 7"),
            "{said}"
        );
        assert!(
            error.hint().is_some_and(|hint| hint.contains("recto apply")),
            "{error}"
        );
    };
    check(
        people.query("").order_by("name").await.unwrap_err(),
        "cannot be read",
    );
    check(
        people.query("").view("by_name").await.unwrap_err(),
        "view by_name",
    );
    let records = people.recto.dynamic("people").unwrap();
    let mut one = records.get(4).await.unwrap().unwrap().to_json();
    one.insert("note".into(), "changed".into());
    let changed = DynamicRecord::from_json(records.definition(), &one).unwrap();
    check(records.put(&changed).await.unwrap_err(), "cannot be written");
    check(
        records.delete(4).await.map(|_| ()).unwrap_err(),
        "cannot be written",
    );
    // Requests that need no view must still succeed.
    assert_eq!(records.get(4).await.unwrap().unwrap().get("note"), None);
    let verified = people
        .recto
        .verify(&VerifyRequest::default(), &|_| {})
        .await
        .unwrap();
    assert!(
        verified.views.is_empty() && verified.left_out.len() == 3,
        "{verified:?}"
    );
    people.recto.apply(&schema).await.unwrap();
    people
        .recto
        .dynamic("people")
        .unwrap()
        .put(&changed)
        .await
        .unwrap();
    let all = people.by_name(|_| true);
    let query = people.query("").order_by("name");
    assert_eq!(both_ways(&query, 20).await, (all.clone(), all.clone()));
    // A cursor that contains sort keys of this release must continue.
    let rest = query.page_size(100).page_token(cursor).await.unwrap();
    assert_eq!(ids(&rest), all[10..]);
    people.assert_exact().await;
}

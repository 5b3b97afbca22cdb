//! SELECT statements of Cassandra's own tests (vectors), which Recto must answer as Cassandra does.
//! The tests read pages of several sizes in both directions, from the embedded store and from
//! Cassandra. `README.md` gives the origin of the vectors, and `mapping.txt` their translation to
//! queries of Recto.

mod answer;
mod mapping;
mod pages;
mod vector;

use std::sync::Arc;

use crate::common::{Fresh, Kind, Scope, Subject, Suite, run};
use futures::StreamExt;
use recto::schema;

/// Number of vectors (SELECT statements of Cassandra's tests) in the repository.
const VECTORS: usize = 397;
/// Number of vectors that one query of Recto can answer. The file `mapping.txt` gives the reason
/// for each other vector.
const OF_ONE_QUERY: usize = 386;
/// Maximum number of vectors that are tested concurrently.
const PARALLEL: usize = 8;

/// Test suite of the tests that use stores in files or on Cassandra.
static TESTS: Suite = Suite::new(module_path!(), 3);

#[test]
fn embedded_pages_are_cassandras_answers() {
    let _scope = Scope::new(&TESTS);
    run(pages_are_cassandras_answers(Kind::Embedded));
}

#[test]
fn cassandra_pages_are_cassandras_answers() {
    let _scope = Scope::new(&TESTS);
    run(pages_are_cassandras_answers(Kind::Cassandra));
}

#[test]
fn mapping_is_as_written() {
    let _scope = Scope::new(&TESTS);
    run(mapping::is_as_written());
}

/// Creates a store of this kind, with one collection for each table that vectors query. Stores the
/// rows of each table.
async fn subjects(kind: Kind, sets: &[vector::Set]) -> Vec<Subject> {
    let collections: Vec<Arc<schema::Collection>> = sets.iter().map(vector::Set::collection).collect();
    let recto = Fresh::new(kind).open().await;
    recto
        .apply(&schema::Schema {
            collections: collections.clone(),
            ..schema::Schema::default()
        })
        .await
        .unwrap();
    let mut subjects = Vec::new();
    for (set, collection) in sets.iter().zip(collections) {
        let mut subject = Subject::new(&recto, &collection.name);
        for rows in set.insertions() {
            subject.put_rows(rows).await;
        }
        subjects.push(subject);
    }
    subjects
}

async fn pages_are_cassandras_answers(kind: Kind) {
    let (sets, vectors) = vector::read();
    assert_eq!(vectors.len(), VECTORS);
    let subjects = subjects(kind, &sets).await;
    let asked: Vec<pages::VectorResult> = futures::stream::iter(&vectors)
        .map(|vector| pages::ask(&subjects[vector.set], vector))
        .buffer_unordered(PARALLEL)
        .collect()
        .await;
    let whole = asked.iter().filter(|asked| asked.is_one_query).count();
    let pages: usize = asked.iter().map(|asked| asked.pages).sum();
    println!(
        "{kind:?}: {whole} vectors as pages of one query, {} as pages of several, {pages} pages",
        VECTORS - whole
    );
    assert_eq!((asked.len(), whole), (VECTORS, OF_ONE_QUERY));
}

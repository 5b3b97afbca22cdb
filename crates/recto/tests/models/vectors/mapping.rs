//! Comparison of the translation of all vectors (CQL queries of Cassandra's tests) with the file
//! `mapping.txt`. The file lists the filter, sort order and plan of each vector, and the number of
//! vectors that use each feature of CQL.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use recto::LocalSession;
use recto::session::{PageRequest, Pages};
use recto_testkit::oracle::Question;

use super::answer::{Answer, answer};
use super::vector::{self, Vector};
use crate::common::{Kind as StoreKind, Subject};

/// Environment variable that makes the test write the file `mapping.txt` instead of comparing it.
const BLESS_VARIABLE: &str = "RECTO_TEST_BLESS";
/// Maximum length, in characters, of a CQL statement that `mapping.txt` contains without
/// truncation.
const MAX_SHOWN: usize = 300;

/// Asserts that `mapping.txt` contains the translation of all vectors, followed by the current
/// counts.
pub(crate) async fn is_as_written() {
    let (sets, vectors) = vector::read();
    let subjects = super::subjects(StoreKind::Embedded, &sets).await;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut text = String::new();
    for vector in &vectors {
        let subject = &subjects[vector.set];
        let answer = answer(vector, &subject.definition);
        text.push_str(&entry(subject, vector, &answer, &mut counts).await);
    }
    println!("{} vectors", vectors.len());
    writeln!(text, "{} vectors", vectors.len()).unwrap();
    for (kind, count) in &counts {
        println!("{count:5}  {kind}");
        writeln!(text, "{count:5}  {kind}").unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/vectors/mapping.txt");
    if std::env::var_os(BLESS_VARIABLE).is_some() {
        fs::write(path, text).unwrap();
        return;
    }
    let written = fs::read_to_string(path).unwrap();
    for (found, written) in text.lines().zip(written.lines()) {
        assert_eq!(
            found, written,
            "mapping.txt says otherwise; {BLESS_VARIABLE}=1 writes it anew"
        );
    }
    assert_eq!(text.len(), written.len());
}

async fn entry(
    subject: &Subject,
    vector: &Vector,
    answer: &Answer,
    counts: &mut BTreeMap<String, usize>,
) -> String {
    let mut count = |kind: String| *counts.entry(kind).or_default() += 1;
    let mut text = format!(
        "{}\n  cql     {}\n  table   {}\n",
        vector.id,
        shown(&vector.cql),
        subject.definition.base().canonical()
    );
    let kinds: Vec<String> = answer.kinds.iter().map(ToString::to_string).collect();
    writeln!(text, "  made of {}", kinds.join(", ")).unwrap();
    for kind in kinds {
        count(kind);
    }
    if let Some(beyond) = &answer.beyond {
        writeln!(text, "  beyond a page: {}", beyond.reason).unwrap();
        count(format!("(beyond a page) {}", beyond.reason));
        for part in beyond.parts.iter().take(2) {
            text.push_str(&page(subject, part).await.0);
        }
        if beyond.parts.len() > 2 {
            writeln!(text, "  … {} queries in all", beyond.parts.len()).unwrap();
        }
    } else {
        let (page, shape) = page(subject, &answer.question).await;
        text.push_str(&page);
        count(format!("(plan) {shape}"));
    }
    if let Some(limit) = answer.limit {
        writeln!(text, "  size    {limit}").unwrap();
    }
    text.push('\n');
    text
}

/// Returns two texts about a query: its filter, sort order and plan, and the kind of its plan.
async fn page(subject: &Subject, question: &Question) -> (String, String) {
    let filter = question.filter_text(&subject.definition);
    let sort = question.sort_text(&subject.definition);
    let mut text = format!("  filter  {}\n", shown(&filter));
    if !sort.is_empty() {
        writeln!(text, "  sort    {sort}").unwrap();
    }
    if filter.contains("()") {
        writeln!(
            text,
            "  plan    empty: a list of no values, which only a filter built in Rust can have"
        )
        .unwrap();
        return (text, "empty".to_owned());
    }
    let request = PageRequest {
        filter,
        order_by: sort,
        ..PageRequest::default()
    };
    let session = LocalSession::new(subject.recto.clone());
    let plan = session
        .explain(&subject.definition.name, &request, false)
        .await
        .unwrap();
    let order = plan.order_text();
    writeln!(
        text,
        "  plan    {} of {}, {} clustering order, order {}",
        plan.shape,
        plan.sources.len(),
        plan.direction,
        if plan.order.is_empty() {
            "none: one row at most"
        } else {
            &order
        }
    )
    .unwrap();
    (text, plan.shape.to_string())
}

fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_SHOWN).collect();
    if short.len() < text.len() {
        write!(short, "… ({} characters)", text.chars().count()).unwrap();
    }
    short
}

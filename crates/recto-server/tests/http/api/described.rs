//! The description of the API. That answers are as it says is checked with every answer of the suite.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::support::Client;

/// All values of `$ref`, and all operation ids.
fn collect(of: &Json, references: &mut BTreeSet<String>, ids: &mut Vec<String>) {
    match of {
        Json::Object(members) => {
            if let Some(reference) = members.get("$ref") {
                references.insert(reference.as_str().unwrap().to_owned());
            }
            if let Some(Json::String(id)) = members.get("operationId") {
                ids.push(id.clone());
            }
            members.values().for_each(|value| collect(value, references, ids));
        }
        Json::Array(elements) => elements.iter().for_each(|value| collect(value, references, ids)),
        _ => {}
    }
}

pub(crate) async fn refers_to_what_is_there(client: Client) {
    let reply = client.get("/openapi.json").await;
    assert_eq!(reply.header("content-type"), "application/json");
    let document = reply.json();
    assert_eq!(document["openapi"], "3.1.0");
    let (mut references, mut ids) = (BTreeSet::new(), Vec::new());
    collect(&document, &mut references, &mut ids);
    for reference in &references {
        let target = document.pointer(reference.trim_start_matches('#'));
        assert!(target.is_some(), "{reference} leads nowhere");
    }
    let components = document["components"].as_object().unwrap();
    for (kind, named) in components.iter().filter(|(kind, _)| *kind != "securitySchemes") {
        for name in named.as_object().unwrap().keys() {
            let reference = format!("#/components/{kind}/{name}");
            assert!(references.contains(&reference), "{reference} is used nowhere");
        }
    }
    let distinct: BTreeSet<&String> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len());
    // The schema, the lists of collections and of views, ten operations of the store, of queues five, nine of their messages and
    // as many of those of units, four of units, two of the ring, and twelve of each collection.
    assert_eq!(ids.len(), 3 + 10 + 5 + 2 * 9 + 4 + 2 + 4 * 12);
}

pub(crate) async fn is_for_people_too(client: Client) {
    let page = client.get("/docs").await;
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    let text = page.text();
    for wanted in [
        "list_notes",
        "batch_write_everything",
        "page_token",
        "/assets/docs.css",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
    assert!(!text.contains("<script") && !text.contains("style="));
    let style = client.get("/assets/docs.css").await;
    assert_eq!(style.header("content-type"), "text/css; charset=utf-8");
}

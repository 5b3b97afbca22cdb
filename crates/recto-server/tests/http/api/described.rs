//! Checks the API description itself. All other tests check their responses against it.

use std::collections::BTreeSet;

use hyper::Method;
use serde_json::{Value as Json, json};

use super::support::client::listed;
use super::support::{Client, Reply};

/// Collects all values of `$ref` and all operation ids in a part of the description.
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
    // There are 3 operations of the schema, collections and views, 11 of the store, and 5 of
    // queues. Messages of queues have 9, messages of units 9, units 4, and tables of message bodies
    // 2. Each of 4 collections has 12.
    assert_eq!(ids.len(), 3 + 11 + 5 + 2 * 9 + 4 + 2 + 4 * 12);
}

/// Returns a valid value for the JSON Schema of a parameter, as JSON and as text in a URL.
fn value_of(schema: &Json) -> (Json, String) {
    if let Some(values) = schema["enum"].as_array() {
        return (values[0].clone(), values[0].as_str().unwrap().to_owned());
    }
    match (schema["type"].as_str().unwrap(), &schema["items"]["enum"][0]) {
        ("boolean", _) => (json!(true), "true".to_owned()),
        ("integer", _) => (json!(1), "1".to_owned()),
        ("string", _) => (json!(""), String::new()),
        ("array", Json::String(name)) => (json!([name]), name.clone()),
        ("array", _) => (json!([]), "[]".to_owned()),
        (other, _) => panic!("{other}"),
    }
}

pub(crate) async fn parameters_are_taken_in_a_body_as_in_an_address(client: Client) {
    let document = client.get("/openapi.json").await.json();
    let mut checked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let body = &item["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        let body = body.as_str().unwrap_or_default().trim_start_matches('#');
        if ![".query", ".explain", ".export"]
            .iter()
            .any(|one| body.ends_with(one))
        {
            continue;
        }
        let list = path.trim_end_matches(":query");
        for (name, schema) in document.pointer(body).unwrap()["properties"].as_object().unwrap() {
            let (value, text) = value_of(schema);
            let by_body = client.post(path, &json!({ name: value })).await;
            let by_address = client.get(&listed(list, &[(name, &text)])).await;
            let told = |reply: &Reply| match reply.status {
                200 => Json::Null,
                _ => reply.json(),
            };
            assert_eq!(
                by_body.status,
                by_address.status,
                "{path} {name}: {}",
                by_body.text()
            );
            assert_eq!(told(&by_body), told(&by_address), "{path} {name}");
            checked += 1;
        }
    }
    // Each of the four collections has 15 parameters of a query, 16 of an explanation (which also
    // has `run`), and 5 of an export.
    assert_eq!(checked, 4 * (15 + 16 + 5));
}

/// Replaces the placeholders in a path of the description by valid names.
fn target_of(template: &str) -> String {
    let mut target = String::new();
    for part in template.split('{') {
        match part.split_once('}') {
            Some(("position", rest)) => target.push_str(&format!("1-1{rest}")),
            Some((_, rest)) => target.push_str(&format!("1{rest}")),
            None => target.push_str(part),
        }
    }
    target
}

/// Returns a value that violates the JSON Schema of a parameter; `None` if the schema allows any
/// text.
fn wrong_value(schema: &Json) -> Option<&'static str> {
    match schema["type"].as_str() {
        _ if !schema["enum"].is_null() || !schema["items"]["enum"].is_null() => Some("no such name"),
        Some("boolean") => Some("perhaps"),
        Some("integer") => Some("1.5x"),
        _ => None,
    }
}

pub(crate) async fn names_each_parameter_that_is_wrong(client: Client) {
    let document = client.get("/openapi.json").await.json();
    let client = client.unchecked();
    let mut checked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().iter();
        for (method, operation) in methods.filter(|(name, _)| *name != "parameters") {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let media = operation["requestBody"]["content"].as_object();
            let media = media.and_then(|content| content.keys().next());
            let media = media.map_or("application/json", String::as_str);
            let mut wrong = vec![("nonsense".to_owned(), "1")];
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let parameter = match parameter["$ref"].as_str() {
                    Some(at) => document.pointer(at.trim_start_matches('#')).unwrap(),
                    None => parameter,
                };
                // Leave out `collections`: a wrong name is answered with 404, because the
                // collection does not exist.
                let has_wrong_values = parameter["in"] == "query" && parameter["name"] != "collections";
                let value = wrong_value(&parameter["schema"]).filter(|_| has_wrong_values);
                wrong.extend(value.map(|value| (parameter["name"].as_str().unwrap().to_owned(), value)));
            }
            for (name, value) in wrong {
                let target = listed(&target_of(path), &[(&name, value)]);
                let reply = client
                    .send(method.clone(), &target, &[("content-type", media)], "{}")
                    .await;
                let what = format!("{method} {target}: {}", reply.text());
                assert_eq!(reply.status, 400, "{what}");
                let named = [&reply.json()["parameter"], &reply.json()["part"]];
                assert!(named.contains(&&json!(name)), "{what}");
                checked += 1;
            }
        }
    }
    assert!(checked > 150, "{checked}");
}

/// Checks that each array in the description has `items`, which client generators require.
fn check_arrays(of: &Json, at: &str) {
    match of {
        Json::Object(members) => {
            if members.get("type").is_some_and(|ty| ty == "array") {
                assert!(members["items"].is_object(), "{at}: {of}");
            }
            for (name, value) in members {
                check_arrays(value, &format!("{at}/{name}"));
            }
        }
        Json::Array(elements) => elements.iter().for_each(|value| check_arrays(value, at)),
        _ => {}
    }
}

pub(crate) async fn says_what_arrays_hold(client: Client) {
    let document = client.get("/openapi.json").await.json();
    check_arrays(&document, "");
    // In a response, a record has its key, unless the request's `fields` omits the key.
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["notes"]["required"], json!(["tenant", "at", "id"]));
    assert_eq!(schemas["notes.part"]["required"], Json::Null);
    let about = document["tags"].to_string();
    assert!(
        about
            .contains("A page of view `primary` needs a filter that fixes tenant, and is sorted by -at, id."),
        "{about}"
    );
    assert!(!about.contains("ordered by nothing"), "{about}");
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

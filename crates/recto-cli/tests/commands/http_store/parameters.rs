//! Each parameter of a page has the same meaning in an address, in a body, and on the command line, where it goes
//! through the client to a server, or straight to a folder.

use std::collections::BTreeSet;

use recto::problem::ProblemType;
use serde_json::{Map, Value as Json, json};

use super::{Place, exchange};

/// Values of each parameter: as text in an address and on the command line.
const VALUES: &[(&str, &[&str])] = &[
    (
        "filter",
        &[
            "carrier = \"B6\"",
            "carrier = \"UA\" AND day > \"2013-01-20\"",
            "",
            "carrier =",
            "delya = 3",
            "delay = 3",
        ],
    ),
    (
        "order_by",
        &["day, flight desc", "-day", "", "delay", "day desc flight"],
    ),
    ("page_size", &["3", "0", "5000", "-1", "1.5", "many"]),
    ("page_token", &["", "nonsense"]),
    ("last", &["true", "false", "perhaps"]),
    ("from", &["[\"2013-01-07\"]", "[\"yesterday\"]", "[nonsense", "7"]),
    ("around", &["nonsense", "60%", "160%"]),
    ("fields", &["day,flight", "day", "zz"]),
    ("view", &["primary", "", "by_nothing"]),
    ("allow_filter_scan", &["true", "false", "perhaps"]),
    ("row_page_tokens", &["true", "false", "perhaps"]),
    ("versions", &["true", "false"]),
    ("both_edges", &["true", "false", "perhaps"]),
    ("count", &["estimate", "no such way"]),
];

/// Result of a page request: the page without its tokens, or the type and the detail of its problem.
#[derive(Debug, PartialEq)]
enum Outcome {
    Page(Json),
    Problem { name: String, detail: String },
}

impl Outcome {
    fn of((status, mut body): (u16, Json)) -> Self {
        if status == 200 {
            hide_tokens(&mut body);
            return Self::Page(body);
        }
        let name = body["type"]
            .as_str()
            .unwrap()
            .rsplit([':', '/', '#'])
            .next()
            .unwrap();
        Self::Problem {
            name: name.to_owned(),
            detail: comparable(body["detail"].as_str().unwrap()),
        }
    }
}

/// Returns a message in the form that is the same for an address and for a body. An address has only text, so a message about a
/// number in it quotes the number. A message about text in a body says that the text is a string.
fn comparable(message: &str) -> String {
    message.replace('"', "").replace("not string ", "not ")
}

/// Sends a request, and returns the status and the JSON of the reply.
fn send(address: &str, method: &str, target: &str, body: &str) -> (u16, Json) {
    let reply = exchange(address, method, target, body);
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

/// Tokens are encrypted anew each time.
fn hide_tokens(value: &mut Json) {
    match value {
        Json::Object(members) => {
            for (name, member) in members {
                if name.ends_with("_token") || name.ends_with("_tokens") {
                    *member = json!(!member.is_null());
                } else {
                    hide_tokens(member);
                }
            }
        }
        Json::Array(elements) => elements.iter_mut().for_each(hide_tokens),
        _ => {}
    }
}

/// Returns the value in a body: of the type in the description, if the text has that form.
fn in_body(schema: &Json, text: &str) -> Json {
    let read = || serde_json::from_str(text).unwrap_or(json!(text));
    match schema["type"].as_str() {
        Some("array") if !schema["items"]["enum"].is_null() => json!(text.split(',').collect::<Vec<_>>()),
        Some("boolean" | "integer" | "array") => read(),
        _ => json!(text),
    }
}

/// Returns the arguments for a value; `None` if a flag has no such value.
fn as_arguments(name: &str, schema: &Json, text: &str) -> Option<Vec<String>> {
    let flag = format!("--{}", name.replace('_', "-"));
    match (schema["type"].as_str(), text) {
        (Some("boolean"), "true") => Some(vec![flag]),
        (Some("boolean"), "false") => Some(Vec::new()),
        (Some("boolean"), _) => None,
        _ => Some(vec![format!("{flag}={text}")]),
    }
}

fn check_command_line(place: &Place, arguments: &[String], expected: &Outcome) {
    let line: Vec<&str> = ["page", "flights", "--json"]
        .into_iter()
        .chain(arguments.iter().map(String::as_str))
        .collect();
    for ran in [place.http(&line), place.local(&line)] {
        match expected {
            Outcome::Page(page) => {
                let mut printed: Json = serde_json::from_str(&ran.done()).unwrap();
                hide_tokens(&mut printed);
                assert_eq!(printed, *page, "{line:?}");
            }
            Outcome::Problem { name, detail } => {
                let problem = ProblemType::named(name).unwrap();
                assert_eq!(ran.code, i32::from(problem.exit_code()), "{line:?}: {ran:?}");
                // The parser of the command line rejects values without a form in its own words.
                let is_parsed = name == "invalid-parameter" && ran.err.contains("error: invalid value");
                // The command line prints further lines as hints.
                let first = detail.lines().next().unwrap_or_default().trim_end_matches(':');
                assert!(
                    is_parsed || comparable(&ran.err).contains(first),
                    "{line:?}: {detail}: {ran:?}"
                );
            }
        }
    }
}

#[test]
fn page_parameters_mean_the_same_everywhere() {
    let place = Place::new(300);
    let address = place.server.address().to_owned();
    let (_, description) = send(&address, "GET", "/openapi.json", "");
    let properties = &description["components"]["schemas"]["flights.query"]["properties"];
    let described: BTreeSet<&str> = properties
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let drawn: BTreeSet<&str> = VALUES.iter().map(|(name, _)| *name).collect();
    assert_eq!(drawn, described, "each parameter has values above");

    for (name, values) in VALUES {
        for text in *values {
            let mut pairs = vec![("filter", "carrier = \"UA\""), ("page_size", "5")];
            pairs.retain(|(other, _)| other != name);
            pairs.push((name, text));
            let query = recto_api::text::query(pairs.iter().copied());
            let records = "/v1/collections/flights/records";
            let by_address = Outcome::of(send(&address, "GET", &format!("{records}?{query}"), ""));
            let body: Map<String, Json> = pairs
                .iter()
                .map(|(name, text)| ((*name).to_owned(), in_body(&properties[*name], text)))
                .collect();
            // In a body, a text is no malformed array.
            if *name != "from" || body["from"].is_array() {
                let by_body = send(
                    &address,
                    "POST",
                    &format!("{records}:query"),
                    &json!(body).to_string(),
                );
                assert_eq!(by_address, Outcome::of(by_body), "{pairs:?}");
            }
            let arguments = pairs
                .iter()
                .map(|(name, text)| as_arguments(name, &properties[*name], text))
                .collect::<Option<Vec<_>>>();
            if let Some(arguments) = arguments {
                check_command_line(&place, &arguments.concat(), &by_address);
            }
        }
    }
}

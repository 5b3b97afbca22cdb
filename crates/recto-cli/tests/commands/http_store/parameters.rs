//! Checks that each parameter of a request means the same in a URL, in a body, and on the command
//! line. Commands run through a server, and directly on a folder.

use std::collections::BTreeSet;

use recto::problem::ProblemType;
use serde_json::{Map, Value as Json, json};

use super::{Place, exchange};

/// Name of a parameter, and values for its tests, as text in a URL or on the command line.
type Values = (&'static str, &'static [&'static str]);

/// Values to test for each parameter of a request for a page.
const PAGE_VALUES: &[Values] = &[
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
    ("skip", &["0", "3", "100000", "-1", "many"]),
    ("fields", &["day,flight", "day", "zz"]),
    ("view", &["primary", "", "by_nothing"]),
    ("allow_filter_scan", &["true", "false", "perhaps"]),
    ("row_page_tokens", &["true", "false", "perhaps"]),
    ("versions", &["true", "false"]),
    ("both_edges", &["true", "false", "perhaps"]),
    (
        "count",
        &[
            "exact",
            "estimate",
            "up_to:10000",
            "up_to:3",
            "up_to:0",
            "up_to:10001",
            "no such way",
        ],
    ),
];

/// Values to test for each parameter of an export.
const EXPORT_VALUES: &[Values] = &[
    (
        "filter",
        &["carrier = \"B6\"", "delay = 3", "", "carrier =", "delya = 3"],
    ),
    ("fields", &["day,flight", "day", "zz"]),
    ("versions", &["true", "false", "perhaps"]),
    ("resume_token", &["nonsense", ""]),
    ("resume_tokens", &["true", "false", "perhaps"]),
];

/// Operation that reads records: its command, and its requests by GET and by POST.
struct Operation {
    command: &'static [&'static str],
    path: &'static str,
    body_path: &'static str,
    /// Name of the `OpenAPI` schema of the request body.
    schema: &'static str,
    values: &'static [Values],
    /// Parameters that every request has, to keep responses short.
    base: &'static [(&'static str, &'static str)],
    /// Parameters for which the command has no option, because it always or never sends them.
    absent_in_command: &'static [&'static str],
    /// True if the response has one JSON value per line.
    is_lines: bool,
}

const PAGE: Operation = Operation {
    command: &["page", "flights", "--json"],
    path: "/v1/collections/flights/records",
    body_path: "/v1/collections/flights/records:query",
    schema: "flights.query",
    values: PAGE_VALUES,
    base: &[("filter", "carrier = \"UA\""), ("page_size", "5")],
    absent_in_command: &[],
    is_lines: false,
};

const EXPLANATION: Operation = Operation {
    command: &["explain", "flights", "--json"],
    path: "/v1/collections/flights/records:explain",
    body_path: "/v1/collections/flights/records:explain",
    schema: "flights.explain",
    base: &[
        ("filter", "carrier = \"UA\""),
        ("page_size", "5"),
        ("run", "true"),
    ],
    absent_in_command: &["run"],
    ..PAGE
};

const EXPORT: Operation = Operation {
    command: &["scan", "flights"],
    path: "/v1/collections/flights/records:export",
    body_path: "/v1/collections/flights/records:export",
    schema: "flights.export",
    values: EXPORT_VALUES,
    base: &[("filter", "carrier = \"UA\"")],
    absent_in_command: &["resume_tokens"],
    is_lines: true,
};

impl Operation {
    /// Parses a response, and removes the parts that differ between requests: tokens and durations.
    fn parse(&self, text: &str) -> Json {
        let mut json = if self.is_lines {
            text.lines()
                .map(|line| serde_json::from_str::<Json>(line).unwrap())
                .collect()
        } else {
            serde_json::from_str(text).unwrap()
        };
        hide_variable(&mut json);
        json
    }

    /// Sends a request to the server, and returns its outcome.
    fn send(&self, address: &str, method: &str, target: &str, body: &str) -> Outcome {
        let reply = exchange(address, method, target, body);
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        if head.split(' ').nth(1) == Some("200") {
            let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
            return Outcome::Done(self.parse(&if is_chunked { joined(body) } else { body.to_owned() }));
        }
        let problem: Json = serde_json::from_str(body).unwrap();
        let name = problem["type"].as_str().unwrap().rsplit([':', '/', '#']).next();
        Outcome::Problem {
            name: name.unwrap().to_owned(),
            detail: comparable(problem["detail"].as_str().unwrap()),
        }
    }

    fn check_command(&self, place: &Place, arguments: &[String], expected: &Outcome) {
        let line: Vec<&str> = self
            .command
            .iter()
            .copied()
            .chain(arguments.iter().map(String::as_str))
            .collect();
        for ran in [place.http(&line), place.local(&line)] {
            match expected {
                Outcome::Done(reply) => assert_eq!(self.parse(&ran.done()), *reply, "{line:?}"),
                Outcome::Problem { name, detail } => {
                    let problem = ProblemType::named(name).unwrap();
                    assert_eq!(ran.code, i32::from(problem.exit_code()), "{line:?}: {ran:?}");
                    // Do not compare the message if the command line's own parser rejected the
                    // value: its words differ.
                    let is_parsed = name == "invalid-parameter" && ran.err.contains("error: invalid value");
                    // Compare only the first line of the detail. The command line prints the other
                    // lines as hints.
                    let first = detail.lines().next().unwrap_or_default().trim_end_matches(':');
                    assert!(
                        is_parsed || comparable(&ran.err).contains(first),
                        "{line:?}: {detail}: {ran:?}"
                    );
                }
            }
        }
    }
}

/// Outcome of a request: the response, or the type and the detail of its problem.
#[derive(Debug, PartialEq)]
enum Outcome {
    Done(Json),
    Problem { name: String, detail: String },
}

/// Removes the quotes of a message. Numbers in a URL are text, so messages quote them, but not
/// numbers in a body.
fn comparable(message: &str) -> String {
    message.replace('"', "")
}

/// Joins the chunks of a chunked body.
fn joined(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let (chunk, rest) = rest.split_at(usize::from_str_radix(size, 16).unwrap());
        whole.push_str(chunk);
        body = rest.strip_prefix("\r\n").unwrap();
    }
    whole
}

/// Hides tokens and durations in a response, because they differ between requests.
fn hide_variable(value: &mut Json) {
    match value {
        Json::Object(members) => {
            for (name, member) in members {
                if name.ends_with("_token") || name.ends_with("_tokens") || name == "time_micros" {
                    *member = json!(!member.is_null());
                } else {
                    hide_variable(member);
                }
            }
        }
        Json::Array(elements) => elements.iter_mut().for_each(hide_variable),
        _ => {}
    }
}

/// Converts the text of a parameter to a value for a JSON body, of the type in the `OpenAPI`
/// schema. Text that does not have the form of the type stays text.
fn in_body(schema: &Json, text: &str) -> Json {
    let read = || serde_json::from_str(text).unwrap_or(json!(text));
    match schema["type"].as_str() {
        Some("array") if !schema["items"]["enum"].is_null() => json!(text.split(',').collect::<Vec<_>>()),
        Some("boolean" | "integer" | "array") => read(),
        _ => json!(text),
    }
}

/// Returns the command-line arguments for a value of a parameter; `None` if the option cannot have
/// the value.
fn as_arguments(name: &str, schema: &Json, text: &str) -> Option<Vec<String>> {
    let flag = format!("--{}", name.replace('_', "-"));
    match (schema["type"].as_str(), text) {
        (Some("boolean"), "true") => Some(vec![flag]),
        (Some("boolean"), "false") => Some(Vec::new()),
        (Some("boolean"), _) => None,
        _ => Some(vec![format!("{flag}={text}")]),
    }
}

fn check(operation: &Operation) {
    let place = Place::new(300);
    let address = place.server.address().to_owned();
    let description = exchange(&address, "GET", "/openapi.json", "");
    let (_, description) = description.split_once("\r\n\r\n").unwrap();
    let description: Json = serde_json::from_str(description).unwrap();
    let properties = &description["components"]["schemas"][operation.schema]["properties"];
    let described = properties.as_object().unwrap().keys().map(String::as_str);
    let drawn: BTreeSet<&str> = operation.values.iter().map(|(name, _)| *name).collect();
    let missing: Vec<&str> = described
        .filter(|name| !drawn.contains(name) && !operation.absent_in_command.contains(name))
        .collect();
    assert!(missing.is_empty(), "give values to {missing:?}");

    for (name, values) in operation.values {
        for text in *values {
            let mut pairs = operation.base.to_vec();
            pairs.retain(|(other, _)| other != name);
            pairs.push((name, text));
            let query = recto_api::text::query(pairs.iter().copied());
            let target = format!("{}?{query}", operation.path);
            let by_address = operation.send(&address, "GET", &target, "");
            let body: Map<String, Json> = pairs
                .iter()
                .map(|(name, text)| ((*name).to_owned(), in_body(&properties[*name], text)))
                .collect();
            // Skip `from` if its text is no array: a URL has it as text, but a body must have an
            // array.
            if *name != "from" || body["from"].is_array() {
                let body = json!(body).to_string();
                let by_body = operation.send(&address, "POST", operation.body_path, &body);
                assert_eq!(by_address, by_body, "{pairs:?}");
            }
            if operation.absent_in_command.contains(name) {
                continue;
            }
            let arguments = pairs
                .iter()
                .filter(|(name, _)| !operation.absent_in_command.contains(name))
                .map(|(name, text)| as_arguments(name, &properties[*name], text))
                .collect::<Option<Vec<_>>>();
            if let Some(arguments) = arguments {
                operation.check_command(&place, &arguments.concat(), &by_address);
            }
        }
    }
}

#[test]
fn page_parameters_mean_the_same_everywhere() {
    check(&PAGE);
}

#[test]
fn explanation_parameters_mean_the_same_everywhere() {
    check(&EXPLANATION);
}

#[test]
fn export_parameters_mean_the_same_everywhere() {
    check(&EXPORT);
}

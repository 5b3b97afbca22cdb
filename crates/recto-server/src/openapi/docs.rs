//! API description as an HTML page for people, made from the `OpenAPI` document. The page has no
//! scripts.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Map, Value as Json};

/// Maximum length of a regular expression that the page shows, in characters.
const MAX_PATTERN_CHARACTERS: usize = 40;

/// Renders the `OpenAPI` document as an HTML page.
pub(super) fn page(document: &Json) -> Markup {
    let tags = document["tags"].as_array().map(Vec::as_slice).unwrap_or_default();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Recto HTTP API" }
                link rel="icon" type="image/svg+xml" href=(crate::console::asset("icon.svg"));
                link rel="stylesheet" href="/assets/docs.css";
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header {
                    div.title {
                        h1 { "Recto HTTP API" }
                        span.version { (text(&document["info"], "version")) }
                        a href="/openapi.json" { "OpenAPI 3.1" }
                        a href="/" { "Console" }
                    }
                    p { (prose(text(&document["info"], "description"))) }
                }
                nav aria-label="Collections" {
                    ul { @for tag in tags { li { a href={ "#" (text(tag, "name")) } { (text(tag, "name")) } } } }
                }
                main id="main" { @for tag in tags { (section(document, tag)) } }
            }
        }
    }
}

fn text<'a>(of: &'a Json, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
}

fn members(of: &Json) -> Option<&Map<String, Json>> {
    of.as_object()
}

/// Renders text. Parts between backticks become code.
fn prose(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// Renders a table in a box that scrolls, also by keyboard.
fn scrolling(caption: &str, table: &Markup) -> Markup {
    html! {
        div.scroll role="group" aria-label=(caption) tabindex="0" {
            table { caption { (caption) } (table) }
        }
    }
}

/// Follows a reference (`$ref`) inside the document. Returns a value without a reference unchanged.
fn resolve<'a>(document: &'a Json, of: &'a Json) -> &'a Json {
    match of["$ref"].as_str().and_then(|at| at.strip_prefix('#')) {
        Some(at) => document.pointer(at).unwrap_or(&Json::Null),
        None => of,
    }
}

/// Renders all operations that have a tag, and the fields of its records if the tag is a
/// collection.
fn section(document: &Json, tag: &Json) -> Markup {
    let name = text(tag, "name");
    let record = &document["components"]["schemas"][name];
    html! {
        section id=(name) {
            h2 { (name) }
            p { (prose(text(tag, "description"))) }
            @if record.is_object() { (record_table(record)) }
            @for (path, item) in members(&document["paths"]).into_iter().flatten() {
                @for (method, operation) in members(item).into_iter().flatten() {
                    @if operation["tags"][0] == name { (one(document, path, method, item, operation)) }
                }
            }
        }
    }
}

fn record_table(record: &Json) -> Markup {
    let rows = html! {
        thead { tr { th scope="col" { "Field" } th scope="col" { "JSON" } th scope="col" { "Meaning" } } }
        tbody {
            @for (name, schema) in members(&record["properties"]).into_iter().flatten() {
                tr {
                    th scope="row" { code { (name) } }
                    td { (kind(schema)) }
                    td { (prose(text(schema, "description"))) }
                }
            }
        }
    };
    scrolling("A record", &rows)
}

fn one(document: &Json, path: &str, method: &str, item: &Json, operation: &Json) -> Markup {
    let of_path = item["parameters"].as_array().into_iter().flatten();
    let own = operation["parameters"].as_array().into_iter().flatten();
    let parameters: Vec<&Json> = of_path.chain(own).map(|one| resolve(document, one)).collect();
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    html! {
        details id=(text(operation, "operationId")) {
            summary {
                span class={ "method " (method) } { (method.to_uppercase()) }
                code.path { (breakable(path)) }
                span.about { (text(operation, "summary")) }
            }
            div.operation {
                @if !text(operation, "description").is_empty() { p { (prose(text(operation, "description"))) } }
                @if !parameters.is_empty() { (parameter_table(&parameters)) }
                @if body.is_object() { p { "Body: " (kind(body)) " as " code { "application/json" } "." } }
                (response_table(document, &operation["responses"]))
            }
        }
    }
}

/// Renders a path in which lines can break before each `/`.
fn breakable(path: &str) -> Markup {
    html! {
        @for (index, segment) in path.split('/').enumerate() {
            @if index > 0 { "/" (PreEscaped("<wbr>")) }
            (segment)
        }
    }
}

fn parameter_table(parameters: &[&Json]) -> Markup {
    let rows = html! {
        thead {
            tr { th scope="col" { "Name" } th scope="col" { "In" } th scope="col" { "Value" } th scope="col" { "Meaning" } }
        }
        tbody {
            @for parameter in parameters {
                tr {
                    th scope="row" { code { (text(parameter, "name")) } }
                    td { (text(parameter, "in")) }
                    td { (kind(&parameter["schema"])) }
                    td { (prose(text(parameter, "description"))) }
                }
            }
        }
    };
    scrolling("Parameters", &rows)
}

fn response_table(document: &Json, responses: &Json) -> Markup {
    let rows = html! {
        thead { tr { th scope="col" { "Status" } th scope="col" { "Body" } th scope="col" { "Meaning" } } }
        tbody {
            @for (status, response) in members(responses).into_iter().flatten() {
                @let response = resolve(document, response);
                @let content = members(&response["content"]);
                tr {
                    th scope="row" { code { (status) } }
                    td {
                        @if content.is_none() { "none" }
                        @for (media, content) in content.into_iter().flatten() {
                            (kind(&content["schema"])) " as " code { (media) }
                        }
                    }
                    td { (prose(text(response, "description"))) }
                }
            }
        }
    };
    scrolling("Answers", &rows)
}

/// Renders the type that a JSON Schema describes, in a few words.
fn kind(schema: &Json) -> Markup {
    if let Some(at) = schema["$ref"].as_str() {
        let name = at.rsplit('/').next().unwrap_or_default();
        return html! { (name) };
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        return html! {
            @for (index, choice) in choices.iter().enumerate() {
                @if index > 0 { " or " }
                (kind(choice))
            }
        };
    }
    if let Some(values) = schema["enum"].as_array() {
        return html! {
            @for (index, value) in values.iter().enumerate() {
                @if index > 0 { ", " }
                code { (value.as_str().unwrap_or_default()) }
            }
        };
    }
    let ty = text(schema, "type");
    let format = ["format", "contentEncoding"]
        .map(|name| text(schema, name))
        .concat();
    let pattern = text(schema, "pattern");
    html! {
        (ty)
        @if !format.is_empty() { " (" (format) ")" }
        @else if !pattern.is_empty() && pattern.len() <= MAX_PATTERN_CHARACTERS { " " code { (pattern) } }
        @if let (Some(minimum), Some(maximum)) = (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
            ", " (minimum) " to " (maximum)
        }
        @if schema["items"].is_object() { " of " (kind(&schema["items"])) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_escaped() {
        let document = json!({ "info": { "description": "<b>&" }, "tags": [{ "name": "a\"<" }] });
        let text = page(&document).into_string();
        assert!(
            text.contains("&lt;b&gt;&amp;") && text.contains("#a&quot;&lt;"),
            "{text}"
        );
        assert!(!text.contains("<script") && !text.contains("style="), "{text}");
    }
}

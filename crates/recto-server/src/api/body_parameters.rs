//! Parameters in a request's body: for what is too long for an address. They are those of the same
//! question by GET, as a JSON object, and mean the same.

use axum::extract::Request;
use axum::http::Uri;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Number, Value as Json};

use super::body;
use super::parameters::{Parameters, unknown};
use crate::problem::Problem;

impl Parameters {
    /// The parameters in a request's body, of a resource that takes those in `known`. None stands in
    /// its address.
    pub(crate) async fn of_request(uri: &Uri, request: Request, known: &[&str]) -> Result<Self, Problem> {
        Self::read(uri, &[])?;
        let body = body::read(request).await?;
        // What is no object is refused by the other reading.
        let written: Written<'_> = body.text().unwrap_or_default();
        Self::of_json(&body.json, &written, known)
    }

    fn of_json(body: &Json, written: &Written<'_>, known: &[&str]) -> Result<Self, Problem> {
        let Json::Object(members) = body else {
            return Err(Problem::invalid_body("the body is a JSON object of parameters")
                .with_hint(format!("the parameters are {}", known.join(", "))));
        };
        let mut given = Vec::with_capacity(members.len());
        for (name, value) in members {
            if !known.contains(&name.as_str()) {
                return Err(unknown(name, known));
            }
            given.push((name.clone(), text_of(name, value, written)?));
        }
        Ok(Self::of_pairs(given))
    }
}

/// What is taken as it is written: numbers in JSON values may be rounded.
#[derive(Default, Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    from: Option<&'a RawValue>,
}

/// A parameter as it would stand in an address.
fn text_of(name: &str, value: &Json, written: &Written<'_>) -> Result<String, Problem> {
    let shape = shape(name);
    let text = match (shape, value) {
        (Shape::Text, Json::String(text)) => Some(text.clone()),
        (Shape::Flag, Json::Bool(flag)) => Some(flag.to_string()),
        (Shape::Whole, Json::Number(number)) => whole(number),
        (Shape::Values, Json::Array(_)) => written.from.map(|from| from.get().to_owned()),
        (Shape::Names, Json::Array(names)) => joined(names),
        _ => None,
    };
    text.ok_or_else(|| {
        let what = match shape {
            Shape::Text => "a string",
            Shape::Flag => "true or false",
            Shape::Whole => "a whole number",
            Shape::Values => "an array of values",
            Shape::Names => "an array of names of fields",
        };
        Problem::invalid_parameter(name, format!("in a body, {name} is {what}"))
    })
}

/// The JSON that a parameter is in a body.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Text,
    Flag,
    Whole,
    Values,
    Names,
}

fn shape(name: &str) -> Shape {
    match name {
        "last" | "allow_residual" | "row_tokens" | "versions" | "estimate" | "run" | "resume_tokens" => {
            Shape::Flag
        }
        "page_size" => Shape::Whole,
        "from" => Shape::Values,
        "fields" => Shape::Names,
        _ => Shape::Text,
    }
}

/// A whole number's digits; 2.0 is one.
pub(super) fn whole(number: &Number) -> Option<String> {
    let value = number.as_f64()?;
    match number {
        number if number.is_i64() || number.is_u64() => Some(number.to_string()),
        _ if value.fract() == 0.0 => Some(format!("{value:.0}")),
        _ => None,
    }
}

/// Names joined by commas; a name that holds one is none.
fn joined(names: &[Json]) -> Option<String> {
    let name = |name: &'_ Json| match name {
        Json::String(name) if !name.is_empty() && !name.contains(',') => Some(name.clone()),
        _ => None,
    };
    let names: Option<Vec<String>> = names.iter().map(name).collect();
    Some(names?.join(","))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    const KNOWN: [&str; 6] = ["filter", "page_size", "from", "last", "fields", "edges"];

    fn read(body: &Json) -> Result<Parameters, Problem> {
        let text = body.to_string();
        Parameters::of_json(body, &serde_json::from_str(&text).unwrap_or_default(), &KNOWN)
    }

    #[test]
    fn values_become_what_they_are_in_an_address() {
        let body = json!({
            "filter": "a = 1 & é", "page_size": 7, "from": ["x", 1.5, true], "last": false, "fields": ["a", "b"],
        });
        let parameters = read(&body).unwrap();
        assert_eq!(parameters.text("filter"), Some("a = 1 & é"));
        assert_eq!(parameters.whole("page_size").unwrap(), Some(7));
        assert_eq!(parameters.text("from"), Some("[\"x\",1.5,true]"));
        assert!(!parameters.flag("last").unwrap());
        assert_eq!(parameters.names("fields"), ["a", "b"]);
        for (number, expected) in [(json!(2.0), 2), (json!(1e300), i64::MAX), (json!(-3), -3)] {
            let parameters = read(&json!({ "page_size": number })).unwrap();
            assert_eq!(parameters.whole("page_size").unwrap(), Some(expected));
        }
    }

    #[test]
    fn other_json_is_refused_with_its_name() {
        for (body, name) in [
            (json!({ "filter": 1 }), "filter"),
            (json!({ "filter": null }), "filter"),
            (json!({ "page_size": "7" }), "page_size"),
            (json!({ "page_size": 1.5 }), "page_size"),
            (json!({ "from": "[1]" }), "from"),
            (json!({ "last": "true" }), "last"),
            (json!({ "fields": "a,b" }), "fields"),
            (json!({ "fields": ["a,b"] }), "fields"),
            (json!({ "fields": [1] }), "fields"),
            (json!({ "edges": true }), "edges"),
            (json!({ "sort": "a" }), "sort"),
        ] {
            let problem = read(&body).unwrap_err().to_json();
            assert_eq!(problem["parameter"], name, "{problem}");
            assert_eq!(problem["status"], 400);
        }
        assert!(read(&json!([])).is_err());
    }
}

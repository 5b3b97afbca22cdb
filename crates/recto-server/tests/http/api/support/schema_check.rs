//! Validator for the part of JSON Schema that the API description uses. An unknown keyword is an
//! error, so that nothing passes unchecked.

use serde_json::Value as Json;

/// Checks a value against a JSON Schema. Returns a description of the first problem, or `None` if
/// the value is valid.
pub(crate) fn problem(document: &Json, schema: &Json, value: &Json, at: &str) -> Option<String> {
    let Json::Object(keywords) = schema else {
        return (schema == &Json::Bool(false)).then(|| format!("{at}: nothing may stand here"));
    };
    keywords
        .iter()
        .find_map(|(keyword, wanted)| one(document, schema, (keyword, wanted), value, at))
}

fn one(
    document: &Json,
    schema: &Json,
    (keyword, wanted): (&str, &Json),
    value: &Json,
    at: &str,
) -> Option<String> {
    let unless = |holds: bool| (!holds).then(|| format!("{at}: {value} is not of {keyword} {wanted}"));
    let number = || wanted.as_f64().unwrap();
    let length = value.as_array().map(Vec::len);
    match keyword {
        "description" | "format" | "contentEncoding" | "default" => None,
        "$ref" => {
            let target = wanted.as_str().unwrap().trim_start_matches('#');
            problem(document, document.pointer(target).unwrap(), value, at)
        }
        "anyOf" => {
            let choices = wanted.as_array().unwrap();
            let problems: Option<Vec<String>> = choices
                .iter()
                .map(|choice| problem(document, choice, value, at))
                .collect();
            problems.map(|problems| problems.join("; or "))
        }
        "allOf" => {
            let parts = wanted.as_array().unwrap();
            parts.iter().find_map(|part| problem(document, part, value, at))
        }
        "type" => unless(match wanted {
            Json::Array(types) => types.iter().any(|one| is_type(one.as_str().unwrap(), value)),
            one => is_type(one.as_str().unwrap(), value),
        }),
        "enum" => unless(wanted.as_array().unwrap().contains(value)),
        "const" => unless(wanted == value),
        "pattern" => {
            let pattern = regex::Regex::new(wanted.as_str().unwrap()).unwrap();
            unless(value.as_str().is_none_or(|text| pattern.is_match(text)))
        }
        "minimum" => unless(value.as_f64().is_none_or(|value| value >= number())),
        "maximum" => unless(value.as_f64().is_none_or(|value| value <= number())),
        "exclusiveMinimum" => unless(value.as_f64().is_none_or(|value| value > number())),
        "exclusiveMaximum" => unless(value.as_f64().is_none_or(|value| value < number())),
        "minLength" => unless(
            value
                .as_str()
                .is_none_or(|text| text.chars().count() as f64 >= number()),
        ),
        "maxLength" => unless(
            value
                .as_str()
                .is_none_or(|text| text.chars().count() as f64 <= number()),
        ),
        "minItems" => unless(length.is_none_or(|length| length as f64 >= number())),
        "maxItems" => unless(length.is_none_or(|length| length as f64 <= number())),
        "required" => {
            let names = wanted.as_array().unwrap().iter();
            let mut missing = names.filter(|name| value.get(name.as_str().unwrap()).is_none());
            missing.next().map(|name| format!("{at}: {name} is missing"))
        }
        "properties" => value.as_object()?.iter().find_map(|(name, value)| {
            let Some(member) = wanted.get(name) else {
                // Members without a description are allowed in later releases. Report them, because
                // the current release must describe all of its members.
                let is_unknown = schema.get("additionalProperties").is_none();
                return is_unknown.then(|| format!("{at}: {name} is not described"));
            };
            problem(document, member, value, &format!("{at}.{name}"))
        }),
        "additionalProperties" => {
            let mut others = value.as_object()?.iter();
            others.find_map(|(name, value)| match schema["properties"].get(name) {
                Some(_) => None,
                None if wanted == &Json::Bool(true) => None,
                None if wanted.is_object() => problem(document, wanted, value, &format!("{at}.{name}")),
                None => Some(format!("{at}: there is no {name}")),
            })
        }
        "prefixItems" => {
            let pairs = wanted.as_array().unwrap().iter().zip(value.as_array()?);
            pairs.enumerate().find_map(|(index, (schema, value))| {
                problem(document, schema, value, &format!("{at}[{index}]"))
            })
        }
        "items" => {
            let before = schema["prefixItems"].as_array().map_or(0, Vec::len);
            let items = value.as_array()?.iter().enumerate().skip(before);
            items
                .map(|(index, value)| problem(document, wanted, value, &format!("{at}[{index}]")))
                .find_map(|problem| problem)
        }
        other => Some(format!("{at}: this check does not know the keyword {other}")),
    }
}

fn is_type(wanted: &str, value: &Json) -> bool {
    match wanted {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|value| value.fract() == 0.0),
        other => panic!("there is no type {other}"),
    }
}

#[test]
fn finds_invalid_values() {
    use serde_json::json;
    let document = json!({ "a": { "type": "integer", "minimum": 0 } });
    let schema = json!({
        "type": "object",
        "properties": {
            "n": { "$ref": "#/a" },
            "p": { "prefixItems": [{ "type": "string" }], "items": false },
            "o": { "anyOf": [{ "enum": ["x"] }, { "type": "null" }] },
        },
        "required": ["n"],
        "additionalProperties": false,
    });
    let is_right = |value: Json| problem(&document, &schema, &value, "").is_none();
    assert!(is_right(json!({ "n": 1, "p": ["a"], "o": null })));
    for wrong in [
        json!({}),
        json!([]),
        json!({ "n": -1 }),
        json!({ "n": 1.5 }),
        json!({ "n": 1, "p": ["a", "b"] }),
        json!({ "n": 1, "p": [1] }),
        json!({ "n": 1, "o": "y" }),
        json!({ "n": 1, "q": 1 }),
    ] {
        assert!(!is_right(wrong.clone()), "{wrong}");
    }
    assert!(problem(&document, &json!({ "multipleOf": 2 }), &json!(1), "").is_some());
}

//! Requests and replies as JSON Schema, for the description of the API.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value as Json};

/// The schemas by name. The test `structs_are_described` makes them of the structs and their doc comments, so that a program
/// needs no crate for that.
const SCHEMAS: &str = include_str!("schemas.json");

/// Prefix of references to schemas.
const PATH: &str = "#/components/schemas/";

static PARSED: LazyLock<Map<String, Json>> =
    LazyLock::new(|| serde_json::from_str(SCHEMAS).unwrap_or_default());

/// Returns the fields of a request by name, each a JSON Schema with a description.
///
/// ```
/// use recto_api::{description, pages::PageRequest};
///
/// let parameters = description::parameters_of::<PageRequest>();
/// assert_eq!(parameters["last"]["type"], "boolean");
/// ```
pub fn parameters_of<T>() -> &'static Map<String, Json> {
    static NONE: LazyLock<Map<String, Json>> = LazyLock::new(Map::new);
    let name = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
    let properties = PARSED
        .get(name)
        .and_then(|schema| schema["properties"].as_object());
    properties.unwrap_or(&NONE)
}

/// Returns the schemas of these names, and those that they refer to.
///
/// ```
/// let schemas = recto_api::description::schemas(["QueueSettings"]);
/// assert!(schemas.contains_key("DeadLetterSettings"));
/// ```
pub fn schemas<'a>(names: impl IntoIterator<Item = &'a str>) -> Map<String, Json> {
    let mut wanted: Vec<&str> = names.into_iter().collect();
    let mut found = Map::new();
    let mut seen = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        if !seen.insert(name) {
            continue;
        }
        if let Some(schema) = PARSED.get(name) {
            references(schema, &mut wanted);
            found.insert(name.to_owned(), schema.clone());
        }
    }
    found.sort_keys();
    found
}

/// Collects the names of the schemas that a schema refers to.
fn references<'a>(schema: &'a Json, names: &mut Vec<&'a str>) {
    match schema {
        Json::Object(members) => {
            let reference = members.get("$ref").and_then(Json::as_str);
            names.extend(reference.and_then(|reference| reference.strip_prefix(PATH)));
            members.values().for_each(|member| references(member, names));
        }
        Json::Array(elements) => elements.iter().for_each(|element| references(element, names)),
        _ => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use schemars::generate::SchemaSettings;
    use serde_json::json;

    use super::*;
    use crate::buckets::{BucketsRequest, MendRequest};
    use crate::csv::CsvOptions;
    use crate::loads::LoadOptions;
    use crate::pages::{ExplainOptions, MAX_PAGE_SIZE, PageRequest};
    use crate::queues::{
        AckRequest, ExtendRequest, MovedMessages, NackRequest, PeekOptions, PeekedMessages, QueueRing,
        QueueStatus, ReceiveRequest, ReceivedMessages, RedriveRequest, SendRequest, SentMessage,
    };
    use crate::records::{GetOptions, PutOptions};
    use crate::scans::{ExportOptions, ScanRequest};
    use crate::store::{BackupRequest, CompareRequest, RotateRequest, SchemaRequest};

    /// Set to write `schemas.json` anew.
    const WRITE: &str = "RECTO_WRITE_DESCRIPTION";

    macro_rules! describe {
        ($($request:ty),+ $(,)?) => {{
            let settings = SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = PATH.trim_start_matches('#').trim_end_matches('/').into();
            });
            let mut generator = settings.into_generator();
            $(generator.subschema_for::<$request>();)+
            generator.take_definitions(true)
        }};
    }

    /// Removes what describes Rust's types.
    fn tidy(schema: &mut Json) {
        match schema {
            Json::Object(members) => {
                tidy_members(members);
                members.values_mut().for_each(tidy);
            }
            Json::Array(elements) => elements.iter_mut().for_each(tidy),
            _ => {}
        }
    }

    fn tidy_members(members: &mut Map<String, Json>) {
        if members.get("format") == Some(&json!("uint32")) {
            members.entry("maximum").or_insert(json!(u32::MAX));
        }
        members.retain(|key, value| match key.as_str() {
            "format" => value == "date-time",
            "default" => {
                !matches!(value, Json::Null | Json::Object(_) | Json::Array(_))
                    && *value != json!("")
                    && *value != json!(0)
            }
            _ => true,
        });
        if members.get("type") == Some(&json!("boolean")) {
            members.entry("default").or_insert(json!(false));
        }
        if members.get("items") == Some(&json!(true)) {
            members.insert("items".into(), json!({}));
        }
        if let Some(description) = members.get("description").and_then(Json::as_str) {
            let line = description.split_whitespace().collect::<Vec<_>>().join(" ");
            members.insert("description".into(), line.into());
        }
        // Names with descriptions become a list of names, which every generator of clients reads.
        let names = members
            .get("oneOf")
            .and_then(Json::as_array)
            .cloned()
            .unwrap_or_default();
        if !names.is_empty() && names.iter().all(|name| name.get("const").is_some()) {
            members.remove("oneOf");
            let about = |name: &Json| {
                let about = name["description"].as_str().unwrap_or_default().to_owned();
                format!(" `{}`: {about}", name["const"].as_str().unwrap_or_default())
            };
            let about: String = names.iter().map(about).collect();
            let whole = members
                .get("description")
                .and_then(Json::as_str)
                .unwrap_or_default();
            members.insert("description".into(), format!("{whole}{about}").into());
            members.insert("type".into(), "string".into());
            let names: Vec<Json> = names.iter().map(|name| name["const"].clone()).collect();
            members.insert("enum".into(), names.into());
        }
    }

    #[test]
    fn structs_are_described() {
        let mut schemas = describe!(
            PageRequest,
            ExplainOptions,
            ScanRequest,
            ExportOptions,
            BucketsRequest,
            MendRequest,
            GetOptions,
            PutOptions,
            LoadOptions,
            CsvOptions,
            BackupRequest,
            SchemaRequest,
            CompareRequest,
            RotateRequest,
            QueueStatus,
            SendRequest,
            SentMessage,
            ReceiveRequest,
            ReceivedMessages,
            AckRequest,
            NackRequest,
            ExtendRequest,
            RedriveRequest,
            MovedMessages,
            PeekOptions,
            PeekedMessages,
            QueueRing,
        );
        for (name, schema) in &mut schemas {
            tidy(schema);
            for (field, property) in schema["properties"].as_object().into_iter().flatten() {
                let about = property["description"].as_str().unwrap_or_default();
                assert!(about.ends_with('.'), "{name}.{field} is not described");
            }
        }
        let made = serde_json::to_string_pretty(&schemas).unwrap() + "\n";
        if std::env::var_os(WRITE).is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/schemas.json");
            return std::fs::write(path, &made).unwrap();
        }
        assert!(
            made == SCHEMAS,
            "schemas.json is old: run this test with {WRITE}=1"
        );
        assert_eq!(parameters_of::<PageRequest>().len(), 14);
        let about = schemas["PageRequest"]["properties"]["page_size"]["description"]
            .as_str()
            .unwrap();
        assert!(about.contains(&MAX_PAGE_SIZE.to_string()), "{about}");
    }
}

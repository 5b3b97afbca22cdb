//! JSON Schemas of requests and replies, for the description of the API.

use std::sync::LazyLock;

use serde_json::{Map, Value as Json};

/// JSON Schemas of requests and replies, by the name of their struct. The test
/// `structs_are_described` generates the file, so that released programs do not depend on the crate
/// `schemars`.
const SCHEMAS: &str = include_str!("schemas.json");

/// Prefix of a reference from one schema to another.
#[cfg(test)]
const PATH: &str = "#/components/schemas/";

static PARSED: LazyLock<Map<String, Json>> =
    LazyLock::new(|| serde_json::from_str(SCHEMAS).unwrap_or_default());

/// Returns the fields of the request struct with this name, each as a JSON Schema with a
/// description. Returns no fields if the struct does not exist.
///
/// ```
/// let parameters = recto_api::description::parameters_named("PageRequest");
/// assert_eq!(parameters["last"]["type"], "boolean");
/// ```
pub fn parameters_named(name: &str) -> &'static Map<String, Json> {
    static NONE: LazyLock<Map<String, Json>> = LazyLock::new(Map::new);
    let properties = PARSED
        .get(name)
        .and_then(|schema| schema["properties"].as_object());
    properties.unwrap_or(&NONE)
}

/// Returns whether the parameter `name` of the request struct `request` is required.
pub fn is_required(request: &str, name: &str) -> bool {
    let required = PARSED
        .get(request)
        .and_then(|schema| schema["required"].as_array());
    required.is_some_and(|names| names.iter().any(|one| one == name))
}

/// Returns the JSON Schema of the request or reply named `name`; `None` if there is none.
pub fn schema(name: &str) -> Option<&'static Json> {
    PARSED.get(name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use schemars::generate::SchemaSettings;
    use serde_json::json;

    use super::*;
    use crate::buckets::{BucketList, BucketPartitions, BucketsRequest, RebalanceRequest};
    use crate::collections::CollectionList;
    use crate::csv::CsvOptions;
    use crate::explanation::Explanation;
    use crate::loads::LoadOptions;
    use crate::pages::{ExplainOptions, MAX_PAGE_SIZE, PageReply, PageRequest};
    use crate::problem::{ProblemBody, ProblemType};
    use crate::queues::{
        AckRequest, ExtendRequest, MovedMessages, NackRequest, PeekOptions, PeekedMessages, QueueList,
        QueueSettings, QueueTableSettings, QueueTables, ReceiveRequest, ReceivedMessages, RedriveRequest,
        RemovedMessage, SendRequest, SentMessages, SettledMessages, UnitList,
    };
    use crate::records::{BatchResult, GetOptions, MadeChange, PutOptions};
    use crate::scans::{ExportOptions, ScanRequest};
    use crate::store::{
        BackupRequest, ClusterStatus, CommitLog, CompareRequest, CursorKeys, RotateRequest, SchemaPlan,
        SchemaRequest, StoreSchema,
    };
    use crate::views::ViewList;

    /// Environment variable that makes the test write `schemas.json`. Without it, the test compares
    /// the file.
    const WRITE: &str = "RECTO_WRITE_DESCRIPTION";

    macro_rules! describe {
        ($settings:expr; $($of:ty),+ $(,)?) => {{
            let settings = $settings.with(|settings| {
                settings.definitions_path = PATH.trim_start_matches('#').trim_end_matches('/').into();
            });
            let mut generator = settings.into_generator();
            $(generator.subschema_for::<$of>();)+
            generator.take_definitions(true)
        }};
    }

    /// Returns the JSON Schemas of replies. Lists members that every reply has as `required`.
    fn replies() -> Map<String, Json> {
        describe!(
            SchemaSettings::draft2020_12().for_serialize();
            CollectionList,
            PageReply,
            Explanation,
            StoreSchema,
            SchemaPlan,
            ViewList,
            BatchResult,
            MadeChange,
            BucketPartitions,
            BucketList,
            ClusterStatus,
            CommitLog,
            CursorKeys,
            ProblemBody,
            QueueList,
            UnitList,
            SentMessages,
            ReceivedMessages,
            SettledMessages,
            MovedMessages,
            RemovedMessage,
            PeekedMessages,
            QueueTables,
        )
    }

    /// Returns the JSON Schemas of requests: their parameters and bodies.
    fn requests() -> Map<String, Json> {
        describe!(
            SchemaSettings::draft2020_12();
            PageRequest,
            ExplainOptions,
            ScanRequest,
            ExportOptions,
            BucketsRequest,
            RebalanceRequest,
            GetOptions,
            PutOptions,
            LoadOptions,
            CsvOptions,
            BackupRequest,
            SchemaRequest,
            CompareRequest,
            RotateRequest,
            QueueSettings,
            SendRequest,
            ReceiveRequest,
            AckRequest,
            NackRequest,
            ExtendRequest,
            RedriveRequest,
            PeekOptions,
            QueueTableSettings,
        )
    }

    /// Removes parts that only describe Rust types, such as number formats, from a generated JSON
    /// Schema.
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
        // Convert a `oneOf` of names with descriptions to an `enum`, because every client generator
        // supports `enum`.
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

    /// Removes `default` from a JSON Schema of a reply. A default value has a meaning only in
    /// requests.
    fn remove_defaults(schema: &mut Json) {
        match schema {
            Json::Object(members) => {
                members.remove("default");
                members.values_mut().for_each(remove_defaults);
            }
            Json::Array(elements) => elements.iter_mut().for_each(remove_defaults),
            _ => {}
        }
    }

    /// Replaces the mark `required` of each parameter in a JSON Schema by an entry in the list
    /// `required`.
    fn require(schema: &mut Json) {
        let mut names = Vec::new();
        let properties = schema.get_mut("properties").and_then(Json::as_object_mut);
        for (name, property) in properties.into_iter().flatten() {
            let members = property.as_object_mut();
            if members.is_some_and(|members| members.remove("required").is_some()) {
                names.push(name.clone());
            }
        }
        if !names.is_empty() {
            schema["required"] = json!(names);
        }
    }

    /// Returns all types of HTTP problems as a table in Markdown, for the book.
    fn problem_types() -> String {
        let row = |kind: &ProblemType| {
            let statuses: Vec<String> = kind.statuses().iter().map(u16::to_string).collect();
            format!(
                "| `{}` | {} | {} | {} |",
                kind.name(),
                statuses.join(", "),
                kind.meaning(),
                kind.remedy()
            )
        };
        let rows: Vec<String> = ProblemType::ALL.iter().map(row).collect();
        format!(
            "\n\n| name after the prefix | status | error | remedy |\n|---|---|---|---|\n{}",
            rows.join("\n")
        )
    }

    #[test]
    fn structs_are_described() {
        let mut schemas = replies();
        for schema in schemas.values_mut() {
            tidy(schema);
            remove_defaults(schema);
        }
        let mut requests = requests();
        for schema in requests.values_mut() {
            tidy(schema);
            require(schema);
        }
        schemas.extend(requests);
        for (name, schema) in &schemas {
            for (field, property) in schema["properties"].as_object().into_iter().flatten() {
                let about = property["description"].as_str().unwrap_or_default();
                assert!(about.ends_with('.'), "{name}.{field} is not described");
            }
        }
        let of_type = &mut schemas["Problem"]["properties"]["type"]["description"];
        *of_type = format!("{}{}", of_type.as_str().unwrap(), problem_types()).into();
        let made = serde_json::to_string_pretty(&schemas).unwrap() + "\n";
        if std::env::var_os(WRITE).is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/schemas.json");
            return std::fs::write(path, &made).unwrap();
        }
        assert!(
            made == SCHEMAS,
            "schemas.json is old: run this test with {WRITE}=1"
        );
        assert_eq!(parameters_named("PageRequest").len(), 15);
        let about = schemas["PageRequest"]["properties"]["page_size"]["description"]
            .as_str()
            .unwrap();
        assert!(about.contains(&MAX_PAGE_SIZE.to_string()), "{about}");
    }
}

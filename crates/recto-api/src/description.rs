//! The parameters of requests as JSON Schema, for the description of the API.

use std::sync::LazyLock;

use serde_json::{Map, Value as Json};

/// The properties of each request by the name of its struct. The test `requests_are_described` makes them of the structs
/// and their doc comments, so that a program needs no crate for that.
const REQUESTS: &str = include_str!("requests.json");

static PARSED: LazyLock<Map<String, Json>> =
    LazyLock::new(|| serde_json::from_str(REQUESTS).unwrap_or_default());

/// Returns the parameters of a request by name, each a JSON Schema with a description.
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
    PARSED.get(name).and_then(Json::as_object).unwrap_or(&NONE)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use schemars::JsonSchema;
    use serde_json::json;

    use super::*;
    use crate::buckets::{BucketsRequest, MendRequest};
    use crate::csv::CsvOptions;
    use crate::loads::LoadOptions;
    use crate::pages::{ExplainOptions, MAX_PAGE_SIZE, PageRequest};
    use crate::queues::PeekOptions;
    use crate::records::{GetOptions, PutOptions};
    use crate::scans::{ExportOptions, ScanRequest};
    use crate::store::{BackupRequest, CompareRequest, RotateRequest, SchemaRequest};

    /// Set to write `requests.json` anew.
    const WRITE: &str = "RECTO_WRITE_DESCRIPTION";

    fn described<T: JsonSchema>() -> (String, Json) {
        let mut schema = schemars::schema_for!(T).to_value();
        let properties = schema["properties"].as_object_mut().unwrap();
        for (name, property) in properties.iter_mut() {
            let about = property["description"].as_str().unwrap_or_default().to_owned();
            assert!(about.ends_with('.'), "{name} is not described");
            let property = property.as_object_mut().unwrap();
            property.insert("description".into(), about.replace('\n', " ").into());
            property.remove("format");
            if property["type"] == json!(["string", "null"]) {
                property.insert("type".into(), "string".into());
            } else if property["type"] == "boolean" {
                property.insert("default".into(), false.into());
            }
            let mut items = property.get_mut("items");
            while let Some(inner) = items {
                if *inner == json!(true) {
                    *inner = json!({});
                }
                items = inner.get_mut("items");
            }
        }
        (T::schema_name().into_owned(), Json::Object(properties.clone()))
    }

    #[test]
    fn requests_are_described() {
        let requests = Map::from_iter([
            described::<PageRequest>(),
            described::<ExplainOptions>(),
            described::<ScanRequest>(),
            described::<ExportOptions>(),
            described::<BucketsRequest>(),
            described::<GetOptions>(),
            described::<PutOptions>(),
            described::<PeekOptions>(),
            described::<LoadOptions>(),
            described::<MendRequest>(),
            described::<BackupRequest>(),
            described::<SchemaRequest>(),
            described::<CompareRequest>(),
            described::<RotateRequest>(),
            described::<CsvOptions>(),
        ]);
        let made = serde_json::to_string_pretty(&requests).unwrap() + "\n";
        if std::env::var_os(WRITE).is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/requests.json");
            return std::fs::write(path, &made).unwrap();
        }
        assert!(
            made == REQUESTS,
            "requests.json is old: run this test with {WRITE}=1"
        );
        assert_eq!(parameters_of::<PageRequest>().len(), 14);
        let about = requests["PageRequest"]["page_size"]["description"]
            .as_str()
            .unwrap();
        assert!(about.contains(&MAX_PAGE_SIZE.to_string()), "{about}");
    }
}

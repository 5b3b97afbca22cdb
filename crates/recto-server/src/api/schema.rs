//! Schema that the store has recorded, as text for tools.

use std::collections::BTreeSet;

use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use recto::schema::Schema;
use recto::{Session as _, Type};
use recto_api::store::StoreSchema;
use serde_json::json;

use super::answer;
use super::caller::Caller;
use super::request;
use crate::access::Right;
use crate::problem::Problem;

/// Handles `GET /v1/schema`: returns the collections that the caller sees in the schema language,
/// and the generation (version number) of the schema. If the token may read every queue, also
/// returns the settings of queues.
pub(super) async fn get(caller: Caller, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    request::no_parameters(&uri)?;
    let store = caller.app_session().describe().await?;
    let mut schema = caller.schema().await?;
    keep_used_types(&mut schema);
    if caller.access.check_every_queue(Right::Read).is_ok() {
        let session = caller.any_queue_session();
        let settings = session.queues()?.table_settings().await?;
        schema.queues = settings.map(|said| said.to_schema()).unwrap_or_default();
    }
    let mut unavailable = store.unavailable;
    unavailable.retain(|one| caller.access.sees(&one.collection));
    let reply = StoreSchema {
        generation: store.generation,
        toml: schema.to_toml(),
        unavailable,
        cluster: store.cluster,
    };
    Ok(answer::json(&headers, &json!(reply)))
}

/// Removes user-defined types that no field of the schema's collections uses.
fn keep_used_types(schema: &mut Schema) {
    let mut used = BTreeSet::new();
    let fields = schema.collections.iter().flat_map(|one| &one.fields);
    fields.for_each(|field| names(&field.ty, &mut used));
    schema.types.retain(|ty| used.contains(&ty.name));
}

/// Adds the names of the user-defined types that a type contains to `found`.
fn names(ty: &Type, found: &mut BTreeSet<String>) {
    match ty {
        Type::List(inner) | Type::Set(inner) | Type::Vector(inner, _) => names(inner, found),
        Type::Map(key, value) => {
            names(key, found);
            names(value, found);
        }
        Type::Tuple(parts) => parts.iter().for_each(|part| names(part, found)),
        Type::Udt(udt) => {
            found.insert(udt.name.clone());
            udt.fields.iter().for_each(|(_, ty)| names(ty, found));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn types_that_no_seen_collection_uses_are_not_told() {
        let text = r#"
[type.inner]
fields = { x = "int" }

[type.outer]
fields = { inside = "list<inner>" }

[type.secret]
fields = { y = "int" }

[collection.seen]
fields = { id = "int", value = "map<text, outer>" }
key = ["id"]
partition = ["id"]
writes = "overwrite"
"#;
        let mut schema = Schema::parse(text).unwrap();
        keep_used_types(&mut schema);
        let left: Vec<&str> = schema.types.iter().map(|ty| ty.name.as_str()).collect();
        assert_eq!(left, ["inner", "outer"]);
        assert_eq!(Schema::parse(&schema.to_toml()).unwrap().types, schema.types);
    }
}

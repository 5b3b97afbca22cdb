//! The server's description of its API, against which the tests check each response.

use hyper::Method;
use serde_json::Value as Json;

use super::Reply;
use super::schema_check;

#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) document: Json,
    /// True if the client sees only some rows. Responses may then lack the header with the cost.
    may_hide_cost: bool,
}

impl Description {
    pub(crate) fn new(document: Json, may_hide_cost: bool) -> Self {
        Self {
            document,
            may_hide_cost,
        }
    }

    /// Panics unless the API description allows the response.
    pub(crate) fn check(&self, method: &Method, target: &str, reply: &Reply) {
        let what = format!("{method} {target} → {}: {}", reply.status, reply.text());
        // Check HEAD as GET without a body. OPTIONS is not described, because it is part of HTTP,
        // so accept it.
        let is_head = method == Method::HEAD;
        let verb = if is_head { "get" } else { method.as_str() }.to_lowercase();
        let path = target.split('?').next().unwrap();
        let Some(operation) = self.operation(path, &verb) else {
            let is_undescribed = matches!(reply.status, 403 | 404 | 405 | 409) || !path.starts_with("/v1");
            assert!(
                is_undescribed || method == Method::OPTIONS,
                "{what}: not described"
            );
            return;
        };
        let response = &operation["responses"][reply.status.to_string()];
        let response = self.resolve(response);
        assert!(response.is_object(), "{what}: the status is not described");
        for (name, header) in response["headers"].as_object().into_iter().flatten() {
            let is_there = !reply.header(name).is_empty();
            // A page that a budget ended has no entity tag. The cost may be missing, because it
            // could reveal hidden rows.
            let may_lack = match name.as_str() {
                "ETag" => reply.text().contains("\"stop\":"),
                name => name == "Recto-Cost" && self.may_hide_cost,
            };
            assert!(header.is_object() && (is_there || may_lack), "{what}: no {name}");
        }
        if !is_head {
            self.check_body(response, reply, &what);
        }
    }

    fn check_body(&self, response: &Json, reply: &Reply, what: &str) {
        let Some(content) = response["content"].as_object() else {
            assert!(reply.body.is_empty(), "{what}: no body is described");
            return;
        };
        let media = reply.header("content-type");
        let schema = content.get(media).map(|content| &content["schema"]);
        let schema = schema.unwrap_or_else(|| panic!("{what}: {media} is not described"));
        if media.ends_with("json") && !media.contains("ndjson") {
            let problem = schema_check::problem(&self.document, schema, &reply.json(), "body");
            assert!(problem.is_none(), "{what}: {}", problem.unwrap_or_default());
        }
    }

    pub(crate) fn resolve<'a>(&'a self, of: &'a Json) -> &'a Json {
        match of["$ref"].as_str() {
            Some(at) => self.document.pointer(at.trim_start_matches('#')).unwrap(),
            None => of,
        }
    }

    /// Returns the description of the operation with the given path and method.
    fn operation(&self, path: &str, verb: &str) -> Option<&Json> {
        let paths = self.document["paths"].as_object().unwrap();
        let exact = paths.get(path);
        let matching = || {
            let templates = paths.iter().filter(|(template, _)| matches(template, path));
            // If several paths with placeholders match, choose the longest, which is the most
            // specific.
            let longest = templates.max_by_key(|(template, _)| template.len());
            longest.map(|(_, item)| item)
        };
        exact.or_else(matching)?.get(verb)
    }
}

/// Returns whether a path matches a path with placeholders. A segment with placeholders can end
/// with text, such as `{unit}:begin`.
fn matches(template: &str, path: &str) -> bool {
    let (wanted, found): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    let fits = |(wanted, found): (&&str, &&str)| {
        let ending = wanted.rsplit('}').next().unwrap_or_default();
        wanted == found || (wanted.starts_with('{') && !found.is_empty() && found.ends_with(ending))
    };
    wanted.len() == found.len() && wanted.iter().zip(&found).all(fits)
}

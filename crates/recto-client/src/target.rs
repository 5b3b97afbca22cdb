//! Paths and queries, byte for byte as they are sent.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// RFC 3986's unreserved characters, but for the dot: a part that is `.` or `..` is a value and no
/// way up.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// The path of a collection's resource: `/v1/collections/posts/records:export`.
pub(crate) fn of_collection(collection: &str, rest: &str) -> String {
    format!("/v1/collections/{}{rest}", encode(collection))
}

/// The path of a record: its key's texts, each encoded by itself.
pub(crate) fn of_record(collection: &str, key: &[String]) -> String {
    let parts: Vec<String> = key.iter().map(|part| encode(part)).collect();
    of_collection(collection, &format!("/records/{}", parts.join(",")))
}

/// A query being written.
#[derive(Debug, Default)]
pub(crate) struct Query(String);

impl Query {
    pub(crate) fn add(&mut self, name: &str, value: &str) {
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(name);
        self.0.push('=');
        self.0.push_str(&encode(value));
    }

    /// Adds what is not empty.
    pub(crate) fn add_text(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.add(name, value);
        }
    }

    /// Adds what is set.
    pub(crate) fn add_flag(&mut self, name: &str, is_set: bool) {
        if is_set {
            self.add(name, "true");
        }
    }

    /// The path with the query.
    pub(crate) fn after(self, path: &str) -> String {
        format!("{path}{}", self.0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_keys_are_values_and_never_separators() {
        let key = ["a,b/c", "..", "", "é %"].map(str::to_owned);
        assert_eq!(
            of_record("posts", &key),
            "/v1/collections/posts/records/a%2Cb%2Fc,%2E%2E,,%C3%A9%20%25"
        );
    }

    #[test]
    fn a_query_holds_what_is_given() {
        let mut query = Query::default();
        query.add_text("filter", "a = \"+&\"");
        query.add_text("order_by", "");
        query.add_flag("last", true);
        query.add_flag("row_tokens", false);
        assert_eq!(query.after("/x"), "/x?filter=a%20%3D%20%22%2B%26%22&last=true");
        assert_eq!(Query::default().after("/x"), "/x");
    }
}

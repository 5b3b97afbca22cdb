//! Percent-encoding of text in URLs.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters to encode in the query of a URL: all except the unreserved characters of RFC 3986.
const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Characters to encode in the path of a URL: all except letters, digits, `-` and `_`. Dots are
/// encoded, because a segment `.` or `..` would name another folder.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// Encodes text as a part of a path.
///
/// ```
/// assert_eq!(recto_api::text::path_part("a,b/.."), "a%2Cb%2F%2E%2E");
/// ```
pub fn path_part(text: &str) -> String {
    utf8_percent_encode(text, IN_PATH).to_string()
}

/// Encodes parameters as the part of a URL after `?`.
///
/// ```
/// assert_eq!(recto_api::text::query([("a", "1"), ("b", "x y")]), "a=1&b=x%20y");
/// ```
pub fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut query = String::new();
    for (name, value) in pairs {
        if !query.is_empty() {
            query.push('&');
        }
        query.extend(utf8_percent_encode(name, IN_QUERY));
        query.push('=');
        query.extend(utf8_percent_encode(value, IN_QUERY));
    }
    query
}

/// Decodes percent-encoded text. Returns `None` if a `%` is not followed by two hexadecimal digits, or if the decoded
/// bytes are not UTF-8. A `+` stays a `+`.
///
/// ```
/// use recto_api::text::percent_decoded;
///
/// assert_eq!(percent_decoded("a%2Cb+%C3%A9").as_deref(), Some("a,b+é"));
/// assert_eq!(percent_decoded("100%"), None);
/// ```
pub fn percent_decoded(text: &str) -> Option<String> {
    let Some(first) = text.find('%') else {
        return Some(text.to_owned());
    };
    // Check the escapes here, because the crate `percent_encoding` keeps malformed escapes without
    // an error.
    let mut rest = &text[first..];
    while let Some(at) = rest.find('%') {
        let digits = rest.as_bytes().get(at + 1..at + 3)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        rest = &rest[at + 3..];
    }
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_malformed_percent_encoding() {
        for bad in ["%", "%4", "%zz", "a%F", "%ff", "%C3", "%é1", "%+1"] {
            assert_eq!(percent_decoded(bad), None, "{bad}");
        }
        assert_eq!(percent_decoded("a%20b+").as_deref(), Some("a b+"));
    }
}

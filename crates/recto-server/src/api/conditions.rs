//! Preconditions of writes (RFC 9110, 13.1): `If-Match` and `If-None-Match`.

use axum::http::{HeaderMap, HeaderName, header};
use recto::schema::{Collection, WriteMode};
use recto::{Error, ErrorKind, Session};

use crate::problem::Problem;

/// Headers that make a write depend on the stored record.
static CONDITIONS: [HeaderName; 4] = [
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_UNMODIFIED_SINCE,
    header::IF_MODIFIED_SINCE,
];
/// Hint of an error that shows how to write an entity tag.
const GIVE: &str =
    "use the ETag of an earlier reply unchanged, with its quotes: If-Match: \"1763740800000000\"";

/// Precondition of a write: the state in which the stored record must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    /// The record may have any state.
    None,
    /// The record must not exist.
    Absent,
    /// The record must exist, with any version.
    Present,
    /// The record must have one of the listed versions. The list is empty if no given entity tag
    /// can be a version; every write then fails.
    Versions(Vec<i64>),
}

/// Returns the entity tag of a record's version.
pub(super) fn tag(version: i64) -> String {
    format!("\"{version}\"")
}

impl Condition {
    /// Reads the precondition of a write from the request's headers.
    ///
    /// # Errors
    /// A header is invalid, or records of the collection have no versions. Ignoring the
    /// precondition would overwrite changes of other clients, so Recto rejects the write.
    pub(super) fn of(headers: &HeaderMap, collection: &Collection) -> Result<Self, Problem> {
        let Some(name) = given(headers)? else {
            return Ok(Self::None);
        };
        if collection.writes != WriteMode::Update {
            let why = match &collection.attached {
                Some(table) => format!("they are in table {table}"),
                None => format!("they have writes = \"{}\"", collection.writes.as_str()),
            };
            let detail = format!(
                "{name} needs versions, but records of {} have none: {why}",
                collection.name
            );
            return Err(Error::new(ErrorKind::NotOffered, detail)
                .with_hint("leave out this header; the last writer then wins")
                .into());
        }
        Self::read(headers, name)
    }

    /// Reads the precondition of a write to a resource that always has versions.
    ///
    /// # Errors
    /// A header is invalid.
    pub(super) fn of_versions(headers: &HeaderMap) -> Result<Self, Problem> {
        match given(headers)? {
            Some(name) => Self::read(headers, name),
            None => Ok(Self::None),
        }
    }

    fn read(headers: &HeaderMap, name: &HeaderName) -> Result<Self, Problem> {
        let tags = tags(headers, name)?;
        match *name {
            header::IF_MATCH if tags == [Tag::Any] => Ok(Self::Present),
            header::IF_MATCH if tags.contains(&Tag::Any) => {
                Err(wrong(name, "* cannot be combined with entity tags"))
            }
            header::IF_MATCH => Ok(Self::Versions(
                tags.into_iter().filter_map(Tag::version).collect(),
            )),
            header::IF_NONE_MATCH if tags == [Tag::Any] => Ok(Self::Absent),
            header::IF_NONE_MATCH => Err(wrong(name, "a write accepts only *, which inserts a record")
                .with_hint("use If-Match: \"version\" to overwrite a version that you read")),
            _ => Err(wrong(name, "records have versions, but no times")
                .with_hint("use If-Match: \"version\" to overwrite a version that you read")),
        }
    }

    /// Returns the version that the record must have; `None` if the condition needs no version. If
    /// the condition allows several versions, reads the record and returns its current version.
    ///
    /// # Errors
    /// The record does not exist, or has none of the allowed versions.
    pub(super) async fn version(
        &self,
        session: &dyn Session,
        collection: &str,
        key: &[String],
    ) -> Result<Option<i64>, Problem> {
        let matches = |version: i64| match self {
            Self::Versions(versions) => versions.contains(&version),
            _ => true,
        };
        match self {
            Self::None | Self::Absent => return Ok(None),
            Self::Versions(versions) if versions.len() == 1 => return Ok(Some(versions[0])),
            Self::Present | Self::Versions(_) => {}
        }
        let found = session.get(collection, key).await?;
        match found.and_then(|found| found.version) {
            Some(version) if matches(version) => Ok(Some(version)),
            Some(version) => Err(
                Problem::changed("the record has none of the versions of If-Match")
                    .with_version(version)
                    .with_hint("read the record again, and repeat the change; weak entity tags never match"),
            ),
            None => Err(
                Problem::changed("the request has If-Match, but the record does not exist")
                    .with_hint("use If-None-Match: * to insert the record, which was deleted or has expired"),
            ),
        }
    }
}

/// Returns the conditional header of a request, if there is one. Rejects several conditional
/// headers.
fn given(headers: &HeaderMap) -> Result<Option<&'static HeaderName>, Problem> {
    let mut given = CONDITIONS.iter().filter(|name| headers.contains_key(*name));
    match (given.next(), given.next()) {
        (Some(name), Some(_)) => Err(wrong(name, "a request has only one condition")),
        (name, _) => Ok(name),
    }
}

/// Entity tag in a header, or `*`.
#[derive(Debug, PartialEq, Eq)]
enum Tag {
    Any,
    Weak,
    Strong(String),
}

impl Tag {
    /// Returns the version that an entity tag names. A weak tag names none, because `If-Match` uses
    /// strong comparison.
    fn version(self) -> Option<i64> {
        match self {
            Self::Strong(text) => text
                .parse()
                .ok()
                .filter(|version: &i64| version.to_string() == text),
            Self::Any | Self::Weak => None,
        }
    }
}

fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Vec<Tag>, Problem> {
    let mut tags = Vec::new();
    for value in headers.get_all(name) {
        let text = value.to_str().ok();
        let mut rest = text.ok_or_else(|| wrong(name, "its value is not text"))?.trim();
        while !rest.is_empty() {
            let (tag, after) = first(rest)
                .ok_or_else(|| wrong(name, format!("there is no entity tag at {rest:?}")).with_hint(GIVE))?;
            tags.push(tag);
            rest = after;
        }
    }
    if tags.is_empty() {
        return Err(wrong(name, "it has no entity tag").with_hint(GIVE));
    }
    Ok(tags)
}

/// Splits the first entity tag off a list. Returns the tag and the rest of the list.
fn first(list: &str) -> Option<(Tag, &str)> {
    let (tag, after) = if let Some(after) = list.strip_prefix('*') {
        (Tag::Any, after)
    } else {
        let strong = list.strip_prefix("W/");
        let (text, after) = strong.unwrap_or(list).strip_prefix('"')?.split_once('"')?;
        let tag = match strong {
            Some(_) => Tag::Weak,
            None => Tag::Strong(text.to_owned()),
        };
        (tag, after)
    };
    match after.trim_start() {
        "" => Some((tag, "")),
        more => Some((tag, more.strip_prefix(',')?.trim_start())).filter(|(_, more)| !more.is_empty()),
    }
}

fn wrong(name: &HeaderName, detail: impl AsRef<str>) -> Problem {
    let name = match *name {
        header::IF_MATCH => "If-Match",
        header::IF_NONE_MATCH => "If-None-Match",
        header::IF_UNMODIFIED_SINCE => "If-Unmodified-Since",
        _ => "If-Modified-Since",
    };
    Problem::invalid_parameter(name, format!("{name}: {}", detail.as_ref()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(list: &str) -> Result<Vec<Option<i64>>, Problem> {
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_MATCH, list.parse().unwrap());
        Ok(tags(&headers, &header::IF_MATCH)?
            .into_iter()
            .map(Tag::version)
            .collect())
    }

    #[test]
    fn lists_of_entity_tags_are_read() {
        assert_eq!(read("\"17\"").unwrap(), [Some(17)]);
        assert_eq!(
            read(" \"17\" ,\"18\", W/\"19\"").unwrap(),
            [Some(17), Some(18), None]
        );
        assert_eq!(read("\"a,b\", \"017\", \"\"").unwrap(), [None, None, None]);
        assert_eq!(read("*").unwrap(), [None]);
    }

    #[test]
    fn rejects_malformed_entity_tags() {
        for wrong in [
            "",
            "17",
            "\"17",
            "17\"",
            "\"17\",",
            "\"17\" \"18\"",
            "w/\"17\"",
            "W/17",
            "**",
            ",\"17\"",
        ] {
            let problem = read(wrong).unwrap_err();
            assert_eq!(problem.status, 400, "{wrong}");
        }
    }
}

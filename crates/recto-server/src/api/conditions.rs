//! Conditions of writes on what is stored (RFC 9110, 13.1): `If-Match` and `If-None-Match`.

use axum::http::{HeaderMap, HeaderName, header};
use recto::schema::{Collection, WriteMode};
use recto::{Error, ErrorKind, Session};

use crate::problem::Problem;

/// Headers that make a write conditional on what is stored.
static CONDITIONS: [HeaderName; 4] = [
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_UNMODIFIED_SINCE,
    header::IF_MODIFIED_SINCE,
];
/// How to give a version.
const GIVE: &str =
    "give the ETag of an earlier answer as it is, with its quotes: If-Match: \"1763740800000000\"";

/// What must hold of a record for a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    /// Nothing.
    None,
    /// There is no record.
    Absent,
    /// There is one, whatever its version.
    Present,
    /// It is of one of these versions; of none: an entity tag that no record has.
    Versions(Vec<i64>),
}

/// The entity tag of a version.
pub(super) fn tag(version: i64) -> String {
    format!("\"{version}\"")
}

impl Condition {
    /// What the headers of a write ask for.
    ///
    /// # Errors
    /// They cannot be understood, or records of the collection have no versions: silently made without its condition, a
    /// write would undo what others wrote.
    pub(super) fn of(headers: &HeaderMap, collection: &Collection) -> Result<Self, Problem> {
        let Some(name) = given(headers)? else {
            return Ok(Self::None);
        };
        if collection.writes != WriteMode::Update {
            let why = match &collection.attached {
                Some(table) => format!("they are read from table {table}"),
                None => format!(
                    "they are written with writes = \"{}\"",
                    collection.writes.as_str()
                ),
            };
            let detail = format!(
                "{name} needs versions, which records of {} do not have: {why}",
                collection.name
            );
            return Err(Error::new(ErrorKind::NotOffered, detail)
                .with_hint("without it, the last writer wins")
                .into());
        }
        Self::read(headers, name)
    }

    /// The same, of what always has versions.
    ///
    /// # Errors
    /// They cannot be understood.
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
                Err(wrong(name, "* stands alone, and not beside entity tags"))
            }
            header::IF_MATCH => Ok(Self::Versions(
                tags.into_iter().filter_map(Tag::version).collect(),
            )),
            header::IF_NONE_MATCH if tags == [Tag::Any] => Ok(Self::Absent),
            header::IF_NONE_MATCH => Err(wrong(name, "a write takes * only, to insert a record")
                .with_hint("If-Match: \"version\" writes over the version that was seen")),
            _ => Err(wrong(name, "records have versions, and no times")
                .with_hint("If-Match: \"version\" writes over the version that was seen")),
        }
    }

    /// The version that the record must be of, if it must be of one. Several versions, or any, are made one by looking.
    ///
    /// # Errors
    /// None of them is there.
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
                Problem::changed("the record is of none of the versions of If-Match")
                    .with_version(version)
                    .with_hint("read it again, and decide by what it is now; weak entity tags match nothing"),
            ),
            None => Err(Problem::changed("If-Match is given, and there is no such record")
                .with_hint("it was deleted, or has expired: If-None-Match: * inserts one")),
        }
    }
}

/// The condition that is given, if one is.
fn given(headers: &HeaderMap) -> Result<Option<&'static HeaderName>, Problem> {
    let mut given = CONDITIONS.iter().filter(|name| headers.contains_key(*name));
    match (given.next(), given.next()) {
        (Some(name), Some(_)) => Err(wrong(name, "one condition can be given, and not several")),
        (name, _) => Ok(name),
    }
}

/// An element of a list of entity tags.
#[derive(Debug, PartialEq, Eq)]
enum Tag {
    Any,
    Weak,
    Strong(String),
}

impl Tag {
    /// The version whose tag it is. `If-Match` compares strongly: a weak tag is that of none.
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
        let mut rest = text.ok_or_else(|| wrong(name, "it is not text"))?.trim();
        while !rest.is_empty() {
            let (tag, after) = first(rest)
                .ok_or_else(|| wrong(name, format!("at {rest:?} there is no entity tag")).with_hint(GIVE))?;
            tags.push(tag);
            rest = after;
        }
    }
    if tags.is_empty() {
        return Err(wrong(name, "it holds no entity tag").with_hint(GIVE));
    }
    Ok(tags)
}

/// The first of a list of entity tags, and the rest of the list.
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
    fn what_is_no_list_of_entity_tags_is_refused() {
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

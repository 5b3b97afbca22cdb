//! Queries for which views are designed: from a small TOML file, or from a server's log.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashSet};
use std::hash::BuildHasher;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::advisor::error::{DesignError, DesignErrorKind};

/// Maximum size of a file of queries, in bytes.
pub const MAX_QUERIES_BYTES: usize = 1 << 20;
/// Maximum number of queries of one design.
pub const MAX_QUERIES: usize = 256;
/// Maximum length of a line of a log, in bytes. Longer lines are ignored.
pub const MAX_LOG_LINE_BYTES: usize = 64 << 10;
/// Maximum number of different queries that the reader of a log counts. It reports further queries
/// only as left out.
pub const MAX_COUNTED: usize = 10_000;

/// Maximum number of different queries, beyond the counted queries, whose hashes the reader of a
/// log remembers. It reports their number.
const MAX_TOLD_APART: usize = 65_536;

/// Value of the field `message` in the lines of a server's log that record a query.
pub const LOG_MESSAGE: &str = "asked";

/// Query for which views are designed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkloadQuery {
    /// Name that identifies the query in the design.
    pub name: String,
    /// Filter text, in which `?` stands for any value.
    pub filter: String,
    /// Sort text; empty for the order of the view that serves the query.
    pub order_by: String,
    /// Number of requests per day, `None` if unknown. For a query from a log, the number of
    /// requests in the whole log.
    pub per_day: Option<u64>,
    /// Line of the query in its file, counted from 1. `None` if the query does not come from a file
    /// of queries.
    #[serde(skip)]
    pub line: Option<usize>,
}

/// Content of a file of queries.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    query: Vec<Spanned<Entry>>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    filter: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    order_by: String,
    per_day: Option<u64>,
}

/// Parses a file of queries:
///
/// ```
/// let queries = recto_plan::advisor::parse_queries(
///     r#"
/// [[query]]
/// name = "board"
/// filter = 'origin = ? AND time_hour >= ?'
/// order_by = "-time_hour"
/// per_day = 5000
/// "#,
/// )?;
/// assert_eq!(queries[0].name, "board");
/// # Ok::<(), recto_plan::advisor::DesignError>(())
/// ```
///
/// A query without a name gets the name `q` and its position in the file, such as `q1` for the
/// first query. This function does not check the fields against a collection.
///
/// # Errors
/// All errors include the line number, if they concern one line:
///
/// - The text is not a file of queries, or has no query.
/// - Two queries have the same name.
/// - There are more than [`MAX_QUERIES`] queries, or more than [`MAX_QUERIES_BYTES`] bytes.
pub fn parse_queries(text: &str) -> Result<Vec<WorkloadQuery>, DesignError> {
    if text.len() > MAX_QUERIES_BYTES {
        let message = format!("a file of queries has at most {MAX_QUERIES_BYTES} bytes");
        return Err(DesignError::new(DesignErrorKind::Limit, message));
    }
    let file: File = toml::from_str(text).map_err(|error| {
        let wrong = DesignError::new(DesignErrorKind::File, error.message()).with_hint(
            "write each query as [[query]] with filter and order_by, and optionally name and per_day",
        );
        match error.span() {
            Some(span) => wrong.at_line(line_of(text, span.start)),
            None => wrong,
        }
    })?;
    let mut queries: Vec<WorkloadQuery> = Vec::new();
    for (index, entry) in file.query.into_iter().enumerate() {
        let line = line_of(text, entry.span().start);
        let entry = entry.into_inner();
        let name = entry.name.unwrap_or_else(|| format!("q{}", index + 1));
        if index == MAX_QUERIES {
            let message = format!("a design has at most {MAX_QUERIES} queries");
            return Err(DesignError::new(DesignErrorKind::Limit, message)
                .at_line(line)
                .with_hint("leave out rare queries"));
        }
        if queries.iter().any(|earlier| earlier.name == name) {
            let message = format!("two queries have the name {name}");
            return Err(DesignError::new(DesignErrorKind::File, message).at_line(line));
        }
        queries.push(WorkloadQuery {
            name,
            filter: entry.filter,
            order_by: entry.order_by,
            per_day: entry.per_day,
            line: Some(line),
        });
    }
    if queries.is_empty() {
        return Err(DesignError::new(DesignErrorKind::File, "there are no queries")
            .with_hint("write each query as [[query]] with its filter and order_by"));
    }
    Ok(queries)
}

/// Returns the text of a TOML file with the queries, the inverse of [`parse_queries`].
pub fn queries_text(queries: &[WorkloadQuery]) -> String {
    #[derive(Serialize)]
    struct Entries {
        query: Vec<Entry>,
    }
    let entry = |asked: &WorkloadQuery| Entry {
        name: Some(asked.name.clone()),
        filter: asked.filter.clone(),
        order_by: asked.order_by.clone(),
        per_day: asked.per_day,
    };
    let query: Vec<Entry> = queries.iter().map(entry).collect();
    if query.is_empty() {
        return String::new();
    }
    // Serialization never fails, so the default is never used: TOML can contain all strings, and
    // all numbers below 2^63, such as these counts.
    toml::to_string(&Entries { query }).unwrap_or_default()
}

/// Returns the line number, counted from 1, at a byte offset in the text.
fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().iter().take(offset);
    1 + before.filter(|byte| **byte == b'\n').count()
}

/// Queries of one collection that a server's log recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Log {
    /// Queries, the most frequent first, up to the requested number.
    pub queries: Vec<WorkloadQuery>,
    /// Number of different queries that are not in `queries`: less frequent queries, and queries
    /// that first occurred after the reader counted its maximum number of queries.
    pub left_out: usize,
}

/// Fields of a line in a server's JSON log, as far as they describe a query.
#[derive(Debug, Deserialize)]
struct Line {
    message: Option<String>,
    collection: Option<String>,
    filter: Option<String>,
    order_by: Option<String>,
}

/// Counter of the requests of each query. It counts up to a maximum number of different queries.
#[derive(Debug)]
pub struct Tally {
    counts: BTreeMap<(String, String), u64>,
    most_counted: usize,
    /// Hashes of queries that are not counted, to report how many different queries were left out.
    uncounted: HashSet<u64>,
    hasher: RandomState,
}

impl Tally {
    /// Returns a tally that counts the first `most_counted` different queries.
    pub fn new(most_counted: usize) -> Self {
        Self {
            counts: BTreeMap::new(),
            most_counted,
            uncounted: HashSet::new(),
            hasher: RandomState::new(),
        }
    }

    /// Counts one request of a query. `filter` is filter text without values.
    pub fn count(&mut self, filter: String, order_by: String) {
        let key = (filter, order_by);
        if let Some(count) = self.counts.get_mut(&key) {
            *count += 1;
        } else if self.counts.len() < self.most_counted {
            self.counts.insert(key, 1);
        } else if self.uncounted.len() < MAX_TOLD_APART {
            self.uncounted.insert(self.hasher.hash_one(&key));
        }
    }

    /// Returns the `most` most frequent queries, and the number of other different queries.
    pub fn log(&self, most: usize) -> Log {
        let mut counted: Vec<_> = self.counts.iter().collect();
        // The sort is stable, so equally frequent queries stay in the order of their texts.
        counted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let left_out = counted.len().saturating_sub(most) + self.uncounted.len();
        counted.truncate(most);
        let queries = counted.into_iter().enumerate();
        let queries = queries.map(|(index, ((filter, order_by), count))| WorkloadQuery {
            name: format!("q{}", index + 1),
            filter: filter.clone(),
            order_by: order_by.clone(),
            per_day: Some(*count),
            line: None,
        });
        Log {
            queries: queries.collect(),
            left_out,
        }
    }
}

/// Counter of a collection's queries in a server's JSON log, which it reads line by line. Only
/// lines with the message [`LOG_MESSAGE`] count.
#[derive(Debug)]
pub struct LogReader {
    collection: String,
    tally: Tally,
    lines: u64,
    in_json: u64,
}

impl LogReader {
    /// Returns a reader for the queries of a collection.
    pub fn new(collection: impl Into<String>) -> Self {
        Self {
            collection: collection.into(),
            tally: Tally::new(MAX_COUNTED),
            lines: 0,
            in_json: 0,
        }
    }

    /// Reads one line of the log. Ignores a line that is not a JSON log line.
    pub fn line(&mut self, line: &str) {
        self.lines += 1;
        if line.len() > MAX_LOG_LINE_BYTES {
            return;
        }
        let Ok(line) = serde_json::from_str::<Line>(line) else {
            return;
        };
        self.in_json += 1;
        if line.message.as_deref() == Some(LOG_MESSAGE)
            && line.collection.as_deref() == Some(&self.collection)
        {
            self.tally
                .count(line.filter.unwrap_or_default(), line.order_by.unwrap_or_default());
        }
    }

    /// Returns the `most` most frequent queries of the lines that were read.
    ///
    /// # Errors
    /// The log has no queries of the collection, or is not a JSON log.
    pub fn end(self, most: usize) -> Result<Log, DesignError> {
        let log = self.tally.log(most);
        if !log.queries.is_empty() {
            return Ok(log);
        }
        let wrong = |message: String| DesignError::new(DesignErrorKind::File, message);
        Err(if self.in_json == 0 && self.lines > 0 {
            wrong("the log is not in JSON".into()).with_hint("start the server with log_format = \"json\"")
        } else {
            wrong(format!("the log has no queries of {}", self.collection))
                .with_hint("start the server with log_level = \"debug\", which logs queries")
        })
    }
}

/// Reads a server's log with [`LogReader`], and returns the `most` most frequent queries of a
/// collection.
///
/// # Errors
/// As for [`LogReader::end`].
pub fn parse_log(collection: &str, text: &str, most: usize) -> Result<Log, DesignError> {
    let mut reader = LogReader::new(collection);
    for line in text.lines() {
        reader.line(line);
    }
    reader.end(most)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn rejects_invalid_query_files_with_the_line() {
        let refused = |text: &str| parse_queries(text).unwrap_err().to_string();
        assert_eq!(refused(""), "there are no queries");
        let unknown = refused("[[query]]\nfilter = 'a = 1'\nsort = 'a'");
        assert!(unknown.starts_with("line 3: unknown field `sort`"), "{unknown}");
        let twice = refused("[[query]]\nname = 'a'\n[[query]]\nname = 'a'\n");
        assert_eq!(twice, "line 3: two queries have the name a");
        let many = "[[query]]\n".repeat(MAX_QUERIES + 1);
        assert_eq!(refused(&many), "line 257: a design has at most 256 queries");
        assert!(refused("[[query]\n").starts_with("line 1: "));
        let long = "#".repeat(MAX_QUERIES_BYTES + 1);
        assert!(refused(&long).contains("at most 1048576 bytes"));
    }

    #[test]
    fn queries_are_written_as_they_are_read() {
        let text = "[[query]]\nname = 'o\"clock'\nfilter = 'a = ? AND b >= ?'\nper_day = 7\n[[query]]\norder_by = '-b'\n";
        let asked = |queries: Vec<WorkloadQuery>| -> Vec<WorkloadQuery> {
            let without_line = |asked| WorkloadQuery { line: None, ..asked };
            queries.into_iter().map(without_line).collect()
        };
        let queries = parse_queries(text).unwrap();
        let again = parse_queries(&queries_text(&queries)).unwrap();
        assert_eq!(asked(again), asked(queries));
        assert_eq!(queries_text(&[]), "");
    }

    #[test]
    fn a_log_is_counted_and_what_is_asked_most_comes_first() {
        let line = |collection: &str, filter: &str| {
            format!(
                r#"{{"level":"DEBUG","message":"asked","collection":"{collection}","filter":"{filter}","order_by":"-at"}}"#
            )
        };
        let lines = [
            line("posts", "a = ?"),
            line("posts", "b = ?"),
            line("other", "c = ?"),
            "no json".to_owned(),
            r#"{"message":"request","collection":"posts"}"#.to_owned(),
            line("posts", "b = ?"),
        ];
        let log = parse_log("posts", &lines.join("\n"), 1).unwrap();
        assert_eq!(log.left_out, 1);
        let [query] = &log.queries[..] else {
            panic!("{log:?}")
        };
        assert_eq!((query.filter.as_str(), query.per_day), ("b = ?", Some(2)));
        let refused = |text: &str| parse_log("posts", text, 9).unwrap_err().hint.unwrap();
        assert!(refused("2026 DEBUG asked").contains("log_format"));
        assert!(refused(&line("other", "a = ?")).contains("log_level"));
    }
}

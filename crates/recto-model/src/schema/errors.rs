//! What can be wrong with a schema, and how it is shown.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::declared::Span;
use super::names::NameError;
use super::{MAX_ERRORS, WriteMode};

/// The widest piece of a source line that is shown, in characters.
const MAX_SHOWN_WIDTH: usize = 100;

/// What is wrong in a schema. Its text says what, [`hint`](Self::hint) what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The text is not TOML.
    #[error("not valid TOML: {message}")]
    Syntax {
        /// The TOML parser's words.
        message: String,
        /// What to write instead, where it is known.
        hint: Option<String>,
    },
    /// More than a limit allows.
    #[error("{what}: at most {limit}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A key that the language does not have there.
    #[error("unknown key `{key}` in {place}")]
    UnknownKey {
        /// The key.
        key: String,
        /// Where it stands: `a collection`, `a view`.
        place: &'static str,
        /// The key that was probably meant.
        nearest: Option<String>,
        /// The keys there are.
        known: &'static [&'static str],
    },
    /// A key that must be there is not.
    #[error("{of} needs `{key}`")]
    Missing {
        /// The key.
        key: &'static str,
        /// What needs it.
        of: String,
        /// How to write it.
        example: &'static str,
    },
    /// A value of another kind, or out of its domain.
    #[error("`{key}` takes {expected}, not {found}")]
    Value {
        /// The key.
        key: String,
        /// What it takes.
        expected: &'static str,
        /// What stood there.
        found: String,
        /// The value that was probably meant.
        nearest: Option<String>,
    },
    /// Text that is not a name.
    #[error("`{name}` cannot name a {what}: {error}")]
    Name {
        /// The text.
        name: String,
        /// What it should name.
        what: &'static str,
        /// Why not.
        error: NameError,
        /// A name like it.
        proposed: Option<String>,
    },
    /// A UDT with the name of a CQL type.
    #[error("`{name}` is a type of CQL already")]
    TypeName {
        /// The name.
        name: String,
    },
    /// Something named twice where once is meant.
    #[error("`{name}` stands twice in {list}")]
    Duplicate {
        /// The name.
        name: String,
        /// Where: `key`, `fields`.
        list: String,
    },
    /// `[collection]` with what belongs to one collection, which has no name.
    #[error("a collection has a name")]
    Unnamed,
    /// A list that must not be empty.
    #[error("`{list}` is empty")]
    Empty {
        /// The list.
        list: String,
        /// What to do.
        hint: &'static str,
    },
    /// A field that the collection does not have.
    #[error("`{list}` names `{name}`, which is not a field of {collection}")]
    UnknownField {
        /// The name.
        name: String,
        /// Where it is named.
        list: String,
        /// The collection.
        collection: String,
        /// The field that was probably meant.
        nearest: Option<String>,
    },
    /// The partition or order of a base table, or of a view of an `overwrite` collection, names a
    /// field outside the key.
    #[error("`{list}` names `{name}`, which is not in the key")]
    NotInKey {
        /// The field.
        name: String,
        /// `partition` or `order`.
        list: String,
        /// The collection's write mode.
        writes: WriteMode,
        /// Whether it is a view that names it, and not the base table.
        view: bool,
    },
    /// A key, partition or order field has no order.
    #[error("`{name}` cannot be in `{list}`: {type_name} has no order")]
    NotOrderable {
        /// The field.
        name: String,
        /// Where it is named.
        list: String,
        /// Its type.
        type_name: String,
    },
    /// A field is both in the partition and in the order.
    #[error("`{name}` is in the partition already, where it has one value")]
    OrderInPartition {
        /// The field.
        name: String,
        /// Whether the partition is the whole key because none is declared.
        whole_key: bool,
    },
    /// A type's text is not a type.
    #[error("{reason}")]
    Type {
        /// What is wrong.
        reason: String,
        /// What to write instead.
        hint: Option<String>,
    },
    /// A UDT holds itself, by way of others or at once.
    #[error("the type holds itself: {path}")]
    TypeCycle {
        /// The way round: `a → b → a`.
        path: String,
    },
    /// A UDT names one that is declared after it.
    #[error("type `{name}` is declared only after this")]
    TypeLater {
        /// The later type.
        name: String,
        /// The type that names it.
        user: String,
    },
    /// An option that does not go with what else is declared.
    #[error("{reason}")]
    Conflict {
        /// What does not go with what.
        reason: String,
        /// What to do.
        hint: String,
    },
}

impl Problem {
    /// What to write instead, if something is known.
    pub fn hint(&self) -> Option<String> {
        let did_you_mean = |nearest: &Option<String>| {
            nearest
                .as_ref()
                .map(|nearest| format!("did you mean `{nearest}`?"))
        };
        match self {
            Self::Limit { .. } => Some("split it up".into()),
            Self::UnknownKey { nearest, known, .. } => {
                did_you_mean(nearest).or_else(|| Some(format!("the keys are {}", quoted(known))))
            }
            Self::Missing { example, .. } => Some(format!("for example {example}")),
            Self::Value { nearest, .. } => did_you_mean(nearest),
            Self::Name { proposed, .. } => proposed
                .as_ref()
                .map(|name| format!("`{name}` would do"))
                .or_else(|| Some("for example `user_id`".into())),
            Self::TypeName { name } => Some(format!("choose another name, for example `{name}_type`")),
            Self::Duplicate { .. } => Some("name it once".into()),
            Self::Unnamed => Some("write the name after a dot: [collection.users]".into()),
            Self::Empty { hint, .. } => Some((*hint).into()),
            Self::UnknownField { name, nearest, .. } => {
                did_you_mean(nearest).or_else(|| Some(format!("add `{name}` to `fields`")))
            }
            Self::NotInKey {
                name, view: false, list, ..
            } => Some(format!(
                "add `{name}` to `key` if it helps to identify a record, or declare a view with this `{list}`"
            )),
            Self::NotInKey { writes, .. } => Some(format!(
                "with writes = \"{writes}\" views are on key fields only, so that an entry never moves; use \"update\" for records that change"
            )),
            Self::NotOrderable { .. } => Some("use a field of a simple type other than duration".into()),
            Self::OrderInPartition { whole_key: true, .. } => Some(
                "without `partition` the whole key is the partition: declare the key fields that group records as `partition`"
                    .into(),
            ),
            Self::OrderInPartition { .. } => Some("name it in one of the two".into()),
            Self::Syntax { hint, .. } | Self::Type { hint, .. } => hint.clone(),
            Self::TypeCycle { .. } => Some("values of such a type would have no end: hold the other's key instead".into()),
            Self::TypeLater { name, user } => Some(format!("move [type.{name}] above [type.{user}]")),
            Self::Conflict { hint, .. } => Some(hint.clone()),
        }
    }
}

fn quoted(words: &[&str]) -> String {
    words
        .iter()
        .map(|word| format!("`{word}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// A position in a text, both 1-based; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

/// One thing wrong in a schema text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaError {
    /// What is wrong.
    pub problem: Problem,
    /// Where it begins.
    pub position: Position,
    /// The bytes of the text it is about.
    pub span: Range<usize>,
}

/// Everything wrong in a schema text, in the order of the text.
///
/// Displayed as compilers do: `schema.toml:3:12: …` with the line, the place marked, and what to
/// write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaErrors {
    file_name: String,
    text: Arc<str>,
    errors: Vec<SchemaError>,
    omitted: usize,
}

impl SchemaErrors {
    pub(super) fn new(text: &str, found: Vec<(Span, Problem)>, omitted: usize) -> Self {
        let lines = Lines::of(text);
        let mut errors: Vec<_> = found
            .into_iter()
            .map(|(span, problem)| SchemaError {
                position: lines.position(span.start),
                problem,
                span,
            })
            .collect();
        errors.sort_by_key(|error| error.span.start);
        Self {
            file_name: "schema.toml".into(),
            text: text.into(),
            errors,
            omitted,
        }
    }

    /// The same, displayed with the name of the file that the text is from.
    #[must_use]
    pub fn in_file(mut self, file_name: impl Into<String>) -> Self {
        self.file_name = file_name.into();
        self
    }

    /// The errors, in the order of the text; at least one, at most [`MAX_ERRORS`].
    pub fn errors(&self) -> &[SchemaError] {
        &self.errors
    }

    /// How many more there were.
    pub fn omitted(&self) -> usize {
        self.omitted
    }
}

impl std::error::Error for SchemaErrors {}

impl fmt::Display for SchemaErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = Lines::of(&self.text);
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            let Position { line, column } = error.position;
            write!(
                f,
                "{}:{line}:{column}: {}",
                self.file_name,
                OneLine(&error.problem.to_string())
            )?;
            let excerpt = Excerpt::of(lines.line(line), column, lines.marked(&error.span));
            let gutter = line.to_string();
            let blank = " ".repeat(gutter.len());
            write!(
                f,
                "\n {blank} |\n {gutter} | {}\n {blank} | {}",
                excerpt.text, excerpt.mark
            )?;
            if let Some(hint) = error.problem.hint() {
                write!(f, "\n {blank} = help: {}", OneLine(&hint))?;
            }
        }
        if self.omitted > 0 {
            write!(f, "\n\n… and {} more", self.omitted)?;
        }
        Ok(())
    }
}

/// Text with control characters escaped, so that a terminal shows a schema and does not obey it.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        Ok(())
    }
}

/// The part of a source line that is shown, and the marks under it.
struct Excerpt {
    text: String,
    mark: String,
}

impl Excerpt {
    /// Shows the characters of `line` around `column`, of which `marked` are marked.
    fn of(line: &str, column: usize, marked: usize) -> Self {
        let first = column.saturating_sub(MAX_SHOWN_WIDTH / 2 + 1);
        let first = if column < MAX_SHOWN_WIDTH { 0 } else { first };
        let shown: String = line
            .chars()
            .skip(first)
            .take(MAX_SHOWN_WIDTH)
            // One column each, so that the marks stand under what they mark.
            .map(|character| if character.is_control() { ' ' } else { character })
            .collect();
        let before = column - 1 - first;
        let marks = marked.clamp(1, MAX_SHOWN_WIDTH.saturating_sub(before).max(1));
        Self {
            text: shown.trim_end().to_owned(),
            mark: format!("{}{}", " ".repeat(before), "^".repeat(marks)),
        }
    }
}

/// How far apart the counts of [`Lines`] stand, in bytes.
const COUNT_EVERY: usize = 512;

/// Where the lines of a text begin, and how many characters stand before every [`COUNT_EVERY`]th
/// byte: a position takes a bounded time to find, however long the lines.
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
    counts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(index, _)| index + 1))
            .collect();
        let mut counts = vec![0];
        for block in text.as_bytes().chunks(COUNT_EVERY) {
            counts.push(counts[counts.len() - 1] + characters(block));
        }
        Self { text, starts, counts }
    }

    /// The position of a byte offset; of the text's end, for an offset beyond it.
    pub(super) fn position(&self, offset: usize) -> Position {
        let offset = floor_char_boundary(self.text, offset);
        let line = self.starts.partition_point(|start| *start <= offset);
        Position {
            line,
            column: self.characters_before(offset) - self.characters_before(self.starts[line - 1]) + 1,
        }
    }

    fn characters_before(&self, offset: usize) -> usize {
        let block = offset / COUNT_EVERY;
        self.counts[block] + characters(&self.text.as_bytes()[block * COUNT_EVERY..offset])
    }

    /// The text of a line, without its end.
    fn line(&self, line: usize) -> &'a str {
        let start = self.starts[line - 1];
        let end = self.starts.get(line).map_or(self.text.len(), |next| next - 1);
        self.text[start..end].trim_end_matches('\r')
    }

    /// How many characters of the first line of `span` it marks.
    fn marked(&self, span: &Span) -> usize {
        let start = floor_char_boundary(self.text, span.start);
        let end = floor_char_boundary(self.text, span.end.max(start));
        self.text[start..end]
            .split('\n')
            .next()
            .map_or(0, |first| first.chars().count())
    }
}

/// How many characters begin in these bytes of a text.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count()
}

fn floor_char_boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// What checks report to: keeps the first [`MAX_ERRORS`] problems, and knows the text's lines.
pub(super) struct Context<'a> {
    lines: Option<Lines<'a>>,
    problems: Vec<(Span, Problem)>,
    omitted: usize,
}

impl<'a> Context<'a> {
    pub(super) fn with_text(text: &'a str) -> Self {
        Self {
            lines: Some(Lines::of(text)),
            problems: Vec::new(),
            omitted: 0,
        }
    }

    pub(super) fn without_text() -> Self {
        Self {
            lines: None,
            problems: Vec::new(),
            omitted: 0,
        }
    }

    /// Reports the problem that `problem` makes; it is not asked when there are enough.
    pub(super) fn report(&mut self, span: &Span, problem: impl FnOnce() -> Problem) {
        if self.problems.len() < MAX_ERRORS {
            self.problems.push((span.clone(), problem()));
        } else {
            self.omitted += 1;
        }
    }

    /// How many problems were reported so far.
    pub(super) fn count(&self) -> usize {
        self.problems.len() + self.omitted
    }

    pub(super) fn position(&self, span: &Span) -> Option<Position> {
        self.lines.as_ref().map(|lines| lines.position(span.start))
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems.into_iter().map(|(_, problem)| problem).collect()
    }

    /// The errors in `text`, if there are any.
    pub(super) fn into_errors(self, text: &str) -> Result<(), SchemaErrors> {
        if self.problems.is_empty() {
            return Ok(());
        }
        Err(SchemaErrors::new(text, self.problems, self.omitted))
    }
}

/// Everything wrong with a collection declared in code.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectionError {
    /// The collection's name as declared.
    pub collection: String,
    /// What is wrong, at least one thing.
    pub problems: Vec<Problem>,
}

impl std::error::Error for CollectionError {}

impl fmt::Display for CollectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "collection `{}` is declared wrongly:",
            OneLine(&self.collection)
        )?;
        for problem in &self.problems {
            write!(f, "\n- {}", OneLine(&problem.to_string()))?;
            if let Some(hint) = problem.hint() {
                write!(f, " ({})", OneLine(&hint))?;
            }
        }
        Ok(())
    }
}

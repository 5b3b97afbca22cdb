//! What can be wrong with a schema, and what to write instead.

use super::WriteMode;
use super::names::NameError;

/// The keys of a server's configuration, which is a TOML file, too.
const CONFIG_KEYS: [&str; 5] = ["store", "serve", "cassandra", "http", "wait_seconds"];

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
            Self::UnknownKey { key, place, .. } if *place == "a schema" && CONFIG_KEYS.contains(&key.as_str()) => {
                Some(format!("`{key}` is a key of a server's configuration: give that file to `recto serve --config`"))
            }
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

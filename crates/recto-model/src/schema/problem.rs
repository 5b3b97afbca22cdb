//! Problems that a schema can have, with suggested replacements.

use super::WriteMode;
use super::names::NameError;

/// Top-level keys of a server's configuration. A schema with one of them is probably a
/// configuration file by mistake.
const CONFIG_KEYS: [&str; 5] = ["store", "serve", "cassandra", "http", "wait_seconds"];

/// Problem in a schema. `Display` describes the problem, and [`hint`](Self::hint) suggests a
/// replacement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The text is not TOML.
    #[error("not valid TOML: {message}")]
    Syntax {
        /// Message of the TOML parser.
        message: String,
        /// Suggested replacement, if it is known.
        hint: Option<String>,
    },
    /// The schema exceeds a limit, such as the maximum number of fields.
    #[error("too many {what}: at most {limit}")]
    Limit {
        /// Description of the limited quantity, such as "bytes of a schema".
        what: &'static str,
        /// Maximum value of the quantity.
        limit: usize,
    },
    /// A part of the schema contains a key that the schema language does not have there.
    #[error("unknown key `{key}` in {place}")]
    UnknownKey {
        /// Unknown key.
        key: String,
        /// Part of the schema that contains the key, such as `a collection` or `a view`.
        place: &'static str,
        /// Similar key that was probably meant.
        nearest: Option<String>,
        /// All keys that the part of the schema can have.
        known: &'static [&'static str],
    },
    /// A part of the schema lacks a required key.
    #[error("{of} needs `{key}`")]
    Missing {
        /// Missing key, such as `fields`.
        key: &'static str,
        /// Part of the schema that requires the key.
        of: String,
        /// Example of the key with a value.
        example: &'static str,
    },
    /// The value of a key has the wrong kind, or is not allowed.
    #[error("`{key}` must be {expected}, not {found}")]
    Value {
        /// Key whose value is wrong.
        key: String,
        /// Description of the accepted values.
        expected: &'static str,
        /// Description of the actual value.
        found: String,
        /// Similar value that was probably meant.
        nearest: Option<String>,
    },
    /// The text is not a valid name.
    #[error("`{name}` cannot name a {what}: {error}")]
    Name {
        /// Text that is not a name.
        name: String,
        /// Kind of the part that the text should name, such as `view`.
        what: &'static str,
        /// Rule that the text violates.
        error: NameError,
        /// Similar name that is valid.
        proposed: Option<String>,
    },
    /// A user-defined type has the name of a CQL type.
    #[error("`{name}` is a CQL type already")]
    TypeName {
        /// Name of the user-defined type.
        name: String,
    },
    /// A name occurs twice in a list that can contain it only once.
    #[error("`{name}` occurs twice in {list}")]
    Duplicate {
        /// Name that occurs twice.
        name: String,
        /// Name of the list, such as `key` or `fields`.
        list: String,
    },
    /// `[collection]` contains the options of one collection, but has no name.
    #[error("a collection needs a name")]
    Unnamed,
    /// A list is empty, although it must have an element.
    #[error("`{list}` is empty")]
    Empty {
        /// Name of the empty list.
        list: String,
        /// Hint on how to resolve the problem.
        hint: &'static str,
    },
    /// A list names a field that the collection does not have.
    #[error("`{list}` names `{name}`, which is not a field of {collection}")]
    UnknownField {
        /// Name of the missing field.
        name: String,
        /// Name of the list that contains the field name.
        list: String,
        /// Name of the collection.
        collection: String,
        /// Name of a similar field that was probably meant.
        nearest: Option<String>,
    },
    /// The partition or order of a base table, or of a view of an `overwrite` collection, contains a field
    /// outside the key.
    #[error("`{list}` names `{name}`, which is not in the key")]
    NotInKey {
        /// Name of the field outside the key.
        name: String,
        /// List that contains the field: `partition` or `order`.
        list: String,
        /// Write mode of the collection.
        writes: WriteMode,
        /// True if the list belongs to a view, false if it belongs to the base table.
        view: bool,
    },
    /// A key, partition or order field has a type without an order.
    #[error("`{name}` cannot be in `{list}`: {type_name} has no order")]
    NotOrderable {
        /// Name of the field without an order.
        name: String,
        /// Name of the list that contains the field.
        list: String,
        /// Type of the field, as text.
        type_name: String,
    },
    /// A field is both in the partition and in the order.
    #[error("`{name}` is already in the partition, where it has one value")]
    OrderInPartition {
        /// Name of the field that is in both the partition and the order.
        name: String,
        /// True if no partition is declared, so that the whole key is the partition.
        whole_key: bool,
    },
    /// The text of a type is invalid.
    #[error("{reason}")]
    Type {
        /// Reason why the text is no valid type.
        reason: String,
        /// Suggested replacement, if it is known.
        hint: Option<String>,
    },
    /// A user-defined type contains itself, directly or through other types.
    #[error("the type contains itself: {path}")]
    TypeCycle {
        /// Path of the cycle, such as `a → b → a`.
        path: String,
    },
    /// A user-defined type contains a type that is declared after it.
    #[error("type `{name}` is declared after this use")]
    TypeLater {
        /// Name of the type that is declared later.
        name: String,
        /// Name of the type that contains the later type.
        user: String,
    },
    /// An option conflicts with another declaration.
    #[error("{reason}")]
    Conflict {
        /// Description of the conflict.
        reason: String,
        /// Hint on how to resolve the conflict.
        hint: String,
    },
}

impl Problem {
    /// Returns a suggested replacement, if one is known.
    pub fn hint(&self) -> Option<String> {
        let did_you_mean = |nearest: &Option<String>| {
            nearest
                .as_ref()
                .map(|nearest| format!("did you mean `{nearest}`?"))
        };
        match self {
            Self::Limit { .. } => Some("split it into parts".into()),
            Self::UnknownKey { key, place, .. }
                if *place == "a schema" && CONFIG_KEYS.contains(&key.as_str()) =>
            {
                Some(format!(
                    "`{key}` is a key of a server configuration: pass that file to `recto serve --config`"
                ))
            }
            Self::UnknownKey { nearest, known, .. } => {
                did_you_mean(nearest).or_else(|| Some(format!("the keys are {}", quoted(known))))
            }
            Self::Missing { example, .. } => Some(format!("for example {example}")),
            Self::Value { nearest, .. } => did_you_mean(nearest),
            Self::Name { proposed, .. } => proposed
                .as_ref()
                .map(|name| format!("for example `{name}`"))
                .or_else(|| Some("for example `user_id`".into())),
            Self::TypeName { name } => Some(format!("choose another name, for example `{name}_type`")),
            Self::Duplicate { .. } => Some("name it once".into()),
            Self::Unnamed => Some("write the name after a dot: [collection.users]".into()),
            Self::Empty { hint, .. } => Some((*hint).into()),
            Self::UnknownField { name, nearest, .. } => {
                did_you_mean(nearest).or_else(|| Some(format!("add `{name}` to `fields`")))
            }
            Self::NotInKey {
                name,
                view: false,
                list,
                ..
            } => Some(format!(
                "add `{name}` to `key` if it helps to identify a record, or declare a view with this `{list}`"
            )),
            Self::NotInKey { writes, .. } => Some(format!(
                "use \"update\" for records that change: with writes = \"{writes}\" views have only key \
                 fields, so that an entry never moves"
            )),
            Self::NotOrderable { .. } => Some("use a field of a simple type other than duration".into()),
            Self::OrderInPartition { whole_key: true, .. } => Some(
                "declare the key fields that group records as `partition`: without `partition`, the whole \
                 key is the partition"
                    .into(),
            ),
            Self::OrderInPartition { .. } => Some("name it only in `partition` or only in `order`".into()),
            Self::Syntax { hint, .. } | Self::Type { hint, .. } => hint.clone(),
            Self::TypeCycle { .. } => {
                Some("store the key of the other value instead: values of such a type would never end".into())
            }
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

//! The CQL types that a field can have.

use std::fmt;
use std::sync::Arc;

/// Type of a field, as in CQL.
///
/// The first eighteen types are *order types*: they may be key, partition and order columns. Values
/// of the others can only be stored. Collections, tuples, user-defined types and vectors are always
/// frozen: Recto reads and writes each value as a whole.
///
/// ```
/// use recto_model::Type;
///
/// let ty = Type::List(Box::new(Type::Int));
/// assert_eq!(ty.to_string(), "list<int>");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each variant is the CQL type of the same name
pub enum Type {
    Ascii,
    Text,
    Blob,
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Varint,
    Decimal,
    Float,
    Double,
    Date,
    Time,
    Timestamp,
    TimeUuid,
    Uuid,
    Inet,
    Duration,
    List(Box<Type>),
    Set(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Tuple(Vec<Type>),
    Udt(Arc<UdtType>),
    /// Type of the elements, and the number of elements (1 to 8192).
    Vector(Box<Type>, u16),
}

/// User-defined type: its name, and its fields in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UdtType {
    /// Name of the type, `[a-z][a-z0-9_]{0,47}`.
    pub name: String,
    /// Field names and types, in declaration order.
    pub fields: Vec<(String, Type)>,
}

impl Type {
    /// Returns whether values of this type have an order. Only such types may be key, partition and
    /// order columns.
    pub fn is_orderable(&self) -> bool {
        !matches!(
            self,
            Type::Duration
                | Type::List(_)
                | Type::Set(_)
                | Type::Map(..)
                | Type::Tuple(_)
                | Type::Udt(_)
                | Type::Vector(..)
        )
    }

    /// Returns whether values of this type contain other values, so that their JSON is an array or
    /// object.
    pub fn is_nested(&self) -> bool {
        matches!(
            self,
            Type::List(_) | Type::Set(_) | Type::Map(..) | Type::Tuple(_) | Type::Udt(_) | Type::Vector(..)
        )
    }

    /// Returns whether this type is a vector or contains one.
    pub fn has_vector(&self) -> bool {
        match self {
            Type::Vector(..) => true,
            Type::List(element) | Type::Set(element) => element.has_vector(),
            Type::Map(key, value) => key.has_vector() || value.has_vector(),
            Type::Tuple(elements) => elements.iter().any(Type::has_vector),
            Type::Udt(udt) => udt.fields.iter().any(|(_, field)| field.has_vector()),
            _ => false,
        }
    }

    /// Returns whether values of this type are integers, decimals or floating-point numbers.
    pub fn is_number(&self) -> bool {
        matches!(
            self,
            Type::TinyInt
                | Type::SmallInt
                | Type::Int
                | Type::BigInt
                | Type::Varint
                | Type::Decimal
                | Type::Float
                | Type::Double
        )
    }

    /// All eighteen types whose values have an order, in declaration order.
    pub const ORDERABLE: [Type; 18] = [
        Type::Ascii,
        Type::Text,
        Type::Blob,
        Type::Boolean,
        Type::TinyInt,
        Type::SmallInt,
        Type::Int,
        Type::BigInt,
        Type::Varint,
        Type::Decimal,
        Type::Float,
        Type::Double,
        Type::Date,
        Type::Time,
        Type::Timestamp,
        Type::TimeUuid,
        Type::Uuid,
        Type::Inet,
    ];

    /// Returns whether the type is text or ascii, the types to which prefixes and collations apply.
    pub fn is_textual(&self) -> bool {
        matches!(self, Type::Ascii | Type::Text)
    }

    /// Returns the name of the type with its article, such as `an int` or `a uuid`, for messages.
    pub fn with_article(&self) -> String {
        with_article(&self.to_string())
    }
}

/// Returns `type_name` with `a` or `an` before it, for messages.
pub(crate) fn with_article(type_name: &str) -> String {
    let article = if type_name.starts_with(['a', 'e', 'i', 'o', 'A', 'E', 'I', 'O']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {type_name}")
}

/// Writes the type as the schema language and CQL write it, without `frozen`: `list<int>`,
/// `tuple<int, text>`, `vector<float, 3>`, or the name of a UDT.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Type::Ascii => "ascii",
            Type::Text => "text",
            Type::Blob => "blob",
            Type::Boolean => "boolean",
            Type::TinyInt => "tinyint",
            Type::SmallInt => "smallint",
            Type::Int => "int",
            Type::BigInt => "bigint",
            Type::Varint => "varint",
            Type::Decimal => "decimal",
            Type::Float => "float",
            Type::Double => "double",
            Type::Date => "date",
            Type::Time => "time",
            Type::Timestamp => "timestamp",
            Type::TimeUuid => "timeuuid",
            Type::Uuid => "uuid",
            Type::Inet => "inet",
            Type::Duration => "duration",
            Type::List(element) => return write!(f, "list<{element}>"),
            Type::Set(element) => return write!(f, "set<{element}>"),
            Type::Map(key, value) => return write!(f, "map<{key}, {value}>"),
            Type::Vector(element, dimension) => return write!(f, "vector<{element}, {dimension}>"),
            Type::Udt(udt) => return f.write_str(&udt.name),
            Type::Tuple(elements) => {
                f.write_str("tuple<")?;
                for (index, element) in elements.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{element}")?;
                }
                return f.write_str(">");
            }
        };
        f.write_str(name)
    }
}

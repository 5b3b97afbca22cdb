//! Conditions built in Rust, as an alternative to filter text.

use recto_model::schema::Collection;
use std::borrow::Cow;

use recto_model::native::{Ascii, Blob, Date, FieldType, Time, TimeUuid, Timestamp};
use recto_model::{Type, Value, cell, json};
use recto_plan::query::Condition;
pub use recto_plan::text::Operator;

use crate::error::{Error, ErrorKind, Part, Result};
use crate::record::no_field;

/// Returns a field by its name, on which methods build a condition.
///
/// ```
/// use recto::filter::field;
///
/// let united = field("carrier").equal_to("UA");
/// let newark_or_kennedy = field("origin").any_of(["EWR", "JFK"]);
/// let spring = field("time_hour").between("2013-03-01T00:00:00Z", "2013-05-31T23:00:00Z");
/// ```
pub fn field(name: impl Into<String>) -> Field {
    Field { name: name.into() }
}

/// Field on which a condition is built; see [`field`].
#[derive(Debug, Clone)]
pub struct Field {
    name: String,
}

/// A list of conditions that must all match.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    conditions: Vec<Built>,
}

/// A value in a condition. A text can represent a value of any type as record JSON writes it (a date, a
/// uuid). A number can represent a value of any numeric type. Every value that a record's field can have can
/// be used in a condition.
///
/// ```
/// use recto::filter::field;
/// use recto::types::Timestamp;
///
/// let name: String = "Ada".into();
/// let since: Option<jiff::Timestamp> = Some(jiff::Timestamp::now());
/// let recent = field("customer").equal_to(&name).and(field("created").at_least(since));
/// let older = field("created").less_than(Timestamp::now()).and(field("id").at_most(7_u64));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Literal {
    /// A value of exactly the field's type.
    Value(Value),
    /// A text that is parsed as a value of the field's type.
    Text(String),
    /// A number in the form of record JSON, for fields of any numeric type that can represent it.
    Number(String),
    /// An `Option` without a value. An update stores null. A filter is rejected, because conditions on null
    /// do not exist.
    Null,
    /// A Rust value that is not a valid value of its type, such as a time past midnight, with the reason.
    Invalid(String),
}

#[derive(Debug, Clone)]
enum Built {
    Compare(String, Operator, Literal),
    AnyOf(String, Vec<Literal>),
    StartsWith(String, String),
    Tuple(Vec<String>, Operator, Vec<Literal>),
}

impl Field {
    fn compare(self, operator: Operator, value: impl Into<Literal>) -> Filter {
        Filter {
            conditions: vec![Built::Compare(self.name, operator, value.into())],
        }
    }

    /// Returns the condition that the field is equal to the value.
    pub fn equal_to(self, value: impl Into<Literal>) -> Filter {
        self.compare(Operator::Equal, value)
    }

    /// Returns the condition that the field is equal to any of the values.
    pub fn any_of<L: Into<Literal>>(self, values: impl IntoIterator<Item = L>) -> Filter {
        let values = values.into_iter().map(Into::into).collect();
        Filter {
            conditions: vec![Built::AnyOf(self.name, values)],
        }
    }

    /// Returns the condition that the field is less than the value.
    pub fn less_than(self, value: impl Into<Literal>) -> Filter {
        self.compare(Operator::Less, value)
    }

    /// Returns the condition that the field is less than or equal to the value.
    pub fn at_most(self, value: impl Into<Literal>) -> Filter {
        self.compare(Operator::LessOrEqual, value)
    }

    /// Returns the condition that the field is greater than the value.
    pub fn greater_than(self, value: impl Into<Literal>) -> Filter {
        self.compare(Operator::Greater, value)
    }

    /// Returns the condition that the field is greater than or equal to the value.
    pub fn at_least(self, value: impl Into<Literal>) -> Filter {
        self.compare(Operator::GreaterOrEqual, value)
    }

    /// Returns the condition that the field is between the values, both included.
    pub fn between(self, lower: impl Into<Literal>, upper: impl Into<Literal>) -> Filter {
        self.clone().at_least(lower).and(self.at_most(upper))
    }

    /// Returns the condition that the text field starts with `prefix`.
    pub fn starts_with(self, prefix: impl Into<String>) -> Filter {
        Filter {
            conditions: vec![Built::StartsWith(self.name, prefix.into())],
        }
    }
}

/// Returns a condition that compares several fields with the same number of values, in lexicographic order:
/// the first different value decides.
pub fn tuple<F: Into<String>, L: Into<Literal>>(
    fields: impl IntoIterator<Item = F>,
    operator: Operator,
    values: impl IntoIterator<Item = L>,
) -> Filter {
    let fields = fields.into_iter().map(Into::into).collect();
    let values = values.into_iter().map(Into::into).collect();
    Filter {
        conditions: vec![Built::Tuple(fields, operator, values)],
    }
}

impl Filter {
    /// Returns the conditions of both filters, all of which must match.
    #[must_use]
    pub fn and(mut self, other: Filter) -> Self {
        self.conditions.extend(other.conditions);
        self
    }

    pub(crate) fn bind(&self, collection: &Collection) -> Result<Vec<Condition>> {
        self.conditions
            .iter()
            .map(|built| built.bind(collection))
            .collect()
    }
}

impl Built {
    fn bind(&self, collection: &Collection) -> Result<Condition> {
        Ok(match self {
            Self::Compare(name, operator, literal) => {
                let field = index(collection, name)?;
                Condition::Compare {
                    field,
                    operator: *operator,
                    value: bytes(collection, field, literal)?,
                }
            }
            Self::AnyOf(name, literals) => {
                let field = index(collection, name)?;
                let values = literals.iter().map(|literal| bytes(collection, field, literal));
                Condition::AnyOf {
                    field,
                    values: values.collect::<Result<_>>()?,
                }
            }
            Self::StartsWith(name, prefix) => Condition::StartsWith {
                field: index(collection, name)?,
                prefix: prefix.clone(),
            },
            Self::Tuple(names, operator, literals) => {
                let fields: Vec<usize> = names
                    .iter()
                    .map(|name| index(collection, name))
                    .collect::<Result<_>>()?;
                let values = fields
                    .iter()
                    .zip(literals)
                    .map(|(field, literal)| bytes(collection, *field, literal));
                let values: Vec<_> = values.collect::<Result<_>>()?;
                if literals.len() != fields.len() {
                    return Err(Error::new(
                        ErrorKind::InvalidQuery,
                        format!(
                            "a tuple has {} fields, but {} values",
                            fields.len(),
                            literals.len()
                        ),
                    )
                    .with_part(Part::Filter));
                }
                Condition::Tuple {
                    fields,
                    operator: *operator,
                    values,
                }
            }
        })
    }
}

fn index(collection: &Collection, name: &str) -> Result<usize> {
    match collection.field(name) {
        Some((index, _)) => Ok(index),
        None => Err(no_field(ErrorKind::InvalidQuery, collection, name).with_part(Part::Filter)),
    }
}

fn bytes(collection: &Collection, field: usize, literal: &Literal) -> Result<Vec<u8>> {
    let field = &collection.fields[field];
    let invalid = |message: String| {
        Error::new(ErrorKind::InvalidQuery, format!("{}: {message}", field.name))
            .with_part(Part::Filter)
            .with_field(&field.name)
    };
    let value = literal.value(&field.ty).map_err(invalid)?;
    let mut out = Vec::new();
    cell::encode(&field.ty, &value, &mut out).map_err(|error| invalid(error.to_string()))?;
    Ok(out)
}

impl Literal {
    /// Converts the literal to a value of the type `ty`. If this is impossible, the error is the reason as
    /// text.
    pub(crate) fn value(&self, ty: &Type) -> std::result::Result<Cow<'_, Value>, String> {
        let read = |text: &str| {
            let value = json::from_text(ty, text).map(Cow::Owned);
            value.map_err(|error| error.to_string())
        };
        match self {
            // `uuid` and `timeuuid` values have the same text form, so parse the text as a value of the
            // field's type.
            Self::Value(Value::Uuid(uuid) | Value::TimeUuid(uuid))
                if matches!(ty, Type::Uuid | Type::TimeUuid) =>
            {
                read(&uuid.to_string())
            }
            Self::Value(value) => Ok(Cow::Borrowed(value)),
            Self::Number(number) if !ty.is_number() => Err(format!("expected {ty}, found {number}")),
            Self::Text(text) | Self::Number(text) => read(text),
            Self::Null => Err("null cannot be compared with a value: leave the condition out".to_owned()),
            Self::Invalid(reason) => Err(reason.clone()),
        }
    }
}

impl From<Value> for Literal {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl From<&str> for Literal {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for Literal {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

/// Converts the value in the `Option`, or returns [`Literal::Null`] if it is empty.
impl<T: Into<Literal>> From<Option<T>> for Literal {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

macro_rules! literals_by_text {
    ($literal:ident: $($ty:ty),+ $(,)?) => {
        $(impl From<$ty> for Literal {
            fn from(value: $ty) -> Self {
                Self::$literal(value.to_string())
            }
        })+
    };
}

literals_by_text!(Text: String, Ascii);
literals_by_text!(
    Number: i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    num_bigint::BigInt,
);

/// Converts a Rust value of a field type to a literal for filters and updates.
#[doc(hidden)]
pub fn literal_of<F: FieldType>(value: &F) -> Literal {
    match value.to_value() {
        Ok(Some(value)) => Literal::Value(value),
        Ok(None) => Literal::Null,
        Err(error) => Literal::Invalid(error.to_string()),
    }
}

macro_rules! literals_by_value {
    ($($ty:ty),+ $(,)?) => {
        $(impl From<$ty> for Literal {
            fn from(value: $ty) -> Self {
                literal_of(&value)
            }
        })+
    };
}

literals_by_value!(
    bool,
    uuid::Uuid,
    std::net::IpAddr,
    TimeUuid,
    Blob,
    Date,
    Time,
    Timestamp,
    jiff::civil::Date,
    jiff::civil::Time,
    jiff::Timestamp,
);

#[cfg(feature = "chrono")]
literals_by_value!(
    chrono::NaiveDate,
    chrono::NaiveTime,
    chrono::DateTime<chrono::Utc>
);

#[cfg(feature = "time")]
literals_by_value!(time::Date, time::Time, time::OffsetDateTime, time::UtcDateTime);

impl From<recto_model::decimals::BigDecimal> for Literal {
    fn from(value: recto_model::decimals::BigDecimal) -> Self {
        Self::Number(json::to_text(&Type::Decimal, &Value::Decimal(value)))
    }
}

/// Implements the conversion of floating-point types to [`Literal`]. Infinities need their own text, because
/// Rust and record JSON write them differently.
macro_rules! float_literals {
    ($($ty:ty),+) => {
        $(impl From<$ty> for Literal {
            fn from(value: $ty) -> Self {
                Self::Number(match value {
                    <$ty>::INFINITY => "Infinity".to_owned(),
                    <$ty>::NEG_INFINITY => "-Infinity".to_owned(),
                    number => number.to_string(),
                })
            }
        })+
    };
}

float_literals!(f32, f64);

//! Conditions built in Rust, for those who would not write filter text.

use recto_model::schema::Collection;
use std::borrow::Cow;

use recto_model::native::{Ascii, Blob, Date, FieldType, Time, TimeUuid, Timestamp};
use recto_model::{Type, Value, cell, json};
use recto_plan::query::Condition;
pub use recto_plan::text::Operator;

use crate::error::{Error, ErrorKind, Part, Result};
use crate::record::no_field;

/// A field to put a condition on.
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

/// A field, see [`field`].
#[derive(Debug, Clone)]
pub struct Field {
    name: String,
}

/// Conditions, all of which must hold.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    conditions: Vec<Built>,
}

/// A value in a condition. Text stands for any type as record JSON writes it (a date, a uuid);
/// numbers for any numeric type. Whatever a field of a record can be can stand in a condition on it.
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
    /// Text, read as the field's type.
    Text(String),
    /// A number as record JSON writes it, for fields of any type of number that has it.
    Number(String),
    /// Nothing: what an `Option` without a value becomes. No condition is on null, so it is refused.
    Null,
    /// A Rust value that is no value of its type, such as a time past midnight, with the reason why it is refused.
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

    /// The field is the value.
    pub fn equal_to(self, value: impl Into<Literal>) -> Filter {
        self.compare(Operator::Equal, value)
    }

    /// The field is one of the values.
    pub fn any_of<L: Into<Literal>>(self, values: impl IntoIterator<Item = L>) -> Filter {
        let values = values.into_iter().map(Into::into).collect();
        Filter {
            conditions: vec![Built::AnyOf(self.name, values)],
        }
    }

    /// The field is less than the value.
    pub fn less_than(self, value: impl Into<Literal>) -> Filter {
        self.compare(Operator::Less, value)
    }

    /// The field is the value or less.
    pub fn at_most(self, value: impl Into<Literal>) -> Filter {
        self.compare(Operator::LessOrEqual, value)
    }

    /// The field is greater than the value.
    pub fn greater_than(self, value: impl Into<Literal>) -> Filter {
        self.compare(Operator::Greater, value)
    }

    /// The field is the value or greater.
    pub fn at_least(self, value: impl Into<Literal>) -> Filter {
        self.compare(Operator::GreaterOrEqual, value)
    }

    /// The field lies between the values, both included.
    pub fn between(self, lower: impl Into<Literal>, upper: impl Into<Literal>) -> Filter {
        self.clone().at_least(lower).and(self.at_most(upper))
    }

    /// The text field starts with the text.
    pub fn starts_with(self, prefix: impl Into<String>) -> Filter {
        Filter {
            conditions: vec![Built::StartsWith(self.name, prefix.into())],
        }
    }
}

/// Fields compared with as many values, by value, the first that differs deciding.
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
    /// This and the other.
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
                            "a tuple of {} fields is compared with {} values",
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
    /// The value that is meant, as one of `ty`; or why it is none.
    pub(crate) fn value(&self, ty: &Type) -> std::result::Result<Cow<'_, Value>, String> {
        let read = |text: &str| {
            let value = json::from_text(ty, text).map(Cow::Owned);
            value.map_err(|error| error.to_string())
        };
        match self {
            // A uuid has one text, whichever version its field takes.
            Self::Value(Value::Uuid(uuid) | Value::TimeUuid(uuid))
                if matches!(ty, Type::Uuid | Type::TimeUuid) =>
            {
                read(&uuid.to_string())
            }
            Self::Value(value) => Ok(Cow::Borrowed(value)),
            Self::Number(number) if !ty.is_number() => Err(format!("expected {ty}, found {number}")),
            Self::Text(text) | Self::Number(text) => read(text),
            Self::Null => {
                Err("a value is compared with, and null is none: leave the condition out".to_owned())
            }
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

/// What the `Option` holds; [`Literal::Null`] if it holds nothing.
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

/// The literal of a field's value.
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

/// Rust writes infinities in another way than record JSON does.
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

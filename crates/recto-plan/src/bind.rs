//! Binds filter and sort text to a collection: resolves names to fields, and literals to values of the
//! fields' types.

use recto_model::schema::Collection;
use recto_model::table::Direction;
use recto_model::{Type, cell, json};

use crate::error::{QueryError, QueryErrorKind};
use crate::query::{Condition, Query, no_prefix};
use crate::text::{Literal, LiteralValue, Name, Operator, Span, Subject, Term, TextError, filter, sort};

/// Returns the query that filter and sort text express on a collection.
///
/// # Errors
/// The text is not filter or sort text, it names an unknown field, or a literal does not have the
/// type of its field. Each error has the column of the text where it occurred.
pub fn query(collection: &Collection, filter_text: &str, sort_text: &str) -> Result<Query, QueryError> {
    Query::new(
        collection,
        &conditions(collection, filter_text)?,
        &sort_terms(collection, sort_text)?,
    )
}

/// Parses filter text, and returns its conditions. The conditions refer to fields by their index in the
/// collection.
pub fn conditions(collection: &Collection, text: &str) -> Result<Vec<Condition>, QueryError> {
    let binder = Binder {
        collection,
        text,
        subject: Subject::Filter,
    };
    let parsed = filter::parse(text)?;
    parsed.terms.iter().map(|term| binder.condition(term)).collect()
}

/// Parses sort text, and returns its fields (indexes in the collection) with their directions.
pub fn sort_terms(collection: &Collection, text: &str) -> Result<Vec<(usize, Direction)>, QueryError> {
    let binder = Binder {
        collection,
        text,
        subject: Subject::Sort,
    };
    sort::parse(text)?
        .iter()
        .map(|term| Ok((binder.field(&term.field)?, term.direction)))
        .collect()
}

impl From<TextError> for QueryError {
    fn from(error: TextError) -> Self {
        let kind = match error.subject {
            Subject::Filter => QueryErrorKind::Filter,
            Subject::Sort => QueryErrorKind::Sort,
        };
        let mut converted = QueryError::new(kind, error.message).with_column(error.column);
        converted.hint = error.hint;
        converted
    }
}

struct Binder<'a> {
    collection: &'a Collection,
    text: &'a str,
    subject: Subject,
}

impl Binder<'_> {
    fn condition(&self, term: &Term) -> Result<Condition, QueryError> {
        Ok(match term {
            Term::Compare {
                field,
                operator,
                literal,
            } => {
                let index = self.field(field)?;
                self.check_operator(index, field, *operator)?;
                Condition::Compare {
                    field: index,
                    operator: *operator,
                    value: self.value(index, literal)?,
                }
            }
            Term::AnyOf { field, literals } => {
                let field = self.field(field)?;
                let values = literals.iter().map(|literal| self.value(field, literal));
                Condition::AnyOf {
                    field,
                    values: values.collect::<Result<_, _>>()?,
                }
            }
            Term::StartsWith { field, prefix } => {
                let index = self.field(field)?;
                let definition = &self.collection.fields[index];
                if !definition.ty.is_textual() {
                    let message = format!(
                        "startsWith needs a text field, but {} is a {}",
                        field.text, definition.ty
                    );
                    return Err(self.error(field.span, message).with_field(&field.text));
                }
                if let Some((message, hint)) = no_prefix(self.collection, definition) {
                    let error = self.error(field.span, message);
                    return Err(error.with_field(&field.text).with_hint(hint));
                }
                let LiteralValue::String(prefix) = &prefix.value else {
                    return Err(self.error(prefix.span, "startsWith needs a string".into()));
                };
                Condition::StartsWith {
                    field: index,
                    prefix: prefix.clone(),
                }
            }
            Term::Tuple {
                fields,
                operator,
                literals,
            } => {
                let mut indexes = Vec::with_capacity(fields.len());
                let mut values = Vec::with_capacity(fields.len());
                for (field, literal) in fields.iter().zip(literals) {
                    let index = self.field(field)?;
                    self.check_operator(index, field, *operator)?;
                    indexes.push(index);
                    values.push(self.value(index, literal)?);
                }
                Condition::Tuple {
                    fields: indexes,
                    operator: *operator,
                    values,
                }
            }
        })
    }

    fn check_operator(&self, index: usize, field: &Name, operator: Operator) -> Result<(), QueryError> {
        let ty = &self.collection.fields[index].ty;
        if ty.is_orderable() || operator == Operator::Equal {
            return Ok(());
        }
        let message = format!("{} is a {ty}, which has no order", field.text);
        Err(self
            .error(field.span, message)
            .with_field(&field.text)
            .with_hint("use only = with this field"))
    }

    fn field(&self, name: &Name) -> Result<usize, QueryError> {
        if let Some((index, _)) = self.collection.field(&name.text) {
            return Ok(index);
        }
        let message = format!("collection {} has no field {}", self.collection.name, name.text);
        let hint = no_field_hint(self.collection, &name.text);
        Err(self
            .error(name.span, message)
            .with_field(&name.text)
            .with_hint(hint))
    }

    /// Converts a literal of filter text to a cell (encoded value) of the field's type.
    fn value(&self, field: usize, literal: &Literal) -> Result<Vec<u8>, QueryError> {
        let field = &self.collection.fields[field];
        let wrong = |message: String| self.error(literal.span, message).with_field(&field.name);
        let text = match (&literal.value, &field.ty) {
            (LiteralValue::Boolean(_), Type::Boolean) => literal.value.to_string(),
            (LiteralValue::Boolean(_), ty) => {
                return Err(wrong(format!("{} is a {ty}, not a boolean", field.name)));
            }
            (LiteralValue::Number(number), ty) if ty.is_number() => number.clone(),
            (LiteralValue::Number(number), ty) => {
                return Err(wrong(format!("{} is a {ty}, not a number", field.name))
                    .with_hint(format!("write it in quotes: \"{number}\"")));
            }
            (LiteralValue::String(text), Type::Boolean) => {
                return Err(wrong(format!("{} is a boolean", field.name))
                    .with_hint(format!("write true or false without quotes, not \"{text}\"")));
            }
            (LiteralValue::String(text), _) => text.clone(),
        };
        let value =
            json::from_text(&field.ty, &text).map_err(|error| wrong(format!("{}: {error}", field.name)))?;
        let mut cell = Vec::new();
        cell::encode(&field.ty, &value, &mut cell)
            .map_err(|error| wrong(format!("{}: {error}", field.name)))?;
        Ok(cell)
    }

    fn error(&self, span: Span, message: String) -> QueryError {
        TextError::at(self.subject, self.text, span, message).into()
    }
}

/// Returns a hint for a user who named a field that the collection does not have: the most similar
/// field name, or a list of all field names.
pub fn no_field_hint(collection: &Collection, name: &str) -> String {
    if let Some(nearest) = collection.nearest_field(name) {
        return format!("did you mean {nearest}?");
    }
    let names: Vec<&str> = collection
        .fields
        .iter()
        .map(|field| field.name.as_str())
        .collect();
    format!("its fields are {}", names.join(", "))
}

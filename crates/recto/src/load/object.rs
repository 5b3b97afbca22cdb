//! Split of a line of NDJSON into the text of each field's value.
//!
//! Only values of fields are converted, one at a time. To convert all values of a line at once
//! would take many times the memory of the line.

use std::fmt;

use recto_model::json::syntax_error;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::convert::{Reason, check_values};
use super::plan::LoadPlan;

/// Maximum number of characters of an unknown name that an error message repeats.
const MAX_TOLD_CHARACTERS: usize = 100;

/// Record in a line of NDJSON, split into the texts of its values.
#[derive(Debug)]
pub(super) struct Object<'a> {
    /// For each column of the plan, the JSON text of its value; `None` if the value is missing or
    /// null.
    pub(super) values: Vec<Option<&'a RawValue>>,
    /// For each collection, the first name in the record that is not a field of the collection.
    /// Empty if all names are fields of all collections.
    pub(super) foreign: Vec<Option<String>>,
}

impl<'a> Object<'a> {
    /// Parses a line, or returns the reason why it is not a record.
    pub(super) fn read(plan: &LoadPlan, line: &'a str) -> Result<Self, Reason> {
        let no_json = |error: serde_json::Error| {
            let words = syntax_error(&error);
            Reason::with_details("not JSON", &format!(": column {}: {words}", error.column()))
        };
        if !line.trim_start().starts_with('{') {
            serde_json::from_str::<IgnoredAny>(line).map_err(no_json)?;
            return Err(Reason::general("not a JSON object"));
        }
        let mut deserializer = serde_json::Deserializer::from_str(line);
        let reading = Reading {
            plan,
            given: vec![false; plan.columns.len()],
            twice: None,
            object: Self {
                values: vec![None; plan.columns.len()],
                foreign: Vec::new(),
            },
        };
        let reading = reading.deserialize(&mut deserializer).map_err(no_json)?;
        deserializer.end().map_err(no_json)?;
        match reading.twice {
            Some(column) => Err(Reason::general(format!(
                "{} is given twice",
                plan.columns[column]
            ))),
            None => Ok(reading.object),
        }
    }
}

/// Rejects a nested JSON value whose conversion would take too much memory.
pub(super) fn check_size(field: &str, json: &RawValue) -> Result<(), Reason> {
    let text = json.get();
    if text.starts_with(['[', '{']) {
        check_values(field, text)?;
    }
    Ok(())
}

struct Reading<'p, 'a> {
    plan: &'p LoadPlan,
    given: Vec<bool>,
    twice: Option<usize>,
    object: Object<'a>,
}

impl<'a> DeserializeSeed<'a> for Reading<'_, 'a> {
    type Value = Self;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Reading<'_, 'a> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'a>>(mut self, mut map: A) -> Result<Self, A::Error> {
        loop {
            let name = Name {
                plan: self.plan,
                foreign: &mut self.object.foreign,
            };
            match map.next_key_seed(name)? {
                None => return Ok(self),
                Some(None) => drop(map.next_value::<IgnoredAny>()?),
                Some(Some(column)) => {
                    if std::mem::replace(&mut self.given[column], true) {
                        self.twice = Some(column);
                    }
                    let value: &RawValue = map.next_value()?;
                    self.object.values[column] = (value.get() != "null").then_some(value);
                }
            }
        }
    }
}

/// Deserializer of a name in a JSON record. It returns the index of the column with this name, if
/// there is one. It also records which collections have no field with this name.
struct Name<'p> {
    plan: &'p LoadPlan,
    foreign: &'p mut Vec<Option<String>>,
}

impl<'a> DeserializeSeed<'a> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let column = self.plan.column(name);
        if column.is_some_and(|column| self.plan.is_everywhere(column)) {
            return Ok(column);
        }
        let targets = &self.plan.targets;
        self.foreign.resize(targets.len(), None);
        for (target, foreign) in targets.iter().zip(self.foreign) {
            if foreign.is_none() && target.core.definition.field(name).is_none() {
                *foreign = Some(told(name));
            }
        }
        Ok(column)
    }
}

fn told(name: &str) -> String {
    match name.char_indices().nth(MAX_TOLD_CHARACTERS) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}…", &name[..end]),
    }
}

//! Parser of lists, sets, maps and tuples in the form of `cqlsh COPY TO`: `['a', 'b']`, `{1, 2}`,
//! `{'a': 1}`, `(1, 'a')`.

use recto_model::{Type, Value};

use super::convert::{CellRules, Reason, shown};

/// Parses the text of a field whose type contains other types, such as a list or a map.
pub(super) fn read(rules: &CellRules, field: &str, ty: &Type, text: &str) -> Result<Value, Reason> {
    let mut literal = Literal {
        rules,
        field,
        whole: ty,
        text,
        rest: text,
    };
    let value = literal.value(ty)?;
    literal.skip_blanks();
    if literal.rest.is_empty() {
        Ok(value)
    } else {
        Err(literal.wrong())
    }
}

struct Literal<'a> {
    rules: &'a CellRules,
    field: &'a str,
    whole: &'a Type,
    text: &'a str,
    /// Text that has not been parsed yet.
    rest: &'a str,
}

impl Literal<'_> {
    fn value(&mut self, ty: &Type) -> Result<Value, Reason> {
        match ty {
            Type::List(element) => self
                .sequence(['[', ']'], |literal| literal.value(element))
                .map(Value::List),
            Type::Set(element) => self
                .sequence(['{', '}'], |literal| literal.value(element))
                .map(Value::Set),
            Type::Vector(element, dimension) => {
                let values = self.sequence(['[', ']'], |literal| literal.value(element))?;
                if values.len() == usize::from(*dimension) {
                    Ok(Value::Vector(values))
                } else {
                    Err(self.wrong())
                }
            }
            Type::Map(key, value) => {
                let entries = self.sequence(['{', '}'], |literal| {
                    let key = if key.is_nested() {
                        literal.value(key)?
                    } else {
                        literal.scalar(key, ": ")?
                    };
                    literal.take(':')?;
                    Ok((key, literal.value(value)?))
                });
                entries.map(Value::Map)
            }
            Type::Tuple(types) => {
                let mut types = types.iter();
                let values = self.sequence(['(', ')'], |literal| match types.next() {
                    Some(ty) => literal.nullable(ty),
                    None => Err(literal.wrong()),
                })?;
                if types.next().is_some() {
                    return Err(self.wrong());
                }
                Ok(Value::Tuple(values))
            }
            Type::Udt(udt) => {
                let mut values = vec![None; udt.fields.len()];
                self.sequence(['{', '}'], |literal| {
                    literal.skip_blanks();
                    let (name, _) = literal.rest.split_once(':').ok_or_else(|| literal.wrong())?;
                    let known = udt.fields.iter().position(|(field, _)| field == name.trim_end());
                    let index = known.ok_or_else(|| literal.wrong())?;
                    literal.rest = &literal.rest[name.len()..];
                    literal.take(':')?;
                    values[index] = literal.nullable(&udt.fields[index].1)?;
                    Ok(())
                })?;
                Ok(Value::Udt(values))
            }
            scalar => self.scalar(scalar, ","),
        }
    }

    /// Parses values between brackets, separated by commas.
    fn sequence<T>(
        &mut self,
        [open, close]: [char; 2],
        mut read: impl FnMut(&mut Self) -> Result<T, Reason>,
    ) -> Result<Vec<T>, Reason> {
        self.take(open)?;
        let mut values = Vec::new();
        self.skip_blanks();
        if self.rest.starts_with(close) {
            self.take(close)?;
            return Ok(values);
        }
        loop {
            values.push(read(self)?);
            self.skip_blanks();
            if self.rest.starts_with(close) {
                self.take(close)?;
                return Ok(values);
            }
            self.take(',')?;
        }
    }

    fn nullable(&mut self, ty: &Type) -> Result<Option<Value>, Reason> {
        self.skip_blanks();
        for null in ["null", "None", ""] {
            let after = self.rest.strip_prefix(null);
            if let Some(after) = after.filter(|after| after.starts_with([',', ')', '}'])) {
                self.rest = after;
                return Ok(None);
            }
        }
        self.value(ty).map(Some)
    }

    /// Parses a value without nested values: in quotes, or up to `end` or a closing bracket.
    fn scalar(&mut self, ty: &Type, end: &str) -> Result<Value, Reason> {
        self.skip_blanks();
        if let Some(quoted) = self.rest.strip_prefix('\'') {
            let mut text = String::new();
            let mut rest = quoted;
            loop {
                let (piece, after) = rest.split_once('\'').ok_or_else(|| self.wrong())?;
                text.push_str(piece);
                rest = after;
                // A doubled quote stands for one quote of the text. Any other quote ends the text.
                let Some(after) = rest.strip_prefix('\'') else {
                    break;
                };
                text.push('\'');
                rest = after;
            }
            self.rest = rest;
            return self.rules.value(self.field, ty, &text);
        }
        if matches!(ty, Type::Text | Type::Ascii) {
            return Err(self.wrong());
        }
        let closing = self.rest.find([']', '}', ')']).unwrap_or(self.rest.len());
        let length = self.rest[..closing].find(end).unwrap_or(closing);
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest;
        self.rules.value(self.field, ty, text.trim_end())
    }

    fn take(&mut self, expected: char) -> Result<(), Reason> {
        self.skip_blanks();
        self.rest = self.rest.strip_prefix(expected).ok_or_else(|| self.wrong())?;
        Ok(())
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }

    fn wrong(&self) -> Reason {
        Reason::with_details(
            format!(
                "{}: expected JSON of {}, or its form in CQL",
                self.field,
                self.whole.with_article()
            ),
            &format!(", found {}", shown(self.text)),
        )
    }
}

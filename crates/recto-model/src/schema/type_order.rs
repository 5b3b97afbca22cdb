//! Rule that each user-defined type is declared before the types that contain it.

use std::collections::{HashMap, HashSet};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::MAX_TYPES;
use super::problem::Problem;
use super::type_text::words;

/// Returns, for each declared user-defined type, all words in the types of its fields. Some of the
/// words are names of other user-defined types.
pub(super) fn uses_of_types<'t>(table: &'t DeTable<'_>) -> HashMap<&'t str, Vec<&'t str>> {
    let mut uses = HashMap::new();
    for (key, value) in table.iter().take(MAX_TYPES) {
        let fields = match value.get_ref() {
            DeValue::Table(body) => body.get("fields").map(Spanned::get_ref),
            _ => None,
        };
        let Some(DeValue::Table(fields)) = fields else {
            continue;
        };
        let names = fields.values().filter_map(|value| match value.get_ref() {
            DeValue::String(text) => Some(words(text)),
            _ => None,
        });
        uses.insert(key.get_ref().as_ref(), names.flatten().collect());
    }
    uses
}

/// Names that are not usable yet when the fields of the user-defined type `user` are parsed: `user`
/// itself and all later types.
pub(super) struct Later<'a> {
    pub(super) user: &'a str,
    pub(super) names: &'a [&'a str],
    pub(super) uses: &'a HashMap<&'a str, Vec<&'a str>>,
}

impl Later<'_> {
    /// Returns the problem of a field type, given as text, that names a later type. `None` if it
    /// names none.
    pub(super) fn problem(&self, text: &str) -> Option<Problem> {
        let name = words(text).find(|word| self.names.contains(word))?;
        if let Some(path) = self.path_back(name) {
            return Some(Problem::TypeCycle { path });
        }
        Some(Problem::TypeLater {
            name: name.to_owned(),
            user: self.user.to_owned(),
        })
    }

    /// Returns the path through field types from `from` back to the type that uses it, if there is
    /// one: `user → from → … → user`. Such a path is a cycle, which is an error.
    fn path_back(&self, from: &str) -> Option<String> {
        let mut came_from: HashMap<&str, &str> = HashMap::new();
        let mut seen = HashSet::from([from]);
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if at == self.user {
                let mut path = vec![self.user];
                let mut step = at;
                while let Some(before) = came_from.get(step) {
                    step = before;
                    path.push(step);
                }
                path.push(self.user);
                path.dedup();
                path.reverse();
                let path = if path.len() == 1 { vec![self.user; 2] } else { path };
                return Some(path.join(" → "));
            }
            for next in self.uses.get(at).into_iter().flatten() {
                if self.uses.contains_key(next) && seen.insert(next) {
                    came_from.insert(next, at);
                    open.push(next);
                }
            }
        }
        None
    }
}

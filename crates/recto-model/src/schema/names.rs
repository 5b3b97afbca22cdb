//! Rules for names of collections, views, fields and types, and the most similar name to a misspelt
//! one.

use super::MAX_NAME_LENGTH;

/// Prefix of names that are reserved for Recto's own tables and columns.
pub(super) const RESERVED_PREFIX: &str = "recto_";

/// Maximum length of words whose similarity is computed, in bytes. Longer words are unlikely to be
/// misspelt names.
const MAX_COMPARED_LENGTH: usize = 64;

/// Error for text that is not a valid name of a collection, view, field or type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty.
    #[error("a name cannot be empty")]
    Empty,
    /// The name does not begin with a lower-case letter.
    #[error("a name begins with a lower-case letter, a to z")]
    Start,
    /// The name contains a character that is not allowed in names.
    #[error("a name can have only lower-case letters, digits and `_`")]
    Character,
    /// The name is too long.
    #[error("a name has at most {MAX_NAME_LENGTH} characters")]
    Length,
    /// The name begins with `recto_`.
    #[error("names that begin with `{RESERVED_PREFIX}` are reserved for Recto")]
    Reserved,
}

/// Checks that `name` can be the name of a collection, a view, a field or a user-defined type:
/// `[a-z][a-z0-9_]{0,47}`, and not beginning with `recto_`.
pub fn check_name(name: &str) -> Result<(), NameError> {
    let Some(first) = name.bytes().next() else {
        return Err(NameError::Empty);
    };
    if !first.is_ascii_lowercase() {
        return Err(NameError::Start);
    }
    if !name
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    {
        return Err(NameError::Character);
    }
    if name.len() > MAX_NAME_LENGTH {
        return Err(NameError::Length);
    }
    if name.starts_with(RESERVED_PREFIX) {
        return Err(NameError::Reserved);
    }
    Ok(())
}

/// Returns a valid name derived from `text`, to propose in an error message. `None` if `text`
/// contains too few characters that names allow.
pub(super) fn proposed(text: &str) -> Option<String> {
    let mut name = String::new();
    for character in text.trim().chars().take(MAX_NAME_LENGTH * 2) {
        if character.is_ascii_uppercase() && name.ends_with(|last: char| last.is_ascii_lowercase()) {
            name.push('_');
        }
        let character = character.to_ascii_lowercase();
        if character.is_ascii_lowercase() || (character.is_ascii_digit() && !name.is_empty()) {
            name.push(character);
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
    }
    name.truncate(MAX_NAME_LENGTH);
    let name = name.trim_end_matches('_').trim_start_matches(RESERVED_PREFIX);
    check_name(name).is_ok().then(|| name.to_owned())
}

/// Returns the candidate that is most similar to `word`, for the hint "did you mean". The
/// similarity is the number of edits, at most a third of the word's length. Ignores the case of
/// `word`.
///
/// ```
/// use recto_model::schema::nearest;
///
/// assert_eq!(nearest("fileds", ["fields", "key"].into_iter()), Some("fields"));
/// assert_eq!(nearest("colour", ["fields", "key"].into_iter()), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MAX_COMPARED_LENGTH {
        return None;
    }
    let word = word.to_lowercase();
    let length = word.chars().count();
    let reach = (length / 3).max(1);
    candidates
        .filter(|candidate| candidate.len() <= MAX_COMPARED_LENGTH)
        .map(|candidate| (edits(&word, candidate), candidate))
        // At least one character of the word must remain, because otherwise a name of one letter
        // would be similar to every word.
        .filter(|(distance, _)| *distance <= reach && *distance < length)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the edit distance of two texts: the number of characters to insert, delete, replace or
/// swap with their neighbor, each at most once (optimal string alignment distance).
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    // Keep only three rows of the distance table: for the current prefix of `from`, and for the two
    // prefixes before it.
    let mut before_last = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, &old) in from.iter().enumerate() {
        let mut this = vec![i + 1];
        for (j, &new) in to.iter().enumerate() {
            let replaced = last[j] + usize::from(old != new);
            let mut least = replaced.min(last[j + 1] + 1).min(this[j] + 1);
            if i > 0 && j > 0 && old == to[j - 1] && from[i - 1] == new {
                least = least.min(before_last[j - 1] + 1);
            }
            this.push(least);
        }
        (before_last, last) = (last, this);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits() {
        let edited = [
            ("", "", 0),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("filed", "field", 1),
            ("ca", "abc", 3),
            ("é", "e", 1),
        ];
        for (from, to, edits) in edited {
            assert_eq!(
                (super::edits(from, to), super::edits(to, from)),
                (edits, edits),
                "{from} {to}"
            );
        }
    }

    #[test]
    fn names_are_what_the_language_says() {
        for name in ["a", "a_1", "time_hour", &"a".repeat(48), "recto"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for (name, error) in [
            ("", NameError::Empty),
            ("1a", NameError::Start),
            ("_a", NameError::Start),
            ("A", NameError::Start),
            ("aB", NameError::Character),
            ("a-b", NameError::Character),
            ("é", NameError::Start),
            ("aé", NameError::Character),
            (&"a".repeat(49), NameError::Length),
            ("recto_x", NameError::Reserved),
        ] {
            assert_eq!(check_name(name), Err(error), "{name}");
        }
    }

    #[test]
    fn proposals_are_names() {
        assert_eq!(proposed("userId").as_deref(), Some("user_id"));
        assert_eq!(proposed("2nd Post-Code").as_deref(), Some("nd_post_code"));
        assert_eq!(proposed("recto_token").as_deref(), Some("token"));
        assert_eq!(proposed("é—"), None);
    }

    #[test]
    fn nearest_takes_typos_and_no_strangers() {
        let names = ["fields", "key", "partition", "order"];
        let near = |word| nearest(word, names.into_iter());
        assert_eq!(near("fileds"), Some("fields"));
        assert_eq!(near("Partitions"), Some("partition"));
        assert_eq!(near("kye"), Some("key"));
        assert_eq!(near("colour"), None);
        assert_eq!(near(""), None);
    }
}

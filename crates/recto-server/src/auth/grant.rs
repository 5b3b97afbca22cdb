//! What a token allows, as text: `orders:read,write where tenant = "acme"`.

use std::collections::BTreeMap;

use recto::schema::nearest;

use super::TokenError;
use crate::rights::{COLLECTION_OPERATIONS, EVERY_COLLECTION, Grant, Operation, STORE, STORE_OPERATIONS};

/// Stands for all operations there are: of a collection, or of the store.
const ALL: &str = "all";
/// The longest row filter, in bytes: what a query may have, too.
const MAX_FILTER_BYTES: usize = 8 << 10;
/// The longest name of a collection: a schema's.
const MAX_NAME_BYTES: usize = 48;

const SHAPE: &str = "a grant is COLLECTION:OPERATIONS or COLLECTION:OPERATIONS where FILTER: \
                     'orders:read,write', '*:read', 'orders:read where tenant = \"acme\"'; or @store:OPERATIONS";

/// Reads one grant: the collection (or `*`, or the store), and what is allowed there.
///
/// # Errors
/// The text is none, or names an operation that there is not.
pub fn parse_grant(text: &str) -> Result<(String, Grant), TokenError> {
    let refused = |message: String| TokenError::refused(message, SHAPE);
    let Some((collection, rest)) = text.split_once(':') else {
        return Err(refused(format!("{text:?} is not a grant")));
    };
    let collection = collection.trim();
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if collection != EVERY_COLLECTION
        && collection != STORE
        && (collection.is_empty() || collection.len() > MAX_NAME_BYTES || !collection.chars().all(fits))
    {
        return Err(refused(format!("{collection:?} is not the name of a collection")));
    }
    let (operations, rows) = match rest.split_once(" where ") {
        Some((operations, rows)) => (operations, rows.trim()),
        None => (rest, ""),
    };
    if rows.is_empty() && rest.trim_end().ends_with(" where") {
        return Err(refused(format!("{text:?} has no filter after `where`")));
    }
    if rows.len() > MAX_FILTER_BYTES {
        return Err(refused(format!(
            "the filter of {collection} is longer than {MAX_FILTER_BYTES} bytes"
        )));
    }
    if collection == STORE && !rows.is_empty() {
        return Err(refused("a grant for the store has no filter".into()));
    }
    let grant = Grant {
        operations: parse_operations(collection, operations)?,
        rows: rows.to_owned(),
    };
    Ok((collection.to_owned(), grant))
}

/// Reads several, one per collection.
///
/// # Errors
/// As [`parse_grant`]; or there is none, or two for one collection: which rows the two allow
/// together would be anybody's guess; or one for the store beside one for some rows, which the store's
/// backup or schema would not be held to.
pub fn parse_grants<'a>(
    texts: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeMap<String, Grant>, TokenError> {
    let mut grants = BTreeMap::new();
    for text in texts {
        let (collection, grant) = parse_grant(text)?;
        if grants.contains_key(&collection) {
            let message = format!("there are two grants for {collection}");
            return Err(TokenError::refused(
                message,
                "give one with all operations; where rows differ by operation, make two tokens",
            ));
        }
        grants.insert(collection, grant);
    }
    if grants.is_empty() {
        return Err(TokenError::refused("the token would allow nothing", SHAPE));
    }
    if grants.contains_key(STORE) && grants.values().any(|grant| !grant.rows.is_empty()) {
        return Err(TokenError::refused(
            "a token for some rows cannot look after the store: a backup or a schema is of all rows",
            "make two tokens",
        ));
    }
    Ok(grants)
}

fn parse_operations(subject: &str, text: &str) -> Result<Vec<Operation>, TokenError> {
    let mut operations = Vec::new();
    for name in text.split(',').map(str::trim) {
        if name == ALL {
            operations.extend(operations_of(subject));
            continue;
        }
        let Some(operation) = operation(subject, name) else {
            return Err(no_operation(subject, name));
        };
        operations.push(operation);
    }
    operations.sort_unstable();
    operations.dedup();
    Ok(operations)
}

fn no_operation(subject: &str, name: &str) -> TokenError {
    let names = || operations_of(subject).iter().map(|operation| operation.name());
    let hint = if subject != STORE && operation(STORE, name).is_some() {
        format!("that is done with the store, and granted by '{STORE}:{name}'")
    } else if let Some(nearest) = nearest(name, names()) {
        format!("did you mean {nearest}?")
    } else {
        format!("there are {}, and {ALL}", names().collect::<Vec<_>>().join(", "))
    };
    TokenError::refused(format!("{name:?} is not an operation"), hint)
}

/// The operations there are on a collection, or on the store.
fn operations_of(subject: &str) -> &'static [Operation] {
    match subject {
        STORE => &STORE_OPERATIONS,
        _ => &COLLECTION_OPERATIONS,
    }
}

/// The operation of this name on a collection, or on the store.
pub(crate) fn operation(subject: &str, name: &str) -> Option<Operation> {
    let mut all = operations_of(subject).iter();
    all.find(|operation| operation.name() == name).copied()
}

/// A grant as [`parse_grant`] reads it.
pub fn show_grant(collection: &str, grant: &Grant) -> String {
    let names: Vec<&str> = grant
        .operations
        .iter()
        .map(|operation| operation.name())
        .collect();
    let names = names.join(",");
    match grant.rows.as_str() {
        "" => format!("{collection}:{names}"),
        rows => format!("{collection}:{names} where {rows}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_read_and_shown() {
        for (text, shown) in [
            ("orders:read", "orders:read"),
            (" orders : write, read ", "orders:read,write"),
            ("*:all", "*:read,export,write,delete"),
            (
                "@store:all",
                "@store:backup,compact,check,verify,repair,load,apply,cursor-keys",
            ),
            ("@store: check,backup", "@store:backup,check"),
            (
                "orders:read,read where tenant = \"a where b\"",
                "orders:read where tenant = \"a where b\"",
            ),
        ] {
            let (collection, grant) = parse_grant(text).unwrap();
            assert_eq!(show_grant(&collection, &grant), shown);
            assert_eq!(parse_grant(shown).unwrap(), (collection, grant));
        }
    }

    #[test]
    fn what_is_no_grant_is_refused() {
        for (text, message) in [
            ("orders", "not a grant"),
            (":read", "not the name of a collection"),
            ("a b:read", "not the name of a collection"),
            ("orders:", "not an operation"),
            ("orders:raed", "not an operation"),
            ("orders:read where ", "no filter"),
            ("orders:read where", "no filter"),
            ("*:backup", "not an operation"),
            ("@store:read", "not an operation"),
            ("@store:load where a = 1", "no filter"),
            ("@shop:load", "not the name of a collection"),
        ] {
            let error = parse_grant(text).unwrap_err();
            assert!(error.to_string().contains(message), "{text}: {error}");
        }
        assert_eq!(
            parse_grant("a:raed").unwrap_err().hint(),
            Some("did you mean read?")
        );
        let error = parse_grant("*:backup").unwrap_err();
        assert!(error.hint().unwrap().contains("'@store:backup'"), "{error:?}");
        let error = parse_grants(["a:read where b = 1", "@store:all"]).unwrap_err();
        assert!(error.to_string().contains("some rows"), "{error}");
        let error = parse_grants(["a:read", "a:write"]).unwrap_err();
        assert!(error.to_string().contains("two grants"));
        assert!(parse_grants([]).unwrap_err().to_string().contains("nothing"));
    }
}

//! Rights of a token, as text: `orders:read,write where tenant = "acme"`.

use std::collections::BTreeMap;

use recto::queues::QueueName;
use recto::schema::nearest;

use super::TokenError;
use crate::rights::{EVERY_COLLECTION, EVERY_QUEUE, Grant, QUEUE_PREFIX, Right, STORE};

/// Name that means all rights for a collection, for a queue, or for the store.
const ALL: &str = "all";
/// Maximum length of a row filter, in bytes. It equals the limit of a query.
const MAX_FILTER_BYTES: usize = 8 << 10;
/// Maximum length of the name of a collection, in bytes. It equals the limit of a schema.
const MAX_NAME_BYTES: usize = 48;

const SHAPE: &str = "write a grant as COLLECTION:RIGHTS or COLLECTION:RIGHTS where FILTER: \
    'orders:read,write', '*:read', 'orders:read where tenant = \"acme\"'; or @store:RIGHTS; or \
    queue.QUEUE:RIGHTS";

/// Parses one grant: a subject (a collection, `*`, a queue or the store), its rights, and an
/// optional row filter.
///
/// # Errors
/// The text is not a grant, or names a right that does not exist.
pub fn parse_grant(text: &str) -> Result<(String, Grant), TokenError> {
    let refused = |message: String| TokenError::refused(message, SHAPE);
    let Some((collection, rest)) = text.split_once(':') else {
        return Err(refused(format!("{text:?} is not a grant")));
    };
    let collection = collection.trim();
    check_subject(collection).map_err(refused)?;
    let (rights, rows) = match rest.split_once(" where ") {
        Some((rights, rows)) => (rights, rows.trim()),
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
        return Err(refused("a grant for the store cannot have a filter".into()));
    }
    if collection.starts_with(QUEUE_PREFIX) && !rows.is_empty() {
        return Err(refused("a grant for a queue cannot have a filter".into()));
    }
    let grant = Grant {
        rights: parse_rights(collection, rights)?,
        rows: rows.to_owned(),
    };
    Ok((collection.to_owned(), grant))
}

/// Checks that a grant can have the subject: a collection, a queue or the store. The error
/// describes the problem.
fn check_subject(subject: &str) -> Result<(), String> {
    if let Some(queue) = subject.strip_prefix(QUEUE_PREFIX) {
        return match QueueName::new("grant", queue) {
            Err(_) if queue != EVERY_QUEUE => Err(format!("{queue:?} is not a valid name of a queue")),
            _ => Ok(()),
        };
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = !subject.is_empty() && subject.len() <= MAX_NAME_BYTES && subject.chars().all(fits);
    if is_name || subject == EVERY_COLLECTION || subject == STORE {
        return Ok(());
    }
    Err(format!("{subject:?} is not a valid name of a collection"))
}

/// Parses several grants, at most one for each subject.
///
/// # Errors
/// The errors of [`parse_grant`], and an error in these cases:
///
/// - There is no grant.
/// - There are two grants for one collection. It would be unclear which rows they allow together.
/// - There is a grant for the store and a grant with a row filter. A backup or a schema would
///   reveal the hidden rows.
pub fn parse_grants<'a>(
    texts: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeMap<String, Grant>, TokenError> {
    let mut grants = BTreeMap::new();
    for text in texts {
        let (collection, grant) = parse_grant(text)?;
        if grants.contains_key(&collection) {
            let message = format!("{collection} has two grants");
            return Err(TokenError::refused(
                message,
                "use one grant with all rights; if the rows differ by right, create two tokens",
            ));
        }
        grants.insert(collection, grant);
    }
    if grants.is_empty() {
        return Err(TokenError::refused("the token would allow nothing", SHAPE));
    }
    if grants.contains_key(STORE) && grants.values().any(|grant| !grant.rows.is_empty()) {
        return Err(TokenError::refused(
            "a token with a row filter cannot maintain the store, because a backup or a schema contains all \
             rows",
            "create two tokens",
        ));
    }
    Ok(grants)
}

fn parse_rights(subject: &str, text: &str) -> Result<Vec<Right>, TokenError> {
    let mut rights = Vec::new();
    for name in text.split(',').map(str::trim) {
        if name == ALL {
            rights.extend(rights_of(subject));
            continue;
        }
        let Some(right) = right(subject, name) else {
            return Err(no_right(subject, name));
        };
        rights.push(right);
    }
    rights.sort_unstable();
    rights.dedup();
    Ok(rights)
}

fn no_right(subject: &str, name: &str) -> TokenError {
    let names = || rights_of(subject).iter().map(|right| right.name());
    let hint = if subject != STORE && right(STORE, name).is_some() {
        format!("use '{STORE}:{name}': this is a right for the store")
    } else if !subject.starts_with(QUEUE_PREFIX) && right(QUEUE_PREFIX, name).is_some() {
        format!("use '{QUEUE_PREFIX}QUEUE:{name}': this is a right for queues")
    } else if let Some(nearest) = nearest(name, names()) {
        format!("did you mean {nearest}?")
    } else {
        format!("use {}, or {ALL}", names().collect::<Vec<_>>().join(", "))
    };
    TokenError::refused(format!("{name:?} is not a right"), hint)
}

/// Returns all rights that a grant for the subject can have: a collection, a queue, or the store.
fn rights_of(subject: &str) -> &'static [Right] {
    match subject {
        STORE => &Right::OF_STORE,
        subject if subject.starts_with(QUEUE_PREFIX) => &Right::OF_QUEUE,
        _ => &Right::OF_COLLECTION,
    }
}

/// Returns the right named `name`, if a grant for the subject can have it.
pub(crate) fn right(subject: &str, name: &str) -> Option<Right> {
    let mut all = rights_of(subject).iter();
    all.find(|right| right.name() == name).copied()
}

/// Formats a grant as text that [`parse_grant`] parses.
pub fn show_grant(collection: &str, grant: &Grant) -> String {
    let names: Vec<&str> = grant.rights.iter().map(|right| right.name()).collect();
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
                "queue.mails-1.fifo:receive,send",
                "queue.mails-1.fifo:send,receive",
            ),
            ("queue.*:all", "queue.*:read,send,receive,manage"),
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
    fn rejects_invalid_rights_filters_and_names() {
        for (text, message) in [
            ("orders", "not a grant"),
            (":read", "not a valid name of a collection"),
            ("a b:read", "not a valid name of a collection"),
            ("orders:", "not a right"),
            ("orders:raed", "not a right"),
            ("orders:read where ", "no filter"),
            ("orders:read where", "no filter"),
            ("*:backup", "not a right"),
            ("@store:read", "not a right"),
            ("@store:load where a = 1", "cannot have a filter"),
            ("@shop:load", "not a valid name of a collection"),
            ("*:send", "not a right"),
            ("queue.mails:write", "not a right"),
            ("queue.mails:read where a = 1", "cannot have a filter"),
            ("queue.:read", "not a valid name of a queue"),
            ("queue.a.b:read", "not a valid name of a queue"),
            ("queue:send", "not a right"),
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
        assert!(error.to_string().contains("a row filter"), "{error}");
        let error = parse_grants(["a:read", "a:write"]).unwrap_err();
        assert!(error.to_string().contains("two grants"));
        assert!(parse_grants([]).unwrap_err().to_string().contains("nothing"));
    }
}

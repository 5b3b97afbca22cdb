//! Environment variables that pass a message to the command that handles it.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use recto::queues::Failure;
use recto::session::ReceivedMessage;

use crate::text::printable;

/// Prefix of the environment variables that describe a message.
const MESSAGE_PREFIX: &str = "RECTO_MESSAGE_";
/// Prefix of the environment variables that hold the attributes of a message.
const ATTRIBUTE_PREFIX: &str = "RECTO_ATTRIBUTE_";

/// Returns whether the name is that of an environment variable that describes a message. A worker
/// has such variables if it was itself started for a message.
pub(super) fn is_of_message(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with(MESSAGE_PREFIX) || name.starts_with(ATTRIBUTE_PREFIX)
}

/// Returns the environment variables that describe a message to the user's command.
///
/// # Errors
/// Two attributes would have the same variable, or a value cannot be in an environment variable.
pub(super) fn variables(message: &ReceivedMessage, queue: &str) -> Result<BTreeMap<String, String>, Failure> {
    let mut variables = BTreeMap::new();
    let mut attributes: BTreeMap<String, &str> = BTreeMap::new();
    for (name, value) in &message.attributes {
        let shown = printable(name);
        let variable = format!("{ATTRIBUTE_PREFIX}{}", variable(name));
        if let Some(other) = attributes.insert(variable.clone(), name) {
            let other = printable(other);
            return Err(Failure::new(format!(
                "the attributes {other} and {shown} would both have the variable {variable}"
            )));
        }
        let value = in_environment(&format!("the attribute {shown}"), value)?;
        variables.insert(variable, value);
    }
    let attempts = message.attempts.to_string();
    for (name, what, value) in [
        ("QUEUE", "the queue", Some(queue)),
        ("ID", "the id", Some(message.id.as_str())),
        ("ATTEMPTS", "the number of attempts", Some(attempts.as_str())),
        ("SENT_AT", "the time", Some(message.sent_at.as_str())),
        ("GROUP", "the group", message.group.as_deref()),
        (
            "DEDUPLICATION_ID",
            "the deduplication id",
            message.deduplication_id.as_deref(),
        ),
    ] {
        if let Some(value) = value {
            variables.insert(format!("{MESSAGE_PREFIX}{name}"), in_environment(what, value)?);
        }
    }
    Ok(variables)
}

fn in_environment(what: &str, value: &str) -> Result<String, Failure> {
    if value.contains('\0') {
        return Err(Failure::new(format!(
            "{what} has a NUL byte, which an environment variable cannot have"
        )));
    }
    Ok(value.to_owned())
}

/// Converts an attribute's name to the end of a variable's name: upper-case letters, digits and
/// `_`.
fn variable(name: &str) -> String {
    let character = |character: char| {
        let upper = character.to_ascii_uppercase();
        if upper.is_ascii_alphanumeric() { upper } else { '_' }
    };
    name.chars().map(character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_variables() {
        assert_eq!(variable("content-type"), "CONTENT_TYPE");
        assert_eq!(variable("recto.error 1é=\0"), "RECTO_ERROR_1___");
    }
}

//! Byte format of message bodies in the store.

use std::collections::BTreeMap;

use recto_protocol::queues::MessageId;

use crate::error::{QueueError, QueueErrorKind};
use crate::message::NewMessage;

/// Version of the byte format of a body.
pub(crate) const BODY_FORMAT_VERSION: u8 = 1;

const GROUP: u8 = 1;
const DEDUPLICATION: u8 = 2;

/// Message in its stored form: group, deduplication id, attributes, and the message body at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Body(Vec<u8>);

/// Message as it is decoded from its stored bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Content {
    pub(crate) group: Option<String>,
    pub(crate) deduplication_id: Option<String>,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// Reason why a stored message body cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnreadableBody {
    /// The store has no such body.
    Missing,
    /// No release of Recto wrote these bytes.
    Damaged,
    /// A newer release of Recto wrote the bytes, in this version of the format.
    Newer(u8),
}

impl UnreadableBody {
    /// Returns true if the body is missing or damaged, so that no release can ever read it.
    pub(crate) fn is_lost(self) -> bool {
        !matches!(self, Self::Newer(_))
    }

    /// Returns the error for a caller that needs the body of the message `id`.
    pub(crate) fn of(self, id: MessageId) -> QueueError {
        let id = id.0;
        let (what, hint) = match self {
            Self::Missing => (
                "is missing".to_owned(),
                "restore the tables of message bodies from a backup: another program wrote to them",
            ),
            Self::Damaged => (
                "is damaged".to_owned(),
                "restore this table from a backup, or delete the queue: another program wrote to the table",
            ),
            Self::Newer(version) => (
                format!("has version {version}, which this release does not support"),
                "use the newer release that wrote it, or a later one",
            ),
        };
        let message = format!("the body of message {id:032x} {what}");
        QueueError::new(QueueErrorKind::Corrupt, message).with_hint(hint)
    }
}

impl Body {
    /// Encodes a message. The caller has checked that the message is within the size limits.
    pub(crate) fn of(message: &NewMessage) -> Self {
        let (group, id) = (&message.group, &message.deduplication_id);
        Self::encode([group, id], &message.attributes, &message.body)
    }

    /// Encodes a body. `names` are the group and the deduplication id.
    fn encode(names: [&Option<String>; 2], attributes: &BTreeMap<String, String>, body: &[u8]) -> Self {
        let mut bytes = vec![BODY_FORMAT_VERSION];
        let flags = names.into_iter().zip([GROUP, DEDUPLICATION]);
        let flags = flags.filter(|(name, _)| name.is_some()).map(|(_, flag)| flag);
        bytes.push(flags.sum());
        for name in names.into_iter().flatten() {
            push_text(&mut bytes, name);
        }
        bytes.extend((attributes.len() as u16).to_be_bytes());
        for (name, value) in attributes {
            push_text(&mut bytes, name);
            push_text(&mut bytes, value);
        }
        bytes.extend(body);
        Self(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u32).to_be_bytes());
    bytes.extend(text.as_bytes());
}

impl Content {
    /// Encodes the message in its stored form.
    pub(crate) fn encode(&self) -> Body {
        let names = [&self.group, &self.deduplication_id];
        Body::encode(names, &self.attributes, &self.body)
    }

    /// Decodes a stored message.
    ///
    /// # Errors
    /// A newer release wrote the bytes, or they are damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, UnreadableBody> {
        match bytes.split_first() {
            Some((&BODY_FORMAT_VERSION, rest)) => read(rest).ok_or(UnreadableBody::Damaged),
            Some((0, _)) | None => Err(UnreadableBody::Damaged),
            Some((version, _)) => Err(UnreadableBody::Newer(*version)),
        }
    }
}

fn read(mut rest: &[u8]) -> Option<Content> {
    let [flags] = take(&mut rest)?;
    if flags & !(GROUP | DEDUPLICATION) != 0 {
        return None;
    }
    let group = if flags & GROUP == 0 {
        None
    } else {
        Some(take_text(&mut rest)?)
    };
    let deduplication_id = if flags & DEDUPLICATION == 0 {
        None
    } else {
        Some(take_text(&mut rest)?)
    };
    let mut attributes = BTreeMap::new();
    for _ in 0..u16::from_be_bytes(take(&mut rest)?) {
        let name = take_text(&mut rest)?;
        attributes.insert(name, take_text(&mut rest)?);
    }
    Some(Content {
        group,
        deduplication_id,
        attributes,
        body: rest.to_vec(),
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*bytes)
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    let length = u32::from_be_bytes(take(rest)?) as usize;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use recto_model::golden::bytes_of_hex;

    use super::*;

    fn optional(text: &str) -> Option<String> {
        (text != "-").then(|| text.to_owned())
    }

    /// Parses a line of the golden file, which has the fields `group; deduplication id; attributes; body;
    /// bytes`.
    fn golden(line: &str) -> (Content, Vec<u8>) {
        let parts: Vec<_> = line.split("; ").collect();
        let attributes = optional(parts[2]).unwrap_or_default();
        let attributes = attributes.split(',').filter_map(|pair| pair.split_once('='));
        let content = Content {
            group: optional(parts[0]),
            deduplication_id: optional(parts[1]),
            attributes: attributes
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            body: bytes_of_hex(optional(parts[3]).as_deref().unwrap_or_default()),
        };
        (content, bytes_of_hex(parts[4]))
    }

    fn all() -> Vec<(Content, Vec<u8>)> {
        let lines = include_str!("golden/body-v1.txt").lines();
        lines.filter(|line| !line.starts_with('#')).map(golden).collect()
    }

    #[test]
    fn bodies_are_written_and_read_as_ever() {
        for (content, bytes) in all() {
            assert_eq!(content.encode().as_bytes(), bytes);
            assert_eq!(Content::decode(&bytes).unwrap(), content);
        }
    }

    #[test]
    fn rejects_truncated_and_newer_content() {
        for (content, bytes) in all() {
            let said = bytes.len() - content.body.len();
            for length in 0..said {
                assert_eq!(Content::decode(&bytes[..length]), Err(UnreadableBody::Damaged));
            }
            let mut newer = bytes.clone();
            newer[0] += 1;
            assert_eq!(Content::decode(&newer), Err(UnreadableBody::Newer(2)));
            let mut unknown = bytes;
            unknown[1] |= 4;
            assert_eq!(Content::decode(&unknown), Err(UnreadableBody::Damaged));
        }
    }
}

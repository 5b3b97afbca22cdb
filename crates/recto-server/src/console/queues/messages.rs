//! Table of the oldest messages of a queue. Showing them does not receive them.

use maud::{Markup, html};
use recto::queues::{ATTEMPTS_ATTRIBUTE, ERROR_ATTRIBUTE};
use recto::session::{PeekedMessage, QueueStatus, body_bytes};

use super::super::page_url::encoded;
use super::super::text::{bytes, cut, is_plain};
use super::queue_access::QueueAccess;
use super::words::{between, micros};
use crate::access::Right;

/// Maximum number of messages that the page of a queue shows.
pub(super) const MAX_PEEKED: u32 = 50;
/// Maximum number of characters of a body or attribute that are shown.
const MAX_SHOWN_CHARACTERS: usize = 240;
/// Maximum number of bytes of a binary body that are shown.
const MAX_SHOWN_BYTES: usize = 48;
/// Maximum number of attributes of a message that are shown.
const MAX_SHOWN_ATTRIBUTES: usize = 8;
/// Maximum number of characters of an id in the table. The tooltip shows the whole id.
const MAX_ID_CHARACTERS: usize = 8;
/// Parameters of an action on one message: its position in the queue, and its id.
pub(super) const POSITION: &str = "position";
pub(super) const MESSAGE: &str = "message";

/// Returns the section with the oldest messages of a queue. The page does not refresh it, so that
/// messages do not change while a person reads them.
pub(super) fn oldest(
    asked: &QueueAccess,
    status: &QueueStatus,
    messages: &[PeekedMessage],
    now_micros: i64,
) -> Markup {
    let may_remove = asked.may(Right::Manage);
    html! {
        section.health {
            h2 { "Oldest messages" }
            @if messages.is_empty() {
                p.dim { "The queue had no messages at the time of this page." }
            } @else {
                p.dim.above {
                    @if status.messages > messages.len() as u64 { "The first " (messages.len()) ", as they were" }
                    @else { "As they were" }
                    " at the time of this page. " a href=(asked.back()) { "Refresh" }
                }
                (table(asked, messages, now_micros, may_remove))
                @if messages.iter().any(|message| message.attempts > 0) {
                    p.dim.below {
                        "If a receiver returns a message with an error, the dead letter has the error of the \
                         last attempt."
                    }
                }
            }
        }
    }
}

/// Returns a table of messages. With `may_remove`, each row has a link that removes its message.
pub(super) fn table(
    asked: &QueueAccess,
    messages: &[PeekedMessage],
    now_micros: i64,
    may_remove: bool,
) -> Markup {
    let has_groups = messages.iter().any(|message| message.group.is_some());
    let has_errors = messages.iter().any(|message| error(message).is_some());
    html! {
        div.rows.messages tabindex="0" role="region" aria-label="Messages" {
            table {
                thead {
                    tr {
                        th scope="col" { "State" }
                        th.number scope="col" { "Attempts" }
                        th.number scope="col" { "Age" }
                        @if has_groups { th scope="col" { "Group" } }
                        th scope="col" { "Body" }
                        @if has_errors { th scope="col" { "Reason" } }
                        th scope="col" { "Attributes" }
                        th scope="col" { "Id" }
                        @if may_remove { th scope="col" { span.unseen { "Remove" } } }
                    }
                }
                tbody {
                    @for message in messages {
                        tr {
                            td { (state(message, now_micros)) }
                            td.number { (message.attempts) }
                            td.number { span title=(message.sent_at) { (age(message, now_micros)) } }
                            @if has_groups { td.text { (cut(message.group.as_deref().unwrap_or_default(), MAX_SHOWN_CHARACTERS)) } }
                            td.text.body { (body(message)) }
                            @if has_errors { td.text { (cut(error(message).unwrap_or_default(), MAX_SHOWN_CHARACTERS)) } }
                            td.text { (attributes(message)) }
                            td { code title=(message.id) { (cut(&message.id, MAX_ID_CHARACTERS)) } }
                            @if may_remove { td { a href=(remove_href(asked, message)) { "Remove" } } }
                        }
                    }
                }
            }
        }
    }
}

fn remove_href(asked: &QueueAccess, message: &PeekedMessage) -> String {
    let named = encoded(&[
        (POSITION, message.position.clone()),
        (MESSAGE, message.id.clone()),
    ]);
    format!("{}?{named}", asked.action("remove"))
}

fn age(message: &PeekedMessage, now_micros: i64) -> String {
    micros(&message.sent_at).map_or_else(String::new, |sent| between(sent, now_micros))
}

/// Returns the state of a message, and how long the state lasts.
fn state(message: &PeekedMessage, now_micros: i64) -> Markup {
    let words = match message.state.as_str() {
        "in_flight" => "in flight",
        "leaving" => "moving to another queue",
        other => other,
    };
    let until = message.until.as_deref().and_then(micros);
    html! {
        span.mark.state .moving[message.state == "in_flight"] { (words) }
        @if let Some(until) = until.filter(|until| *until > now_micros) {
            " " span.dim { "for " (between(now_micros, until)) }
        }
    }
}

/// Returns the error that the last receiver reported for a message, if any.
fn error(message: &PeekedMessage) -> Option<&str> {
    message.attributes.get(ERROR_ATTRIBUTE).map(String::as_str)
}

/// Returns the body of a message or its beginning: text as it is, other bytes as hexadecimal
/// digits.
fn body(message: &PeekedMessage) -> Markup {
    if let Some(damage) = &message.damage {
        return html! { span.bad { "Unreadable: " (damage) } };
    }
    let text = message.body.as_deref().filter(|text| is_plain(text));
    if let Some(text) = text {
        return html! {
            @if text.is_empty() { span.dim { "empty" } } @else { (cut(text, MAX_SHOWN_CHARACTERS)) }
            @if text.chars().nth(MAX_SHOWN_CHARACTERS).is_some() { " " span.type { (bytes(text.len() as u64)) } }
        };
    }
    match body_bytes(message.body.as_deref(), message.body_base64.as_deref()) {
        Ok(body) => html! { code { (hexadecimal(&body)) } " " span.type { (bytes(body.len() as u64)) } },
        Err(error) => html! { span.bad { (error.message()) } },
    }
}

fn hexadecimal(body: &[u8]) -> String {
    let shown = body
        .iter()
        .take(MAX_SHOWN_BYTES)
        .map(|byte| format!("{byte:02x}"));
    let mut text = shown.collect::<Vec<_>>().join(" ");
    if body.len() > MAX_SHOWN_BYTES {
        text.push('…');
    }
    text
}

fn attributes(message: &PeekedMessage) -> Markup {
    let own = || {
        message
            .attributes
            .iter()
            .filter(|(name, _)| *name != ERROR_ATTRIBUTE)
    };
    let more = own().count().saturating_sub(MAX_SHOWN_ATTRIBUTES);
    html! {
        @for (name, value) in own().take(MAX_SHOWN_ATTRIBUTES) {
            div {
                @if name == ATTEMPTS_ATTRIBUTE { span.dim { "earlier attempts" } } @else { span.dim { (cut(name, MAX_SHOWN_CHARACTERS)) } }
                " " (cut(value, MAX_SHOWN_CHARACTERS))
            }
        }
        @if more > 0 { div.dim { "and " (more) " more" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_that_are_no_text_are_shown_as_digits() {
        let shown = |text: Option<&str>, encoded: Option<&str>| {
            let message = PeekedMessage {
                body: text.map(str::to_owned),
                body_base64: encoded.map(str::to_owned),
                ..PeekedMessage::default()
            };
            body(&message).into_string()
        };
        assert_eq!(shown(Some("a <b>"), None), "a &lt;b&gt;");
        assert_eq!(
            shown(None, Some("/wA=")),
            "<code>ff 00</code> <span class=\"type\">2 B</span>"
        );
        assert!(shown(Some("a\u{1}"), None).starts_with("<code>61 01</code>"));
        let long = shown(Some(&"ä".repeat(MAX_SHOWN_CHARACTERS + 1)), None);
        assert!(long.contains("ä…") && long.contains("482 B"), "{long}");
        assert_eq!(
            hexadecimal(&[7; MAX_SHOWN_BYTES + 1]).matches("07").count(),
            MAX_SHOWN_BYTES
        );
    }
}

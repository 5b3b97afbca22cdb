//! Queues and their messages.

use serde::{Deserialize, Serialize};

use crate::parameters::whole_number;

/// Options of `GET …/messages`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PeekOptions {
    /// Maximum number of messages to return.
    #[serde(with = "whole_number", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u32"))]
    pub max_messages: Option<i64>,
}

//! Checks that limits in the API description equal those of the engine. The crate `recto-api`
//! writes them as literals, because it does not depend on the engine.

#![allow(clippy::unwrap_used)]

use recto::queues::{
    MAX_ATTEMPTS, MAX_BATCH, MAX_BODY_BYTES, MAX_DELAY_SECONDS, MAX_GRACE_SECONDS, MAX_IN_FLIGHT,
    MAX_OPTION_TABLES, MAX_QUEUE_NAME_LENGTH, MAX_RETENTION_SECONDS, MAX_ROTATION_SECONDS, MAX_SHARDS,
    MAX_VISIBILITY_SECONDS, MAX_WAIT, MIN_RETENTION_SECONDS, MIN_ROTATION_SECONDS, MIN_TABLES,
};
use recto::{MAX_EARLIER_CURSOR_KEYS, MAX_TTL_SECONDS};
use recto_api::description;

use crate::api::{DEFAULT_PEEKED, MAX_BACKUP_NAME_CHARACTERS};

#[test]
fn described_limits_are_those_of_the_engine() {
    let tables = u64::from(MAX_OPTION_TABLES);
    let (min, max) = ("minimum", "maximum");
    let limits: [(&str, &str, &str, u64); 25] = [
        ("PutOptions", "ttl_seconds", max, MAX_TTL_SECONDS.into()),
        ("RotateRequest", "earlier", max, MAX_EARLIER_CURSOR_KEYS.into()),
        (
            "QueueSettings",
            "visibility_seconds",
            max,
            MAX_VISIBILITY_SECONDS.into(),
        ),
        ("QueueSettings", "delay_seconds", max, MAX_DELAY_SECONDS.into()),
        (
            "QueueSettings",
            "retention_seconds",
            min,
            MIN_RETENTION_SECONDS.into(),
        ),
        (
            "QueueSettings",
            "retention_seconds",
            max,
            MAX_RETENTION_SECONDS.into(),
        ),
        ("QueueSettings", "shards", max, MAX_SHARDS.into()),
        ("QueueSettings", "body_bytes", max, MAX_BODY_BYTES.into()),
        ("QueueSettings", "max_in_flight", max, MAX_IN_FLIGHT.into()),
        ("DeadLetterSettings", "attempts", max, MAX_ATTEMPTS.into()),
        (
            "DeadLetterSettings",
            "queue",
            "maxLength",
            MAX_QUEUE_NAME_LENGTH as u64,
        ),
        ("OutgoingMessages", "messages", "maxItems", MAX_BATCH as u64),
        ("OutgoingMessage", "delay_seconds", max, MAX_DELAY_SECONDS.into()),
        ("ReceiveRequest", "max_messages", max, MAX_BATCH as u64),
        ("ReceiveRequest", "wait_seconds", max, MAX_WAIT.as_secs()),
        ("NackRequest", "delay_seconds", max, MAX_DELAY_SECONDS.into()),
        (
            "ExtendRequest",
            "visibility_seconds",
            max,
            MAX_VISIBILITY_SECONDS.into(),
        ),
        ("PeekOptions", "max_messages", max, MAX_BATCH as u64),
        ("PeekOptions", "max_messages", "default", DEFAULT_PEEKED.into()),
        (
            "QueueTableSettings",
            "rotation_seconds",
            min,
            MIN_ROTATION_SECONDS.into(),
        ),
        (
            "QueueTableSettings",
            "rotation_seconds",
            max,
            MAX_ROTATION_SECONDS.into(),
        ),
        (
            "QueueTableSettings",
            "grace_seconds",
            max,
            MAX_GRACE_SECONDS.into(),
        ),
        ("QueueTableSettings", "tables", min, MIN_TABLES.into()),
        ("QueueTableSettings", "tables", max, tables),
        ("QueueTableSettings", "units", max, tables - u64::from(MIN_TABLES)),
    ];
    for (schema, field, limit, number) in limits {
        let described = description::parameters_named(schema)[field][limit].as_u64();
        assert_eq!(described, Some(number), "{schema}.{field}: {limit}");
    }
    let pattern = description::parameters_named("BackupRequest")["name"]["pattern"].as_str();
    let after_the_first = format!("{{0,{}}}$", MAX_BACKUP_NAME_CHARACTERS - 1);
    assert!(pattern.unwrap().ends_with(&after_the_first));
}

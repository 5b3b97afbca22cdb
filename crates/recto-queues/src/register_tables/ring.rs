//! Storage of the ring (list of body tables) in a partition of the registry's table.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use recto_protocol::queues::{
    Action, Event, Protocol, Register as _, Ring, RingContext, Round, StoreOptions, stored,
};
use recto_store::{Cas, RowAddress};

use crate::cas_loop::{RegisterBackend, RegisterWrite};
use crate::context::QueueContext;
use crate::error::Result;
use crate::register_tables::{condition, put_header, read_header};
use crate::tables::ring_partition;

/// Storage of the ring (list of the body tables of a keyspace), for its compare-and-set loop.
pub(crate) struct RingBackend {
    pub(crate) context: QueueContext,
    /// Minimum time in seconds for which no segment may refer to a table before the table is emptied.
    grace_seconds: AtomicU32,
}

impl RingBackend {
    pub(crate) fn new(context: &QueueContext) -> Self {
        Self {
            context: context.clone(),
            grace_seconds: AtomicU32::new(StoreOptions::default().grace_seconds),
        }
    }

    /// Applies the options of the store to commands that are executed from now on.
    pub(crate) fn set_options(&self, options: &StoreOptions) {
        self.grace_seconds.store(options.grace_seconds, Ordering::Relaxed);
    }
}

#[async_trait]
impl RegisterBackend for RingBackend {
    type Register = Ring;

    fn context(&self) -> &QueueContext {
        &self.context
    }

    fn step(&self, round: &mut Round<Ring>, event: Event<Ring>) -> Vec<Action<Ring>> {
        let options = StoreOptions {
            grace_seconds: self.grace_seconds.load(Ordering::Relaxed),
            ..StoreOptions::default()
        };
        let context = RingContext {
            now: self.context.environment.now_micros(),
            protocol: Protocol::of(&options),
        };
        let actions = round.step(event, &context);
        if let Some(ring) = round.copy() {
            self.context.ring.update(ring);
        }
        actions
    }

    async fn read(&self, _: Option<Ring>) -> Result<Ring> {
        self.context.read_ring().await
    }

    fn write_request(&self, before: &Ring, put: &Ring) -> RegisterWrite {
        RegisterWrite {
            cas: Cas {
                table: Arc::clone(&self.context.tables.registry),
                partition: ring_partition(),
                conditions: vec![condition(RowAddress::Static, before.version())],
                mutations: vec![put_header(put.version(), &stored::encode_ring(put))],
            },
            plain: Vec::new(),
        }
    }
}

impl QueueContext {
    /// Reads the ring of body tables with serial consistency. After this call, the process opens no
    /// segment by an older version of the ring.
    pub(crate) async fn read_ring(&self) -> Result<Ring> {
        let (table, partition) = (&self.tables.registry, ring_partition());
        let snapshot = self.store.snapshot()?;
        let read = read_header(self, &*snapshot, table, &partition).await?;
        let ring = match read {
            Some((version, content)) => stored::decode_ring(version, &content)?,
            None => Ring::absent(),
        };
        self.ring.update(&ring);
        Ok(ring)
    }
}

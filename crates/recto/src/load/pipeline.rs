//! Threads of a load: one reads and splits the file, and one converts and sorts rows.
//!
//! All channels that carry rows are bounded. A thread ends soon after the receiver of its channel
//! is dropped. Dropping a load drops all receivers, so both threads end.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use recto_store::Limits;
use tokio::sync::{mpsc, oneshot};

use super::buffer::Buffer;
use super::plan::LoadPlan;
use super::records::{BATCH_BYTES, Dialect, NOT_UTF8, Record, RecordBatch, Splitter};
use super::rows::Converter;
use super::source::{Format, Source};
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of batches of records that wait for the converting thread.
const WAITING_BATCHES: usize = 4;

/// Maximum size in bytes of the text that waits for conversion or is being converted. A single batch may
/// be larger.
const MAX_WAITING_BYTES: usize = WAITING_BATCHES * BATCH_BYTES;

/// Signal to threads that their results are no longer needed.
#[derive(Debug, Clone, Default)]
pub(super) struct Cancelled(Arc<AtomicBool>);

impl Cancelled {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Sets a [`Cancelled`] signal when it is dropped.
#[derive(Debug, Default)]
pub(super) struct CancelOnDrop(Cancelled);

impl CancelOnDrop {
    pub(super) fn cancelled(&self) -> Cancelled {
        self.0.clone()
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Progress of the threads of a load: numbers of rows and of bytes of the file that were read.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) rows_read: AtomicU64,
    pub(super) bytes_consumed: Arc<AtomicU64>,
}

/// Runs `work` on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(defect(format!("a task of the load ended: {error}"))),
    }
}

#[cold]
fn defect(message: String) -> Error {
    Error::new(ErrorKind::Store, message)
        .with_hint("report this defect of Recto; run the same load again to continue")
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|error| {
            Error::new(
                ErrorKind::Io,
                format!("a thread of the load cannot be started: {error}"),
            )
            .with_source(error)
        })
}

/// Beginning of a file: its format and, for CSV, its header row.
pub(super) struct Beginning {
    pub(super) format: Format,
    pub(super) header: Option<(Vec<u8>, Record)>,
}

/// Message of the reading thread to the converting thread: a batch of records, or the end of the
/// file.
enum Piece {
    Batch(RecordBatch, Waiting),
    End(Result<()>),
}

/// Counter of the bytes of text that wait for the converting thread. The reading thread waits while
/// the counter is at its limit.
#[derive(Default)]
struct WaitingRoom(Arc<(Mutex<usize>, Condvar)>);

/// Reservation of bytes in a [`WaitingRoom`]. Dropping the reservation releases the bytes.
struct Waiting {
    room: Arc<(Mutex<usize>, Condvar)>,
    bytes: usize,
}

impl WaitingRoom {
    /// Waits until the text of a batch with `bytes` bytes may wait for conversion, and reserves the
    /// bytes.
    fn take(&self, bytes: usize) -> Waiting {
        let (taken, changed) = &*self.0;
        let guard = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |taken: &mut usize| *taken > 0 && *taken + bytes > MAX_WAITING_BYTES;
        let mut guard = changed
            .wait_while(guard, full)
            .unwrap_or_else(PoisonError::into_inner);
        *guard += bytes;
        Waiting {
            room: Arc::clone(&self.0),
            bytes,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let (taken, changed) = &*self.room;
        *taken.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        changed.notify_one();
    }
}

/// Receiver of the batches of records from the reading thread.
pub(super) struct Reading {
    pieces: Receiver<Piece>,
}

/// Starts the thread that reads the file. Returns the beginning of the file, and a handle for the rest.
pub(super) async fn read(
    source: Arc<Source>,
    dialect: Dialect,
    counters: &Counters,
) -> Result<(Beginning, Reading)> {
    let (beginning, begun) = oneshot::channel();
    let (sender, pieces) = sync_channel(WAITING_BATCHES);
    let consumed = Arc::clone(&counters.bytes_consumed);
    spawn("recto-load-read", move || {
        let mut beginning = Some(beginning);
        let result = source.read_with(&consumed, |format, input| {
            let splitter = Splitter::new(format, dialect);
            read_records(&source, splitter, format, input, &mut beginning, &sender)
        });
        match (beginning.take(), result) {
            (Some(beginning), Err(error)) => drop(beginning.send(Err(error))),
            (_, result) => drop(sender.send(Piece::End(result))),
        }
    })?;
    let beginning = begun
        .await
        .map_err(|_| defect("the reading thread of the load ended".to_owned()))??;
    Ok((beginning, Reading { pieces }))
}

fn read_records(
    source: &Source,
    mut splitter: Splitter,
    format: Format,
    input: &mut dyn Read,
    beginning: &mut Option<oneshot::Sender<Result<Beginning>>>,
    pieces: &SyncSender<Piece>,
) -> Result<()> {
    let failed = |error: std::io::Error| {
        if error.kind() == std::io::ErrorKind::Unsupported {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("{}: {NOT_UTF8}", source.path().display()),
            )
            .with_hint("convert it, for example with iconv -f utf-16 -t utf-8")
        } else {
            source.read_error(error)
        }
    };
    let mut batch = splitter.next_batch(input).map_err(failed)?;
    let header = match (format, &mut batch) {
        (Format::Ndjson, _) => None,
        (Format::Csv, None) => {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "{} is empty; a CSV file must begin with a header row",
                    source.path().display()
                ),
            )
            .with_hint("add a header row with the names of the columns"));
        }
        (Format::Csv, Some(batch)) => {
            let record = batch.records.remove(0);
            Some((batch.text[record.text.clone()].to_vec(), record))
        }
    };
    let sent = beginning
        .take()
        .is_some_and(|beginning| beginning.send(Ok(Beginning { format, header })).is_ok());
    if !sent {
        return Ok(());
    }
    let room = WaitingRoom::default();
    while let Some(whole) = batch {
        let waiting = room.take(whole.text.len());
        if pieces.send(Piece::Batch(whole, waiting)).is_err() {
            return Ok(());
        }
        batch = splitter.next_batch(input).map_err(failed)?;
    }
    Ok(())
}

/// Buffer of sorted rows that the converting thread passes to the load. The last delivery also has
/// the result of reading the file.
pub(super) struct Delivery {
    pub(super) buffer: Arc<Buffer>,
    /// Approximate number of bytes of the file that were read up to the last row.
    pub(super) bytes_end: u64,
    /// Result of the reading of the file. Set only in the last delivery.
    pub(super) end: Option<Result<()>>,
}

/// Parameters of the thread that converts records to rows.
pub(super) struct Conversion {
    pub(super) plan: Arc<LoadPlan>,
    pub(super) limits: Limits,
    pub(super) counters: Arc<Counters>,
    /// Number of rows at the beginning of the file that an earlier run of the load has processed.
    /// They are skipped.
    pub(super) rows_done: u64,
    /// Size in bytes at which a buffer is full and waits for the writer.
    pub(super) full_bytes: usize,
    /// Size in bytes at which a buffer that is not full is delivered, if the writer waits for rows.
    pub(super) worth_bytes: usize,
}

/// Receiver of buffers of sorted rows from the converting thread.
pub(super) struct Deliveries {
    demands: Sender<()>,
    deliveries: mpsc::Receiver<Delivery>,
}

impl Deliveries {
    /// Returns the next buffer of sorted rows. At most two buffers exist at any time: the buffer
    /// that was returned last, and the buffer that is being filled.
    pub(super) async fn next(&mut self) -> Result<Delivery> {
        // Ignore the error of a thread that has ended, because then `recv` fails.
        let _ = self.demands.send(());
        let delivery = self.deliveries.recv().await;
        delivery.ok_or_else(|| defect("the converting thread of the load ended".to_owned()))
    }
}

/// Starts the thread that converts the records and sorts the rows.
pub(super) fn convert(reading: Reading, conversion: Conversion) -> Result<Deliveries> {
    let (demands, demanded) = channel();
    let (sender, deliveries) = mpsc::channel(1);
    let thread = ConvertingThread {
        buffer: Buffer::new(&conversion.plan),
        converter: Converter::new(Arc::clone(&conversion.plan), conversion.limits),
        conversion,
        demanded,
        is_demanded: false,
        sender,
        row: 0,
    };
    spawn("recto-load-convert", move || {
        // Ignore the result: the thread ends early only if the load was dropped and needs no more rows.
        let _ = thread.run(&reading);
    })?;
    Ok(Deliveries { demands, deliveries })
}

struct ConvertingThread {
    conversion: Conversion,
    converter: Converter,
    buffer: Buffer,
    demanded: Receiver<()>,
    is_demanded: bool,
    sender: mpsc::Sender<Delivery>,
    /// Index of the next row in the file, from 0, without the header.
    row: u64,
}

/// Error of a thread whose results are no longer received.
struct Abandoned;

impl ConvertingThread {
    fn run(mut self, reading: &Reading) -> Result<(), Abandoned> {
        loop {
            // A reading thread that ended without a message has panicked. Report a defect, so that
            // the load does not end as if the file had ended.
            let piece = reading.pieces.recv().unwrap_or_else(|_| {
                Piece::End(Err(defect("the reading thread of the load ended".to_owned())))
            });
            match piece {
                Piece::Batch(batch, _waiting) => self.convert(&batch)?,
                Piece::End(result) => return self.deliver(Some(result)),
            }
        }
    }

    fn convert(&mut self, batch: &RecordBatch) -> Result<(), Abandoned> {
        for record in &batch.records {
            if self.row >= self.conversion.rows_done {
                self.converter
                    .convert(&batch.text, record, self.row, &mut self.buffer);
                if self.buffer.byte_len() >= self.conversion.full_bytes {
                    self.row += 1;
                    self.deliver(None)?;
                    continue;
                }
            }
            self.row += 1;
        }
        self.conversion
            .counters
            .rows_read
            .store(self.row, Ordering::Relaxed);
        match self.demanded.try_recv() {
            Ok(()) => self.is_demanded = true,
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Err(Abandoned),
        }
        if self.is_demanded && self.buffer.byte_len() >= self.conversion.worth_bytes {
            self.deliver(None)?;
        }
        Ok(())
    }

    /// Delivers the buffer when the writer requests it, and begins another buffer.
    fn deliver(&mut self, end: Option<Result<()>>) -> Result<(), Abandoned> {
        self.conversion
            .counters
            .rows_read
            .store(self.row, Ordering::Relaxed);
        self.buffer.rows_end = self.row;
        self.buffer.sort();
        self.buffer.keep_one_of_each_key(&self.conversion.plan);
        let buffer = std::mem::replace(&mut self.buffer, Buffer::new(&self.conversion.plan));
        if !self.is_demanded {
            self.demanded.recv().map_err(|_| Abandoned)?;
        }
        self.is_demanded = false;
        let bytes_end = self.conversion.counters.bytes_consumed.load(Ordering::Relaxed);
        self.sender
            .blocking_send(Delivery {
                buffer: Arc::new(buffer),
                bytes_end,
                end,
            })
            .map_err(|_| Abandoned)
    }
}

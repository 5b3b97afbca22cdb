//! Tests of reads and changes of stored range maps.

use recto_model::table::Direction;
use recto_protocol::buckets::{Bucket, Decision, Directory, Figures, Piece, Roles, Sampling};
use recto_store::{Cas, CasOutcome, WriteOptions};

use super::*;
use crate::PiecesErrorKind;
use crate::directory::Seek;

const SAMPLING: Sampling = Sampling {
    unit: 1_000,
    mean: 70,
};

fn piece(start: &[u8], bucket: u64) -> Piece {
    Piece {
        start: start.to_vec(),
        roles: Roles::of(Bucket(bucket)),
        sampling: SAMPLING,
        next_sampling: None,
        figures: None,
    }
}

/// Returns a range map with `pieces` key ranges. Its edges are numbers of two bytes.
fn directory(stream: &Stream, pieces: u16) -> Directory {
    let mut directory = Directory::absent(SAMPLING, stream.pieces.protocol);
    directory.version = 1;
    directory.next_bucket = Bucket(pieces.into());
    let edge = |number: u16| piece(&number.to_be_bytes(), number.into());
    directory.pieces = std::iter::once(piece(b"", 0))
        .chain((1..pieces).map(edge))
        .collect();
    directory
}

impl Stream {
    async fn decide(&self, before: &Directory, put: &Directory) -> Decision {
        let decided = self
            .pieces
            .change_directory(&self.partition.place, before, (put, &[]), TIME)
            .await;
        decided.expect("it is sent")
    }

    async fn window(&self, seek: Seek) -> Directory {
        let deadline = self.pieces.deadline(TIME);
        let read = self
            .pieces
            .read_directory(&self.partition.place, &seek, false, deadline)
            .await;
        read.expect("it is read")
    }
}

#[tokio::test(start_paused = true)]
async fn a_directory_is_read_as_it_was_put() {
    let stream = Stream::new(Direction::Ascending).await;
    let absent = stream.window(Seek::At(b"k".to_vec())).await;
    assert_eq!((absent.version, absent.pieces.len()), (0, 1));
    let mut put = directory(&stream, 3);
    let further = Roles {
        writes: [Bucket(1)].into(),
        deletes: [Bucket(2)].into(),
        ..Roles::of(Bucket(0))
    };
    put.pieces[1] = Piece {
        roles: further,
        next_sampling: Some(Sampling { mean: 80, ..SAMPLING }),
        figures: Some(Figures {
            rows: 1,
            rows_variance: 2,
            bytes: 3,
            bytes_variance: 4,
        }),
        ..piece(b"m", 0)
    };
    put.pieces.remove(2);
    assert_eq!(stream.decide(&absent, &put).await, Decision::Applied);
    assert_eq!(stream.window(Seek::At(b"k".to_vec())).await, put);
    assert_eq!(
        stream.decide(&absent, &put).await,
        Decision::Refused,
        "it is of another version"
    );
    let mut next = put.clone();
    next.version = 2;
    next.pieces[1].roles = Roles::of(Bucket(2));
    next.pieces[1].next_sampling = None;
    next.pieces[1].figures = None;
    assert_eq!(stream.decide(&put, &next).await, Decision::Applied);
    assert_eq!(stream.partition.directory(TIME).await.expect("it is read"), next);
}

#[tokio::test(start_paused = true)]
async fn a_large_directory_is_read_by_windows() {
    let stream = Stream::new(Direction::Ascending).await;
    let absent = stream.window(Seek::Before(None)).await;
    let put = directory(&stream, 1_000);
    stream.decide(&absent, &put).await;
    let key = |number: u16| number.to_be_bytes().to_vec();
    for number in [0, 1, 255, 256, 257, 500, 999, 2_000] {
        let window = stream.window(Seek::At(key(number))).await;
        let bucket = u64::from(number).min(999);
        let piece = window.piece_of(&key(number)).expect("it is there");
        assert_eq!(piece.roles.read, Bucket(bucket));
        assert!(window.pieces.len() <= 256 && !window.is_whole());
        assert_eq!(
            window.end.is_none(),
            window.pieces.last().map(|piece| piece.roles.read) == Some(Bucket(999))
        );
    }
    let last = stream.window(Seek::Before(None)).await;
    assert_eq!(last.pieces.len(), 128, "as many as are read backward");
    assert_eq!(last.end, None);
    let window = stream.window(Seek::Before(Some(key(500)))).await;
    let span = window.spans().find(|(span, _)| span.end == Some(key(500)));
    assert_eq!(span.map(|(_, piece)| piece.roles.read), Some(Bucket(499)));
}

#[tokio::test(start_paused = true)]
async fn reports_an_invalid_range_map() {
    let stream = Stream::new(Direction::Ascending).await;
    let absent = stream.window(Seek::Before(None)).await;
    let mut put = directory(&stream, 2);
    put.pieces[0].roles.read = Bucket(7);
    stream.decide(&absent, &put).await;
    let error = stream
        .partition
        .directory(TIME)
        .await
        .expect_err("it has a bucket that was never made");
    assert_eq!(error.kind(), PiecesErrorKind::Corrupt);
    assert!(
        error.to_string().contains("partition 0x730000 of table events: ") && error.to_string().contains('7'),
        "{error}"
    );
    assert!(error.hint().is_some_and(|hint| hint.contains("recto repair")));
    let written = stream.put(1, "a", "x").await.expect_err("it is not gone by");
    assert_eq!(
        written.kind(),
        PiecesErrorKind::OutcomeUnknown,
        "the guess was written"
    );
}

/// Store in which another process changes range maps between two reads.
struct Changing {
    inner: Arc<dyn Store>,
    outcome: std::sync::Mutex<Option<CasOutcome>>,
}

#[async_trait::async_trait]
impl recto_store::wrapper::StoreWrapper for Changing {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn on_cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, recto_store::StoreError> {
        let outcome = self.inner.cas(cas, options).await;
        let planned = self.outcome.lock().expect("nobody panics").take();
        planned.map_or(outcome, Ok)
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_said() {
    let environment = environment();
    let unanswered = recto_store::StoreError::new(recto_store::StoreErrorKind::Timeout, "no answer");
    let store = Changing {
        inner: Arc::new(memory(&environment)),
        outcome: std::sync::Mutex::new(Some(CasOutcome::Unknown(unanswered))),
    };
    let stream = Stream::on(Arc::new(store), environment, Direction::Ascending).await;
    let absent = stream.window(Seek::Before(None)).await;
    let put = directory(&stream, 2);
    assert_eq!(stream.decide(&absent, &put).await, Decision::Unknown);
    assert_eq!(stream.partition.directory(TIME).await.expect("it is read"), put);
}

//! Tests of random histories against a map.

use std::collections::BTreeMap;

use super::*;

/// Expected state of a row: its note, its text and its timestamp.
type Should = (Option<Vec<u8>>, Option<Vec<u8>>, i64);

struct Drawn(u64);

impl Drawn {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

async fn history(store: Arc<dyn Store>, order: Order, size: BucketSize, seed: u64, writes: usize) {
    let stream = Stream::new(store, order, size).await;
    let _work = stream.works();
    let (mut drawn, mut map) = (Drawn(seed), BTreeMap::<Vec<u8>, Should>::new());
    for write in 0..writes {
        let at = i64::try_from(drawn.next(300)).expect("it is small");
        let key = stream
            .place
            .key(&stream.clustering(at, "a"))
            .expect("it is a key");
        let text = vec![b'a' + (drawn.next(26) as u8); drawn.next(600) as usize];
        match drawn.next(10) {
            0 | 1 => {
                let clustering = stream.clustering(at, "a");
                stream.write(Operation::DeleteRow { clustering }, None).await;
                map.remove(&key);
            }
            2 | 3 => {
                let clustering = stream.clustering(at, "a");
                let row = counted(&clustering, [Some(text.as_slice())].into_iter()).1;
                // The note is sometimes null.
                let note = (drawn.next(3) > 0).then_some(text.as_slice());
                let patch = Operation::Patch {
                    clustering,
                    columns: vec![0, 1],
                    cells: [note, Some(row.as_slice())].into_iter().collect(),
                };
                let stamp = stream.write(patch, None).await.0;
                let before = map.get(&key).and_then(|(_, text, _)| text.clone());
                map.insert(key, (note.map(<[u8]>::to_vec), before, stamp));
            }
            _ => {
                let text = (drawn.next(5) > 0).then_some(text);
                let stamp = stream
                    .write(stream.put_of(at, "a", text.as_deref()), None)
                    .await
                    .0;
                map.insert(key, (None, text, stamp));
            }
        }
        if write % 40 == 0 {
            let moment = stream.engine.snapshot().expect("it is open");
            let is = said(&stream, stream.rows_at(&moment, ReadDirection::Forward).await);
            let should: Vec<_> = map.clone().into_iter().collect();
            assert!(is == should, "seed {seed}, after {write} writes");
            let mut back = said(&stream, stream.rows_at(&moment, ReadDirection::Backward).await);
            back.reverse();
            assert!(back == should, "seed {seed}, after {write} writes, backward");
        }
    }
    stream.engine.mend(&stream.place).await.expect("it is mended");
    let buckets = stream.buckets().await;
    assert!(
        buckets.iter().all(|(_, count)| !stream.is_over(count)),
        "seed {seed}: {buckets:?}"
    );
    assert!(buckets.len() > 3, "seed {seed}: {buckets:?}");
    let should: Vec<_> = map.into_iter().collect();
    assert!(said(&stream, stream.all().await) == should, "seed {seed}");
}

fn said(stream: &Stream, rows: Vec<(Cells, i64, Option<u32>)>) -> Vec<(Vec<u8>, Should)> {
    let said = |(row, stamp, _): (Cells, i64, Option<u32>)| {
        let clustering = row.iter().take(2).collect();
        let cell = |column: usize| row.get(column).map(<[u8]>::to_vec);
        (
            stream.place.key(&clustering).expect("it is a key"),
            (cell(2), cell(4), stamp),
        )
    };
    rows.into_iter().map(said).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories_are_as_a_map_says() {
    for seed in 0..12 {
        let direction = [Direction::Ascending, Direction::Descending][seed as usize % 2];
        let size = [BucketSize::Bytes(8_000), BucketSize::Rows(20)][seed as usize / 2 % 2];
        let ty = [Type::BigInt, Type::Text, Type::Uuid][seed as usize % 3].clone();
        history(in_memory(), Order { ty, direction }, size, seed, 800).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories_on_disk_are_as_a_map_says() {
    for seed in 100..104 {
        let direction = [Direction::Ascending, Direction::Descending][seed as usize % 2];
        let directory = tempfile::tempdir().expect("there is room");
        let size = [BucketSize::Bytes(8_000), BucketSize::Rows(20)][seed as usize / 2 % 2];
        history(on_disk(&directory), Order::of_numbers(direction), size, seed, 800).await;
    }
}

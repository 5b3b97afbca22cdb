//! Tests of listings of buckets, and of repairs on demand, on each kind of store.

use crate::Partitions;
use crate::PartitionsPosition;
use crate::list::Seek;

use super::*;

impl Shown {
    async fn listed(&self, position: PartitionsPosition, most: usize) -> Partitions {
        let listed = self.store.list_partitions(&self.table, position, most).await;
        listed.expect("they are listed")
    }
}

fn key(shown: &Shown, at: i64) -> Vec<u8> {
    let cells = cells(&[Some(&at.to_be_bytes())]);
    shown.store.key_of(&shown.table, &cells).expect("it is a key")
}

pub(super) async fn partitions_and_their_buckets_are_listed(shown: Shown) {
    for first in (0..ROWS).step_by(20) {
        shown.put("s", first..first + 20).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let names: Vec<String> = (0..9).map(|number| format!("other{number}")).collect();
    for name in &names {
        shown.put(name, 0..3).await;
    }
    shown.settle().await;
    for most in [1, 4, 256] {
        let (mut seen, mut next) = (Vec::new(), Some(PartitionsPosition::default()));
        while let Some(position) = next {
            let listed = shown.listed(position, most).await;
            assert!(listed.partitions.len() <= most);
            seen.extend(listed.partitions);
            next = listed.next;
        }
        let mut found: Vec<_> = seen
            .iter()
            .map(|(key, _)| String::from_utf8_lossy(key.get(0).expect("it is whole")).into_owned())
            .collect();
        found.sort();
        let mut expected = names.clone();
        expected.push("s".to_owned());
        assert_eq!(found, expected, "{most} at a time");
        let buckets: u64 = seen.iter().map(|(_, summary)| summary.buckets).sum();
        assert!(buckets > 15, "{buckets}");
    }
    let s = cells(&[Some(b"s")]);
    let all = shown
        .store
        .list_buckets(&shown.table, &s, Seek::At(Vec::new()), 256)
        .await;
    let all = all.expect("they are listed").pieces;
    let middle = key(&shown, ROWS / 2);
    for most in [1, 2, 5, 256] {
        let around = shown
            .store
            .list_buckets_around(&shown.table, &s, middle.clone(), most)
            .await;
        let around = around.expect("they are listed");
        assert!(around.pieces.len() == most.min(all.len()), "{most}");
        let at = around.position(&middle).expect("it is among them");
        let piece = &around.pieces[at];
        let is_in_all = all
            .iter()
            .position(|one| one.edge == piece.edge)
            .expect("it is one");
        assert_eq!(all[is_in_all].bucket, piece.bucket);
        assert!(most == 256 || at == most / 2, "in the middle: {at} of {most}");
        assert_eq!(around.position(&[]), around.before.is_none().then_some(0));
    }
}

pub(super) async fn manual_repair_leaves_no_oversized_bucket(shown: Shown) {
    shown.put("s", (0..400).map(|at| at * 7_919 % 400)).await;
    shown.put("other", 0..3).await;
    let (told, of_all) = (std::sync::Mutex::new(Vec::new()), shown.table.clone());
    let mended = |mended| told.lock().expect("nobody panics").push(mended);
    shown
        .store
        .mend_all(&of_all, false, &mended)
        .await
        .expect("it is mended");
    let told = told.into_inner().expect("nobody panics");
    assert_eq!(told.len(), 2, "two partitions");
    let s = cells(&[Some(b"s")]);
    let again = shown
        .store
        .mend(&shown.table, &s, false)
        .await
        .expect("it is mended");
    assert_eq!(
        (again.made, again.went_on, again.too_large),
        (0, 0, 0),
        "{again:?}"
    );
    assert!(again.buckets > 1, "{again:?}");
    let metrics = shown.store.bucket_metrics();
    assert_eq!((metrics.made, metrics.too_large), (again.buckets as u64 - 1, 0));
    assert!(metrics.moved_bytes > 20_000, "{metrics:?}");
    assert!(metrics.directory_reads > 0, "{metrics:?}");
}

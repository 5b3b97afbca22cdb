//! Checks that a closed store keeps all acknowledged writes, and that every remaining handle
//! reports that the store is closed.

use futures::StreamExt;
use recto::{ErrorKind, Recto};
use serde_json::json;

use super::schemas::fresh;
use crate::common::Subject;
use crate::common::stores::parse;

pub(crate) async fn gives_the_store_up_for_every_handle(shared: Recto) {
    let store = fresh(&shared);
    let recto = store.open().await;
    recto.apply(&parse(super::SCHEMA)).await.unwrap();
    let subject = Subject::new(&recto, "notes");
    for id in 0..3 {
        let record = subject.record(&subject.row(&json!({ "id": id, "text": "kept" })));
        subject.collection.put(&record).await.unwrap();
    }
    let mut rows = Box::pin(subject.collection.query().filter("id = 1").stream());
    rows.next().await.unwrap().unwrap();

    recto.close().await.unwrap();
    recto.close().await.unwrap();
    let record = subject.record(&subject.row(&json!({ "id": 9 })));
    for error in [
        subject.collection.get(1).await.unwrap_err(),
        subject.collection.put(&record).await.unwrap_err(),
        subject.collection.query().filter("id = 1").await.unwrap_err(),
        recto.refresh().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(error.message().contains("closed"), "{error}");
    }

    // Handles of the closed store still exist. Opening the store again must succeed anyway.
    let again: Recto = store.open().await;
    let again = Subject::new(&again, "notes");
    for id in 0..3 {
        assert!(again.collection.get(id).await.unwrap().is_some());
    }
    assert!(again.collection.get(9).await.unwrap().is_none());
}

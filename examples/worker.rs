//! Runs jobs with real work: a worker reads the pages of the guide. The job of a missing page
//! becomes a dead letter.
//!
//! `cargo run --example worker`

#![allow(clippy::print_stdout)]

use std::path::Path;
use std::time::Duration;

use recto::queues::{DeadLetters, ERROR_ATTRIBUTE, QueueName, QueueOptions, Receive};
use recto::{OpenOptions, Recto};
use serde::{Deserialize, Serialize};

/// Job: count the words of a page.
#[derive(Serialize, Deserialize)]
struct Count {
    page: String,
}

#[tokio::main]
async fn main() -> recto::Result<()> {
    let folder = tempfile::tempdir().expect("a folder for the example");
    let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
    let queues = store.queues().await?;
    let failed = queues.create("failed", QueueOptions::default()).await?;
    let options = QueueOptions {
        dead_letters: Some(DeadLetters {
            queue: QueueName::new("queue", "failed").expect("the name of a queue"),
            attempts: 2,
        }),
        ..QueueOptions::default()
    };
    let counts = queues.create("counts", options).await?.of::<Count>();

    for page in ["README.md", "pages.md", "views.md", "nowhere.md"] {
        counts.send(&Count { page: page.into() }).await?;
    }

    let worker = counts
        .worker(|job, message| async move {
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../../docs/book")
                .join(&job.page);
            let text = tokio::task::spawn_blocking(|| std::fs::read_to_string(path)).await??;
            let words = text.split_whitespace().count();
            println!("{} has {words} words (attempt {})", job.page, message.attempts);
            Ok(())
        })
        .concurrency(2)
        .backoff(Duration::from_millis(50), Duration::from_secs(60));
    // A service passes a future that ends at its stop signal:
    // `async { tokio::signal::ctrl_c().await.ok(); }`.
    let worked = worker
        .run_until(async {
            while failed.stats().await.is_ok_and(|stats| stats.messages == 0) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await?;
    println!("{} done, {} failures", worked.done, worked.failed);

    for letter in failed.receive(Receive::up_to(10)).await? {
        let job = String::from_utf8_lossy(&letter.body);
        println!("dead: {job}: {}", letter.attributes[ERROR_ATTRIBUTE]);
    }
    Ok(())
}

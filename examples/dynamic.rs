//! Uses a collection that is known only at run time: its schema is TOML, and its records are JSON.
//!
//! `cargo run --example dynamic`

#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use std::sync::Arc;

use recto::schema::Schema;
use recto::{DynamicRecord, OpenOptions, Recto, StoreAddress};

const SCHEMA: &str = r#"
[collection.timeline]
fields = { user_id = "uuid", post_id = "timeuuid", content = "text", tags = "set<text>" }
key = ["user_id", "post_id"]
partition = ["user_id"]
order = ["-post_id"]
writes = "append"
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> recto::Result<()> {
    let folder = tempfile::tempdir().expect("a folder for the example");
    let address: StoreAddress = folder.path().join("store").display().to_string().parse()?;
    let schema = Schema::parse(SCHEMA).expect("the schema is valid");
    let store = Recto::open_with(&address, OpenOptions::new().create()).await?;
    store.apply(&schema).await?;

    let timeline = store.dynamic("timeline")?;
    let definition = timeline.definition();
    let user = "346e896a-c6b4-4d4e-826d-a5a9eda50636";
    for (second, content) in ["Ciao", "Bye", "Hola", "Hi"].into_iter().enumerate() {
        let post = serde_json::json!({
            "user_id": user,
            "post_id": format!("{:08x}-0000-1000-8000-00805f9b34fb", second * 10_000_000),
            "content": content,
            "tags": ["greeting"],
        });
        let record = DynamicRecord::from_json(Arc::clone(&definition), post.as_object().expect("an object"))?;
        timeline.put(&record).await?;
    }

    let newest = timeline
        .query()
        .filter(format!("user_id = \"{user}\""))
        .first(2)
        .await?;
    for record in &newest {
        println!("{}", serde_json::Value::Object(record.to_json()));
    }
    Ok(())
}

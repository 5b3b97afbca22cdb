//! Keeps a row's cursor and returns to its position later, even after the row was deleted.
//!
//! `cargo run --example around_a_row`

#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use recto::{OpenOptions, Record, Recto, StoreAddress};

#[derive(Debug, Record)]
#[record(collection = "names", key = ["list", "name"], partition = ["list"], order = ["name"], writes = "overwrite")]
struct Name {
    list: String,
    name: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> recto::Result<()> {
    let folder = tempfile::tempdir().expect("a folder for the example");
    let address: StoreAddress = folder.path().join("store").display().to_string().parse()?;
    let store = Recto::open_with(&address, OpenOptions::new().create()).await?;
    store.apply(&recto::schema_of([Name::collection()])).await?;
    let names = store.collection::<Name>()?;
    for name in [
        "Ada", "Barbara", "Edith", "Frances", "Grace", "Hedy", "Joan", "Kathleen",
    ] {
        names
            .put(&Name {
                list: "people".into(),
                name: name.into(),
            })
            .await?;
    }

    let people = names.query().filter(r#"list = "people""#);
    let page = people.clone().await?;
    let bookmark = page.cursor(4);
    println!("the bookmark is at {}", page.items()[4].name);

    names.delete(("people", "Grace")).await?;
    let around = people.clone().around(bookmark).page_size(4).await?;
    println!(
        "around it, later: {:?}",
        around.items().iter().map(|n| &n.name).collect::<Vec<_>>()
    );

    let from = people.from(["F"]).page_size(3).await?;
    println!(
        "from F on: {:?}",
        from.items().iter().map(|n| &n.name).collect::<Vec<_>>()
    );
    Ok(())
}

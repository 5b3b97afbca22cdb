//! Checks the console on Cassandra: reads, their costs, and changes.

use axum::http::StatusCode;
use recto::Session as _;
use recto::session::{QueueSettings, Records as _};
use recto_server::access::Access;
use serde_json::json;

use crate::changes::seen;
use crate::fixture::{Client, FLIGHTS, Fixture};

const UNITED: &str = "/collections/flights?filter=carrier%20%3D%20%22UA%22";
const BASEL: &str = "key=CH&key=Basel";

#[tokio::test(flavor = "multi_thread")]
async fn read_and_changed() {
    let fixture = Fixture::on_cassandra().await;
    let client = fixture.client(Access::all());
    let home = client.get("/").await;
    assert!(home.html.contains("in <b>cassandra "), "{}", home.html);
    is_browsed(&client).await;
    says_what_was_asked(&client).await;
    is_changed(&fixture, &client).await;
    says_who_changes_records(&client).await;
    has_queues(&client).await;
    draws_the_tables(&fixture, &client).await;
}

async fn has_queues(client: &Client) {
    let board = client.get("/queues").await;
    assert_eq!(board.status, StatusCode::OK);
    assert!(board.html.contains("<h2>No queues</h2>"), "{}", board.html);
    assert_eq!(client.get("/queues/mails").await.status, StatusCode::NOT_FOUND);
}

async fn is_browsed(client: &Client) {
    let asked = client.get("/collections/flights").await;
    assert_eq!(client.follow(&asked, "UA").await.rows().len(), 50);
    let first = client.get(&format!("{UNITED}&page_size=400")).await;
    assert!(first.html.contains(r#"id="turn-p" aria-disabled="true""#));
    let second = client.follow(&first, "data-key=\"n\"").await;
    let third = client.follow(&second, "data-key=\"n\"").await;
    assert!(third.html.contains(r#"id="turn-n" aria-disabled="true""#));
    let all: Vec<_> = [&first, &second, &third]
        .iter()
        .flat_map(|page| page.rows())
        .collect();
    assert_eq!(all.len(), FLIGHTS);
    assert!(all.windows(2).all(|pair| pair[0][0] >= pair[1][0]));
    let back = client.follow(&third, "data-key=\"p\"").await;
    assert_eq!(back.rows(), second.rows());
    assert_eq!(client.follow(&back, "data-key=\"p\"").await.rows(), first.rows());
    let last = client.follow(&first, "data-key=\"l\"").await;
    assert_eq!(last.rows().last(), all.last());
    assert_eq!(client.follow(&last, "data-key=\"f\"").await.rows(), first.rows());

    let narrowed = client
        .get(&format!(
            "{UNITED}&is.carrier=&is.time_hour=2013-01-02&op.time_hour=%3C"
        ))
        .await;
    assert_eq!(narrowed.status, StatusCode::SEE_OTHER);
    let narrowed = client.get(&narrowed.location.unwrap()).await;
    assert_eq!(narrowed.rows().len(), 24);
    let jumped = client
        .get(&format!("{UNITED}&jump_field=time_hour&jump=2013-01-05%2012:00"))
        .await;
    let jumped = client.get(&jumped.location.unwrap()).await;
    assert_eq!(jumped.rows()[0][0], "2013-01-05 12:00:00");
    let unserved = client.follow(&first, "No view sorts by dep_delay").await;
    assert_eq!(unserved.status, StatusCode::BAD_REQUEST);
    assert!(unserved.html.contains(".view.by_"), "{}", unserved.html);
    let exported = client.follow(&first, "download=").await;
    assert_eq!(exported.html.lines().count(), FLIGHTS);
}

/// Checks that the page of the tables of message bodies marks the open table.
async fn draws_the_tables(fixture: &Fixture, client: &Client) {
    let queues = fixture.session.queues().unwrap();
    queues
        .create_queue("jobs", &QueueSettings::default())
        .await
        .unwrap();
    queues.begin_unit("jobs", "night").await.unwrap();
    let page = client.get("/queue-tables").await;
    let rows = page.rows();
    let of = |phase: &str| rows.iter().filter(|row| row[1] == phase).collect::<Vec<_>>();
    assert_eq!((of("open").len(), of("unit").len()), (1, 1), "{rows:?}");
    assert_eq!(
        (&of("unit")[0][5][..], &of("unit")[0][6][..]),
        ("0 B", "jobs/night")
    );
    for said in ["<svg class=\"ring\"", "open for "] {
        assert!(page.html.contains(said), "{said}: {}", page.main());
    }
    assert!(!page.html.contains("stands still"), "{}", page.main());
}

/// Checks that the plan of a page shows the CQL statements and their number.
async fn says_what_was_asked(client: &Client) {
    let page = client.get(&format!("{UNITED}&page_size=20")).await;
    let plan = page.html.split("id=\"plan\"").nth(1).unwrap();
    for said in [
        "SELECT ",
        "FROM ",
        "WHERE \"carrier\" = 'UA'",
        "LIMIT ",
        "1 round trip",
        "1 request",
    ] {
        assert!(
            plan.contains(said) || plan.contains(&said.replace('"', "&quot;")),
            "{said}: {plan}"
        );
    }
    let both =
        "/collections/flights?filter=carrier%20%3D%20%22AA%22%20OR%20carrier%20%3D%20%22UA%22&page_size=20";
    let page = client.get(both).await;
    assert_eq!(page.rows().len(), 20);
    let plan = page.html.split("id=\"plan\"").nth(1).unwrap();
    assert!(
        plan.contains("2 sources") && plan.contains("2 requests"),
        "{plan}"
    );
    // The two sources are read concurrently, so the two requests take one round trip.
    assert!(plan.contains("1 round trip"), "{plan}");
}

/// Checks that the health page shows the server's process as a registered writer, and that the plan
/// of a page says that each row is compared with its base row.
async fn says_who_changes_records(client: &Client) {
    let health = client.get("/health").await.html;
    for said in ["registered, with a valid lease", "Unfinished intents", "by_city"] {
        assert!(health.contains(said), "{said}: {health}");
    }
    let page = client
        .get("/collections/people?filter=city%20%3D%20%22Bern%22&order_by=name")
        .await;
    assert_eq!(page.rows().len(), 3, "{}", page.html);
    let plan = page.html.split("id=\"plan\"").nth(1).unwrap();
    for said in ["which is read afterwards, confirms it", "view by_age"] {
        assert!(plan.contains(said), "{said}: {plan}");
    }
    assert!(
        client
            .get("/collections/people/views")
            .await
            .html
            .contains(">ready</span>")
    );
}

async fn is_changed(fixture: &Fixture, client: &Client) {
    let key = ["CH".to_owned(), "Basel".to_owned()];
    let places = "/collections/places?filter=country%20%3D%20%22CH%22";
    let added = client
        .post(
            "/collections/places/new",
            "value.country=CH&value.name=Basel&value.population=173863&value.founded=0374-01-01&value.remark=on+the+Rhine",
        )
        .await;
    assert_eq!(added.status, StatusCode::SEE_OTHER, "{}", added.html);
    let shown = client.get(&added.location.unwrap()).await;
    assert!(
        shown.html.contains("on the Rhine") && shown.html.contains("The record was written."),
        "{}",
        shown.html
    );
    assert_eq!(client.get(places).await.rows().len(), 4);

    let edit = format!("/collections/places/edit?{BASEL}");
    let form = client.get(&edit).await;
    let values = "value.population=2&value.founded=0374-01-01&value.remark=on+the+Rhine";
    let saved = client
        .post(&edit, &format!("seen={}&{values}", seen(&form)))
        .await;
    assert_eq!(saved.status, StatusCode::SEE_OTHER, "{}", saved.html);
    let stored = fixture.session.get("places", &key).await.unwrap().unwrap().record;
    assert_eq!(stored["population"], json!("2"));
    // The form was filled before the change, so the server must report a conflict.
    let late = client
        .post(&edit, &format!("seen={}&value.population=3", seen(&form)))
        .await;
    assert_eq!(late.status, StatusCode::CONFLICT);
    assert_eq!(
        fixture.session.get("places", &key).await.unwrap().unwrap().record,
        stored
    );

    let asked = client.get(&format!("/collections/places/delete?{BASEL}")).await;
    assert_eq!(asked.status, StatusCode::OK);
    assert!(
        fixture.session.get("places", &key).await.unwrap().is_some(),
        "asking deletes nothing"
    );
    let deleted = client
        .post(&format!("/collections/places/delete?{BASEL}"), "")
        .await;
    assert_eq!(deleted.status, StatusCode::SEE_OTHER);
    assert_eq!(fixture.session.get("places", &key).await.unwrap(), None);
    assert_eq!(client.get(places).await.rows().len(), 3);
}

//! Checks the pages of queues: the board, the page of a queue, actions by forms, and access rights.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::StatusCode;
use recto::Session as _;
use recto::session::{DeadLetterSettings, OutgoingMessage, QueueSettings, Queues, ReceiveRequest, Settling};
use recto_server::access::{Access, Grant, Right};

use crate::fixture::{Answer, Client, Fixture};

const MAILS: &str = "/queues/mails";
/// Time between two requests for the board (the table of queues). An earlier request would add no
/// sample to the rates.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1_600);

fn queues(fixture: &Fixture) -> &dyn Queues {
    fixture.session.queues().unwrap()
}

/// Creates a queue of mails with a queue for its dead letters, and a queue with ordered groups.
pub(crate) async fn fill(fixture: &Fixture) {
    let queues = queues(fixture);
    queues
        .create_queue("mails-dead", &QueueSettings::default())
        .await
        .unwrap();
    let mut mails = QueueSettings {
        dead_letters: Some(Some(DeadLetterSettings {
            queue: "mails-dead".to_owned(),
            attempts: 1,
        })),
        ..QueueSettings::default()
    };
    queues.create_queue("mails", &mails).await.unwrap();
    mails = QueueSettings {
        ordered: Some(true),
        ..QueueSettings::default()
    };
    queues.create_queue("orders.fifo", &mails).await.unwrap();
    let send = |queue, messages| async move {
        for sent in queues.send(queue, messages).await.unwrap() {
            sent.unwrap();
        }
    };
    send("mails", vec![text("to bob")]).await;
    fail(queues, "mails", "550 no such user <bob@example.com>").await;
    let mut ada = text("to <b>ada</b> & co\nhello");
    ada.attributes.insert("lang".to_owned(), "\"<en>\"".to_owned());
    send(
        "mails",
        vec![
            ada,
            OutgoingMessage::of(vec![0xff, 0, 0x7f]),
            text(&"long ".repeat(100)),
        ],
    )
    .await;
    let delayed = OutgoingMessage {
        delay_seconds: Some(3_600),
        ..text("later")
    };
    send("mails", vec![delayed]).await;
    let order = |number: u32| OutgoingMessage {
        group: Some(format!("customer {}", number % 3)),
        ..text(&format!("order {number}"))
    };
    send("orders.fifo", (0..5).map(order).collect()).await;
}

fn text(body: &str) -> OutgoingMessage {
    OutgoingMessage::of(body.as_bytes().to_vec())
}

/// Receives a message for the last attempt that its queue allows, and reports a failure.
async fn fail(queues: &dyn Queues, queue: &str, error: &str) {
    let received = queues
        .receive(queue, &ReceiveRequest::default())
        .await
        .unwrap()
        .messages;
    let nack = Settling::Nack {
        delay_seconds: 0,
        error: error.to_owned(),
    };
    let receipts: Vec<String> = received.into_iter().map(|message| message.receipt).collect();
    assert_eq!(queues.settle(queue, &receipts, &nack).await.unwrap(), [true]);
    // Receive again: the receive moves the failed message to the dead letters.
    let none = queues
        .receive(queue, &ReceiveRequest::default())
        .await
        .unwrap()
        .messages;
    assert_eq!(none, []);
}

fn granted(grants: &[(&str, &[Right])]) -> Access {
    let grants = grants.iter().map(|(name, rights)| {
        let grant = Grant {
            rights: rights.to_vec(),
            rows: String::new(),
        };
        ((*name).to_owned(), grant)
    });
    Access::granted("somebody", grants.collect::<BTreeMap<_, _>>())
}

/// Returns the bodies of all messages in a queue, in any state.
async fn bodies(fixture: &Fixture, queue: &str) -> Vec<String> {
    let peeked = queues(fixture).peek(queue, 50).await.unwrap();
    peeked.into_iter().filter_map(|message| message.body).collect()
}

/// Returns the table row whose first cell is `first`.
fn row(answer: &Answer, first: &str) -> Vec<String> {
    let rows = answer.rows();
    let row = rows.into_iter().find(|row| row[0] == first);
    row.unwrap_or_else(|| panic!("no row {first}: {}", answer.main()))
}

#[tokio::test]
async fn the_board_has_all_queues_with_their_figures() {
    let fixture = Fixture::new().await;
    let client = fixture.client(Access::all());
    let home = client.get("/").await;
    let empty = client.follow(&home, "href=\"/queues\"").await;
    assert!(empty.html.contains("recto queue create NAME"), "{}", empty.main());
    fill(&fixture).await;
    let board = client.get("/queues").await;
    assert_eq!(board.status, StatusCode::OK);
    let names: Vec<_> = board.rows().into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(names, ["mails", "mails-dead", "orders.fifo"]);
    let mails = row(&board, "mails");
    assert_eq!(mails[1..4], ["4", "0", "1"]);
    assert!(mails[4].ends_with('s'), "{mails:?}");
    assert_eq!(mails[5..], ["1 in mails-dead", "–", "–", "–"]);
    assert_eq!(row(&board, "orders.fifo")[1..4], ["5", "0", "0"]);
    let dead = client.follow(&board, "href=\"/queues/mails-dead\"").await;
    assert!(dead.html.contains("<h1>mails-dead</h1>"), "{}", dead.main());
    for said in [
        "hx-get=\"/queues\"",
        "hx-trigger=\"every 2s\"",
        "hx-select=\"#queues\"",
    ] {
        assert!(board.html.contains(said), "{said}: {}", board.main());
    }
}

#[tokio::test]
async fn rates_are_drawn_from_one_look_to_the_next() {
    let fixture = Fixture::new().await;
    fill(&fixture).await;
    let client = fixture.client(Access::all());
    client.get("/queues").await;
    for sent in queues(&fixture)
        .send("mails", (0..40).map(|_| text("more")).collect())
        .await
        .unwrap()
    {
        sent.unwrap();
    }
    tokio::time::sleep(BETWEEN_LOOKS).await;
    let board = client.get("/queues").await;
    let sent = &row(&board, "mails")[6];
    let rate: f64 = sent.split("Sent").next().unwrap().parse().unwrap();
    assert!(rate > 1.0 && rate <= 25.1, "40 in 1.6 s and more: {sent}");
    // Do not check the number of seconds: on a busy machine it is larger.
    assert!(sent.contains("per second in the last "), "{sent}");
    let of_mails = board.html.split("id=\"queue-mails\"").nth(1).unwrap();
    assert!(of_mails.contains("<polyline points="), "{of_mails}");
    assert!(!board.html.contains("style="), "the policy forbids inline styles");
    let page = client.get(MAILS).await;
    assert!(page.main().contains("<polyline points="), "{}", page.main());
}

#[tokio::test]
async fn a_queue_has_its_figures_options_and_oldest_messages() {
    let fixture = Fixture::new().await;
    fill(&fixture).await;
    let client = fixture.client(Access::all());
    let page = client.get(MAILS).await;
    let main = page.main();
    for said in [
        "to &lt;b&gt;ada&lt;/b&gt; &amp; co\nhello",
        "&quot;&lt;en&gt;&quot;",
        "<code>ff 00 7f</code>",
        "long …",
        "500 B",
        "delayed</span>",
        "after 1 attempt to",
        "30.0 s, unless the receiver sets another",
    ] {
        assert!(main.contains(said), "{said}: {main}");
    }
    assert!(!main.contains("<b>ada"), "{main}");
    assert!(!main.contains(&"long ".repeat(60)), "bodies are shortened");
    let dead = client.get("/queues/mails-dead").await;
    let cells = dead.rows();
    assert!(
        cells[0]
            .iter()
            .any(|cell| cell == "550 no such user &lt;bob@example.com&gt;"),
        "{cells:?}"
    );
    assert!(
        cells[0].iter().any(|cell| cell.contains("earlier attempts 1")),
        "{cells:?}"
    );
    let ordered = client.get("/queues/orders.fifo").await;
    assert!(
        ordered.rows()[1].contains(&"customer 1".to_owned()),
        "{:?}",
        ordered.rows()
    );
    // The page refreshes only its numbers by this path, so the response must contain no messages.
    let figures = client.get(&format!("{MAILS}/figures")).await;
    assert!(
        figures.html.contains("id=\"figures\"") && !figures.html.contains("ada"),
        "{}",
        figures.main()
    );
    assert!(!main.contains("paused"), "{main}");
    let paused = QueueSettings {
        paused: Some(true),
        ..QueueSettings::default()
    };
    queues(&fixture)
        .change_queue("mails", &paused, None)
        .await
        .unwrap();
    for address in [MAILS, "/queues"] {
        let page = client.get(address).await;
        assert!(page.main().contains("paused</span>"), "{}", page.main());
    }
    let none = client.get("/queues/none").await;
    assert_eq!(none.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_message_is_sent_by_a_form() {
    let fixture = Fixture::new().await;
    fill(&fixture).await;
    let client = fixture.client(Access::all());
    let page = client.get("/queues/orders.fifo").await;
    let form = client.follow(&page, "/send").await;
    assert!(form.html.contains("name=\"group\""), "{}", form.main());
    let send = "/queues/orders.fifo/send";
    let typed = "body=two%0D%0Alines+%3C&group=customer+7&deduplication_id=d1&delay_seconds=&attributes=a%3D1%0D%0Ab%3Dx%3Dy";
    let sent = client.post(send, typed).await;
    assert_eq!(sent.status, StatusCode::SEE_OTHER, "{}", sent.html);
    assert_eq!(sent.location.as_deref(), Some("/queues/orders.fifo?done=sent"));
    let message = queues(&fixture)
        .peek("orders.fifo", 50)
        .await
        .unwrap()
        .pop()
        .unwrap();
    assert_eq!(message.body.as_deref(), Some("two\nlines <"));
    assert_eq!(message.group.as_deref(), Some("customer 7"));
    let attributes = [("a", "1"), ("b", "x=y")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(message.attributes, BTreeMap::from(attributes));
    let again = client.post(send, typed).await;
    let told = client.get(&again.location.unwrap()).await;
    assert!(
        told.html
            .contains("A message with this deduplication id was sent"),
        "{}",
        told.main()
    );
    let base64 = client
        .post(&format!("{MAILS}/send"), "body=%2FwA%3D&body_base64=true")
        .await;
    assert_eq!(base64.status, StatusCode::SEE_OTHER, "{}", base64.html);
    let sent = queues(&fixture).peek("mails", 50).await.unwrap();
    assert!(
        sent.iter()
            .any(|message| message.body_base64.as_deref() == Some("/wA="))
    );
    let before = sent.len();
    for (typed, wrong) in [
        ("body=%3C%3C&body_base64=true", "base64"),
        ("body=%3C%3C&delay_seconds=soon", "delay_seconds"),
        ("body=%3C%3C&delay_seconds=99999999", "delay"),
        ("body=%3C%3C&attributes=nothing", "NAME=VALUE"),
        ("body=%3C%3C&attributes=a%3D1%0Aa%3D2", "occurs twice"),
    ] {
        let refused = client.post(&format!("{MAILS}/send"), typed).await;
        assert_eq!(
            refused.status,
            StatusCode::BAD_REQUEST,
            "{typed}: {}",
            refused.main()
        );
        let panel = refused.html.split("class=\"problem\"").nth(1).unwrap();
        let panel = panel.split("</section>").next().unwrap();
        assert!(panel.contains(wrong), "{typed}: {panel}");
        assert!(
            refused.html.contains("&lt;&lt;</textarea>"),
            "what was typed comes back: {}",
            refused.main()
        );
    }
    let refused = client.post(send, "body=%3C%3C&group=").await;
    assert!(
        refused.html.contains("group"),
        "an ordered queue has groups: {}",
        refused.main()
    );
    assert_eq!(queues(&fixture).peek("mails", 50).await.unwrap().len(), before);
}

#[tokio::test]
async fn messages_are_removed_redriven_and_purged_after_a_question() {
    let fixture = Fixture::new().await;
    fill(&fixture).await;
    let client = fixture.client(Access::all());
    let page = client.get(MAILS).await;
    let asked = client.follow(&page, "/remove?").await;
    assert!(
        asked.html.contains("ada") && bodies(&fixture, "mails").await.len() == 3,
        "{}",
        asked.main()
    );
    let position = asked.html.split("name=\"position\" value=\"").nth(1).unwrap();
    let position = format!("position={}", position.split('"').next().unwrap());
    let remove = format!("{MAILS}/remove");
    for (done, said) in [("removed", "was removed"), ("gone", "Nothing was removed")] {
        let removed = client.post(&remove, &position).await;
        assert_eq!(
            removed.location,
            Some(format!("{MAILS}?done={done}")),
            "{}",
            removed.html
        );
        assert!(
            client.get(&removed.location.unwrap()).await.html.contains(said),
            "{done}"
        );
    }
    assert!(!bodies(&fixture, "mails").await.concat().contains("ada"));
    assert_eq!(
        client.post(&remove, "position=x").await.status,
        StatusCode::BAD_REQUEST
    );

    let dead = client.get("/queues/mails-dead").await;
    let form = client.follow(&dead, "/redrive").await;
    assert!(
        form.html.contains("<option value=\"mails\" selected>"),
        "{}",
        form.main()
    );
    for wrong in ["to=mails&max_messages=many", "to=none", "to=mails-dead"] {
        let refused = client.post("/queues/mails-dead/redrive", wrong).await;
        assert!(refused.status.is_client_error(), "{wrong}: {}", refused.main());
        assert_eq!(bodies(&fixture, "mails-dead").await, ["to bob"], "{wrong}");
    }
    let redriven = client
        .post("/queues/mails-dead/redrive", "to=mails&max_messages=")
        .await;
    let told = client.get(&redriven.location.unwrap()).await;
    assert!(told.html.contains("1 message was moved."), "{}", told.main());
    assert!(bodies(&fixture, "mails").await.contains(&"to bob".to_owned()));

    let asked = client.follow(&client.get(MAILS).await, "/purge").await;
    assert!(asked.html.contains("<b>4 messages</b>"), "{}", asked.main());
    assert_eq!(bodies(&fixture, "mails").await.len(), 3, "asking does nothing");
    let purged = client.post(&format!("{MAILS}/purge"), "").await;
    assert_eq!(
        purged.location,
        Some(format!("{MAILS}?done=purged")),
        "{}",
        purged.html
    );
    assert_eq!(bodies(&fixture, "mails").await, Vec::<String>::new());
    assert_eq!(bodies(&fixture, "orders.fifo").await.len(), 5);
}

/// Returns the actions that a queue's page offers, and the HTTP statuses of attempts to do every
/// action.
async fn offered(client: &Client) -> (Vec<&'static str>, Vec<StatusCode>) {
    let page = client.get(MAILS).await;
    let actions = ["/send", "/redrive", "/purge", "/remove?"];
    let seen = actions
        .into_iter()
        .filter(|action| page.html.contains(&format!("{MAILS}{action}")));
    let mut statuses = vec![page.status];
    for action in ["send", "redrive", "purge", "remove"] {
        let path = format!("{MAILS}/{action}");
        let status = client.get(&path).await.status;
        if !status.is_success() {
            assert_eq!(
                client.post(&path, "body=x&to=mails-dead").await.status,
                status,
                "{action}"
            );
        }
        statuses.push(status);
    }
    (seen.collect(), statuses)
}

#[tokio::test]
async fn each_may_do_what_the_token_says() {
    use Right::{Manage, Read, Receive, Send};
    let fixture = Fixture::new().await;
    fill(&fixture).await;
    let (ok, not, none) = (StatusCode::OK, StatusCode::FORBIDDEN, StatusCode::NOT_FOUND);
    for (rights, shown, statuses) in [
        (&[][..], &[][..], [none, none, none, none, none]),
        (&[Read], &[], [ok, not, not, not, not]),
        (&[Receive], &[], [not, not, not, not, not]),
        (&[Send], &[], [not, ok, not, not, not]),
        (&[Read, Send], &["/send"], [ok, ok, not, not, not]),
        (&[Manage], &[], [not, not, ok, ok, ok]),
        (
            &[Read, Manage],
            &["/redrive", "/purge", "/remove?"],
            [ok, not, ok, ok, ok],
        ),
    ] {
        let client = fixture.client(granted(&[("queue.mails", rights)]));
        assert_eq!(
            offered(&client).await,
            (shown.to_vec(), statuses.to_vec()),
            "{rights:?}"
        );
    }
    assert_eq!(bodies(&fixture, "mails").await.len(), 3, "nothing was done");
    // Grants for collections must give no access to queues.
    let collections = fixture.client(granted(&[("*", &[Read, Right::Write, Right::Delete])]));
    assert!(!collections.get("/").await.html.contains("/queues"));
    assert_eq!(collections.get("/queues").await.rows(), Vec::<Vec<String>>::new());
    assert_eq!(collections.get(MAILS).await.status, none);
}

#[tokio::test]
async fn hides_the_content_of_unreadable_queues() {
    use Right::{Manage, Read, Send};
    let fixture = Fixture::new().await;
    fill(&fixture).await;
    let client = fixture.client(granted(&[
        ("queue.mails", &[Read]),
        ("queue.mails-dead", &[Manage]),
    ]));
    let board = client.get("/queues").await;
    assert_eq!(board.rows().len(), 1);
    let told = granted(&[("queue.mails", &[Read, Send]), ("queue.*", &[])]).by_token("1f0c7a52d9e4b683");
    let told = fixture.client(told).get("/access").await;
    assert_eq!(
        told.rows(),
        [
            ["all other queues", "nothing", ""],
            ["the queue mails", "read, send", ""]
        ]
    );
    assert_eq!(
        row(&board, "mails")[5],
        "mails-dead",
        "its name, and not how many are there"
    );
    assert!(client.get(MAILS).await.main().contains("in mails-dead"));
    // A client that may only send must see neither the messages nor a link to them.
    let sender = fixture.client(granted(&[("queue.mails", &[Send])]));
    let sent = sender.post(&format!("{MAILS}/send"), "body=x").await;
    assert_eq!(
        sent.location,
        Some(format!("{MAILS}/send?done=sent")),
        "{}",
        sent.html
    );
    assert!(
        sender
            .get(&sent.location.unwrap())
            .await
            .html
            .contains("The message was sent.")
    );
    // The form offers only target queues to which the client may send.
    let redrive = client.get("/queues/mails-dead/redrive").await;
    assert!(
        redrive.html.contains("no other queue to which you can send"),
        "{}",
        redrive.main()
    );
    for to in ["mails", "orders.fifo"] {
        let refused = client
            .post("/queues/mails-dead/redrive", &format!("to={to}"))
            .await;
        assert!(refused.status.is_client_error(), "{to}");
    }
    assert_eq!(bodies(&fixture, "mails-dead").await, ["to bob"]);
}

#[tokio::test]
async fn a_long_board_is_turned() {
    let fixture = Fixture::new().await;
    for number in 0..103 {
        let name = format!("q{number:03}");
        queues(&fixture)
            .create_queue(&name, &QueueSettings::default())
            .await
            .unwrap();
    }
    let client = fixture.client(Access::all());
    let first = client.get("/queues").await;
    assert_eq!(first.rows().len(), 100);
    let next = client.follow(&first, "data-key=\"n\"").await;
    let names: Vec<_> = next.rows().into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(names, ["q100", "q101", "q102"]);
    assert!(next.html.contains("hx-get=\"/queues?after=q099\"") && !next.html.contains("data-key=\"n\""));
    assert_eq!(client.follow(&next, "data-key=\"f\"").await.rows(), first.rows());
}

#[tokio::test]
async fn a_work_unit_has_a_page_as_a_queue() {
    let fixture = Fixture::new().await;
    fill(&fixture).await;
    let queues = queues(&fixture);
    queues.begin_unit("mails", "night").await.unwrap();
    queues.send("mails/night", vec![text("to grace")]).await.unwrap();
    let client = fixture.client(Access::all());
    let page = client.get(MAILS).await;
    assert!(page.html.contains("<h2>Work units</h2>"), "{}", page.main());
    let unit = client.follow(&page, "href=\"/queues/mails%2Fnight\"").await;
    assert!(
        unit.html.contains("<h1>mails/night</h1>") && unit.html.contains("to grace"),
        "{}",
        unit.main()
    );
    let sent = client.post("/queues/mails%2Fnight/send", "body=to+alan").await;
    assert_eq!(sent.location.as_deref(), Some("/queues/mails%2Fnight?done=sent"));
    assert_eq!(bodies(&fixture, "mails/night").await, ["to grace", "to alan"]);
    let other = client.get("/queues/mails-dead").await;
    assert!(!other.html.contains("Work units"), "{}", other.main());
    let sender = fixture.client(granted(&[("queue.mails-dead", &[Right::Read])]));
    assert_eq!(
        sender.get("/queues/mails%2Fnight").await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn queue_tables_are_a_page_for_readers_of_every_queue() {
    let fixture = Fixture::new().await;
    fill(&fixture).await;
    let client = fixture.client(Access::all());
    let board = client.get("/queues").await;
    let tables = client.follow(&board, "href=\"/queue-tables\"").await;
    assert!(
        tables.html.contains("No queue tables") && tables.html.contains("up to 4"),
        "{}",
        tables.main()
    );
    let reader = fixture.client(granted(&[("queue.mails", &[Right::Read])]));
    assert!(!reader.get("/queues").await.html.contains("/queue-tables"));
    assert_eq!(reader.get("/queue-tables").await.status, StatusCode::FORBIDDEN);
}

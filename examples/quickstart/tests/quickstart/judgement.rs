//! The report sees what it is there to see: a breach of the promise that it does not count would pass for none.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use steadfast::dispatcher::{Dispatcher, PERIOD};
use steadfast::operation::record::Phase;
use steadfast::store::Sqlite;
use steadfast::testkit::fakes::{BigCommerceFake, Ledger, PostmarkFake, StripeFake};
use steadfast::testkit::{Fault, WaitForm};
use tempfile::TempDir;

use support::in_memory;

use quickstart::kill::Kill;
use quickstart::letters;
use quickstart::report::{Outcome, Report, outcomes};
use quickstart::shop::Shop;
use quickstart::story::Story;
use quickstart::vendors::VENDORS;
use quickstart::worker::Service;

/// The first order.
const ORDER: usize = 0;
const MAIL_ROUTE: &str = "/email";

struct Scene {
    vendors: (StripeFake, BigCommerceFake, PostmarkFake),
    store: Arc<Sqlite>,
    shop: Arc<Shop>,
    /// Sends what the shop enqueues.
    dispatcher: Dispatcher,
    _directory: TempDir,
}

impl Scene {
    async fn open() -> Scene {
        let (stripe, bigcommerce) = (StripeFake::start().await, BigCommerceFake::start().await);
        let postmark = PostmarkFake::start().await;
        let directory = in_memory::directory();
        let urls = [stripe.url(), bigcommerce.url(), postmark.url()];
        let (store, shop) = Service { file: directory.path().join("calls.db"), urls }
            .open()
            .expect("three clients on a file");
        let dispatcher = shop.deliver(PERIOD);
        let (vendors, shop) = ((stripe, bigcommerce, postmark), Arc::new(shop));
        Scene { vendors, store, shop, dispatcher, _directory: directory }
    }

    fn ledgers(&self) -> [Ledger; 3] {
        let (stripe, bigcommerce, postmark) = &self.vendors;
        [stripe.ledger(), bigcommerce.ledger(), postmark.ledger()]
    }

    async fn outcomes(&self) -> Vec<Outcome> {
        outcomes(&self.store).await.expect("the records")
    }

    /// As some other program would send a receipt that carries this operation's wire key.
    async fn send_receipt(&self, wire_key: &str) {
        let body = json!({
            "From": "shop@example.com", "To": "customer@example.com", "Subject": "x", "TextBody": "x",
            "Metadata": {"steadfast_key": wire_key},
        });
        let sent = reqwest::Client::new()
            .post(format!("{}/email", self.vendors.2.url()))
            .header("x-postmark-server-token", "t")
            .header("content-type", "application/json")
            .body(body.to_string())
            .send();
        assert!(sent.await.expect("an answer").status().is_success());
    }
}

/// A column of the report, by vendor. `orders` from 0 on were asked for.
fn column(name: &str, orders: usize, outcomes: &[Outcome], ledgers: &[Ledger; 3]) -> [Value; 3] {
    let report = Report::new(orders, outcomes, ledgers);
    let json = report.json(1);
    let breaches = ["lost", "duplicates"].map(|name| VENDORS.map(|vendor| json[vendor][name].clone()));
    assert_eq!(report.keeps_the_promise(), breaches == [[0, 0, 0], [0, 0, 0]]);
    VENDORS.map(|vendor| json[vendor][name].clone())
}

#[tokio::test]
async fn what_the_ledgers_and_the_records_do_not_share_is_lost() {
    let scene = Scene::open().await;
    scene.shop.take(ORDER).await.expect("three steps");
    let (ledgers, outcomes) = (scene.ledgers(), scene.outcomes().await);
    let lost = |orders, ledgers: &_| column("lost", orders, &outcomes, ledgers);
    assert_eq!(lost(1, &ledgers), [0, 0, 0]);
    assert_eq!(column("effects", 1, &outcomes, &ledgers), [1, 1, 1]);

    assert_eq!(lost(1, &Scene::open().await.ledgers()), [1, 1, 1], "successes without an effect");
    assert_eq!(lost(2, &ledgers), [1, 0, 0], "an order that was never charged");
    assert_eq!(
        lost(0, &ledgers),
        [2, 2, 2],
        "operations that nobody asked for, effects that nobody answers for"
    );
    let without_order: Vec<Outcome> = scene
        .outcomes()
        .await
        .into_iter()
        .filter(|outcome| outcome.record.request.url.path() != "/stores/abc123/v2/orders")
        .collect();
    assert_eq!(without_order.len(), 2);
    assert_eq!(column("lost", 1, &without_order, &ledgers), [0, 2, 2], "a receipt without an order");
}

#[tokio::test]
async fn a_second_effect_is_a_duplicate() {
    let scene = Scene::open().await;
    scene.shop.take(ORDER).await.expect("three steps");
    let outcomes = scene.outcomes().await;
    assert_eq!(column("duplicates", 1, &outcomes, &scene.ledgers()), [0, 0, 0]);
    let receipt = outcomes.iter().find(|outcome| outcome.record.request.url.path() == MAIL_ROUTE);
    scene.send_receipt(&receipt.expect("a receipt").record.wire_key).await;
    assert_eq!(column("duplicates", 1, &outcomes, &scene.ledgers()), [0, 0, 1]);
}

#[tokio::test]
async fn a_reply_that_is_not_the_vendors_is_lost() {
    let (scene, other) = (Scene::open().await, Scene::open().await);
    // The other Postmark has sent a message before, so that its ids are others.
    other.send_receipt("another").await;
    for scene in [&scene, &other] {
        scene.shop.take(ORDER).await.expect("three steps");
    }
    let [stripe, bigcommerce, _] = scene.ledgers();
    let [.., postmark] = other.ledgers();
    // Its effect has the right wire key; and the other program's is nobody's.
    let lost = column("lost", 1, &scene.outcomes().await, &[stripe, bigcommerce, postmark]);
    assert_eq!(lost, [0, 0, 2]);
}

#[tokio::test]
async fn an_effect_behind_a_letter_that_says_none_is_lost() {
    let scene = Scene::open().await;
    let limit = Fault::TooManyRequests(WaitForm::None);
    scene.vendors.2.plan().whenever(MAIL_ROUTE, Method::POST, limit);
    let error = scene.shop.take(ORDER).await.expect_err("no mail is taken");
    assert!(error.is_dead_letter(), "{error}");
    let outcomes = scene.outcomes().await;
    assert_eq!(column("dead_letters", 1, &outcomes, &scene.ledgers()), [0, 0, 1]);
    assert_eq!(column("unknown", 1, &outcomes, &scene.ledgers()), [0, 0, 0]);
    assert_eq!(column("lost", 1, &outcomes, &scene.ledgers()), [0, 0, 0]);
    let receipt = outcomes.iter().find(|outcome| outcome.record.request.url.path() == MAIL_ROUTE);
    scene.vendors.2.plan().clear();
    scene.send_receipt(&receipt.expect("a receipt").record.wire_key).await;
    assert_eq!(column("lost", 1, &outcomes, &scene.ledgers()), [0, 0, 1]);
}

#[tokio::test]
async fn an_operation_that_never_came_to_rest_is_lost() {
    let scene = Scene::open().await;
    scene.vendors.0.plan().next(Fault::Hang);
    let shop = Arc::clone(&scene.shop);
    let order = tokio::spawn(async move { shop.take(ORDER).await });
    // Until it is on its way.
    while scene.vendors.0.plan().pending() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let ledgers = scene.ledgers();
    // Both whoever waits and whoever sends.
    order.abort();
    assert!(order.await.expect_err("aborted").is_cancelled());
    assert_eq!(scene.dispatcher.stop(Duration::ZERO).await, 1);
    let outcomes = outcomes(&scene.store).await.expect("the records");
    assert_eq!(
        outcomes.iter().map(|outcome| outcome.record.phase()).collect::<Vec<_>>(),
        [Phase::InProgress]
    );
    assert_eq!(column("lost", 1, &outcomes, &ledgers), [1, 0, 0]);
}

#[tokio::test]
async fn a_broken_promise_is_in_the_last_line_and_nothing_explains_it_away() {
    let (scene, other) = (Scene::open().await, Scene::open().await);
    scene.shop.take(ORDER).await.expect("three steps");
    let (store, outcomes) = (&scene.store, scene.outcomes().await);
    let letters = letters::letters(store, &scene.shop);
    let kill = Kill::survey(1, store, &scene.ledgers()).await.expect("the file");
    let mut story = Story {
        report: Report::new(1, &outcomes, &other.ledgers()),
        aftermath: kill.aftermath(&outcomes),
        kill,
        found: letters::find(&letters).await.expect("none"),
        left: letters::find(&letters).await.expect("none"),
        redriven: None,
    };
    let text = story.text(None);
    assert_eq!(
        text.lines().last().expect("a line"),
        "NOT WELL: 200 orders, one kill -9, 0 duplicates, 3 lost, no dead letter redriven to one effect"
    );
    assert!(!text.contains("effects for"), "{text}");
    assert!(!story.is_well());
    assert_eq!(story.json(1)["well"], false);

    // The records are true, but nothing was redriven.
    story.report = Report::new(1, &outcomes, &scene.ledgers());
    assert!(story.text(None).contains("3 effects for 3 operations; no dead letter"));
    assert!(story.text(None).ends_with("0 lost, no dead letter redriven to one effect"));
    assert!(!story.is_well());
}

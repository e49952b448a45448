//! Lists of the vendors' fakes.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast::Client;
use steadfast::policy::Backoff;
use steadfast::testkit::fakes::{AdyenFake, BigCommerceFake, PostmarkFake, StripeFake};
use steadfast::testkit::{Fault, TestClock, WaitForm};
use steadfast::vendor::{Adyen, BigCommerce, Postmark, Stripe};

use super::{ids, read};

fn stripe() -> (Client, steadfast::testkit::fakes::InProcess) {
    let clock = TestClock::auto();
    let fake = StripeFake::builder().test_clock(&clock).in_process();
    let vendor = Stripe::new("sk_test_1").base_url(fake.url());
    (
        Client::builder(vendor).transport(fake.transport()).clock(clock).build().expect("a client"),
        fake.transport(),
    )
}

async fn customers(stripe: &Client, count: usize) -> Vec<String> {
    let mut made = Vec::new();
    for number in 0..count {
        let form = [("name", format!("customer {number}"))];
        let reply = stripe.post("/v1/customers").key(format!("customer-{number}")).form(&form).send().await;
        made.push(reply.expect("made").json::<Value>().expect("JSON")["id"].to_string());
    }
    made.reverse();
    made
}

#[tokio::test]
async fn stripes_list_is_whole_through_faults_in_its_middle() {
    let (stripe, network) = stripe();
    let empty = read(&mut stripe.get("/v1/customers").pages(), "/data").await.expect("an empty list");
    assert_eq!(empty, (vec![], 1));

    let made = customers(&stripe, 9).await;
    let mut pages = stripe.get("/v1/customers").query(&[("limit", "2")]).pages();
    let mut seen = ids(&pages.next().await.expect("a page").expect("a page"), "/data");
    network
        .plan()
        .next(Fault::Reset)
        .next(Fault::TruncatedBody)
        .next(Fault::TooManyRequests(WaitForm::Seconds(3)));
    seen.extend(ids(&pages.next().await.expect("a page").expect("a page"), "/data"));
    // More faults than there are retries: the place in the list is kept.
    network.plan().next_n(Fault::Error500Before, 5);
    assert!(pages.next().await.is_err());
    let (rest, count) = read(&mut pages, "/data").await.expect("the rest");
    seen.extend(rest);
    assert_eq!((seen, count), (made.clone(), 3));

    let last = made.last().expect("one").trim_matches('"');
    let mut backwards = stripe.get("/v1/customers").query(&[("limit", "3"), ("ending_before", last)]).pages();
    let (back, count) = read(&mut backwards, "/data").await.expect("pages");
    assert_eq!((back.len(), count), (8, 3));
}

#[tokio::test]
async fn an_object_that_is_removed_meanwhile_takes_no_other_with_it() {
    let (stripe, _) = stripe();
    let made = customers(&stripe, 8).await;
    let remove = async |id: &str| {
        let gone = stripe.delete("/v1/customers/{id}").path("id", id.trim_matches('"')).send().await;
        gone.expect("removed");
    };
    let mut pages = stripe.get("/v1/customers").query(&[("limit", "2")]).pages();
    let mut seen = ids(&pages.next().await.expect("a page").expect("a page"), "/data");
    // One that was read, and one that was not yet.
    remove(&made[0]).await;
    remove(&made[3]).await;
    seen.extend(read(&mut pages, "/data").await.expect("the rest").0);
    let expected: Vec<_> = made.iter().filter(|id| **id != made[3]).cloned().collect();
    assert_eq!(seen, expected);

    // The one that the list goes on from. That is told, and never taken for the end.
    let mut pages = stripe.get("/v1/customers").query(&[("limit", "2")]).pages();
    let page = ids(&pages.next().await.expect("a page").expect("a page"), "/data");
    remove(&page[1]).await;
    for _ in 0..2 {
        assert!(pages.next().await.expect_err("no cursor").is_refused());
    }
}

#[tokio::test]
async fn a_list_of_stripes_v2_goes_on_at_the_url_that_it_names() {
    let clock = TestClock::auto();
    let fake = StripeFake::builder().test_clock(&clock).in_process();
    let vendor = Stripe::new("sk_test_1").base_url(fake.url()).api_version("2026-07-29.dahlia");
    let stripe = Client::builder(vendor).transport(fake.transport()).clock(clock).build().expect("a client");
    let list = || stripe.get("/v2/core/event_destinations").query(&[("limit", "3")]);
    assert_eq!(read(&mut list().pages(), "/data").await.expect("an empty list"), (vec![], 1));
    let mut made = Vec::new();
    for number in 0..8 {
        let body = json!({
            "name": format!("receiver {number}"), "type": "webhook_endpoint", "event_payload": "thin",
            "enabled_events": ["v1.charge.succeeded"], "webhook_endpoint": { "url": "https://shop.test/hook" },
        });
        let call = stripe.post("/v2/core/event_destinations").key(format!("receiver-{number}")).json(&body);
        made.insert(0, call.send().await.expect("made").json::<Value>().expect("JSON")["id"].to_string());
    }
    let mut pages = list().pages();
    let mut seen = ids(&pages.next().await.expect("a page").expect("a page"), "/data");
    fake.plan().next(Fault::DropAfterApply).next(Fault::TruncatedBody);
    // The one that the next page goes on from.
    let gone = stripe.delete("/v2/core/event_destinations/{id}").path("id", seen[2].trim_matches('"'));
    gone.key("gone").send().await.expect("removed");
    fake.plan().next(Fault::Reset);
    let (rest, count) = read(&mut pages, "/data").await.expect("the rest");
    seen.extend(rest);
    assert_eq!((seen, count, fake.plan().pending()), (made, 2, 0));
}

fn store(quota: Option<u32>) -> (Client, steadfast::testkit::fakes::InProcess) {
    let clock = TestClock::auto();
    let fake = BigCommerceFake::builder().customer(7).test_clock(&clock);
    let fake = match quota {
        Some(quota) => fake.quota(quota),
        None => fake,
    };
    let fake = fake.in_process();
    let vendor = BigCommerce::new("abc123", "a-token").base_url(fake.url());
    let client = Client::builder(vendor).transport(fake.transport()).clock(clock);
    (client.build().expect("a client"), fake.transport())
}

async fn make_order(store: &Client, number: u32) {
    let order = json!({"customer_id": 7, "billing_address": {"zip": "12345"}, "products": [{"product_id": 1, "quantity": 1}]});
    store.post("/v2/orders").key(format!("order-{number}")).json(&order).send().await.expect("an order");
}

async fn make_brand(store: &Client, number: u32) {
    let brand = json!({"name": format!("brand {number}")});
    let call = store.post("/v3/catalog/brands").key(format!("brand-{number}")).json(&brand);
    call.send().await.expect("a brand");
}

#[tokio::test]
async fn bigcommerces_lists_are_whole_by_page_until_they_say_so_or_one_is_empty() {
    let (store, network) = store(None);
    for (path, pages) in [("/v2/orders", 0), ("/v3/catalog/brands", 1)] {
        let list = if pages == 0 { "" } else { "/data" };
        assert_eq!(read(&mut store.get(path).pages(), list).await.expect("an empty list"), (vec![], pages));
    }
    for number in 0..7 {
        make_order(&store, number).await;
        make_brand(&store, number).await;
    }
    for (path, list) in [("/v2/orders", ""), ("/v3/catalog/brands", "/data")] {
        network.plan().when(path, http::Method::GET, Fault::DropAfterApply);
        let mut pages = store.get(path).query(&[("limit", "2")]).pages();
        let (seen, count) = read(&mut pages, list).await.expect("pages");
        let mut once = seen.clone();
        once.dedup();
        assert_eq!((seen.len(), once.len(), count), (7, 7, 4), "{path}");
    }
    // The store gives fewer than the limit asks for.
    for number in 7..260 {
        make_order(&store, number).await;
    }
    let mut pages = store.get("/v2/orders").query(&[("limit", "1000")]).pages();
    let (seen, count) = read(&mut pages, "").await.expect("pages");
    assert_eq!((seen.len(), count), (260, 2));
}

#[tokio::test]
async fn each_page_waits_for_the_quota_of_the_store() {
    let (store, _) = store(Some(10));
    for number in 0..8 {
        make_brand(&store, number).await;
    }
    let mut pages = store.get("/v3/catalog/brands").query(&[("limit", "1")]).pages();
    let (seen, count) = read(&mut pages, "/data").await.expect("pages");
    assert_eq!((seen.len(), count), (8, 8));
}

#[tokio::test]
async fn postmarks_list_goes_on_behind_what_was_shown() {
    let clock = TestClock::auto();
    let fake = PostmarkFake::builder().search_lag(Duration::ZERO).test_clock(&clock).in_process();
    let vendor = Postmark::new("a-server-token").base_url(fake.url());
    let postmark =
        Client::builder(vendor).transport(fake.transport()).clock(clock).build().expect("a client");
    let list = |count: &str, offset: &str| {
        let call = postmark.get("/messages/outbound").query(&[("count", count), ("offset", offset)]);
        call.backoff(Backoff::none())
    };
    let empty = read(&mut list("3", "0").pages(), "/Messages").await.expect("an empty list");
    assert_eq!(empty, (vec![], 1));
    for number in 0..10 {
        let mail = json!({"From": "shop@x.test", "To": format!("c{number}@x.test"), "TextBody": "Paid."});
        postmark.post("/email").key(format!("mail-{number}")).json(&mail).send().await.expect("sent");
    }
    let mut pages = list("3", "0").pages();
    let mut seen = ids(&pages.next().await.expect("a page").expect("a page"), "/Messages");
    fake.plan().next(Fault::Error500Before);
    assert!(pages.next().await.is_err(), "one attempt, as the call says");
    let (rest, count) = read(&mut pages, "/Messages").await.expect("the rest");
    seen.extend(rest);
    seen.sort();
    seen.dedup();
    assert_eq!((seen.len(), count), (10, 3));
    assert_eq!(read(&mut list("5", "5").pages(), "/Messages").await.expect("a part").1, 1);
    // The documented reach of a search: Postmark's no is told, and no end of the list.
    assert!(list("500", "9900").pages().next().await.expect_err("too far").is_refused());
    assert!(postmark.get("/messages/outbound").pages().next().await.expect_err("no count").is_refused());
}

#[tokio::test]
async fn adyens_list_is_followed_by_its_links_through_faults_in_its_middle() {
    let clock = TestClock::auto();
    let fake = AdyenFake::builder().test_clock(&clock).in_process();
    let vendor = Adyen::new("AQE-key").base_url(format!("{}/v3", fake.url()));
    let adyen = Client::builder(vendor).transport(fake.transport()).clock(clock).build().expect("a client");
    let list = || adyen.get("/merchants/ShopECOM/webhooks");
    assert_eq!(read(&mut list().pages(), "/data").await.expect("an empty list"), (vec![], 1));
    let mut made = Vec::new();
    for number in 0..25 {
        let hook = json!({
            "type": "standard", "url": "https://shop.test/hook", "active": true, "communicationFormat": "json",
        });
        let call = adyen.post("/merchants/ShopECOM/webhooks").key(format!("hook-{number}")).json(&hook);
        made.push(call.send().await.expect("made").json::<Value>().expect("JSON")["id"].to_string());
    }
    // Ten on a page, as long as nobody asks for another size.
    assert_eq!(read(&mut list().pages(), "/data").await.expect("pages"), (made.clone(), 3));
    let mut pages = list().query(&[("pageSize", "4"), ("pageNumber", "2")]).backoff(Backoff::none()).pages();
    let mut seen = ids(&pages.next().await.expect("a page").expect("a page"), "/data");
    fake.plan().next(Fault::TruncatedBody).next(Fault::Html);
    for _ in 0..2 {
        assert!(pages.next().await.is_err(), "one attempt, as the call says");
    }
    let (rest, count) = read(&mut pages, "/data").await.expect("the rest");
    seen.extend(rest);
    assert_eq!((seen, count, fake.plan().pending()), (made[4..].to_vec(), 5, 0));
    // Adyen's no to a page is told, and no end of the list.
    let mut pages = list().query(&[("pageSize", "101")]).pages();
    assert!(pages.next().await.expect_err("too many on a page").is_refused());
}

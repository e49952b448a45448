//! The guards of what is read: where it may lead, and how far; where the id in a path ends; and what an operator sees
//! of it.

use std::sync::Arc;

use serde_json::json;
use steadfast::Client;
use steadfast::dead_letter::visible;
use steadfast::store::Memory;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::vendor::Stripe;

use crate::guards::wait;

fn script() -> ScriptedTransport {
    ScriptedTransport::new()
}

fn client(transport: &ScriptedTransport) -> Client {
    Client::builder(Stripe::new("sk_test_1"))
        .transport(transport.clone())
        .clock(TestClock::auto())
        .store(Arc::new(Memory::new()))
        .namespace("test")
        .build()
        .expect("a client")
}

/// Whether the secret went to Stripe and to nobody else.
fn is_at_home(transport: &ScriptedTransport) -> bool {
    transport.requests().iter().all(|request| request.url.host_str() == Some("api.stripe.com"))
}

/// Of both, the redirect and the next page.
pub fn a_secret_goes_to_no_other_host() -> bool {
    let elsewhere = script().status(302).header("location", "https://elsewhere.test/v1/charges").status(200);
    let _ = wait(client(&elsewhere).get("/v1/charges").redirects(1).send());

    let page =
        json!({ "data": [{ "id": "evt_1" }], "next_page_url": "https://elsewhere.test/v2/core/events" });
    let listed = script().json(200, page.clone()).header("request-id", "req_1").json(200, page);
    let call = client(&listed).get("/v2/core/events");
    wait(async {
        let mut pages = call.pages();
        while let Ok(Some(_)) = pages.next().await {}
    });
    is_at_home(&elsewhere) && is_at_home(&listed)
}

pub fn a_post_is_not_sent_once_more_where_it_is_led() -> bool {
    let led = script().status(307).header("location", "/v1/other").status(200);
    let _ = wait(client(&led).post("/v1/charges").redirects(1).form(&[("amount", "1")]).send());
    led.requests().len() <= 1
}

/// Three pages that name each other.
pub fn a_list_that_comes_round_to_its_beginning_ends() -> bool {
    const PAGES_MAX: usize = 8;
    let pages = (0..PAGES_MAX).fold(script(), |script, nth| {
        script.json(200, json!({ "nth": nth % 3, "object": "page" })).header("request-id", "req_1")
    });
    let call = client(&pages).get("/v1/things?after=2");
    wait(async {
        let mut nth = 0;
        let mut pages = call.pages_by("after", move |_| {
            nth += 1;
            Ok(Some(((nth + 2) % 3).to_string()))
        });
        for _ in 0..PAGES_MAX {
            if !matches!(pages.next().await, Ok(Some(_))) {
                break;
            }
        }
    });
    pages.requests().len() < PAGES_MAX
}

pub fn an_id_is_no_piece_of_the_route() -> bool {
    let deleted =
        script().json(200, json!({ "id": "cus_1", "object": "customer" })).header("request-id", "req_1");
    let id = "cus_1/sources/card_1?expand[]=owner";
    let _ = wait(client(&deleted).delete("/v1/customers/{id}").path("id", id).send());
    let asked: Vec<String> = deleted
        .requests()
        .iter()
        .map(|request| {
            request.url.path_segments().into_iter().flatten().last().unwrap_or_default().to_owned()
        })
        .collect();
    asked == ["cus_1%2Fsources%2Fcard_1%3Fexpand%5B%5D%3Downer"]
}

pub fn an_answer_forges_no_line() -> bool {
    !visible("paid\u{2028}phase: dead\nredrive: safe").contains(['\n', '\u{2028}'])
}

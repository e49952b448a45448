//! Lookups: which answers count, and what they leave in doubt.

use std::sync::Arc;

use http::header::CACHE_CONTROL;
use serde_json::json;
use steadfast::operation::record::Filter;
use steadfast::store::Memory;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::BigCommerce;
use steadfast::{Call, Effect};

use crate::guards::calls::{Bench, FOUND, json_answer, lost, plain, script, secs};
use crate::guards::wait;
use support::acme::Acme;

pub fn a_miss_out_of_a_cache_sends_nothing() -> bool {
    let transport = lost().json(200, json!([])).header("age", "30").reply(json_answer(200, FOUND));
    let bench = Bench::new(Acme::searchable(), plain(), transport);
    bench.send().is_ok() && bench.charges() == 1
}

/// It is of before `Age`, and keeps the miss of an earlier question.
pub fn a_cache_that_does_not_say_so_is_passed_by() -> bool {
    let transport = lost().always_with(|request| {
        let is_passed_by = request.headers.get(CACHE_CONTROL).is_some_and(|value| value == "no-cache");
        Ok(json_answer(200, if is_passed_by { FOUND } else { "[]" }))
    });
    let bench = Bench::new(Acme::searchable(), plain(), transport);
    bench.send().is_ok() && bench.charges() == 1
}

/// The first process dies in its send. The second one's lookup comes too early, and its own sends do not connect. The third
/// one meets the first one's product.
pub fn a_duplicate_after_another_process_looked_is_perhaps_our_own() -> bool {
    let (clock, store) = (TestClock::auto(), Arc::new(Memory::new()));
    let process = |transport: ScriptedTransport| {
        Bench::on(clock.clone(), store.clone(), BigCommerce::new("abc", "token"), plain(), transport)
    };
    let nothing = || json_answer(200, r#"{"data":[],"meta":{}}"#);
    let duplicate = json_answer(409, r#"{"status":409,"title":"The product name is a duplicate"}"#);
    let first = process(script().hang());
    first.leave_behind(product(&first));
    let second = process(script().reply(nothing()).always_fail(SendErrorKind::Connect));
    for _ in 0..60 {
        clock.advance(secs(30));
        if second.transport.requests().len() < 2 {
            wait(second.client.recover(1)).expect("a store");
        }
    }
    assert!(second.transport.requests().len() >= 2, "it looked, and sent");
    let third = process(script().reply(duplicate).reply(nothing()));
    let told = wait(product(&third).send()).expect_err("nobody can tell");
    assert_eq!(third.transport.requests()[0].method, http::Method::POST);
    told.effect() == Effect::Unknown
}

fn product(bench: &Bench) -> Call {
    let product = json!({ "name": "Mug", "type": "physical", "weight": 1, "price": 1 });
    bench.client.post("/v3/catalog/products").key("k").json(&product)
}

/// How far the vendor's clock is from ours by the record of a call that comes after `earlier`.
fn learnt_from(transport: ScriptedTransport, earlier: impl FnOnce(&Bench) -> Call) -> Option<i64> {
    let bench = Bench::new(Acme::new(), plain(), transport.header("date", OLD).status(200));
    wait(async {
        earlier(&bench).send().await.expect("a reply");
        bench.client.post("/charges").key("next").json(&json!({})).send().await.expect("a reply");
        let store = bench.client.store();
        let page = store.list(&Filter::default(), None, 9).await.expect("a store");
        let next = page.rows.iter().find(|row| row.id.key.as_str() == "next").expect("on record");
        store.get(&next.id).await.expect("a store").expect("a record").vendor_clock_ms
    })
}

pub fn only_a_first_answer_tells_the_vendors_clock() -> bool {
    assert!(learnt_from(script().status(200), Bench::charge).is_some(), "a first answer does");
    let replayed = script().status(200).header("acme-replayed", "true");
    let second = script().fail(SendErrorKind::Connect).status(200);
    let unkeyed = |bench: &Bench| bench.client.get("/balance");
    let told = [
        learnt_from(replayed, Bench::charge),
        learnt_from(second, Bench::charge),
        learnt_from(script().status(200), unkeyed),
    ];
    // Each must notice by itself.
    assert!(told.iter().all(|one| one.is_some() == told[0].is_some()), "{told:?}");
    told == [None; 3]
}

const OLD: &str = "Thu, 01 Jan 2026 12:00:00 GMT";

//! BigCommerce's batches: some of the items are applied, others are refused, and what is told of it differs.

use http::Method;
use serde_json::{Value, json};
use steadfast::Call;
use steadfast::testkit::fakes::{BigCommerceFake, FakeBuilder};
use steadfast::testkit::{Fault, TestClock};
use steadfast::vendor::BigCommerce;

use super::vendors::{FRESH, NOBODY_KNOWS, Rig, bigcommerce_at, ending};

const TAKEN: &str = "taken@example.com";
const NEW: &str = "new@example.com";

type Switch = fn(FakeBuilder<BigCommerceFake>) -> FakeBuilder<BigCommerceFake>;

async fn store(switch: Switch) -> (Rig, BigCommerceFake) {
    let clock = TestClock::auto();
    let fake = switch(BigCommerceFake::builder().test_clock(&clock)).start().await;
    (Rig::over_sockets(bigcommerce_at(&fake), &clock), fake)
}

fn customer(email: &str, name: &str) -> Value {
    json!({"email": email, "first_name": name, "last_name": "Doe"})
}

async fn made(rig: &Rig, path: &str, body: &Value) -> Value {
    let reply = rig.client.post(path).key(format!("made {body}")).json(body).send().await.expect("made");
    reply.json::<Value>().expect("json")["data"].clone()
}

/// One that somebody else's customer refuses, and one that can be made.
fn two(rig: &Rig) -> Call {
    let body = json!([customer(TAKEN, "Another"), customer(NEW, "Jo")]);
    rig.client.post("/v3/customers").key("batch").json(&body)
}

fn effects(fake: &BigCommerceFake) -> [usize; 2] {
    [TAKEN, NEW].map(|email| fake.ledger().effects_for(email).len())
}

#[tokio::test]
async fn a_207_tells_which_items_were_made_and_is_not_sent_again() {
    let (rig, fake) = store(FakeBuilder::partial_batches).await;
    made(&rig, "/v3/customers", &json!([customer(TAKEN, "Jo")])).await;
    let sent = json!([customer(TAKEN, "Another"), customer(NEW, "Jo")]);
    for _ in 0..2 {
        let reply = two(&rig).send().await.expect("a partial success");
        assert_eq!(reply.status().as_u16(), 207);
        assert_eq!(BigCommerce::unconfirmed_items(&sent, reply.answer()), [0]);
        assert_eq!(BigCommerce::partial_errors(reply.answer())[0]["status"], 422);
    }
    assert_eq!((effects(&fake), rig.posts()), ([1, 1], 2));
}

#[tokio::test]
async fn a_batch_that_was_partly_made_is_never_done_and_never_without_effect_where_nothing_tells_of_it() {
    let unsaid: Switch = FakeBuilder::partial_batches_unsaid;
    for (what, switch, fault) in [
        ("a lost 207", FakeBuilder::partial_batches as Switch, Some(Fault::DropAfterApply)),
        ("a 500 for it", FakeBuilder::partial_batches, Some(Fault::Error500After)),
        ("a 422", unsaid, None),
        ("a lost 422", unsaid, Some(Fault::DropAfterApply)),
    ] {
        let (rig, fake) = store(switch).await;
        made(&rig, "/v3/customers", &json!([customer(TAKEN, "Jo")])).await;
        if let Some(fault) = fault {
            fake.plan().next(fault);
        }
        assert_eq!(ending(&rig.at_rest(|| two(&rig)).await), NOBODY_KNOWS, "{what}");
        assert_eq!(ending(&two(&rig).send().await), NOBODY_KNOWS, "{what}, asked again");
        assert_eq!((effects(&fake), rig.posts()), ([1, 1], 2), "{what}");
    }
}

/// Of two customers, the second is another's address: what the change of both says and does.
fn change(rig: &Rig, customers: &Value, missing: &Value) -> (Value, Call) {
    let body = json!([
        {"id": customers[0]["id"], "company": "A"}, {"id": missing, "company": "B"}, {"id": customers[1]["id"], "company": "C"},
    ]);
    (body.clone(), rig.client.put("/v3/customers").key("change").json(&body))
}

#[tokio::test]
async fn a_change_of_several_is_told_item_by_item_or_is_nobody_knows() {
    let both = json!([customer(TAKEN, "Jo"), customer(NEW, "Jo")]);
    for (fault, tries) in [(None, 1), (Some(Fault::DropAfterApply), 2)] {
        let (rig, fake) = store(FakeBuilder::partial_batches).await;
        let customers = made(&rig, "/v3/customers", &both).await;
        if let Some(fault) = fault {
            fake.plan().next(fault);
        }
        let (sent, call) = change(&rig, &customers, &json!(9999));
        let outcome = call.send().await;
        assert_eq!(ending(&outcome), FRESH);
        let reply = outcome.expect("a partial success");
        assert_eq!(reply.status().as_u16(), 207);
        assert_eq!(BigCommerce::unconfirmed_items(&sent, reply.answer()), [1]);
        // A repeat sets what is set.
        assert_eq!((rig.sent(&Method::PUT).len(), fake.ledger().count()), (tries, 2 + 2 * tries));
        let held =
            rig.client.get("/v3/customers").send().await.expect("a list").json::<Value>().expect("json");
        assert_eq!((&held["data"][0]["company"], &held["data"][1]["company"]), (&json!("A"), &json!("C")));
    }

    let (rig, fake) = store(FakeBuilder::partial_batches_unsaid).await;
    let customers = made(&rig, "/v3/customers", &both).await;
    let (_, call) = change(&rig, &customers, &json!(9999));
    assert_eq!(ending(&call.send().await), NOBODY_KNOWS);
    assert_eq!((rig.sent(&Method::PUT).len(), fake.ledger().count()), (1, 4));
    // Of one item a no is of the whole.
    let one = json!([{"id": 9999, "company": "A"}]);
    let error =
        rig.client.put("/v3/customers").key("one").json(&one).send().await.expect_err("no such customer");
    assert!(error.is_refused(), "{error}");
}

#[tokio::test]
async fn a_product_that_is_saved_without_its_stock_is_neither_confirmed_nor_found() {
    let mug = |name: &str, stock: i64| json!({"name": name, "type": "physical", "weight": 1, "price": 10, "inventory_level": stock});
    let (rig, fake) = store(|builder| builder).await;
    let cup = made(&rig, "/v3/catalog/products", &mug("Cup", 3)).await;
    let create = |name: &str| rig.client.post("/v3/catalog/products").key(name).json(&mug(name, -1));
    let reply = create("Mug").send().await.expect("a partial success");
    assert_eq!(reply.status().as_u16(), 207);
    let errors = BigCommerce::partial_errors(reply.answer());
    assert!(errors[0]["errors"]["inventory_level"].is_string(), "{errors:?}");

    fake.plan().next(Fault::DropAfterApply);
    assert_eq!(ending(&rig.at_rest(|| create("Jug")).await), NOBODY_KNOWS, "it is not what was sent");
    assert_eq!(fake.ledger().effects_for("Jug").len(), 1);

    let mug = reply.json::<Value>().expect("json")["data"]["id"].clone();
    let sent = json!([{"id": cup["id"], "inventory_level": -2}, {"id": mug, "price": 12}]);
    let reply =
        rig.client.put("/v3/catalog/products").key("p").json(&sent).send().await.expect("a partial success");
    assert_eq!(reply.status().as_u16(), 207);
    assert_eq!(BigCommerce::unconfirmed_items(&sent, reply.answer()), [0]);
    assert_eq!(reply.json::<Value>().expect("json")["data"][0]["inventory_level"], 3);
}

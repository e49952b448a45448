//! The life of the objects at the Stripe fake: what billing adds up to, what time brings, and what is expanded.

use http::Method;
use serde_json::{Value, json};

use crate::account::{Account, DAY, id};
use support::answers::shows;

impl Account {
    /// A customer with a card for invoices: the customer, and the payment method.
    async fn paying(&self) -> (String, String) {
        let customer = self.customer("pm_card_visa").await;
        let held = self.get(&format!("customers/{customer}")).await;
        (customer, held["invoice_settings"]["default_payment_method"].as_str().unwrap().to_owned())
    }
}

fn ids(page: &Value) -> Vec<String> {
    page["data"].as_array().unwrap().iter().map(id).collect()
}

#[tokio::test]
async fn a_product_comes_with_the_price_that_its_form_describes() {
    let account = Account::open();
    let form = "name=P&default_price_data[currency]=EUR&default_price_data[unit_amount]=700\
                &default_price_data[recurring][interval]=month&expand[]=default_price";
    let product = account.make("products", form).await;
    let price = &product["default_price"];
    assert_eq!(
        (&price["product"], &price["currency"], &price["unit_amount"], &price["type"]),
        (&product["id"], &json!("eur"), &json!(700), &json!("recurring"))
    );
    let other = account.make("prices", &format!("product={}&currency=usd&unit_amount=5", id(&product))).await;
    let path = format!("products/{}", id(&product));
    let changed = account.make(&path, &format!("default_price={}", id(&other))).await;
    assert_eq!(changed["default_price"], other["id"]);
}

#[tokio::test]
async fn a_plan_may_be_free() {
    let account = Account::open();
    let product = id(&account.make("products", "name=P").await);
    let form = format!("product={product}&currency=usd&interval=month&amount=0");
    let plan = account.make("plans", &form).await;
    shows(&plan, &json!({ "amount": 0, "amount_decimal": "0" }));
}

#[tokio::test]
async fn a_lookup_key_moves_to_another_price_when_it_is_told_to() {
    let account = Account::open();
    let old = account.price("currency=usd&unit_amount=500&lookup_key=basic").await;
    let new = account.price("currency=usd&unit_amount=600&lookup_key=basic&transfer_lookup_key=true").await;
    assert_eq!(ids(&account.get("prices?lookup_keys[]=basic").await), [new]);
    assert_eq!(account.get(&format!("prices/{old}")).await["lookup_key"], Value::Null);
}

#[tokio::test]
async fn an_invoice_takes_the_items_of_its_own_currency() {
    let account = Account::open();
    let (customer, _) = account.paying().await;
    for (amount, currency) in [(700, "eur"), (300, "usd"), (50, "eur")] {
        let form = format!("customer={customer}&amount={amount}&currency={currency}");
        account.make("invoiceitems", &form).await;
    }
    // The customer is billed in the currency of the first item.
    assert_eq!(account.get(&format!("customers/{customer}")).await["currency"], "eur");
    let form = format!("customer={customer}&pending_invoice_items_behavior=include");
    let euros = account.make("invoices", &form).await;
    shows(&euros, &json!({ "currency": "eur", "total": 750 }));
    let dollars = account.make("invoices", &format!("{form}&currency=usd")).await;
    shows(&dollars, &json!({ "currency": "usd", "total": 300 }));
}

#[tokio::test]
async fn an_item_costs_its_quantity_times_its_price_also_when_either_is_changed() {
    let account = Account::open();
    let (customer, _) = account.paying().await;
    let price = account.price("currency=usd&unit_amount=500").await;
    let invoice = id(&account.make("invoices", &format!("customer={customer}")).await);
    let form = format!("customer={customer}&invoice={invoice}&pricing[price]={price}&quantity=3");
    let item = account.make("invoiceitems", &form).await;
    shows(&item, &json!({ "amount": 1500, "quantity_decimal": "3" }));
    let path = format!("invoiceitems/{}", id(&item));
    for (change, amount, quantity) in [
        ("quantity=2", 1000, 2),
        ("unit_amount_decimal=40", 80, 2),
        ("unit_amount_decimal=30&quantity=10", 300, 10),
        ("amount=77", 77, 1),
        ("description=d", 77, 1),
    ] {
        let item = account.make(&path, change).await;
        assert_eq!((&item["amount"], &item["quantity"]), (&json!(amount), &json!(quantity)), "{change}");
        let invoice = account.get(&format!("invoices/{invoice}")).await;
        assert_eq!(
            (&invoice["total"], &invoice["lines"]["data"][0]["quantity"]),
            (&json!(amount), &json!(quantity))
        );
    }
    let item = account.make(&path, &format!("pricing[price]={price}")).await;
    assert_eq!((&item["amount"], &item["pricing"]["price_details"]["price"]), (&json!(500), &json!(price)));
}

#[tokio::test]
async fn an_invoice_that_is_sent_is_due_when_its_form_says() {
    let account = Account::open();
    let (customer, _) = account.paying().await;
    let form = format!("customer={customer}&collection_method=send_invoice");
    let days = account.make("invoices", &format!("{form}&days_until_due=7")).await;
    assert_eq!(days["due_date"].as_u64(), days["created"].as_u64().map(|created| created + 7 * DAY));
    let date = account.make("invoices", &format!("{form}&due_date=5000000000")).await;
    assert_eq!(date["due_date"], 5_000_000_000_u64);
    let path = format!("invoices/{}", id(&date));
    account.make(&format!("{path}/finalize"), "").await;
    for term in ["collection_method=charge_automatically", "days_until_due=9", "due_date=5000000001"] {
        let refused = account.ask(Method::POST, &path, term).await;
        assert_eq!(refused["error"]["code"], "invoice_not_editable", "{term}");
    }
    let path = format!("invoices/{}", id(&days));
    let later = account.make(&path, "days_until_due=9").await;
    assert_eq!(later["due_date"].as_u64(), days["created"].as_u64().map(|created| created + 9 * DAY));
    assert_eq!(account.make(&path, "collection_method=charge_automatically").await["due_date"], Value::Null);
}

#[tokio::test]
async fn a_subscription_waits_for_its_payment_if_it_is_told_to() {
    let account = Account::open();
    let (customer, method) = account.paying().await;
    let price = account.price("currency=usd&unit_amount=500&recurring[interval]=month").await;
    let form = format!("customer={customer}&default_payment_method={method}&items[0][price]={price}");
    let incomplete =
        account.make("subscriptions", &format!("{form}&payment_behavior=default_incomplete")).await;
    let invoice = account.get(&format!("invoices/{}", incomplete["latest_invoice"].as_str().unwrap())).await;
    assert_eq!((&incomplete["status"], &invoice["status"]), (&json!("incomplete"), &json!("open")));
    assert_eq!(account.get("charges").await["data"], json!([]));
    account.make(&format!("invoices/{}/pay", id(&invoice)), "").await;
    assert_eq!(account.get(&format!("subscriptions/{}", id(&incomplete))).await["status"], "active");
    let active = account.make("subscriptions", &form).await;
    shows(&active, &json!({ "status": "active", "currency": "usd" }));
    let item = id(&active["items"]["data"][0]);
    let path = format!("subscriptions/{}", id(&active));
    let other = account.price("currency=usd&unit_amount=300&recurring[interval]=month").await;
    let form = format!("items[0][id]={item}&items[0][quantity]=4&items[1][price]={other}");
    let changed = account.make(&path, &form).await;
    assert_eq!(
        (&changed["items"]["data"][0]["quantity"], &changed["items"]["total_count"]),
        (&json!(4), &json!(2))
    );
    let form = "cancellation_details[comment]=too dear";
    let canceled = account.ask(Method::DELETE, &path, form).await;
    assert_eq!(
        (&canceled["status"], &canceled["cancellation_details"]["comment"]),
        (&json!("canceled"), &json!("too dear"))
    );
}

#[tokio::test]
async fn money_arrives_on_the_day_that_was_named() {
    let account = Account::open();
    let charge = account.make("charges", "amount=1000&currency=usd&expand[]=balance_transaction").await;
    let line = format!("balance_transactions/{}", id(&charge["balance_transaction"]));
    let payout = account.make("payouts", "amount=5&currency=usd").await;
    let gone = account.make("payouts", "amount=6&currency=usd").await;
    let topup = account.make("topups", "amount=7&currency=usd").await;
    account.make(&format!("payouts/{}/cancel", id(&gone)), "").await;
    let at =
        |object: &Value, name: &str| object[name].as_u64().unwrap() - object["created"].as_u64().unwrap();
    let (arrives, available) = (at(&payout, "arrival_date"), at(&topup, "expected_availability_date"));
    assert_eq!(
        (arrives, available, at(&charge["balance_transaction"], "available_on")),
        (2 * DAY, DAY, 2 * DAY)
    );

    let states = async || {
        let (payout, topup) = (format!("payouts/{}", id(&payout)), format!("topups/{}", id(&topup)));
        [account.get(&payout).await, account.get(&topup).await, account.get(&line).await]
            .map(|object| object["status"].as_str().unwrap().to_owned())
    };
    account.wait(DAY - 1);
    assert_eq!(states().await, ["pending", "pending", "pending"]);
    account.wait(1);
    assert_eq!(states().await, ["pending", "succeeded", "pending"]);
    account.wait(DAY - 1);
    assert_eq!(states().await, ["pending", "succeeded", "pending"]);
    account.wait(1);
    assert_eq!(states().await, ["paid", "succeeded", "available"]);
    assert_eq!(account.get(&format!("payouts/{}", id(&gone))).await["status"], "canceled");
    assert_eq!(ids(&account.get("payouts?status=paid").await), [id(&payout)]);
    let refused = account.ask(Method::POST, &format!("payouts/{}/cancel", id(&payout)), "").await;
    assert_eq!(refused["error"]["code"], "payout_not_cancelable");
    for (kind, object) in [("payout.paid", &payout), ("topup.succeeded", &topup)] {
        let [event] = &account.events(kind).await[..] else { panic!("one {kind}") };
        assert_eq!((&event["data"]["object"]["id"], &event["request"]["id"]), (&object["id"], &Value::Null));
    }
}

#[tokio::test]
async fn what_is_overdue_took_place_at_its_own_time() {
    let account = Account::open();
    let payout = account.make("payouts", "amount=5&currency=usd").await;
    account.wait(30 * DAY);
    let [event] = &account.events("payout.paid").await[..] else { panic!("one") };
    assert_eq!(event["created"], payout["arrival_date"]);
}

#[tokio::test]
async fn a_subscription_ends_with_its_period_if_it_is_told_to_and_not_if_that_is_withdrawn() {
    let account = Account::open();
    let (customer, method) = account.paying().await;
    let price = account.price("currency=usd&unit_amount=500&recurring[interval]=week").await;
    let form = format!("customer={customer}&default_payment_method={method}&items[0][price]={price}");
    let ends = account.make("subscriptions", &format!("{form}&cancel_at_period_end=true")).await;
    assert_eq!(ends["cancel_at"], ends["items"]["data"][0]["current_period_end"]);
    let stays = account.make("subscriptions", &form).await;
    let path = format!("subscriptions/{}", id(&stays));
    account.make(&path, "cancel_at_period_end=true").await;
    account.make(&path, "cancel_at_period_end=false").await;
    account.wait(7 * DAY - 1);
    let ended = format!("subscriptions/{}", id(&ends));
    assert_eq!(account.get(&ended).await["status"], "active");
    account.wait(1);
    let now = account.get(&ended).await;
    assert_eq!((&now["status"], &now["ended_at"]), (&json!("canceled"), &ends["cancel_at"]));
    assert_eq!(account.get(&path).await["status"], "active");
    assert_eq!(account.events("customer.subscription.deleted").await.len(), 1);
}

/// Each list leaves out what Stripe's does unless it is asked for.
#[tokio::test]
async fn a_list_shows_what_is_canceled_or_not_active_when_it_is_asked_to() {
    let account = Account::open();
    let (customer, method) = account.paying().await;
    let price = account.price("currency=usd&unit_amount=500&recurring[interval]=week").await;
    let form = format!("customer={customer}&default_payment_method={method}&items[0][price]={price}");
    let (stays, ended) =
        (account.make("subscriptions", &form).await, account.make("subscriptions", &form).await);
    account.ask(Method::DELETE, &format!("subscriptions/{}", id(&ended)), "").await;
    for (filter, shown) in [
        ("", vec![&stays]),
        ("?status=ended", vec![&ended]),
        ("?status=canceled", vec![&ended]),
        ("?status=active", vec![&stays]),
    ] {
        let shown: Vec<String> = shown.into_iter().map(id).collect();
        assert_eq!(ids(&account.get(&format!("subscriptions{filter}")).await), shown, "{filter}");
    }
    assert_eq!(ids(&account.get("subscriptions?status=all").await).len(), 2);
    let refused = account.ask(Method::GET, &format!("subscriptions?price={price}"), "").await;
    assert_eq!(refused["error"]["code"], "parameter_unknown", "it never finds nothing instead");
    account.make(&format!("prices/{price}"), "active=false").await;
    assert!(ids(&account.get("prices").await).is_empty());
    assert_eq!(ids(&account.get("prices?active=false").await), [price]);
}

/// An invoice item has a date, and its list goes by that.
#[tokio::test]
async fn an_invoice_item_is_listed_by_its_date() {
    let account = Account::open();
    let (customer, _) = account.paying().await;
    let item = account.make("invoiceitems", &format!("customer={customer}&amount=5&currency=usd")).await;
    let since =
        |seconds: i64| format!("invoiceitems?created[gte]={}", item["date"].as_i64().unwrap() + seconds);
    assert_eq!(ids(&account.get(&since(0)).await), [id(&item)]);
    assert!(ids(&account.get(&since(1)).await).is_empty());
}

#[tokio::test]
async fn what_is_expanded_is_the_object_of_its_id_in_a_list_and_in_depth() {
    let account = Account::open();
    let (customer, method) = account.paying().await;
    let form = format!(
        "amount=900&currency=usd&customer={customer}&payment_method={method}&confirm=true&payment_method_types[]=card"
    );
    let intent = account.make("payment_intents", &form).await;
    let path = format!("payment_intents/{}?expand[]=latest_charge.balance_transaction.source", id(&intent));
    let line = account.get(&path).await["latest_charge"]["balance_transaction"].clone();
    assert_eq!(
        (&line["object"], &line["source"]["id"]),
        (&json!("balance_transaction"), &intent["latest_charge"])
    );
    let page = account.get("charges?expand[]=data.payment_intent.customer").await;
    assert_eq!(page["data"][0]["payment_intent"]["customer"]["id"], customer);

    let price = account.price("currency=usd&unit_amount=500&recurring[interval]=week").await;
    let form = format!("customer={customer}&items[0][price]={price}&expand[]=items.data.price.product");
    let subscription = account.make("subscriptions", &form).await;
    assert_eq!(subscription["items"]["data"][0]["price"]["product"]["name"], "P");
    account.ask(Method::DELETE, &format!("customers/{customer}"), "").await;
    let gone = account.get(&format!("subscriptions/{}?expand[]=customer", id(&subscription))).await;
    assert_eq!(gone["customer"], json!({ "id": customer, "object": "customer", "deleted": true }));
}

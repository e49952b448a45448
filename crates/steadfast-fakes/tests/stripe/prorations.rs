//! The cost of a change of a subscription at the Stripe fake, and what a credit does to the invoices after it.

use http::Method;
use serde_json::{Value, json};

use crate::account::{Account, DAY, HOUR, VISA, id};
use support::answers::shows;

/// The clock begins with January, which has 31 days.
const HALF: u64 = 31 * DAY / 2;

/// A subscription of one item.
struct Subscribed {
    path: String,
    item: String,
    customer: String,
}

impl Account {
    /// The parameter and the code of a refusal.
    async fn refused_for(&self, path: &str, form: &str) -> (String, Value) {
        let refused = self.ask(Method::POST, path, form).await;
        let error = &refused["error"];
        (error["param"].as_str().unwrap_or_default().to_owned(), error["code"].clone())
    }

    async fn every(&self, interval: &str, unit_amount: u64) -> String {
        self.price(&format!("currency=usd&unit_amount={unit_amount}&recurring[interval]={interval}")).await
    }

    /// A monthly subscription at this price, of such a customer.
    async fn subscribed(&self, unit_amount: u64, more: &str) -> Subscribed {
        let (customer, price) = (self.customer(VISA).await, self.every("month", unit_amount).await);
        let form = format!("customer={customer}&items[0][price]={price}{more}");
        let made = self.make("subscriptions", &form).await;
        let item = id(&made["items"]["data"][0]);
        Subscribed { path: format!("subscriptions/{}", id(&made)), item, customer }
    }

    async fn change_price(&self, of: &Subscribed, price: &str, more: &str) -> Value {
        self.make(&of.path, &format!("items[0][id]={}&items[0][price]={price}{more}", of.item)).await
    }

    /// The cost of each item that waits for an invoice, newest first.
    async fn waiting(&self, customer: &str) -> Vec<i64> {
        let items = self.get(&format!("invoiceitems?customer={customer}")).await;
        let items = items["data"].as_array().unwrap().clone();
        let waiting = items.iter().filter(|item| item["invoice"].is_null());
        waiting.map(|item| item["amount"].as_i64().unwrap()).collect()
    }

    async fn charged(&self) -> Vec<i64> {
        let charges = self.get("charges?limit=100").await;
        charges["data"].as_array().unwrap().iter().map(|charge| charge["amount"].as_i64().unwrap()).collect()
    }

    async fn balance(&self, customer: &str) -> i64 {
        self.get(&format!("customers/{customer}")).await["balance"].as_i64().unwrap()
    }

    /// A draft with one item of this amount.
    async fn draft(&self, customer: &str, amount: i64, currency: &str) -> Value {
        let draft = self.make("invoices", &format!("customer={customer}&currency={currency}")).await;
        let form = format!("customer={customer}&invoice={}&amount={amount}&currency={currency}", id(&draft));
        self.make("invoiceitems", &form).await;
        self.get(&format!("invoices/{}", id(&draft))).await
    }

    async fn finalized(&self, draft: &Value) -> Value {
        self.make(&format!("invoices/{}/finalize", id(draft)), "").await
    }
}

#[tokio::test]
async fn another_price_is_credited_and_charged_for_the_rest_of_the_period_with_the_next_invoice() {
    let account = Account::open();
    let of = account.subscribed(1000, "").await;
    let dearer = account.every("month", 2000).await;
    let before = account.get(&of.path).await;
    account.wait(HALF);
    let changed = account.change_price(&of, &dearer, "").await;
    let period = |of: &Value| of["items"]["data"][0]["current_period_end"].clone();
    assert_eq!((period(&changed), &changed["latest_invoice"]), (period(&before), &before["latest_invoice"]));
    assert_eq!(
        (account.waiting(&of.customer).await, account.charged().await),
        (vec![1000, -500], vec![1000])
    );
    let items = account.get("invoiceitems").await["data"].clone();
    let (charge, credit) = (&items[0], &items[1]);
    for (item, words) in
        [(charge, "Remaining time on P after 16 Jan 2026"), (credit, "Unused time on P after 16 Jan 2026")]
    {
        shows(item, &json!({ "description": words, "proration": true, "discountable": false }));
        assert_eq!(
            (&item["period"]["start"], &item["period"]["end"]),
            (&json!(account.now()), &period(&before)),
            "{words}"
        );
        let parent = &item["parent"]["subscription_details"];
        assert_eq!(
            (&parent["subscription"], &parent["subscription_item"]),
            (&before["id"], &before["items"]["data"][0]["id"])
        );
    }
    account.wait(HALF + HOUR);
    let renewal = account.latest_invoice(&of.path).await;
    assert_eq!(
        (&renewal["total"], &renewal["status"], &renewal["lines"]["total_count"]),
        (&json!(2500), &json!("paid"), &json!(3))
    );
    let lines = renewal["lines"]["data"].as_array().unwrap().clone();
    let details = |line: &Value| line["parent"]["subscription_item_details"].clone();
    let prorations = lines.iter().filter(|line| details(line)["proration"] == true);
    assert_eq!(
        prorations.map(|line| details(line)["invoice_item"].is_string()).collect::<Vec<_>>(),
        [true; 2]
    );
    assert!(lines.iter().all(|line| line["subscription"] == before["id"]));
    assert!(account.waiting(&of.customer).await.is_empty());
}

#[tokio::test]
async fn what_is_left_of_a_period_is_told_to_the_second() {
    let account = Account::open();
    let of = account.subscribed(999, "&items[0][quantity]=3").await;
    account.wait(12_345);
    // 2997 × (2678400 - 12345) / 2678400 is 2983.19, and 4 × 999 of that part is 3977.58.
    let item = account.make(&format!("subscription_items/{}", of.item), "quantity=4").await;
    shows(&item, &json!({ "quantity": 4, "object": "subscription_item" }));
    assert_eq!(account.get(&format!("subscription_items/{}", of.item)).await, item);
    assert_eq!(account.waiting(&of.customer).await, [3978, -2983]);
    let items = account.get("invoiceitems").await["data"].clone();
    assert_eq!(items[0]["description"], "Remaining time on 4 × P after 01 Jan 2026");
}

#[tokio::test]
async fn a_change_is_billed_at_once_or_not_at_all_if_it_says_so() {
    let account = Account::open();
    let of = account.subscribed(1000, "").await;
    let (dearer, cheaper) = (account.every("month", 2000).await, account.every("month", 500).await);
    account.wait(HALF);
    account.change_price(&of, &dearer, "&proration_behavior=always_invoice").await;
    let invoice = account.latest_invoice(&of.path).await;
    shows(
        &invoice,
        &json!({ "billing_reason": "subscription_update", "status": "paid", "amount_paid": 500 }),
    );
    assert_eq!(account.charged().await, [500, 1000]);
    account.change_price(&of, &cheaper, "&proration_behavior=none").await;
    account.make(&of.path, "proration_behavior=always_invoice&description=d").await;
    assert_eq!((account.charged().await, account.waiting(&of.customer).await), (vec![500, 1000], vec![]));
    assert_eq!(account.latest_invoice(&of.path).await["id"], invoice["id"], "nothing is to be billed");
    // A new item, and one that is removed.
    let form = format!("items[0][price]={dearer}&items[1][id]={}&items[1][deleted]=true", of.item);
    let changed = account.make(&of.path, &form).await;
    assert_eq!(account.waiting(&of.customer).await, [1000, -250]);
    assert_eq!(changed["items"]["data"][0]["current_period_end"], account.now() + HALF);
}

#[tokio::test]
async fn a_credit_that_is_billed_at_once_is_in_the_balance_until_the_next_invoice() {
    let account = Account::open();
    let of = account.subscribed(1000, "").await;
    let cheaper = account.every("month", 500).await;
    account.wait(HALF);
    account.change_price(&of, &cheaper, "&proration_behavior=always_invoice").await;
    let credit = account.latest_invoice(&of.path).await;
    shows(&credit, &json!({ "total": -250, "amount_due": 0, "status": "paid", "ending_balance": -250 }));
    assert_eq!(account.balance(&of.customer).await, -250);
    account.wait(HALF + HOUR);
    let renewal = account.latest_invoice(&of.path).await;
    shows(
        &renewal,
        &json!({ "total": 500, "starting_balance": -250, "amount_paid": 250, "ending_balance": 0 }),
    );
    assert_eq!((account.balance(&of.customer).await, account.charged().await), (0, vec![250, 1000]));
}

#[tokio::test]
async fn another_interval_begins_a_period_that_is_billed_at_once() {
    for (more, total) in [("", 9500_i64), ("&proration_behavior=none", 10_000)] {
        let account = Account::open();
        let of = account.subscribed(1000, "").await;
        let yearly = account.every("year", 10_000).await;
        account.wait(HALF);
        let changed = account.change_price(&of, &yearly, more).await;
        let (item, now) = (&changed["items"]["data"][0], account.now());
        assert_eq!(
            (&item["current_period_start"], &item["current_period_end"], &changed["billing_cycle_anchor"]),
            (&json!(now), &json!(now + 365 * DAY), &json!(now))
        );
        let invoice = account.latest_invoice(&of.path).await;
        assert_eq!((&invoice["total"], &invoice["status"]), (&json!(total), &json!("paid")), "{more}");
        assert_eq!(account.charged().await, [total, 1000]);
        account.wait(365 * DAY + HOUR);
        assert_eq!(account.charged().await, [10_000, total, 1000]);
    }
}

#[tokio::test]
async fn a_move_from_free_to_paid_begins_a_period() {
    let account = Account::open();
    let of = account.subscribed(0, "").await;
    let paid = account.every("month", 2000).await;
    account.wait(HALF);
    let changed = account.change_price(&of, &paid, "").await;
    assert_eq!(changed["items"]["data"][0]["current_period_start"], account.now());
    assert_eq!(
        (account.latest_invoice(&of.path).await["total"].clone(), account.charged().await),
        (json!(2000), vec![2000])
    );
}

#[tokio::test]
async fn a_trial_is_not_prorated_and_ends_when_it_is_told_to() {
    let account = Account::open();
    let of = account.subscribed(1000, "&trial_period_days=7").await;
    let (dearer, yearly) = (account.every("month", 2000).await, account.every("year", 9000).await);
    account.wait(DAY);
    let trial = account.change_price(&of, &dearer, "&proration_behavior=always_invoice").await;
    assert_eq!((&trial["status"], account.waiting(&of.customer).await), (&json!("trialing"), vec![]));
    let trial = account.change_price(&of, &yearly, "").await;
    assert_eq!(trial["items"]["data"][0]["current_period_end"], trial["trial_end"]);
    let ended = account.make(&of.path, "trial_end=now").await;
    shows(&ended, &json!({ "status": "active", "trial_end": account.now() }));
    assert_eq!(ended["items"]["data"][0]["current_period_end"], account.now() + 365 * DAY);
    assert_eq!(account.charged().await, [9000]);
}

#[tokio::test]
async fn a_change_that_cannot_be_paid_is_past_due_or_is_not_made() {
    let account = Account::open();
    let price = account.every("month", 1000).await;
    let customer = id(&account.make("customers", "name=Poor").await);
    let form = format!("customer={customer}&items[0][price]={price}&trial_period_days=7");
    let path = format!("subscriptions/{}", id(&account.make("subscriptions", &form).await));
    let before = account.get(&path).await;
    let form = "trial_end=now&payment_behavior=error_if_incomplete";
    assert_eq!(account.ask(Method::POST, &path, form).await["error"]["code"], "resource_missing");
    assert_eq!(account.get(&path).await, before);
    let ended = account.make(&path, "trial_end=now").await;
    assert_eq!(ended["status"], "past_due");
    let pay = format!("invoices/{}/pay", ended["latest_invoice"].as_str().unwrap());
    account.make(&pay, "payment_method=pm_card_visa").await;
    assert_eq!(account.get(&path).await["status"], "active");
}

#[tokio::test]
async fn the_items_of_an_incomplete_subscription_stay_as_they_are() {
    let account = Account::open();
    let of = account.subscribed(1000, "&payment_behavior=default_incomplete").await;
    let refused = account.ask(Method::POST, &format!("subscription_items/{}", of.item), "quantity=2").await;
    assert_eq!(refused["error"]["param"], "items");
    account.make(&of.path, "metadata[a]=1").await;
}

#[tokio::test]
async fn what_waits_is_removed_by_a_cancellation_at_once_and_billed_at_the_end_of_a_period() {
    for (ends, charged) in [("", vec![1000]), ("cancel_at_period_end=true", vec![500, 1000])] {
        let account = Account::open();
        let of = account.subscribed(1000, "").await;
        let dearer = account.every("month", 2000).await;
        account.wait(HALF);
        account.change_price(&of, &dearer, "").await;
        if ends.is_empty() {
            account.ask(Method::DELETE, &of.path, "").await;
        } else {
            account.make(&of.path, ends).await;
        }
        account.wait(HALF + HOUR);
        assert_eq!(account.get(&of.path).await["status"], "canceled");
        assert_eq!(
            (account.charged().await, account.waiting(&of.customer).await),
            (charged, vec![]),
            "{ends}"
        );
    }
}

#[tokio::test]
async fn a_change_of_one_subscription_is_not_billed_with_another() {
    let account = Account::open();
    let of = account.subscribed(1000, "").await;
    let (dearer, weekly) = (account.every("month", 2000).await, account.every("week", 300).await);
    account.wait(DAY);
    let form = format!("customer={}&items[0][price]={weekly}", of.customer);
    account.make("subscriptions", &form).await;
    account.wait(HALF - DAY);
    account.change_price(&of, &dearer, "").await;
    // The other one is renewed meanwhile.
    account.wait(7 * DAY);
    assert_eq!(account.charged().await, [300, 300, 300, 300, 1000]);
    assert_eq!(account.waiting(&of.customer).await, [1000, -500]);
    // A one-off invoice takes what waits, whatever it is of.
    let form = format!("customer={}&pending_invoice_items_behavior=include", of.customer);
    assert_eq!(account.make("invoices", &form).await["total"], 500);
}

#[tokio::test]
async fn a_subscription_begins_with_the_items_that_wait_for_an_invoice() {
    let account = Account::open();
    let (customer, price) = (account.customer(VISA).await, account.every("month", 1000).await);
    account.make("invoiceitems", &format!("customer={customer}&amount=250&currency=usd")).await;
    account.make("subscriptions", &format!("customer={customer}&items[0][price]={price}")).await;
    assert_eq!(account.charged().await, [1250]);
}

#[tokio::test]
async fn a_negative_total_is_a_credit_that_the_next_invoices_take_in() {
    let account = Account::open();
    let customer = account.customer(VISA).await;
    let form = format!("customer={customer}&unit_amount_decimal=-150&quantity=2&currency=usd");
    let item = account.make("invoiceitems", &form).await;
    shows(&item, &json!({ "amount": -300, "discountable": false }));
    let form = format!("customer={customer}&pending_invoice_items_behavior=include");
    let credit = account.make("invoices", &form).await;
    shows(&credit, &json!({ "total": -300, "amount_due": 0 }));
    assert_eq!(account.balance(&customer).await, 0, "it is a draft");
    let later = account.draft(&customer, 1000, "usd").await;
    shows(&later, &json!({ "starting_balance": 0, "amount_due": 1000 }));
    let credit = account.finalized(&credit).await;
    shows(&credit, &json!({ "status": "paid", "ending_balance": -300 }));
    assert_eq!(account.balance(&customer).await, -300);
    let later = account.get(&format!("invoices/{}", id(&later))).await;
    shows(&later, &json!({ "starting_balance": -300, "amount_due": 700 }));
    let open = account.finalized(&later).await;
    shows(&open, &json!({ "status": "open", "amount_due": 700, "ending_balance": 0 }));
    assert_eq!(account.balance(&customer).await, 0);
    // An invoice that is voided gives back what it took.
    account.make(&format!("invoices/{}/void", id(&open)), "").await;
    assert_eq!(account.balance(&customer).await, -300);
    let small = account.draft(&customer, 200, "usd").await;
    let small = account.finalized(&small).await;
    shows(
        &small,
        &json!({ "status": "paid", "amount_due": 0, "starting_balance": -300, "ending_balance": -100 }),
    );
    assert_eq!((account.balance(&customer).await, account.charged().await), (-100, vec![]));
    let told = account.get("events?type=customer.updated").await;
    assert_eq!(told["data"][0]["data"]["previous_attributes"], json!({ "balance": -300 }));
}

#[tokio::test]
async fn what_is_too_little_to_charge_is_owed_with_the_next_invoice() {
    let account = Account::open();
    let customer = account.customer(VISA).await;
    let little = account.draft(&customer, 49, "usd").await;
    let little = account.finalized(&little).await;
    shows(&little, &json!({ "status": "paid", "amount_due": 0, "ending_balance": 49 }));
    assert_eq!(account.balance(&customer).await, 49);
    let next = account.draft(&customer, 100, "usd").await;
    account.make(&format!("invoices/{}/pay", id(&next)), "").await;
    assert_eq!((account.balance(&customer).await, account.charged().await), (0, vec![149]));
}

#[tokio::test]
async fn each_currency_has_a_balance_of_its_own() {
    let account = Account::open();
    let customer = account.customer(VISA).await;
    for (amount, currency, due) in [(100, "usd", 100), (-300, "eur", 0), (500, "usd", 500), (500, "eur", 200)]
    {
        let draft = account.draft(&customer, amount, currency).await;
        assert_eq!(account.finalized(&draft).await["amount_due"], due, "{amount} {currency}");
    }
    assert_eq!(account.balance(&customer).await, 0, "that of the customer's own currency");
}

#[tokio::test]
async fn an_update_tells_what_the_attributes_were_before_it() {
    let account = Account::open();
    let before = async |kind: &str| {
        let told = account.get(&format!("events?type={kind}")).await;
        told["data"][0]["data"]["previous_attributes"].clone()
    };
    let customer = id(&account.make("customers", "metadata[a]=1&metadata[b]=2&address[city]=Paris").await);
    let form = "name=Ada&metadata[a]=3&metadata[b]=2&metadata[c]=4&address[city]=Rome";
    account.make(&format!("customers/{customer}"), form).await;
    assert_eq!(
        before("customer.updated").await,
        json!({ "address": { "city": "Paris" }, "metadata": { "a": "1", "c": null }, "name": null })
    );
    let of = account.subscribed(1000, "").await;
    account.make(&format!("subscription_items/{}", of.item), "quantity=2&proration_behavior=none").await;
    let told = before("customer.subscription.updated").await;
    assert_eq!(told["items"]["data"][0]["quantity"], 1, "an array is shown whole");
    assert_eq!(told.as_object().unwrap().len(), 1);
    let created = account.get("events?type=customer.created").await;
    assert!(created["data"][0]["data"].get("previous_attributes").is_none());
}

#[tokio::test]
async fn nothing_is_told_that_stripe_has_no_event_for() {
    let account = Account::open();
    let intent = account.make("payment_intents", "amount=1000&currency=usd").await;
    account.make(&format!("payment_intents/{}", id(&intent)), "description=d").await;
    assert_eq!(account.get("events?type=payment_intent.updated").await["data"], json!([]));
    assert_eq!(account.get("events").await["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_a_proration_is_of_stays_and_its_amount_can_be_changed() {
    let account = Account::open();
    let of = account.subscribed(1000, "").await;
    let dearer = account.every("month", 2000).await;
    account.wait(HALF);
    account.change_price(&of, &dearer, "").await;
    let credit = account.get("invoiceitems").await["data"][1].clone();
    assert_eq!((&credit["amount"], &credit["pricing"]["unit_amount_decimal"]), (&json!(-500), &Value::Null));
    let path = format!("invoiceitems/{}", id(&credit));
    for (form, param) in [
        ("quantity=2".to_owned(), "quantity"),
        ("unit_amount_decimal=5".to_owned(), "unit_amount_decimal"),
        (format!("pricing[price]={dearer}"), "pricing"),
        ("discountable=true".to_owned(), "discountable"),
    ] {
        assert_eq!(account.refused_for(&path, &form).await.0, param);
    }
    assert_eq!(account.get(&path).await, credit);
    let changed = account.make(&path, "amount=-400&discountable=false").await;
    assert_eq!(
        (&changed["amount"], &changed["pricing"], &changed["quantity"]),
        (&json!(-400), &credit["pricing"], &credit["quantity"])
    );
}

#[tokio::test]
async fn what_costs_more_than_stripe_charges_is_refused_and_leaves_nothing() {
    let account = Account::open();
    let large = || json!("amount_too_large");
    let of = account.subscribed(99_999_999, "").await;
    let (held, other) = (account.get(&of.path).await, account.every("month", 99_999_999).await);
    let items = format!("customer={}&items[0][price]={other}&items[0][quantity]=9000000000000", of.customer);
    assert_eq!(
        account.refused_for("subscriptions", &items).await,
        ("items[0][quantity]".to_owned(), large())
    );
    let item = format!("subscription_items/{}", of.item);
    assert_eq!(account.refused_for(&item, "quantity=2").await, ("quantity".to_owned(), large()));
    // Each is small enough, and their sum is not.
    let both = format!("customer={}&items[0][price]={other}&items[1][price]=", of.customer);
    let both = format!("{both}{}", account.every("month", 1).await);
    assert_eq!(account.refused_for("subscriptions", &both).await, (String::new(), large()));
    assert_eq!(account.get(&of.path).await, held);
    let listed = account.get("subscriptions").await;
    assert_eq!((listed["data"].as_array().unwrap().len(), account.charged().await), (1, vec![99_999_999]));

    let item = format!("customer={}&currency=usd&unit_amount_decimal=9223372036854775807", of.customer);
    let param = "unit_amount_decimal".to_owned();
    assert_eq!(account.refused_for("invoiceitems", &item).await, (param, large()));
    let draft = account.draft(&of.customer, 99_999_999, "usd").await;
    let form = format!("customer={}&invoice={}&amount=1&currency=usd", of.customer, id(&draft));
    account.make("invoiceitems", &form).await;
    for action in ["finalize", "send", "pay"] {
        let refused = account.refused_for(&format!("invoices/{}/{action}", id(&draft)), "").await;
        assert_eq!(refused, (String::new(), large()), "{action}");
    }
    assert_eq!(account.get(&format!("invoices/{}", id(&draft))).await["status"], "draft");
}

#[tokio::test]
async fn a_renewal_that_is_too_large_to_charge_stays_a_draft() {
    let account = Account::open();
    let of = account.subscribed(99_999_999, "").await;
    account.make("invoiceitems", &format!("customer={}&amount=1&currency=usd", of.customer)).await;
    account.wait(2 * HALF + 2 * HOUR);
    let draft = account.latest_invoice(&of.path).await;
    shows(&draft, &json!({ "status": "draft", "total": 100_000_000, "automatically_finalizes_at": null }));
    assert_eq!(account.charged().await, [99_999_999]);
}

#[tokio::test]
async fn an_interval_is_of_three_years_at_most_and_of_one_unit_at_least() {
    let account = Account::open();
    let form = "product_data[name]=P&currency=usd&unit_amount=500";
    for (interval, most) in [("day", 1095), ("week", 156), ("month", 36), ("year", 3)] {
        let recurring = format!("{form}&recurring[interval]={interval}&recurring[interval_count]=");
        for count in [0, -3, most + 1, i64::MAX] {
            let (param, _) = account.refused_for("prices", &format!("{recurring}{count}")).await;
            assert_eq!(param, "recurring[interval_count]", "{count} {interval}");
        }
        account.make("prices", &format!("{recurring}{most}")).await;
    }
    let form = "name=P&default_price_data[currency]=usd&default_price_data[unit_amount]=5\
                &default_price_data[recurring][interval]=year&default_price_data[recurring][interval_count]=4";
    let (param, _) = account.refused_for("products", form).await;
    assert_eq!(param, "default_price_data[recurring][interval_count]");
    let product = id(&account.make("products", "name=P").await);
    let form = format!("product={product}&currency=usd&amount=5&interval=month&interval_count=37");
    assert_eq!(account.refused_for("plans", &form).await.0, "interval_count");
}

#[tokio::test]
async fn a_price_is_of_one_item_in_a_subscription() {
    let account = Account::open();
    let of = account.subscribed(1000, "").await;
    let (held, other) = (account.get(&of.path).await, account.every("month", 500).await);
    let price = held["items"]["data"][0]["price"]["id"].as_str().unwrap();
    let message = async |path: &str, form: &str| {
        let refused = account.ask(Method::POST, path, form).await;
        refused["error"]["message"].as_str().unwrap_or_default().to_owned()
    };
    let twice = format!("items[0][price]={other}&items[1][price]={other}");
    let words = format!("Cannot add multiple subscription items with the same plan: {other}");
    assert_eq!(message("subscriptions", &format!("customer={}&{twice}", of.customer)).await, words);
    assert_eq!(message(&of.path, &twice).await, words);
    let again = message(&of.path, &format!("items[0][price]={price}")).await;
    assert!(again.contains(&format!("Item `{}` is already using that Price.", of.item)), "{again}");
    assert_eq!(account.get(&of.path).await, held);
    // It can take the place of the item that had it.
    let form = format!("items[0][price]={price}&items[1][id]={}&items[1][deleted]=true", of.item);
    account.make(&of.path, &form).await;
}

#[tokio::test]
async fn a_number_of_days_is_not_below_zero() {
    let account = Account::open();
    let (customer, price) = (account.customer(VISA).await, account.every("month", 1000).await);
    let subscription = format!("customer={customer}&items[0][price]={price}");
    let sent = "collection_method=send_invoice&days_until_due=-1";
    for (path, form, param) in [
        ("subscriptions", format!("{subscription}&trial_period_days=-1"), "trial_period_days"),
        ("subscriptions", format!("{subscription}&{sent}"), "days_until_due"),
        ("invoices", format!("customer={customer}&{sent}"), "days_until_due"),
    ] {
        let refused = account.refused_for(path, &form).await;
        assert_eq!(refused, (param.to_owned(), json!("parameter_invalid_integer")), "{form}");
    }
}

#[tokio::test]
async fn a_receiver_in_live_mode_is_at_https_and_the_refusal_has_no_code() {
    let account = Account::open();
    let live = async |url: &str| {
        let form = format!("url={url}&enabled_events[]=*");
        account.ask_with("Bearer sk_live_1", Method::POST, "webhook_endpoints", &form).await
    };
    for url in ["undefined/pilots/stripe/webhooks", "http://192.0.2.1/"] {
        let error = live(url).await["error"].clone();
        let message = format!("Invalid URL: {url}. URLs in livemode must begin with \"https://\"");
        shows(&error, &json!({ "message": message, "param": "url", "code": null }));
    }
    assert_eq!(live("https://192.0.2.1/").await["error"], Value::Null);
}

//! Subscriptions of the Stripe fake by its clock: trials end, periods are renewed, invoices are paid, sent, overdue or voided.

use http::Method;
use serde_json::{Value, json};

use crate::account::{Account, DAY, HOUR, id};
use support::answers::shows;

impl Account {
    /// A monthly subscription at 500 of such a customer, and its path.
    async fn subscription(&self, card: &str, more: &str) -> String {
        let customer = self.customer(card).await;
        let price = self.price("currency=usd&unit_amount=500&recurring[interval]=month").await;
        let form = format!("customer={customer}&items[0][price]={price}{more}");
        format!("subscriptions/{}", id(&self.make("subscriptions", &form).await))
    }

    async fn charges(&self) -> usize {
        self.get("charges?limit=100").await["data"].as_array().unwrap().len()
    }

    async fn status(&self, path: &str) -> String {
        self.get(path).await["status"].as_str().unwrap().to_owned()
    }

    /// How often each of these was told of.
    async fn told<const N: usize>(&self, kinds: [&str; N]) -> [usize; N] {
        let mut counts = [0; N];
        for (count, kind) in counts.iter_mut().zip(kinds) {
            *count = self.events(kind).await.len();
        }
        counts
    }
}

#[tokio::test]
async fn a_trial_ends_in_a_period_that_is_paid() {
    let account = Account::open();
    let path = account.subscription("pm_card_visa", "&trial_period_days=7").await;
    let trial = account.get(&path).await;
    let end = trial["trial_end"].as_u64().unwrap();
    let kinds = ["customer.subscription.trial_will_end", "customer.subscription.updated", "invoice.created"];
    account.wait(4 * DAY - 1);
    assert_eq!((account.status(&path).await.as_str(), account.told(kinds).await), ("trialing", [0, 0, 1]));
    account.wait(1);
    assert_eq!((account.status(&path).await.as_str(), account.told(kinds).await), ("trialing", [1, 0, 1]));
    account.wait(3 * DAY - 1);
    assert_eq!((account.status(&path).await.as_str(), account.told(kinds).await), ("trialing", [1, 0, 1]));
    account.wait(1);
    let active = account.get(&path).await;
    let item = &active["items"]["data"][0];
    assert_eq!((&active["status"], account.told(kinds).await), (&json!("active"), [1, 1, 2]));
    assert_eq!(item["current_period_start"], end);
    assert!((28 * DAY..=31 * DAY).contains(&(item["current_period_end"].as_u64().unwrap() - end)));
    let draft = account.latest_invoice(&path).await;
    shows(
        &draft,
        &json!({ "status": "draft", "billing_reason": "subscription_cycle", "total": 500, "automatically_finalizes_at": end + HOUR }),
    );
    assert_eq!(account.get("charges").await["data"], json!([]));
    account.wait(HOUR);
    let paid = account.latest_invoice(&path).await;
    assert_eq!(
        (&paid["id"], &paid["status"], &paid["amount_paid"]),
        (&draft["id"], &json!("paid"), &json!(500))
    );
    let charges = account.get("charges").await;
    assert_eq!((&charges["data"][0]["amount"], charges["data"].as_array().unwrap().len()), (&json!(500), 1));
    let kinds = ["invoice.finalized", "invoice.paid", "charge.succeeded", "invoice.payment_failed"];
    assert_eq!((account.status(&path).await.as_str(), account.told(kinds).await), ("active", [2, 2, 1, 0]));
}

#[tokio::test]
async fn a_trial_begins_with_a_paid_invoice_for_nothing() {
    let account = Account::open();
    let path = account.subscription("", "&trial_period_days=7").await;
    let (trial, invoice) = (account.get(&path).await, account.latest_invoice(&path).await);
    assert_eq!(
        (
            &trial["status"],
            &invoice["status"],
            &invoice["total"],
            &invoice["amount_due"],
            &invoice["attempted"]
        ),
        (&json!("trialing"), &json!("paid"), &json!(0), &json!(0), &json!(true))
    );
    let line = &invoice["lines"]["data"][0];
    assert_eq!(
        (&invoice["billing_reason"], &line["amount"], &line["description"], &line["period"]["end"]),
        (&json!("subscription_create"), &json!(0), &json!("Trial period for P"), &trial["trial_end"])
    );
    let kinds = ["invoice.created", "invoice.finalized", "invoice.paid", "invoice.payment_succeeded"];
    assert_eq!(account.told(kinds).await, [1, 1, 1, 1]);
    assert_eq!(account.get("payment_intents").await["data"], json!([]));
}

#[tokio::test]
async fn a_short_trial_is_told_of_at_once() {
    let account = Account::open();
    account.subscription("pm_card_visa", "&trial_period_days=2").await;
    account.wait(DAY);
    assert_eq!(account.told(["customer.subscription.trial_will_end"]).await, [1]);
}

#[tokio::test]
async fn a_trial_without_a_payment_that_succeeds_ends_past_due_until_one_does() {
    // A card that needs its holder, who is not there, and no card at all.
    for (card, attempts) in [("pm_card_authenticationRequired", 1), ("", 0)] {
        let account = Account::open();
        let path = account.subscription(card, "&trial_period_days=7").await;
        account.wait(7 * DAY);
        assert_eq!(account.status(&path).await, "active", "its invoice is a draft");
        account.wait(HOUR);
        let invoice = account.latest_invoice(&path).await;
        assert_eq!(
            (account.status(&path).await.as_str(), &invoice["status"], &invoice["attempted"]),
            ("past_due", &json!("open"), &json!(true)),
            "{card}"
        );
        assert_eq!(
            (&invoice["attempt_count"], account.told(["invoice.payment_failed"]).await),
            (&json!(attempts), [1])
        );
        account.make(&format!("invoices/{}/pay", id(&invoice)), "payment_method=pm_card_visa").await;
        assert_eq!(account.status(&path).await, "active");
    }
}

#[tokio::test]
async fn each_period_follows_the_one_before_it_and_has_its_invoice() {
    let account = Account::open();
    let path = account.subscription("pm_card_visa", "").await;
    let mut period = account.get(&path).await["items"]["data"][0].clone();
    for renewals in 1..=3 {
        let end = period["current_period_end"].as_u64().unwrap();
        account.wait(end - account.now() + 2 * HOUR);
        let next = account.get(&path).await["items"]["data"][0].clone();
        assert_eq!(next["current_period_start"], period["current_period_end"]);
        let invoices = account.get("invoices?status=paid").await["data"].as_array().unwrap().clone();
        assert_eq!(invoices.len(), renewals + 1);
        let line = &invoices[0]["lines"]["data"][0]["period"];
        assert_eq!(
            (&line["start"], &line["end"], &invoices[0]["period_start"], &invoices[0]["created"]),
            (
                &next["current_period_start"],
                &next["current_period_end"],
                &period["current_period_start"],
                &json!(end)
            )
        );
        period = next;
    }
    // Many at once, each at its own time.
    account.wait(365 * DAY);
    let paid = account.get("invoices?status=paid&limit=100").await["data"].as_array().unwrap().len();
    assert_eq!((paid, account.get("charges?limit=100").await["data"].as_array().unwrap().len()), (16, 16));
}

#[tokio::test]
async fn a_draft_takes_more_items_within_its_hour_and_keeps_its_subscriptions_lines() {
    let account = Account::open();
    let path = account.subscription("pm_card_visa", "&trial_period_days=7").await;
    let customer = account.get(&path).await["customer"].as_str().unwrap().to_owned();
    account.make("invoiceitems", &format!("customer={customer}&amount=70&currency=usd")).await;
    account.wait(7 * DAY);
    let draft = account.latest_invoice(&path).await;
    shows(&draft, &json!({ "status": "draft", "total": 570 }));
    account.make("invoiceitems", &format!("customer={customer}&amount=3&invoice={}", id(&draft))).await;
    account.wait(HOUR);
    let paid = account.latest_invoice(&path).await;
    assert_eq!((&paid["amount_paid"], &paid["lines"]["total_count"]), (&json!(573), &json!(3)));
}

#[tokio::test]
async fn an_invoice_that_was_sent_and_not_paid_in_time_makes_it_past_due() {
    let account = Account::open();
    let more = "&trial_period_days=7&collection_method=send_invoice&days_until_due=10";
    let path = account.subscription("", more).await;
    account.wait(7 * DAY + HOUR);
    let invoice = account.latest_invoice(&path).await;
    assert_eq!((&invoice["status"], account.told(["invoice.sent"]).await), (&json!("open"), [1]));
    account.wait(10 * DAY - HOUR - 1);
    assert_eq!(account.status(&path).await, "active");
    account.wait(1);
    assert_eq!(account.status(&path).await, "past_due");
    account.make(&format!("invoices/{}/pay", id(&invoice)), "paid_out_of_band=true").await;
    assert_eq!(account.status(&path).await, "active");
}

#[tokio::test]
async fn a_first_invoice_that_is_not_paid_in_23_hours_is_voided() {
    let account = Account::open();
    let incomplete = "&payment_behavior=default_incomplete";
    let (path, other) = (
        account.subscription("pm_card_visa", incomplete).await,
        account.subscription("pm_card_visa", incomplete).await,
    );
    account.wait(23 * HOUR - 1);
    assert_eq!(account.status(&path).await, "incomplete");
    let paid = account.latest_invoice(&other).await;
    account.make(&format!("invoices/{}/pay", id(&paid)), "").await;
    account.wait(1);
    let (status, invoice) = (account.status(&path).await, account.latest_invoice(&path).await);
    assert_eq!((status.as_str(), &invoice["status"]), ("incomplete_expired", &json!("void")));
    assert_eq!(account.status(&other).await, "active");
    assert_eq!(account.ask(Method::DELETE, &path, "").await["error"]["code"], "resource_missing");
    account.wait(90 * DAY);
    assert_eq!(account.status(&path).await, "incomplete_expired", "it is never renewed");
}

#[tokio::test]
async fn a_subscription_that_ends_is_not_billed_again() {
    let account = Account::open();
    let path = account.subscription("pm_card_visa", "&cancel_at_period_end=true").await;
    let trial = account.subscription("pm_card_visa", "&trial_period_days=7").await;
    account.wait(7 * DAY);
    // Within the hour.
    assert_eq!(account.latest_invoice(&trial).await["status"], "draft");
    account.ask(Method::DELETE, &trial, "").await;
    account.wait(60 * DAY);
    assert_eq!(
        (account.status(&path).await, account.status(&trial).await),
        ("canceled".into(), "canceled".into())
    );
    assert_eq!(account.latest_invoice(&trial).await["status"], "draft");
    assert_eq!(account.get("charges").await["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_invoice_that_is_paid_finalized_or_voided_within_its_hour_is_left_alone_after_it() {
    for (actions, status, charges) in
        [("pay", "paid", 2), ("finalize", "open", 1), ("finalize void", "void", 1)]
    {
        let account = Account::open();
        let path = account.subscription("pm_card_visa", "").await;
        account.wait(31 * DAY);
        let draft = account.latest_invoice(&path).await;
        assert_eq!(draft["status"], "draft");
        for action in actions.split(' ') {
            account.make(&format!("invoices/{}/{action}", id(&draft)), "").await;
        }
        account.wait(2 * HOUR);
        let invoice = account.latest_invoice(&path).await;
        shows(&invoice, &json!({ "status": status, "automatically_finalizes_at": null }));
        assert_eq!((account.status(&path).await.as_str(), account.charges().await), ("active", charges));
    }
}

#[tokio::test]
async fn an_invoice_that_was_sent_and_paid_stays_paid_after_its_due_date() {
    let account = Account::open();
    let more = "&trial_period_days=7&collection_method=send_invoice&days_until_due=10";
    let path = account.subscription("", more).await;
    account.wait(7 * DAY + HOUR);
    let invoice = account.latest_invoice(&path).await;
    account.make(&format!("invoices/{}/pay", id(&invoice)), "paid_out_of_band=true").await;
    account.wait(10 * DAY);
    assert_eq!(account.latest_invoice(&path).await["status"], "paid");
    assert_eq!(account.status(&path).await, "active");
}

#[tokio::test]
async fn an_older_draft_that_cannot_be_paid_leaves_a_paid_subscription_active() {
    let account = Account::open();
    let path = account.subscription("pm_card_visa", "").await;
    account.wait(31 * DAY);
    let older = account.latest_invoice(&path).await;
    let yearly = "product_data[name]=P&currency=usd&unit_amount=9000&recurring[interval]=year";
    let yearly = id(&account.make("prices", yearly).await);
    let item = id(&account.get(&path).await["items"]["data"][0]);
    account.make(&path, &format!("items[0][id]={item}&items[0][price]={yearly}")).await;
    let customer = older["customer"].as_str().unwrap();
    let method = account.attached(customer, "tok_authenticationRequired").await;
    let default = format!("invoice_settings[default_payment_method]={method}");
    account.make(&format!("customers/{customer}"), &default).await;
    account.wait(HOUR);
    let older = account.get(&format!("invoices/{}", id(&older))).await;
    assert_eq!(
        (&older["status"], account.latest_invoice(&path).await["status"].as_str()),
        (&json!("open"), Some("paid"))
    );
    assert_eq!(account.status(&path).await, "active");
}

#[tokio::test]
async fn a_payment_within_a_trial_does_not_end_it() {
    let account = Account::open();
    let customer = account.customer("").await;
    account.make("invoiceitems", &format!("customer={customer}&amount=1000&currency=usd")).await;
    let price = "product_data[name]=P&currency=usd&unit_amount=500&recurring[interval]=month";
    let price = id(&account.make("prices", price).await);
    let form = format!("customer={customer}&items[0][price]={price}&trial_period_days=7");
    let path = format!("subscriptions/{}", id(&account.make("subscriptions", &form).await));
    assert_eq!(account.status(&path).await, "incomplete");
    let invoice = account.latest_invoice(&path).await;
    account.make(&format!("invoices/{}/pay", id(&invoice)), "payment_method=pm_card_visa").await;
    assert_eq!(account.status(&path).await, "trialing");
    account.wait(7 * DAY);
    assert_eq!(account.status(&path).await, "active");
}

#[tokio::test]
async fn an_invoice_is_paid_with_the_payment_method_that_its_subscription_has_now() {
    let account = Account::open();
    let path = account.subscription("", "&trial_period_days=7").await;
    account.wait(7 * DAY);
    let draft = account.latest_invoice(&path).await;
    let method = account.attached(draft["customer"].as_str().unwrap(), "tok_visa").await;
    account.make(&path, &format!("default_payment_method={method}")).await;
    let paid = account.make(&format!("invoices/{}/pay", id(&draft)), "").await;
    assert_eq!(
        (&paid["status"], &account.get("charges").await["data"][0]["payment_method"]),
        (&json!("paid"), &json!(method))
    );
}

#[tokio::test]
async fn a_subscriptions_draft_and_the_items_of_a_deleted_one_are_not_deleted() {
    let account = Account::open();
    let path = account.subscription("pm_card_visa", "").await;
    account.wait(31 * DAY);
    let draft = account.latest_invoice(&path).await;
    let customer = draft["customer"].as_str().unwrap();
    let own = id(&account.make("invoices", &format!("customer={customer}")).await);
    let form = format!("customer={customer}&invoice={own}&amount=70&currency=usd");
    let item = format!("invoiceitems/{}", id(&account.make("invoiceitems", &form).await));
    account.ask(Method::DELETE, &format!("invoices/{own}"), "").await;
    for (method, path, form) in [
        (Method::DELETE, format!("invoices/{}", id(&draft)), ""),
        (Method::DELETE, item.clone(), ""),
        (Method::POST, item, "amount=5"),
    ] {
        let refused = account.ask(method, &path, form).await;
        assert_eq!(refused["error"]["code"], "invoice_not_editable", "{path} {form}");
    }
    let form = format!("customer={customer}&pending_invoice_items_behavior=include");
    assert_eq!(account.make("invoices", &form).await["total"], 0, "the item is not pending again");
}

#[tokio::test]
async fn writing_the_latest_invoice_off_ends_past_due_and_leaves_incomplete() {
    let account = Account::open();
    let path = account.subscription("pm_card_authenticationRequired", "&trial_period_days=7").await;
    account.wait(7 * DAY + HOUR);
    let open = account.latest_invoice(&path).await;
    assert_eq!((account.status(&path).await.as_str(), &open["status"]), ("past_due", &json!("open")));
    let [told] = account.told(["customer.subscription.updated"]).await;
    let written_off = account.make(&format!("invoices/{}/mark_uncollectible", id(&open)), "").await;
    assert_eq!(
        (account.status(&path).await.as_str(), &written_off["status"]),
        ("active", &json!("uncollectible"))
    );
    assert_eq!(account.told(["customer.subscription.updated"]).await, [told + 1]);

    let path = account.subscription("pm_card_visa", "&payment_behavior=default_incomplete").await;
    let open = account.latest_invoice(&path).await;
    account.make(&format!("invoices/{}/mark_uncollectible", id(&open)), "").await;
    assert_eq!(account.status(&path).await, "incomplete");
}

#[tokio::test]
async fn a_change_is_billed_with_the_payment_method_that_it_leaves() {
    for (card, status) in [("pm_card_visa", "active"), ("", "past_due")] {
        let account = Account::open();
        let customer = account.customer(card).await;
        let own = account.attached(&customer, "tok_visa").await;
        let price = |amount: u64, interval: &str| {
            format!("product_data[name]=P&currency=usd&unit_amount={amount}&recurring[interval]={interval}")
        };
        let monthly = id(&account.make("prices", &price(500, "month")).await);
        let yearly = id(&account.make("prices", &price(9000, "year")).await);
        let form = format!("customer={customer}&items[0][price]={monthly}&default_payment_method={own}");
        let made = account.make("subscriptions", &form).await;
        let (path, item) = (format!("subscriptions/{}", id(&made)), id(&made["items"]["data"][0]));
        let change = |price: &str| format!("items[0][id]={item}&items[0][price]={price}");
        let form = format!("{}&default_payment_method=", change(&yearly));
        if card.is_empty() {
            let strict = format!("{form}&payment_behavior=error_if_incomplete");
            let before = account.get(&path).await;
            let refused = account.ask(Method::POST, &path, &strict).await;
            assert_eq!(refused["error"]["code"], "resource_missing");
            assert_eq!(account.get(&path).await, before, "nothing is left of it");
        }
        account.make(&path, &form).await;
        let charges = account.get("charges").await["data"].as_array().unwrap().clone();
        let charged: Vec<&Value> = charges.iter().map(|charge| &charge["payment_method"]).collect();
        let customer = format!("customers/{customer}");
        let default = account.get(&customer).await["invoice_settings"]["default_payment_method"].clone();
        let own = json!(own);
        let expected = if card.is_empty() { vec![&own] } else { vec![&default, &own] };
        assert_eq!((account.status(&path).await.as_str(), charged), (status, expected));

        // The payment of it, in either status, is told of once.
        let own = own.as_str().unwrap();
        account.make(&customer, &format!("invoice_settings[default_payment_method]={own}")).await;
        let [told] = account.told(["customer.subscription.updated"]).await;
        account.make(&path, &change(&monthly)).await;
        assert_eq!(account.status(&path).await, "active");
        assert_eq!(account.told(["customer.subscription.updated"]).await, [told + 1]);
    }
}

#[tokio::test]
async fn a_renewal_that_is_due_when_it_is_made_is_past_due_as_soon_as_it_is_sent() {
    let account = Account::open();
    let more = "&trial_period_days=7&collection_method=send_invoice&days_until_due=0";
    let path = account.subscription("", more).await;
    account.wait(7 * DAY);
    assert_eq!(account.status(&path).await, "active", "its invoice is a draft");
    account.wait(HOUR);
    assert_eq!(account.status(&path).await, "past_due");
    let invoice = account.latest_invoice(&path).await;
    assert_eq!((&invoice["status"], &invoice["due_date"]), (&json!("open"), &invoice["created"]));
    account.make(&format!("invoices/{}/pay", id(&invoice)), "paid_out_of_band=true").await;
    assert_eq!(account.status(&path).await, "active");
}

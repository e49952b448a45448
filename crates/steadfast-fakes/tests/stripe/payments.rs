//! Payments at the Stripe fake: what a confirmation must say, what may be used again, and what becomes of a hold.

use http::Method;
use serde_json::{Value, json};

use crate::account::{Account, id};
use support::answers::shows;

const CARDS: &str = "payment_method_types[]=card";

impl Account {
    /// The message, the code and the parameter of a refusal.
    async fn refused(&self, path: &str, form: &str) -> (String, Value, Value) {
        let answer = self.ask(Method::POST, path, form).await;
        let error = &answer["error"];
        assert_eq!(error["type"], "invalid_request_error", "{path} {form}: {answer}");
        (error["message"].as_str().unwrap().to_owned(), error["code"].clone(), error["param"].clone())
    }

    async fn method(&self) -> String {
        id(&self.make("payment_methods", "type=card&card[token]=tok_visa").await)
    }

    async fn kept(&self, customer: &str) -> String {
        let method = self.method().await;
        self.make(&format!("payment_methods/{method}/attach"), &format!("customer={customer}")).await;
        method
    }

    /// An intent that holds 900.
    async fn held(&self) -> Value {
        self.make("payment_intents", &format!("{}&capture_method=manual&{CARDS}", pays("pm_card_visa"))).await
    }

    /// The sum that all lines of the balance come to.
    async fn booked(&self) -> (i64, usize) {
        let lines = self.get("balance_transactions?limit=100").await["data"].as_array().unwrap().clone();
        (lines.iter().map(|line| line["net"].as_i64().unwrap()).sum(), lines.len())
    }
}

fn without_charge(intent: &str) -> String {
    format!("This PaymentIntent ({intent}) does not have a successful charge to refund.")
}

fn pays(method: &str) -> String {
    format!("amount=900&currency=usd&payment_method={method}&confirm=true")
}

#[tokio::test]
async fn a_confirmation_says_where_the_customer_returns_unless_no_method_redirects() {
    let account = Account::open();
    let form = pays("pm_card_visa");
    for more in ["", "&automatic_payment_methods[enabled]=true", "&off_session=true", "&use_stripe_sdk=true"]
    {
        let (message, code, param) = account.refused("payment_intents", &format!("{form}{more}")).await;
        assert!(message.contains("`return_url`"), "{more}: {message}");
        assert_eq!((code, param), (Value::Null, Value::Null), "{more}");
    }
    assert_eq!(account.get("payment_intents").await["data"], json!([]), "nothing is left");
    for more in [
        CARDS,
        "return_url=https://example.com/back",
        "automatic_payment_methods[enabled]=true&automatic_payment_methods[allow_redirects]=never",
        "automatic_payment_methods[enabled]=false",
    ] {
        let paid = account.make("payment_intents", &format!("{form}&{more}")).await;
        assert_eq!(paid["status"], "succeeded", "{more}");
    }

    let intent = account.make("payment_intents", "amount=900&currency=usd&payment_method=pm_card_visa").await;
    let automatic = json!({ "allow_redirects": "always", "enabled": true });
    assert_eq!(intent["automatic_payment_methods"], automatic);
    let confirm = format!("payment_intents/{}/confirm", id(&intent));
    assert!(account.refused(&confirm, "").await.0.contains("`return_url`"));
    assert_eq!(account.make(&confirm, "return_url=https://example.com/back").await["status"], "succeeded");

    let setup = account.make("setup_intents", "payment_method=pm_card_visa").await;
    let confirm = format!("setup_intents/{}/confirm", id(&setup));
    assert!(account.refused(&confirm, "").await.0.starts_with("This SetupIntent"));
    assert_eq!(account.make(&confirm, "return_url=https://example.com/back").await["status"], "succeeded");
}

#[tokio::test]
async fn before_version_2023_08_16_an_intent_takes_cards_alone() {
    let account = Account::at("2022-11-15");
    let paid = account.make("payment_intents", &pays("pm_card_visa")).await;
    shows(&paid, &json!({ "status": "succeeded", "automatic_payment_methods": null }));
    let form = format!("{}&automatic_payment_methods[enabled]=true", pays("pm_card_visa"));
    assert!(account.refused("payment_intents", &form).await.0.contains("`return_url`"));
}

#[tokio::test]
async fn what_says_how_to_confirm_is_refused_without_a_confirmation() {
    let account = Account::open();
    for (name, value) in [("return_url", "https://example.com"), ("off_session", "true")] {
        let form = format!("amount=900&currency=usd&{name}={value}");
        let (_, code, param) = account.refused("payment_intents", &form).await;
        assert_eq!((code, param), (json!("payment_intent_invalid_parameter"), json!(name)));
    }
    let both = format!("amount=900&currency=usd&automatic_payment_methods[enabled]=true&{CARDS}");
    assert_eq!(account.refused("payment_intents", &both).await.1, "parameters_exclusive");
    let form = "amount=900&currency=usd&payment_method_types[]=ideal";
    assert_eq!(account.refused("payment_intents", form).await.2, "payment_method_types");
}

#[tokio::test]
async fn a_payment_method_without_a_customer_is_used_once() {
    let account = Account::open();
    let customer = account.customer("").await;
    let again = "It may not be used again.";
    let method = account.method().await;
    let form = format!("{}&{CARDS}", pays(&method));
    account.make("payment_intents", &form).await;
    assert!(account.refused("payment_intents", &form).await.0.contains(again));
    let attach = format!("payment_methods/{method}/attach");
    let (message, ..) = account.refused(&attach, &format!("customer={customer}")).await;
    assert!(message.contains("may not be used again"), "{message}");

    // A decline uses it up too, and a hold.
    let declined = account.make("payment_methods", "type=card&card[token]=tok_chargeDeclined").await;
    let form = format!("{}&{CARDS}", pays(declined["id"].as_str().unwrap()));
    assert_eq!(account.ask(Method::POST, "payment_intents", &form).await["error"]["code"], "card_declined");
    assert!(account.refused("payment_intents", &form).await.0.contains(again));

    // One that was put on two intents before.
    let method = account.method().await;
    let form = format!("amount=900&currency=usd&payment_method={method}&{CARDS}");
    let (one, other) =
        (account.make("payment_intents", &form).await, account.make("payment_intents", &form).await);
    account.make(&format!("payment_intents/{}/confirm", id(&one)), "").await;
    let confirm = format!("payment_intents/{}/confirm", id(&other));
    assert!(account.refused(&confirm, "").await.0.contains(again));
    assert_eq!(account.make(&confirm, "payment_method=pm_card_visa").await["status"], "succeeded");

    // Test values are new each time, and a customer's own is used again and again.
    let kept = account.kept(&customer).await;
    for _ in 0..2 {
        account.make("payment_intents", &format!("{}&{CARDS}", pays("pm_card_visa"))).await;
        let form = format!("{}&customer={customer}&{CARDS}", pays(&kept));
        account.make("payment_intents", &form).await;
    }
    account.make(&format!("payment_methods/{kept}/detach"), "").await;
    let form = format!("{}&{CARDS}", pays(&kept));
    assert!(account.refused("payment_intents", &form).await.0.contains(again), "it was detached");
    let attach = format!("payment_methods/{kept}/attach");
    account.refused(&attach, &format!("customer={customer}")).await;
}

#[tokio::test]
async fn a_payment_method_that_a_payment_saves_is_used_again() {
    let account = Account::open();
    let (customer, method) = (account.customer("").await, account.method().await);
    let form = format!("{}&customer={customer}&{CARDS}", pays(&method));
    account.make("payment_intents", &format!("{form}&setup_future_usage=off_session")).await;
    assert_eq!(account.get(&format!("payment_methods/{method}")).await["customer"], customer);
    assert_eq!(account.make("payment_intents", &form).await["status"], "succeeded");
}

#[tokio::test]
async fn what_was_set_up_for_no_customer_can_be_kept_and_not_charged_before() {
    let account = Account::open();
    let (customer, method) = (account.customer("").await, account.method().await);
    account.make("setup_intents", &format!("payment_method={method}&confirm=true&{CARDS}")).await;
    let form = format!("{}&{CARDS}", pays(&method));
    assert!(account.refused("payment_intents", &form).await.0.contains("It may not be used again."));
    account.make(&format!("payment_methods/{method}/attach"), &format!("customer={customer}")).await;
    let form = format!("{form}&customer={customer}");
    assert_eq!(account.make("payment_intents", &form).await["status"], "succeeded");
}

#[tokio::test]
async fn a_payment_method_of_a_customer_pays_for_that_customer_alone() {
    let account = Account::open();
    let (owner, other) = (account.customer("").await, account.customer("").await);
    let method = account.kept(&owner).await;
    let form = format!("{}&{CARDS}", pays(&method));
    let (message, code, param) = account.refused("payment_intents", &form).await;
    assert!(message.contains(&format!("belongs to the Customer {owner}")), "{message}");
    assert_eq!((code, param), (json!("parameter_missing"), json!("source")));
    let (message, code, param) =
        account.refused("payment_intents", &format!("{form}&customer={other}")).await;
    assert!(message.contains("does not belong to the Customer you supplied"), "{message}");
    assert_eq!((code, param), (Value::Null, json!("payment_method")));
    let (message, ..) = account.refused("setup_intents", &format!("payment_method={method}")).await;
    assert!(message.ends_with("parameter on the SetupIntent."), "{message}");

    // The default of the customer is used where nothing is named.
    let default = format!("invoice_settings[default_payment_method]={method}");
    account.make(&format!("customers/{owner}"), &default).await;
    let form = format!("amount=900&currency=usd&customer={owner}&confirm=true&{CARDS}");
    let paid = account.make("payment_intents", &form).await;
    shows(&paid, &json!({ "status": "succeeded", "payment_method": method }));
}

#[tokio::test]
async fn one_card_can_be_kept_and_is_declined_when_it_is_charged() {
    let account = Account::open();
    let customer = account.make("customers", "payment_method=pm_card_chargeCustomerFail").await;
    let customer = customer["id"].as_str().unwrap();
    let methods = account.get(&format!("customers/{customer}/payment_methods")).await;
    let method = methods["data"][0]["id"].as_str().unwrap();
    let form = format!("{}&customer={customer}&{CARDS}", pays(method));
    let answer = account.ask(Method::POST, "payment_intents", &form).await;
    assert_eq!(
        (&answer["error"]["code"], account.events("charge.failed").await.len()),
        (&json!("card_declined"), 1)
    );
    let form = format!("customer={customer}&payment_method=pm_card_chargeCustomerFail&confirm=true&{CARDS}");
    assert_eq!(account.make("setup_intents", &form).await["status"], "succeeded");
}

#[tokio::test]
async fn who_would_have_to_authenticate_and_is_not_there_is_charged_nothing() {
    let account = Account::open();
    let form = format!("{}&off_session=true&{CARDS}", pays("pm_card_authenticationRequired"));
    let error = account.ask(Method::POST, "payment_intents", &form).await["error"].clone();
    shows(&error, &json!({ "code": "authentication_required", "charge": null }));
    assert_eq!(error["payment_intent"]["latest_charge"], Value::Null);
    assert_eq!(account.get("charges").await["data"], json!([]));
}

#[tokio::test]
async fn a_partial_capture_releases_the_rest_and_refunds_nothing() {
    let account = Account::open();
    let held = account.held().await;
    let path = format!("payment_intents/{}", id(&held));
    let done = account.make(&format!("{path}/capture"), "amount_to_capture=400").await;
    shows(&done, &json!({ "status": "succeeded", "amount_received": 400 }));
    let charge = account.get(&format!("charges/{}", held["latest_charge"].as_str().unwrap())).await;
    let amounts = (&charge["amount"], &charge["amount_captured"], &charge["amount_refunded"]);
    assert_eq!((amounts, &charge["refunded"]), ((&json!(900), &json!(400), &json!(0)), &json!(false)));
    assert_eq!(account.get("refunds").await["data"], json!([]));
    assert_eq!(
        (account.events("charge.captured").await.len(), account.events("charge.refunded").await.len()),
        (1, 0)
    );
    let fee = 42;
    assert_eq!(account.booked().await, (400 - fee, 1));
    let of = format!("charge={}", id(&charge));
    assert_eq!(account.refused("refunds", &format!("{of}&amount=401")).await.2, "amount");
    assert_eq!(account.make("refunds", &of).await["amount"], 400);
    assert_eq!(account.refused("refunds", &of).await.1, "charge_already_refunded");
    assert_eq!(account.booked().await, (-fee, 2));
}

#[tokio::test]
async fn before_version_2025_03_31_what_is_released_is_a_refund() {
    let account = Account::at("2024-06-20");
    let held = account.held().await;
    let path = format!("payment_intents/{}", id(&held));
    account.make(&format!("{path}/capture"), "amount_to_capture=400").await;
    let charge = account.get(&format!("charges/{}", held["latest_charge"].as_str().unwrap())).await;
    let amounts = (&charge["amount_captured"], &charge["amount_refunded"], &charge["refunded"]);
    assert_eq!(amounts, (&json!(400), &json!(500), &json!(false)));
    let refunds = account.get("refunds").await;
    shows(&refunds["data"][0], &json!({ "amount": 500, "status": "succeeded" }));
    let fee = 42;
    assert_eq!(account.booked().await, (400 - fee, 2));
    let of = format!("charge={}", id(&charge));
    assert_eq!(account.refused("refunds", &format!("{of}&amount=401")).await.2, "amount");
    assert_eq!(account.make("refunds", &of).await["amount"], 400);
    let charge = account.get(&format!("charges/{}", id(&charge))).await;
    shows(&charge, &json!({ "amount_refunded": 900, "refunded": true }));

    let held = account.held().await;
    account.make(&format!("payment_intents/{}/cancel", id(&held)), "").await;
    let charge = account.get(&format!("charges/{}", held["latest_charge"].as_str().unwrap())).await;
    shows(&charge, &json!({ "amount_refunded": 900, "refunded": true }));
}

#[tokio::test]
async fn a_hold_that_was_released_cannot_be_captured() {
    let account = Account::open();
    let held = account.held().await;
    let charge = held["latest_charge"].as_str().unwrap();
    // An amount that an intent holds is canceled, not refunded.
    let (message, code, _) = account.refused("refunds", &format!("charge={charge}")).await;
    assert!(message.contains("You must cancel the PaymentIntent to reverse the authorization"), "{message}");
    assert_eq!(code, Value::Null);
    account.make(&format!("payment_intents/{}/cancel", id(&held)), "").await;
    let released = account.get(&format!("charges/{charge}")).await;
    shows(&released, &json!({ "amount_refunded": 0, "refunded": false, "captured": false }));
    let capture = format!("charges/{charge}/capture");
    assert_eq!(account.refused(&capture, "").await.1, "charge_expired_for_capture");
    let capture = format!("payment_intents/{}/capture", id(&held));
    assert_eq!(account.refused(&capture, "").await.1, "payment_intent_unexpected_state");
    let of = format!("payment_intent={}", id(&held));
    let (message, code, _) = account.refused("refunds", &of).await;
    assert_eq!((message, code), (without_charge(&id(&held)), Value::Null));

    let charge = id(&account.make("charges", "amount=900&currency=usd&source=tok_visa&capture=false").await);
    account.make("refunds", &format!("charge={charge}")).await;
    let capture = format!("charges/{charge}/capture");
    assert_eq!(account.refused(&capture, "").await.1, "charge_already_refunded");
    assert_eq!(account.booked().await, (0, 0));
}

#[tokio::test]
async fn a_charge_that_failed_is_not_refunded() {
    let account = Account::open();
    let form = format!("{}&{CARDS}", pays("pm_card_chargeDeclined"));
    let error = account.ask(Method::POST, "payment_intents", &form).await["error"].clone();
    let (intent, charge) = (id(&error["payment_intent"]), error["charge"].as_str().unwrap());
    for of in [format!("charge={charge}"), format!("payment_intent={intent}")] {
        let (message, code, _) = account.refused("refunds", &of).await;
        assert_eq!((message, code), (without_charge(&intent), Value::Null), "{of}");
    }
    let form = "amount=900&currency=usd&source=tok_chargeDeclined";
    let error = account.ask(Method::POST, "charges", form).await["error"].clone();
    let of = format!("charge={}", error["charge"].as_str().unwrap());
    assert_eq!(account.refused("refunds", &of).await.1, "charge_not_refundable");
}

#[tokio::test]
async fn a_refund_has_the_customer_and_the_payment_method_of_its_charge() {
    let account = Account::open();
    let customer = account.customer("").await;
    let method = account.kept(&customer).await;
    let form = format!("{}&customer={customer}&{CARDS}", pays(&method));
    let paid = account.make("payment_intents", &form).await;
    let refund = account.make("refunds", &format!("payment_intent={}", id(&paid))).await;
    shows(&refund, &json!({ "customer": customer, "payment_method": method }));
}

#[tokio::test]
async fn the_older_route_of_a_refund_shows_the_charge() {
    let account = Account::open();
    let charge = id(&account.make("charges", "amount=900&currency=usd").await);
    let older = format!("charges/{charge}/refund");
    assert_eq!(account.refused(&older, "expand[]=charge").await.2, "expand", "a charge has none");
    let shown = account.make(&older, "amount=400&expand[]=balance_transaction").await;
    shows(&shown, &json!({ "id": charge, "amount_refunded": 400 }));
    assert_eq!(shown["balance_transaction"]["type"], "charge");
    let refund = account.make(&format!("charges/{charge}/refunds"), "amount=100&expand[]=charge").await;
    let seen = (&refund["object"], &refund["amount"], &refund["charge"]["amount_refunded"]);
    assert_eq!(seen, (&json!("refund"), &json!(100), &json!(500)));
}

#[tokio::test]
async fn a_refund_that_is_too_large_is_refused_in_the_currencys_own_amounts() {
    let account = Account::open();
    for (currency, asked, left) in [
        ("usd", "$9.01", "$9.00"),
        ("eur", "€9.01", "€9.00"),
        ("gbp", "9.01 gbp", "9.00 gbp"),
        ("jpy", "901 jpy", "900 jpy"),
        ("ugx", "9.01 ugx", "9.00 ugx"),
    ] {
        let charge = id(&account.make("charges", &format!("amount=900&currency={currency}")).await);
        let (message, ..) = account.refused("refunds", &format!("charge={charge}&amount=901")).await;
        let words = format!("Refund amount ({asked}) is greater than unrefunded amount on charge ({left})");
        assert_eq!(message, words);
    }
}

#[tokio::test]
async fn an_intent_says_why_it_is_neither_confirmed_nor_canceled() {
    let account = Account::open();
    let setup = id(&account.make("setup_intents", CARDS).await);
    let intent = id(&account.make("payment_intents", &format!("amount=900&currency=usd&{CARDS}")).await);
    for confirm in [format!("setup_intents/{setup}/confirm"), format!("payment_intents/{intent}/confirm")] {
        let (message, ..) = account.refused(&confirm, "").await;
        assert!(message.ends_with("directly with a payment method or ConfirmationToken."), "{message}");
    }
    let cancel = format!("setup_intents/{setup}/cancel");
    account.make(&cancel, "").await;
    let (message, ..) = account.refused(&cancel, "").await;
    assert_eq!(message, "You cannot cancel this SetupIntent because it is already canceled.");
    let form = format!("payment_method=pm_card_visa&confirm=true&{CARDS}");
    let done = id(&account.make("setup_intents", &form).await);
    let (message, code, _) = account.refused(&format!("setup_intents/{done}/cancel"), "").await;
    assert!(message.contains("it has a status of succeeded. Only a SetupIntent with one of"), "{message}");
    assert_eq!(code, "setup_intent_unexpected_state");
}

#[tokio::test]
async fn a_setup_intent_that_may_not_take_a_payment_method_is_in_the_refusal() {
    let account = Account::open();
    let (owner, other) = (account.customer("").await, account.customer("").await);
    let method = account.kept(&owner).await;
    let setup = account.make("setup_intents", &format!("customer={other}&{CARDS}")).await;
    let path = format!("setup_intents/{}", id(&setup));
    let error = account.ask(Method::POST, &path, &format!("payment_method={method}")).await["error"].clone();
    assert_eq!((&error["param"], &error["setup_intent"]), (&json!("payment_method"), &setup));
}

#[tokio::test]
async fn the_transfers_of_a_charge_are_together_no_greater_than_what_was_captured_of_it() {
    let account = Account::open();
    let destination = id(&account.make("accounts", "type=express").await);
    let form = |charge: &str, amount: i64| {
        format!("amount={amount}&currency=usd&destination={destination}&source_transaction={charge}")
    };
    let refused = async |charge: &str, amount: i64| {
        let (_, code, param) = account.refused("transfers", &form(charge, amount)).await;
        assert_eq!(code, Value::Null);
        param
    };
    let charge = id(&account.make("charges", "amount=1000&currency=usd").await);
    let first = id(&account.make("transfers", &form(&charge, 600)).await);
    assert_eq!(refused(&charge, 401).await, "amount");
    account.make("transfers", &form(&charge, 400)).await;
    account.make(&format!("transfers/{first}/reversals"), "").await;
    assert_eq!(refused(&charge, 1).await, "amount", "what is reversed counts on");

    let held = id(&account.make("charges", "amount=1000&currency=usd&capture=false").await);
    assert_eq!(refused(&held, 1).await, "source_transaction");
    account.make(&format!("charges/{held}/capture"), "amount=300").await;
    assert_eq!(refused(&held, 301).await, "amount");
    account.make("transfers", &form(&held, 300)).await;
    let form = "amount=1000&currency=usd&source=tok_chargeDeclined";
    let declined = account.ask(Method::POST, "charges", form).await;
    assert_eq!(refused(declined["error"]["charge"].as_str().unwrap(), 1).await, "source_transaction");
}

#[tokio::test]
async fn a_name_of_very_many_parts_is_an_unknown_parameter() {
    let account = Account::open();
    for depth in [16, 100_000] {
        let name = format!("metadata{}", "[a]".repeat(depth));
        let (_, code, param) = account.refused("customers", &format!("{name}=1")).await;
        assert_eq!((code, param), (json!("parameter_unknown"), json!(name)), "{depth}");
    }
    assert_eq!(account.get("customers").await["data"], json!([]));
}

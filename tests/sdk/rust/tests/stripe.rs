//! async-stripe by itself: its own HTTP stack, its own retries, and its own types for every answer.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use sdk::judge;
use steadfast::testkit::fakes::StripeFake;
use steadfast::testkit::{Fault, WaitForm};
use stripe::{
    ApiErrorsCode, ApiErrorsType, Client, ClientBuilder, IdempotencyKey, RequestStrategy, StripeError,
    StripeRequest as _,
};
use stripe_core::customer::{
    CreateCustomer, DeleteCustomer, ListCustomer, RetrieveCustomer, RetrieveCustomerReturned, UpdateCustomer,
};
use stripe_core::payment_intent::{
    CancelPaymentIntent, CapturePaymentIntent, ConfirmPaymentIntent, CreatePaymentIntent, ListPaymentIntent,
    RetrievePaymentIntent,
};
use stripe_core::refund::{CreateRefund, ListRefund, RetrieveRefund};
use stripe_core::{
    ChargeStatus, PaymentIntent, PaymentIntentCaptureMethod, PaymentIntentStatus, charge::RetrieveCharge,
};
use stripe_types::Currency;

fn client(fake: &StripeFake, strategy: RequestStrategy) -> Client {
    let client = ClientBuilder::new("sk_test_123").url(format!("{}/", fake.url()));
    client.request_strategy(strategy).timeout(Duration::from_secs(20)).build().expect("a client")
}

fn keyed(key: &str) -> RequestStrategy {
    RequestStrategy::Idempotent(IdempotencyKey::new(key).expect("a key"))
}

/// Where the customer comes back. A confirmation names it unless it takes cards alone.
const BACK: &str = "https://example.com/back";

fn paid(amount: i64) -> CreatePaymentIntent {
    let intent = CreatePaymentIntent::new(amount, Currency::USD).payment_method("pm_card_visa");
    intent.confirm(true).return_url(BACK)
}

/// The word of Stripe, in async-stripe's types.
fn told<T: std::fmt::Debug>(outcome: Result<T, StripeError>) -> (stripe::ApiErrors, u16) {
    match outcome {
        Err(StripeError::Stripe(error, status)) => (*error, status),
        other => panic!("Stripe refuses: {other:?}"),
    }
}

#[tokio::test]
async fn a_customer_is_created_read_changed_and_deleted() {
    let fake = StripeFake::start().await;
    let stripe = client(&fake, RequestStrategy::Once);
    let ada = CreateCustomer::new().name("Ada").email("ada@example.com");
    let ada = ada.metadata([("order".to_owned(), "42".to_owned())]).send(&stripe).await.expect("a customer");
    assert_eq!((ada.name.as_deref(), ada.email.as_deref()), (Some("Ada"), Some("ada@example.com")));
    let changed =
        UpdateCustomer::new(ada.id.clone()).description("first").send(&stripe).await.expect("changed");
    assert_eq!((changed.id, changed.description.as_deref()), (ada.id.clone(), Some("first")));
    let found = RetrieveCustomer::new(ada.id.clone()).send(&stripe).await.expect("found");
    let RetrieveCustomerReturned::Customer(found) = found else { panic!("not deleted: {found:?}") };
    assert_eq!(found.metadata.expect("metadata")["order"], "42");
    let deleted = DeleteCustomer::new(ada.id.clone()).send(&stripe).await.expect("deleted");
    assert_eq!(deleted.id, ada.id);
    let gone = RetrieveCustomer::new(ada.id.clone()).send(&stripe).await.expect("still told of");
    assert!(matches!(gone, RetrieveCustomerReturned::DeletedCustomer(_)), "{gone:?}");
    let (error, status) = told(UpdateCustomer::new(ada.id).name("x").send(&stripe).await);
    assert_eq!((error.code, status), (Some(ApiErrorsCode::ResourceMissing), 404));
    judge(&fake.ledger(), fake.plan());
}

#[tokio::test]
async fn a_payment_is_confirmed_read_and_paid_back() {
    let fake = StripeFake::start().await;
    let stripe = client(&fake, RequestStrategy::Once);
    let customer = CreateCustomer::new().send(&stripe).await.expect("a customer");
    let intent = CreatePaymentIntent::new(1200, Currency::USD).customer(customer.id.to_string());
    let intent = intent.send(&stripe).await.expect("an intent");
    assert_eq!(intent.status, PaymentIntentStatus::RequiresPaymentMethod);
    let confirm = ConfirmPaymentIntent::new(intent.id.clone()).payment_method("pm_card_visa");
    let confirm = confirm.return_url(BACK);
    let expanded = confirm.expand(["latest_charge".to_owned()]).send(&stripe).await.expect("confirmed");
    assert_eq!((expanded.status, expanded.amount_received), (PaymentIntentStatus::Succeeded, 1200));
    let charge = expanded.latest_charge.expect("a charge").into_object().expect("expanded");
    assert_eq!((charge.amount, charge.paid, charge.status), (1200, true, ChargeStatus::Succeeded));

    let found = RetrievePaymentIntent::new(intent.id.clone()).send(&stripe).await.expect("found");
    assert_eq!(found.latest_charge.expect("a charge").id(), &charge.id);
    let part = CreateRefund::new().payment_intent(intent.id.to_string()).amount(500);
    let part = part.send(&stripe).await.expect("a refund");
    assert_eq!((part.amount, part.currency), (500, Currency::USD));
    let found = RetrieveRefund::new(part.id.clone()).send(&stripe).await.expect("found");
    assert_eq!(found.id, part.id);
    let (error, status) =
        told(CreateRefund::new().charge(charge.id.to_string()).amount(701).send(&stripe).await);
    assert_eq!(
        (error.type_, error.param.as_deref(), status),
        (ApiErrorsType::InvalidRequestError, Some("amount"), 400)
    );
    CreateRefund::new().charge(charge.id.to_string()).send(&stripe).await.expect("the rest");
    let charge = RetrieveCharge::new(charge.id).send(&stripe).await.expect("found");
    assert_eq!((charge.amount_refunded, charge.refunded), (1200, true));
    let (error, _) = told(CreateRefund::new().charge(charge.id.to_string()).send(&stripe).await);
    assert_eq!(error.code, Some(ApiErrorsCode::ChargeAlreadyRefunded));
    let refunds = ListRefund::new().charge(charge.id.to_string()).send(&stripe).await.expect("a list");
    assert_eq!((refunds.data.len(), refunds.has_more), (2, false));
    judge(&fake.ledger(), fake.plan());
}

#[tokio::test]
async fn an_amount_is_held_captured_and_let_go() {
    let fake = StripeFake::start().await;
    let stripe = client(&fake, RequestStrategy::Once);
    let held = async || paid(900).capture_method(PaymentIntentCaptureMethod::Manual).send(&stripe).await;
    let (one, other) = (held().await.expect("held"), held().await.expect("held"));
    assert_eq!((one.status, one.amount_capturable), (PaymentIntentStatus::RequiresCapture, 900));
    let done =
        CapturePaymentIntent::new(one.id.clone()).amount_to_capture(400).send(&stripe).await.expect("done");
    assert_eq!((done.status, done.amount_received), (PaymentIntentStatus::Succeeded, 400));
    let gone = CancelPaymentIntent::new(other.id).send(&stripe).await.expect("let go");
    assert_eq!(gone.status, PaymentIntentStatus::Canceled);
    let (error, _) = told(CancelPaymentIntent::new(one.id).send(&stripe).await);
    assert_eq!(error.code, Some(ApiErrorsCode::PaymentIntentUnexpectedState));
    judge(&fake.ledger(), fake.plan());
}

#[tokio::test]
async fn a_list_is_read_page_by_page() {
    let fake = StripeFake::start().await;
    let stripe = client(&fake, RequestStrategy::Once);
    let mut newest = Vec::new();
    for n in 0..7 {
        let customer = CreateCustomer::new().name(format!("{n}")).send(&stripe).await.expect("a customer");
        newest.insert(0, customer.id);
    }
    let before = fake.plan().requests();
    let pages = ListCustomer::new().limit(3).paginate().stream(&stripe);
    let read: Vec<_> = pages.map_ok(|customer| customer.id).try_collect().await.expect("all pages");
    assert_eq!((read, fake.plan().requests() - before), (newest, 3));
    let none = ListPaymentIntent::new().send(&stripe).await.expect("a list");
    assert!(none.data.is_empty());
    judge(&fake.ledger(), fake.plan());
}

#[tokio::test]
async fn a_declined_card_is_told_by_type() {
    let fake = StripeFake::start().await;
    let stripe = client(&fake, RequestStrategy::Once);
    let poor = CreatePaymentIntent::new(1000, Currency::USD).confirm(true);
    let poor = poor.payment_method("pm_card_chargeDeclinedInsufficientFunds").return_url(BACK);
    let (error, status) = told(poor.send(&stripe).await);
    assert_eq!(
        (error.type_, error.code, status),
        (ApiErrorsType::CardError, Some(ApiErrorsCode::CardDeclined), 402)
    );
    assert_eq!(error.decline_code.as_deref(), Some("insufficient_funds"));
    let intent: PaymentIntent = error.payment_intent.expect("the intent that it is about");
    assert_eq!(intent.status, PaymentIntentStatus::RequiresPaymentMethod);
    let kept = intent.last_payment_error.expect("kept with the intent");
    assert_eq!(kept.code, Some(ApiErrorsCode::CardDeclined));
    let done = ConfirmPaymentIntent::new(intent.id).payment_method("pm_card_visa").return_url(BACK);
    let done = done.send(&stripe).await;
    assert_eq!(done.expect("another card").status, PaymentIntentStatus::Succeeded);
    judge(&fake.ledger(), fake.plan());
}

#[tokio::test]
async fn what_is_missing_wrong_or_forbidden_is_told_by_type() {
    let fake = StripeFake::start().await;
    let stripe = client(&fake, RequestStrategy::Once);
    let (error, status) = told(CreatePaymentIntent::new(0, Currency::USD).send(&stripe).await);
    assert_eq!(
        (error.code, error.param.as_deref(), status),
        (Some(ApiErrorsCode::ParameterInvalidInteger), Some("amount"), 400)
    );
    let (error, status) = told(RetrievePaymentIntent::new("pi_none").send(&stripe).await);
    assert_eq!((error.code, status), (Some(ApiErrorsCode::ResourceMissing), 404));
    let stranger = ClientBuilder::new("not-a-key").url(format!("{}/", fake.url())).build().expect("a client");
    let (error, status) = told(ListCustomer::new().send(&stranger).await);
    assert_eq!((error.type_, status), (ApiErrorsType::InvalidRequestError, 401));
    judge(&fake.ledger(), fake.plan());
}

#[tokio::test]
async fn one_key_is_one_payment_whatever_was_lost() {
    let fake = StripeFake::start().await;
    let stripe = client(&fake, RequestStrategy::Once);
    let pay = |amount, key: &str| paid(amount).customize().request_strategy(keyed(key)).send(&stripe);
    let first = pay(1000, "order-42").await.expect("an intent");
    let again = pay(1000, "order-42").await.expect("a replay");
    assert_eq!((again.id, fake.ledger().effects_for("order-42").len()), (first.id, 1));
    let (error, _) = told(pay(900, "order-42").await);
    assert_eq!(error.type_, ApiErrorsType::IdempotencyError);

    for (n, fault) in
        [Fault::DropAfterApply, Fault::ResetAfterApply, Fault::TruncatedBody].into_iter().enumerate()
    {
        let key = format!("order-5{n}");
        fake.plan().next(fault);
        let lost = pay(1000, &key).await;
        assert!(matches!(lost, Err(StripeError::ClientError(_))), "{fault:?}: {lost:?}");
        let replayed = pay(1000, &key).await.expect("a replay");
        assert_eq!(replayed.status, PaymentIntentStatus::Succeeded, "{fault:?}");
        assert_eq!(fake.ledger().effects_for(&key).len(), 1, "{fault:?}");
    }
    judge(&fake.ledger(), fake.plan());
}

#[tokio::test]
async fn its_own_retries_carry_one_key() {
    let fake = StripeFake::start().await;
    let stripe = client(&fake, RequestStrategy::Retry(3));
    let limited = Fault::TooManyRequests(WaitForm::None);
    for fault in [
        Fault::DropBeforeRead,
        Fault::DropAfterApply,
        Fault::ResetAfterApply,
        Fault::Error500Before,
        Fault::Error500After,
        Fault::KeyInUse,
        limited,
    ] {
        let before = fake.ledger().count();
        fake.plan().next(fault);
        let intent = paid(1000).send(&stripe).await.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        let made: Vec<String> = fake.ledger().effects().drain(before..).map(|effect| effect.id).collect();
        assert_eq!(made, [intent.id.to_string()], "{fault:?}");
    }
    judge(&fake.ledger(), fake.plan());
}

#[tokio::test]
async fn a_failure_is_told_by_type_to_who_does_not_retry() {
    let fake = StripeFake::start().await;
    let stripe = client(&fake, RequestStrategy::Once);
    fake.plan().next(Fault::TooManyRequests(WaitForm::None));
    let (error, status) = told(paid(1000).send(&stripe).await);
    assert_eq!((error.code, status), (Some(ApiErrorsCode::RateLimit), 429));
    fake.plan().next(Fault::Stored500);
    let stored = || paid(1000).customize().request_strategy(keyed("order-42")).send(&stripe);
    assert_eq!(told(stored().await).1, 500);
    let (error, status) = told(stored().await);
    assert_eq!((error.type_, status), (ApiErrorsType::ApiError, 500), "the key's answer from now on");
    fake.plan().next(Fault::Html);
    let html = paid(1000).send(&stripe).await;
    assert!(matches!(html, Err(StripeError::JSONDeserialize(_))), "{html:?}");
    assert_eq!(fake.ledger().count(), 0);
    judge(&fake.ledger(), fake.plan());
}

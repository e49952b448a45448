//! A typed mail, through a lost answer, a repeat and a refusal.

use carriers::postmark::Carrier;
use postmark::api::Body;
use postmark::api::email::SendEmailRequest;
use postmark::{Query, QueryError};
use steadfast::testkit::fakes::PostmarkFake;
use steadfast::testkit::{Fault, TestClock};
use steadfast::vendor::Postmark;
use steadfast::{Client, Effect};

fn carrier(fake: &PostmarkFake, clock: &TestClock) -> Carrier {
    let client =
        Client::builder(Postmark::new("a-server-token")).transport(fake.transport()).clock(clock.clone());
    Carrier::new(client.build().expect("a client"))
}

fn fake(clock: &TestClock) -> PostmarkFake {
    PostmarkFake::builder().test_clock(clock).in_process()
}

fn mail(to: &str) -> SendEmailRequest {
    let mail = SendEmailRequest::builder().from("shop@example.com").to(to).subject("Your order");
    mail.body(Body::text("It is on its way.".to_owned())).build()
}

#[tokio::test]
async fn a_mail_is_sent_once_under_its_key() {
    let clock = TestClock::auto();
    let fake = fake(&clock);
    let postmark = carrier(&fake, &clock);
    let first = mail("ada@example.com").execute(&postmark.keyed("order-42/mail")).await.expect("sent");
    assert!(first.message_id.is_some());
    let again = mail("ada@example.com").execute(&postmark.keyed("order-42/mail")).await.expect("a replay");
    assert_eq!((again.message_id, fake.ledger().count()), (first.message_id, 1));
    mail("ada@example.com").execute(&postmark.keyed("order-43/mail")).await.expect("sent");
    assert_eq!(fake.ledger().count(), 2);
}

#[tokio::test]
async fn a_lost_answer_is_one_mail_that_is_looked_up() {
    let clock = TestClock::auto();
    let fake = fake(&clock);
    fake.plan().next(Fault::DropAfterApply);
    let postmark = carrier(&fake, &clock);
    let sent = mail("ada@example.com").execute(&postmark.keyed("order-42/mail")).await.expect("found");
    assert!(sent.message_id.is_some());
    assert_eq!((fake.plan().injected_total(), fake.ledger().count()), (1, 1));
}

#[tokio::test]
async fn a_refusal_is_read_by_postmark_itself() {
    let clock = TestClock::auto();
    let fake = fake(&clock);
    fake.deactivate("gone@example.com");
    let refused = mail("gone@example.com").execute(&carrier(&fake, &clock).keyed("order-42/mail")).await;
    let Err(QueryError::Api { status, error_code, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!((status.as_u16(), error_code, fake.ledger().count()), (422, Some(406), 0));
}

#[tokio::test]
async fn a_call_that_has_failed_says_so_with_its_effect() {
    let clock = TestClock::auto();
    let fake = fake(&clock);
    fake.plan().next_n(Fault::DropBeforeRead, 9);
    let failed = mail("ada@example.com").execute(&carrier(&fake, &clock).keyed("order-42/mail")).await;
    let Err(QueryError::Client { source }) = failed else { panic!("{failed:?}") };
    assert_eq!((source.effect(), source.key()), (Effect::Unknown, Some("order-42/mail")));
}

//! postmark by itself: with reqwest, as it comes.

use std::collections::HashMap;

use postmark::api::Body;
use postmark::api::bounce::{
    ActivateBounceRequest, GetBounceRequest, GetDeliveryStatsRequest, ListBouncesRequest,
};
use postmark::api::email::{SendEmailBatchRequest, SendEmailRequest, SendEmailWithTemplateRequest};
use postmark::api::messages::{OutboundDumpRequest, OutboundSearchRequest};
use postmark::api::server::GetCurrentServerRequest;
use postmark::api::templates::{
    CreateTemplateRequest, DeleteTemplateRequest, GetTemplateRequest, ListTemplatesRequest,
};
use postmark::reqwest::{PostmarkClient, PostmarkClientError};
use postmark::{Query as _, QueryError};
use sdk::judge;
use steadfast::testkit::fakes::PostmarkFake;
use steadfast::testkit::{Fault, WaitForm};

fn client(fake: &PostmarkFake) -> PostmarkClient {
    PostmarkClient::builder().base_url(fake.url()).server_token("a-server-token").build()
}

fn mail(to: &str, order: &str) -> SendEmailRequest {
    let mail = SendEmailRequest::builder().from("shop@example.com").to(to).subject("Your order");
    let mail = mail.metadata(HashMap::from([("order".to_owned(), order.to_owned())])).tag(order);
    mail.body(Body::text("It is on its way.".to_owned())).build()
}

/// The status, and Postmark's own code.
fn told<T: std::fmt::Debug>(outcome: Result<T, QueryError<PostmarkClientError>>) -> (u16, Option<i64>) {
    match outcome {
        Err(QueryError::Api { status, error_code, .. }) => (status.as_u16(), error_code),
        other => panic!("Postmark refuses: {other:?}"),
    }
}

#[tokio::test]
async fn a_mail_is_sent_found_and_read() {
    let fake = PostmarkFake::start().await;
    let postmark = client(&fake);
    let sent = mail("ada@example.com", "42").execute(&postmark).await.expect("sent");
    let sent = sent.error_for_status().expect("accepted");
    assert_eq!(sent.to.as_deref(), Some("ada@example.com"));
    let id = sent.message_id.expect("an id");
    mail("bob@example.com", "43").execute(&postmark).await.expect("sent");

    let search = OutboundSearchRequest::builder().count(10).offset(0).tag("42".to_owned()).build();
    let found = search.execute(&postmark).await.expect("found");
    assert_eq!((found.total_count, found.messages[0].message_id.as_str()), (1, id.as_str()));
    let search = OutboundSearchRequest::builder().count(1).offset(1).build();
    let second = search.execute(&postmark).await.expect("a page");
    assert_eq!((second.total_count, second.messages[0].message_id.as_str()), (2, id.as_str()));
    let dump = OutboundDumpRequest::new(id).execute(&postmark).await.expect("a dump");
    assert!(dump.body.contains("It is on its way."), "{}", dump.body);
    assert_eq!(told(OutboundDumpRequest::new("none".to_owned()).execute(&postmark).await), (422, Some(701)));
    // `count` and `offset` are required, and postmark may leave them out.
    assert_eq!(told(OutboundSearchRequest::default().execute(&postmark).await).0, 422);
    judge(&fake.ledger(), fake.plan());
}

#[tokio::test]
async fn a_batch_is_told_mail_by_mail_and_a_bounce_is_activated() {
    let fake = PostmarkFake::start().await;
    fake.deactivate("gone@example.com");
    let postmark = client(&fake);
    let batch: SendEmailBatchRequest = vec![mail("ada@example.com", "1"), mail("gone@example.com", "2")];
    let told_each = batch.execute(&postmark).await.expect("a batch");
    assert_eq!(told_each.iter().map(|one| one.error_code).collect::<Vec<_>>(), [0, 406]);
    assert_eq!(told(mail("gone@example.com", "3").execute(&postmark).await), (422, Some(406)));

    let statistics = GetDeliveryStatsRequest {}.execute(&postmark).await.expect("statistics");
    assert_eq!(statistics.inactive_mails, 1);
    let bounces = ListBouncesRequest::builder().build().execute(&postmark).await.expect("bounces");
    let [bounce] = &bounces.bounces[..] else { panic!("{bounces:?}") };
    assert_eq!((bounce.email.as_str(), bounce.inactive), ("gone@example.com", true));
    let one = GetBounceRequest::builder().bounce_id(bounce.id).build().execute(&postmark).await;
    assert_eq!(&one.expect("a bounce"), bounce);
    let activate = ActivateBounceRequest::builder().bounce_id(bounce.id).build();
    assert!(!activate.execute(&postmark).await.expect("activated").bounce.inactive);
    mail("gone@example.com", "4").execute(&postmark).await.expect("sent");
    assert_eq!(fake.ledger().count(), 2);
    judge(&fake.ledger(), fake.plan());
}

#[tokio::test]
async fn a_template_is_made_sent_and_removed() {
    let fake = PostmarkFake::start().await;
    let postmark = client(&fake);
    assert_eq!(GetCurrentServerRequest {}.execute(&postmark).await.expect("the server").name, "Fake");
    let create =
        CreateTemplateRequest::builder().name("Paid".to_owned()).subject("Order {{order}}".to_owned());
    let made =
        create.body(Body::text("{{order}}".to_owned())).build().execute(&postmark).await.expect("made");
    let read = GetTemplateRequest::builder().id(made.template_id).build().execute(&postmark).await;
    assert_eq!(read.expect("read").subject, "Order {{order}}");
    let model = HashMap::from([("order".to_owned(), "42".to_owned())]);
    let sent = SendEmailWithTemplateRequest::builder().from("shop@example.com").to("ada@example.com");
    let sent =
        sent.template_id(made.template_id.get()).template_model(model).build().execute(&postmark).await;
    assert_eq!(sent.expect("sent").error_code, 0);
    let all = ListTemplatesRequest::builder().build().execute(&postmark).await.expect("all");
    assert!(all.templates.iter().any(|template| template.template_id == made.template_id));
    DeleteTemplateRequest::builder().id(made.template_id).build().execute(&postmark).await.expect("removed");
    let gone = GetTemplateRequest::builder().id(made.template_id).build().execute(&postmark).await;
    assert_eq!(told(gone), (422, Some(1101)));
    judge(&fake.ledger(), fake.plan());
}

#[tokio::test]
async fn a_refusal_and_a_failure_are_told_by_code() {
    let fake = PostmarkFake::builder().token("another").listen(0).await.expect("a fake");
    assert_eq!(told(mail("ada@example.com", "1").execute(&client(&fake)).await), (401, Some(10)));
    let fake = PostmarkFake::start().await;
    let postmark = client(&fake);
    assert_eq!(told(mail("no address", "1").execute(&postmark).await), (422, Some(300)));
    fake.plan().next(Fault::TooManyRequests(WaitForm::None));
    assert_eq!(told(mail("ada@example.com", "1").execute(&postmark).await).0, 429);
    fake.plan().next(Fault::Error500Before);
    assert_eq!(told(mail("ada@example.com", "1").execute(&postmark).await).0, 500);
    fake.plan().next(Fault::Html);
    let html = mail("ada@example.com", "1").execute(&postmark).await;
    assert!(matches!(html, Err(QueryError::Api { error_code: None, .. })), "{html:?}");
    assert_eq!(fake.ledger().count(), 0);
    fake.plan().next(Fault::Error500After);
    assert_eq!(told(mail("ada@example.com", "1").execute(&postmark).await).0, 500);
    assert_eq!(fake.ledger().count(), 1, "accepted, and said to have failed");
    judge(&fake.ledger(), fake.plan());
}

/// Postmark has no keys. It has the search for what was sent: by metadata, or by postmark's means, by tag.
#[tokio::test]
async fn a_lost_answer_is_a_mail_that_the_search_finds_and_a_repeat_sends_twice() {
    let fake = PostmarkFake::start().await;
    let postmark = client(&fake);
    for (fault, sent) in [
        (Fault::DropBeforeRead, 0),
        (Fault::Reset, 0),
        (Fault::DropAfterApply, 1),
        (Fault::ResetAfterApply, 1),
        (Fault::TruncatedBody, 1),
    ] {
        let order = format!("{fault:?}");
        fake.plan().next(fault);
        let lost = mail("ada@example.com", &order).execute(&postmark).await;
        assert!(matches!(lost, Err(QueryError::Client { .. })), "{fault:?}: {lost:?}");
        let search = OutboundSearchRequest::builder().count(10).offset(0).tag(order).build();
        assert_eq!(search.execute(&postmark).await.expect("found").total_count, sent, "{fault:?}");
    }
    let before = fake.ledger().count();
    mail("ada@example.com", "DropAfterApply").execute(&postmark).await.expect("sent");
    assert_eq!(fake.ledger().count(), before + 1, "a second mail of the same order");
    judge(&fake.ledger(), fake.plan());
}

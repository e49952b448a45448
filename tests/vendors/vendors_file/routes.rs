//! The settings that differ by route.

use std::time::Duration;

use serde_json::json;
use steadfast::operation::record::Filter;
use steadfast::store::Memory;
use steadfast::testkit::fakes::PostmarkFake;
use steadfast::testkit::{Fault, ScriptedTransport, TestClock};
use steadfast::{Client, Effect};

use crate::vendors_file::{load, refusal};

const POSTMARK: &str = "[vendors.postmark]\nsecret_env = 'S'\nredact = ['To']\n";

const ROUTES: &str = "
[vendors.postmark.routes.'/email']
on_unknown = 'resend'
redact = ['TextBody']
retention = '30days'
preset = 'interactive'
[vendors.postmark.routes.'/email'.policy]
timeout.attempt = '3s'
backoff = { steps = ['1s'], jitter = 'none' }

[vendors.postmark.routes.'/email/batch']
policy.timeout = { attempt = '45s' }
";

const DAY: Duration = Duration::from_secs(24 * 3600);

fn client(text: &str, network: &ScriptedTransport, clock: &TestClock) -> Client {
    let builder = load(text).builder("postmark").expect("a builder");
    builder.store(Memory::new()).transport(network.clone()).clock(clock.clone()).build().expect("a client")
}

fn mail() -> serde_json::Value {
    json!({"From": "a@shop.test", "To": "b@x.test", "TextBody": "Paid."})
}

#[tokio::test]
async fn a_route_has_its_own_ladder_timeouts_retention_and_redacted_fields() {
    let clock = TestClock::auto();
    let network = ScriptedTransport::new().status(429).status(429);
    let postmark = client(&format!("{POSTMARK}{ROUTES}"), &network, &clock);
    let error =
        postmark.post("/email").key("k").json(&mail()).send().await.expect_err("two attempts, no more");
    assert_eq!((error.is_dead_letter(), network.requests().len()), (true, 2), "{error}");
    let rows = postmark.store().list(&Filter::default(), None, 1).await.expect("works").rows;
    let record = postmark.store().get(&rows[0].id).await.expect("works").expect("a record");
    assert_eq!(record.redact.names(), ["to", "textbody"]);
    assert_eq!((record.attempt_max, record.keep), (Duration::from_secs(3), 30 * DAY));

    // The longest beginning decides, and takes nothing from the shorter one.
    let network = ScriptedTransport::new().json(200, json!("no answer of Postmark's"));
    let postmark = client(&format!("{POSTMARK}{ROUTES}"), &network, &clock);
    let batch = postmark.post("/email/batch/").key("k").json(&[mail()]);
    batch.send().await.expect_err("no answer of Postmark's");
    let rows = postmark.store().list(&Filter::default(), None, 1).await.expect("works").rows;
    let record = postmark.store().get(&rows[0].id).await.expect("works").expect("a record");
    assert_eq!(
        (record.redact.names(), record.attempt_max),
        (&["to".to_owned()][..], Duration::from_secs(45))
    );
    // And no other path has any of it.
    let network = ScriptedTransport::new().status(200);
    let postmark = client(&format!("{POSTMARK}{ROUTES}"), &network, &clock);
    postmark.post("/emails").key("k").json(&json!({})).send().await.expect("a reply");
    let rows = postmark.store().list(&Filter::default(), None, 1).await.expect("works").rows;
    let record = postmark.store().get(&rows[0].id).await.expect("works").expect("a record");
    assert_eq!((record.attempt_max, record.keep), (Duration::from_secs(30), 7 * DAY));
}

#[tokio::test]
async fn a_call_is_on_the_route_that_its_parameters_make() {
    let network = ScriptedTransport::new().status(429).status(429);
    let postmark = client(&format!("{POSTMARK}{ROUTES}"), &network, &TestClock::auto());
    let call = postmark.post("/{what}").path("what", "email").key("k").json(&mail());
    assert!(call.send().await.expect_err("two attempts, no more").is_dead_letter());
    let rows = postmark.store().list(&Filter::default(), None, 1).await.expect("works").rows;
    let record = postmark.store().get(&rows[0].id).await.expect("works").expect("a record");
    assert_eq!(record.redact.names(), ["to", "textbody"]);
    assert_eq!((record.attempt_max, network.requests().len()), (Duration::from_secs(3), 2));
}

#[tokio::test]
async fn a_route_says_what_becomes_of_an_unknown_outcome_and_a_call_says_otherwise() {
    for (routes, parked, effects) in [("", false, 0), (ROUTES, false, 1), (ROUTES, true, 0)] {
        let clock = TestClock::auto();
        let fake = PostmarkFake::builder().test_clock(&clock).in_process();
        // Neither the mail nor its answer arrives, and the search finds nothing.
        fake.plan().next(Fault::DropBeforeRead);
        let text = format!("{POSTMARK}{routes}");
        let builder = load(&text).builder("postmark").expect("a builder").store(Memory::new());
        let postmark = builder.transport(fake.transport()).clock(clock).build().expect("a client");
        let mut call = postmark.post("/email").key("k").json(&mail());
        // The ten seconds of the preset end before the lookups do.
        call = call.timeout(steadfast::policy::Timeouts::background());
        if parked {
            call = call.on_unknown(steadfast::OnUnknown::Park);
        }
        let outcome = call.send().await;
        assert_eq!((outcome.is_ok(), fake.ledger().count()), (effects == 1, effects), "{outcome:?}");
        if let Err(error) = outcome {
            assert_eq!(error.effect(), Effect::Unknown, "{error}");
        }
    }
}

/// Where a person waits, the route's preset ends the call when it says so, and not when the vendor's does.
#[tokio::test]
async fn a_routes_preset_says_how_long_its_caller_waits() {
    for (routes, sent) in [("", 2), ("routes.'/email'.preset = 'interactive'\n", 1)] {
        let clock = TestClock::auto();
        let network = ScriptedTransport::new().status(429).header("retry-after", "15");
        let network = network.json(200, json!({"MessageID": "m-1", "ErrorCode": 0}));
        let postmark = client(&format!("{POSTMARK}{routes}"), &network, &clock);
        let outcome = postmark.post("/email").key("k").json(&mail()).send().await;
        assert_eq!((outcome.is_ok(), network.requests().len()), (sent == 2, sent), "{routes}: {outcome:?}");
    }
}

#[tokio::test]
async fn recovery_goes_by_the_route_too() {
    let clock = TestClock::auto();
    let routes = "[vendors.postmark.routes.'/email']\npolicy.backoff = { steps = ['1s'], jitter = 'none' }";
    let network = ScriptedTransport::new().status(429).status(429).status(429);
    let postmark = client(&format!("{POSTMARK}{routes}"), &network, &clock);
    let enqueued = postmark.post("/email").key("k").json(&mail()).enqueue().await.expect("on record");
    clock.advance(Duration::from_secs(1));
    postmark.recover(10).await.expect("a round");
    let error = enqueued.wait(Duration::from_secs(60)).await.expect_err("two attempts, no more");
    assert_eq!((error.is_dead_letter(), network.requests().len()), (true, 2), "{error}");
}

#[test]
fn what_is_wrong_with_a_route_is_told_with_its_place() {
    let said = |routes: &str| refusal(&format!("{POSTMARK}{routes}"));
    for (routes, told) in [
        ("routes.email = {}", "starts with a slash"),
        (
            "[vendors.postmark.routes.'/email']\npolicy.breaker = false",
            "expected one of `backoff`, `timeout`",
        ),
        (
            "[vendors.postmark.routes.'/email']\npolicy.timeout.connect = '1s'",
            "expected one of `attempt`, `total`",
        ),
        (
            "[vendors.postmark.routes.'/email']\nbackoff = { steps = [] }",
            "it belongs in [vendors.postmark.routes.\"/email\".policy]",
        ),
        (
            "[vendors.postmark.routes.'/email']\npolicy.timeout = { attempt = '60s', total = '30s' }",
            "`timeout.attempt` in [vendors.postmark.routes.\"/email\".policy]: 60s is longer than timeout.total, 30s",
        ),
        (
            "[vendors.postmark.routes.'/email']\nretention = '1s'",
            "`/email` in [vendors.postmark.routes]: 1s is shorter",
        ),
        ("[vendors.postmark.routes.'/email']\nredact = ['']", "[vendors.postmark.routes.\"/email\"]"),
        ("[vendors.postmark.routes.'/email']\non_unknown = 'drop'", "expected one of `park`, `resend`"),
    ] {
        let refused = said(routes);
        assert!(refused.starts_with("vendors.toml:") && refused.contains(told), "{routes}: {refused}");
    }
}

/// A route that no path of a call has, and a window that never opens, would be taken without a word and do nothing.
#[test]
fn what_could_never_hold_is_told_once_and_in_its_own_words() {
    let stripe = "[vendors.stripe]\nsecret_env = 'S'\n";
    let acme = "[vendors.acme]\nadapter = 'keyed'\naccount = 'a'\nbase_url = 'https://a.test'\nkey = { header = 'K' }\n";
    for (text, place, word) in [
        (format!("{acme}window = '1m'"), "6:", "`window` in [vendors.acme]: 60s never opens"),
        (format!("{acme}window = '330s'"), "6:", "never opens"),
        (
            format!("{stripe}replay_window = '5m'"),
            "3:",
            "`replay_window` in [vendors.stripe]: 300s never opens",
        ),
        (format!("{stripe}api_version = ' '"), "3:", "`api_version`"),
        (
            format!("{stripe}[vendors.stripe.routes.'POST /v1/refunds']\nretention = '30days'"),
            "3:",
            "without `POST`",
        ),
        (format!("{stripe}[vendors.stripe.routes.'/v1/refunds/:id']"), "3:", "`:id`"),
        (format!("{stripe}[vendors.stripe.routes.'/v1/*']"), "3:", "`*`"),
        (format!("{stripe}[vendors.stripe.retention]\n'PUT /v1' = '30days'"), "4:", "without `PUT`"),
        (format!("{stripe}[vendors.stripe.routes.'/v1/../v2']"), "3:", "is sent as `/v2`"),
        (
            format!("{stripe}[vendors.stripe.retention]\n'/v1/{{a}}/x' = '9days'\n'/v1/{{b}}/x' = '30days'"),
            "5:",
            "`/v1/{b}/x` in [vendors.stripe.retention] is the same route as `/v1/{a}/x`",
        ),
        (
            format!("{stripe}[vendors.stripe.routes.'/v1/{{a}}']\n[vendors.stripe.routes.'/v1/{{b}}']"),
            "4:",
            "is the same route as `/v1/{a}`",
        ),
        (
            format!("{stripe}retention = {{ '/v1/a' = '9days' }}\nroutes.'/v1/a'.retention = '30days'"),
            "3:",
            "`routes.\"/v1/a\".retention` sets it too",
        ),
        (format!("{stripe}replay_window = '999days'"), "3:", "a key that is forgotten"),
        (format!("{stripe}settle_time = '0s'"), "3:", "`settle_time` in [vendors.stripe]: zero"),
        (format!("{stripe}settle_time = '25h'"), "3:", "over a day"),
        (format!("{stripe}lookup_by_metadata = ['charges']"), "3:", "is no create route"),
        (
            format!("{stripe}lookup_by_metadata = ['POST /v1/charges']"),
            "3:",
            "write its whole path, such as \"/v1/charges\"",
        ),
        (
            format!("{stripe}former_base_urls = ['https://api.stripe.com/']"),
            "3:",
            "it is the base URL itself",
        ),
        (
            "[vendors.bigcommerce]\nsecret_env = 'S'\nstore_hash = 'abc'\n\
             base_url = 'https://api.bigcommerce.com/stores/abc'"
                .to_owned(),
            "4:",
            "write the host alone",
        ),
        (format!("{acme}stores_failures = true"), "6:", "without `window`"),
        (format!("{acme}secret_env = 'S'"), "6:", "`secret_env` in [vendors.acme] is sent nowhere"),
        (
            format!("{acme}secret_env = 'S'\nauth = {{ header = 'Authorization', prefix = 'Bearer' }}"),
            "7:",
            "write \"Bearer \"",
        ),
    ] {
        let said = refusal(&text);
        assert_eq!(said.lines().count(), 1, "told once: {said}");
        assert!(said.starts_with(&format!("vendors.toml:{place}")) && said.contains(word), "{text}: {said}");
    }
    load(&format!("{acme}window = '331s'"));
    load(&format!("{acme}secret_env = 'S'\nauth = {{ header = 'X-Token', prefix = 'Key' }}"));
    load(&format!("{stripe}retention = {{ '/v1/a' = '9days' }}\nroutes.'/v1/a/{{b}}'.retention = '30days'"));
    load(&format!("{stripe}[vendors.stripe.routes.'/v1/refunds/{{id}}']\nretention = '30days'"));
}

//! Rules that a redrive, a list and an adoption go by, each where one word decides.

use steadfast_core::AttemptReport;
use steadfast_core::internal::store::{Beat, Heartbeat};
use steadfast_core::transport::Request;

use super::*;
use crate::dead_letter::redrive::overwrites;
use crate::dead_letter::select::code;

#[test]
fn a_request_with_either_condition_overwrites_nothing() {
    let put = |header: Option<&'static str>| {
        let url = "https://vendor.test/x".parse().expect("a url");
        let mut request = Request::new(http::Method::PUT, url);
        if let Some(header) = header {
            request.headers.insert(header, http::HeaderValue::from_static("x"));
        }
        overwrites(&request)
    };
    assert!(put(None) && put(Some("if-none-match")));
    assert!(!put(Some("if-match")) && !put(Some("if-unmodified-since")));
    let of = |method| overwrites(&Request::new(method, "https://vendor.test/x".parse().expect("a url")));
    assert!(of(http::Method::PATCH) && of(http::Method::DELETE) && !of(http::Method::POST));
}

/// No operator chose the risk for an edit, and force is on record only where it is needed.
#[tokio::test]
async fn no_second_send_is_accepted_without_a_choice() {
    let bench = Bench::new(Arc::new(Memory::new()));
    let network = ScriptedTransport::new().fail(SendErrorKind::Connect);
    let stripe = client(Stripe::new("sk_test_1"), &bench.store, &bench.clock, &network);
    let risky = bench.pay(&stripe, "risky").on_unknown(crate::OnUnknown::Resend);
    risky.send().await.expect_err("nothing gets out");
    let id = bench.letters().find("risky").await.expect("a letter");
    let how = Change::by("ada").because("the amount was wrong");
    let key = Key::new("risky-2").expect("a key");
    let new = bench.letters().edit(&id, key, "amount=9", &how).await.expect("it is free");
    let record = bench.store.get(&new).await.expect("works").expect("a record");
    assert_eq!((record.on_unknown, record.resends_left), (crate::OnUnknown::Park, 0));

    let id = bench.lost("in its window").await;
    let redriven = redrive(&bench.letters(), &id, &how.force()).await;
    assert_eq!((redriven.done, redriven.forced), (1, 0));
    assert_eq!(bench.store.get(&id).await.expect("works").expect("a record").resends_left, 0);
}

/// The dry run promises the operator the decision of the client that sends the letter.
#[tokio::test]
async fn a_letter_is_safe_to_redrive_by_the_policy_and_the_choice_that_are_its_own() {
    let bench = Bench::new(Arc::new(Memory::new()));
    let lost = || ScriptedTransport::new().always_fail(SendErrorKind::Reset);
    let postmark = |lookups_max| {
        let policy = Policy::background().backoff(Backoff::none()).without_breaker().without_budget();
        let mut policy = policy;
        policy.lookups_max = lookups_max;
        Client::builder(Postmark::new("token"))
            .policy(policy)
            .store(Arc::clone(&bench.store))
            .clock(bench.clock.clone())
            .transport(lost())
            .build()
            .expect("a client")
    };
    let (never, asks) = (postmark(0), postmark(3));
    never.post("/email").key("mail").json(&json!({"To": "b@x.test"})).send().await.expect_err("it is lost");
    let put = |choice: steadfast_core::OnUnknown| {
        let config = crate::vendor::KeyedConfig::new("acme", "https://v.test");
        let acme = client(crate::vendor::Keyed::new(config, "none"), &bench.store, &bench.clock, &lost());
        let call = acme.put("/x").key(format!("{choice:?}")).json(&json!({})).on_unknown(choice);
        (acme, call)
    };
    let shown = async |by: &Client, key: &str| {
        let letters = bench.letters_without_rules().with_client(by);
        let id = letters.find(key).await.expect("a letter");
        letters.show(&id).await.expect("on record").safety
    };
    assert_eq!(shown(&never, "mail").await, Some(Safety::Unsafe), "its client looks nothing up");
    assert_eq!(shown(&asks, "mail").await, Some(Safety::Lookup));
    for (choice, expected) in
        [(crate::OnUnknown::Park, Safety::Unsafe), (crate::OnUnknown::ByMethod, Safety::Repeatable)]
    {
        let (acme, call) = put(choice);
        call.send().await.expect_err("it is lost");
        assert_eq!(shown(&acme, &format!("{choice:?}")).await, Some(expected), "{choice:?}");
    }
    // What a person has said to be applied is no letter to redrive.
    let id = bench.letters().find("mail").await.expect("a letter");
    let applied = Resolution::Applied { vendor_id: "m-1".to_owned() };
    bench.letters().resolve(&id, applied, &Change::by("ada").because("it is there")).await.expect("a letter");
    assert_eq!(shown(&asks, "mail").await, None);
}

/// `pay` is not the end of `adyen-pay`.
#[tokio::test]
async fn a_vendor_is_selected_by_its_whole_name() {
    let bench = Bench::new(Arc::new(Memory::new()));
    for name in ["adyen-pay", "pay"] {
        let vendor = crate::vendor::KeyedConfig::new(name, "https://v.test");
        let vendor = crate::vendor::Keyed::new(vendor, "none");
        let client = client(vendor, &bench.store, &bench.clock, &bench.network);
        client.post("/x").key(name).enqueue().await.expect("on record");
    }
    let of = |vendor: &str| Filter { vendor: Some(vendor.to_owned()), ..Filter::default() };
    for name in ["adyen-pay", "pay"] {
        let rows = bench.letters().waiting(&of(name), None, 10).await.expect("works").rows;
        assert_eq!(rows.iter().map(|row| row.id.key.as_str()).collect::<Vec<_>>(), [name]);
    }
}

#[tokio::test]
async fn an_answer_of_504_is_a_timeout_and_another_one_is_not() {
    let bench = Bench::new(Arc::new(Memory::new()));
    let id = bench.lost("order-1").await;
    let summary = bench.store.get(&id).await.expect("works").expect("a record").summary();
    let of = |status| {
        let mut summary = summary.clone();
        (summary.effect, summary.status) = (Effect::None, status);
        summary
    };
    let none: Option<&AttemptReport> = None;
    assert_eq!(code(&of(Some(504)), none), "DEPENDENCY.timeout");
    assert_eq!(code(&of(Some(503)), none), "DEPENDENCY.unavailable");
    assert_eq!(code(&of(Some(429)), none), "RATE_LIMIT.exceeded");
}

/// The client that sends the letter may take longer over an attempt than the one that recorded it.
#[tokio::test]
async fn the_window_ends_early_by_the_longest_attempt_of_the_client_that_sends() {
    let bench = Bench::new(Arc::new(Memory::new()));
    let id = bench.lost("order-1").await;
    let record = bench.store.get(&id).await.expect("works").expect("a record");
    let longer = record.attempt_max * 3;
    let mut policy = Policy::background().without_breaker();
    (policy.timeout.attempt, policy.timeout.total) = (longer, longer * 2);
    let patient = Client::builder(Stripe::new("sk_test_1"))
        .policy(policy)
        .store(Arc::clone(&bench.store))
        .clock(bench.clock.clone())
        .transport(bench.network.clone())
        .build()
        .expect("a client");
    let shown = bench.letters_without_rules().with_client(&patient).show(&id).await.expect("on record");
    let until = record.claimed_at.plus(day() - slack(longer));
    assert_eq!(shown.safety, Some(Safety::WindowOpen { until }));
}

/// Dead letters too, for a redrive would find no client; and what a process that died has left in progress.
#[tokio::test]
async fn open_operations_of_a_former_account_are_listed_in_each_phase() {
    let bench = Bench::new(Arc::new(Memory::new()));
    bench.lost("order-1").await;
    bench.pay(&bench.stripe, "order-2").enqueue().await.expect("recorded");
    let network = ScriptedTransport::new().hang();
    let dies = client(Stripe::new("sk_test_1"), &bench.store, &bench.clock, &network);
    let call = tokio::spawn(bench.pay(&dies, "order-3").send());
    while network.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    call.abort();
    let renamed =
        client(Stripe::new("sk_test_1").account("acct_1"), &bench.store, &bench.clock, &bench.network);
    let unreached = bench.letters_without_rules().with_client(&renamed).unreached().await.expect("works");
    let phases: Vec<Phase> = unreached.iter().map(|group| group.phase).collect();
    assert_eq!(phases, [Phase::InProgress, Phase::Scheduled, Phase::Dead]);
}

#[tokio::test]
async fn a_circuit_is_open_since_the_first_report_and_probed_at_the_earliest_time() {
    let bench = Bench::new(Arc::new(Memory::new()));
    let beat = |dispatcher: &str, since_ms: u64, left_ms: u64| Beat {
        account: "default/stripe/test".into(),
        dispatcher: dispatcher.into(),
        says: Some(
            json!({"shut": [{"gate": "circuit", "since_ms": since_ms, "left_ms": left_ms}]}).to_string(),
        ),
    };
    let now = bench.letters().now();
    let beats = vec![beat("one", 1_000, 9_000), beat("two", 60_000, 500), beat("three", 2_000, 3_000)];
    let heartbeat = Heartbeat { now, lasts: Duration::from_secs(5), beats };
    bench.store.delivery().expect("it has").heartbeat(&heartbeat).await.expect("works");
    let status = bench.letters().status().await.expect("works");
    let circuit = &status.accounts[0].closed[0];
    assert_eq!((circuit.dispatchers, circuit.since), (3, Some(now.minus(Duration::from_secs(60)))));
    assert_eq!(circuit.until, Some(now.plus(Duration::from_millis(500))));
}

#[tokio::test]
async fn a_due_operation_waits_for_the_circuit_of_its_own_route_alone() {
    let bench = Bench::new(Arc::new(Memory::new()));
    bench.pay(&bench.stripe, "order-1").enqueue().await.expect("recorded");
    bench.clock.advance(Duration::from_secs(1));
    let routes =
        ["POST /v1/charges", "POST /v1/quotes"].map(|route| json!({"gate": "route", "route": route}));
    let beat = Beat {
        account: "default/stripe/test".into(),
        dispatcher: "one".into(),
        says: Some(json!({"shut": routes}).to_string()),
    };
    let heartbeat =
        Heartbeat { now: bench.letters().now(), lasts: Duration::from_secs(5), beats: vec![beat] };
    bench.store.delivery().expect("it has").heartbeat(&heartbeat).await.expect("works");
    let id = bench.letters().find("order-1").await.expect("recorded");
    let shown = bench.letters().show(&id).await.expect("on record").account.expect("it is due");
    let named: Vec<_> = shown.closed.iter().filter_map(|closed| closed.route.as_deref()).collect();
    assert_eq!(named, ["POST /v1/quotes"]);
}

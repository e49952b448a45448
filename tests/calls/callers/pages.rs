//! Lists, page by page.

mod fakes;

use std::time::Duration;

use serde_json::{Value, json};
use steadfast::clock::Clock;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::{BigCommerce, Keyed, KeyedConfig};
use steadfast::{Client, Error, Pages, Reply};

use super::{client, waits_for};

/// The ids of all pages, and how many pages there were.
async fn read(pages: &mut Pages, list: &str) -> Result<(Vec<String>, usize), Error> {
    let (mut all, mut count) = (Vec::new(), 0);
    while let Some(page) = pages.next().await? {
        all.extend(ids(&page, list));
        count += 1;
    }
    assert!(pages.next().await?.is_none(), "the end stays the end");
    Ok((all, count))
}

fn ids(page: &Reply, list: &str) -> Vec<String> {
    let page: Value = page.json().expect("JSON");
    let list = page.pointer(list).and_then(Value::as_array).expect("a list");
    let id = |one: &Value| one.get("id").or_else(|| one.get("MessageID")).unwrap_or(one).to_string();
    list.iter().map(id).collect()
}

fn queries(network: &ScriptedTransport) -> Vec<String> {
    network.requests().iter().map(|sent| sent.url.query().unwrap_or_default().to_owned()).collect()
}

/// A vendor that is only data.
fn acme(network: &ScriptedTransport, clock: &TestClock) -> Client {
    let vendor = Keyed::new(KeyedConfig::new("acme", "https://api.acme.test/v1"), "");
    Client::builder(vendor).transport(network.clone()).clock(clock.clone()).build().expect("a client")
}

fn charges(ids: &[&str], has_more: bool) -> Value {
    let data: Vec<Value> = ids.iter().map(|id| json!({ "id": id })).collect();
    json!({"object": "list", "data": data, "has_more": has_more})
}

#[tokio::test]
async fn links_are_followed_with_the_calls_headers_and_secret() {
    let network = ScriptedTransport::new()
        .json(200, json!([1]))
        .header("Link", "<https://api.acme.test/v1/items?cursor=b>; rel=\"next\"")
        .json(200, json!([2]))
        .header("Link", "</v1/items?cursor=a>; rel=prev, <?cursor=c>; rel=next")
        .json(200, json!([3]))
        .header("Link", "</v1/items?cursor=b>; rel=prev");
    let acme = acme(&network, &TestClock::auto());
    let call = acme.get("/items").query(&[("limit", "1")]).header("X-Tenant", "7");
    assert_eq!(read(&mut call.pages(), "").await.expect("pages").0, ["1", "2", "3"]);
    assert_eq!(queries(&network), ["limit=1", "cursor=b", "cursor=c"]);
    assert!(network.requests().iter().all(|sent| sent.headers["x-tenant"] == "7"));
}

#[tokio::test]
async fn the_secret_never_goes_to_another_host() {
    for next in [
        "https://evil.test/v2/core/events?page=2",
        "//evil.test/v2/core/events?page=2",
        "http://api.stripe.com/v2/core/events?page=2",
        "https://api.stripe.com:8443/v2/core/events?page=2",
        "https://user:pass@api.stripe.com/v2/core/events?page=2",
        "https://api.stripe.com.evil.test/",
        "data:application/json,[]",
        "file:///etc/passwd",
    ] {
        let network =
            ScriptedTransport::new().json(200, json!({"data": [{"id": "evt_1"}], "next_page_url": next}));
        let stripe = client(&network, &TestClock::auto());
        let mut pages = stripe.get("/v2/core/events").pages();
        assert_eq!(ids(&pages.next().await.expect(next).expect("a page"), "/data"), ["\"evt_1\""]);
        for _ in 0..2 {
            let error = pages.next().await.expect_err(next);
            assert!(
                error.is_unreadable_reply() && format!("{error:#}").contains("another host"),
                "{error:#}"
            );
            assert!(!format!("{error:#} {error:?}").contains("evil"), "{error:#}");
        }
        assert_eq!(network.requests().len(), 1, "{next}");
    }
}

#[tokio::test]
async fn a_list_that_leads_back_is_not_read_for_ever() {
    // The page names itself, and then two that name each other.
    for (links, read) in
        [(&["<?page=1>; rel=next"][..], 1), (&["<?page=2>; rel=next", "<?page=1>; rel=next"], 2)]
    {
        let mut network = ScriptedTransport::new();
        for (page, link) in links.iter().enumerate() {
            network = network.json(200, json!([page])).header("Link", link);
        }
        let acme = acme(&network, &TestClock::auto());
        let mut pages = acme.get("/items").query(&[("page", "1")]).pages();
        for _ in 0..read {
            assert!(pages.next().await.expect("a page").is_some());
        }
        for _ in 0..2 {
            let error = pages.next().await.expect_err("a loop");
            assert!(format!("{error:#}").contains("read before"), "{error:#}");
        }
        assert_eq!((network.requests().len(), network.remaining()), (read, 0));
    }
    // A cursor that comes again, with other objects before it.
    let network = ScriptedTransport::new()
        .json(200, charges(&["ch_1", "ch_2"], true))
        .json(200, charges(&["ch_3", "ch_2"], true));
    let mut pages = client(&network, &TestClock::auto()).get("/v1/charges").pages();
    assert!(pages.next().await.expect("a page").is_some());
    assert!(pages.next().await.expect("a page").is_some());
    assert!(pages.next().await.expect_err("a loop").is_unreadable_reply());
    assert_eq!(queries(&network), ["", "starting_after=ch_2"]);
}

#[tokio::test]
async fn a_vendor_that_takes_no_notice_of_the_page_is_not_asked_for_ever() {
    let orders =
        steadfast::transport::Answer::new(http::StatusCode::OK, http::HeaderMap::new(), r#"[{"id":1}]"#);
    let network = ScriptedTransport::new().always(orders);
    let vendor = BigCommerce::new("abc123", "a-token");
    let store = Client::builder(vendor)
        .transport(network.clone())
        .clock(TestClock::auto())
        .build()
        .expect("a client");
    let mut pages = store.get("/v2/orders").pages();
    assert!(pages.next().await.expect("a page").is_some());
    for _ in 0..2 {
        let error = pages.next().await.expect_err("the same page");
        assert!(format!("{error:#}").contains("takes no notice"), "{error:#}");
    }
    assert_eq!(queries(&network), ["", "page=2"]);
}

#[tokio::test]
async fn a_page_that_failed_is_asked_for_again_and_none_is_left_out() {
    let network = ScriptedTransport::new()
        .json(200, charges(&["ch_3"], true))
        .fail(SendErrorKind::Reset)
        .json(200, charges(&["ch_2"], true))
        .json(404, json!({"error": {"type": "invalid_request_error", "code": "resource_missing"}}))
        .header("Request-Id", "req_1")
        // A proxy's page, which is sent again within the call, and a list that broke off.
        .reply(steadfast::transport::Answer::new(
            http::StatusCode::OK,
            http::HeaderMap::new(),
            "<html>Sign in</html>",
        ))
        .reply(steadfast::transport::Answer::new(
            http::StatusCode::OK,
            http::HeaderMap::new(),
            "{\"data\":[{",
        ))
        .json(200, charges(&["ch_1"], false));
    let stripe = client(&network, &TestClock::auto());
    let mut pages = stripe.get("/v1/charges").query(&[("limit", "1"), ("expand[]", "data.customer")]).pages();
    assert_eq!(pages.next().await.expect("a page").expect("a page").attempts(), 1);
    assert_eq!(pages.next().await.expect("a page").expect("a page").attempts(), 2);
    assert!(pages.next().await.expect_err("refused").is_refused());
    let error = pages.next().await.expect_err("no list");
    assert!(error.is_unreadable_reply() && format!("{error:#}").contains("list formats"), "{error:#}");
    assert_eq!(read(&mut pages, "/data").await.expect("the rest").0, ["\"ch_1\""]);
    let asked = queries(&network);
    let after = |id: &str| format!("limit=1&expand%5B%5D=data.customer&starting_after={id}");
    assert_eq!(asked[1..3], [after("ch_3"), after("ch_3")]);
    assert!(asked[3..].iter().all(|query| *query == after("ch_2")), "{asked:?}");
}

#[tokio::test]
async fn a_page_that_nobody_waits_for_any_more_is_asked_for_again() {
    let clock = TestClock::new();
    let network = ScriptedTransport::new()
        .json(200, charges(&["ch_2"], true))
        .json(200, charges(&["ch_1"], false))
        .after(Duration::from_secs(5), &clock)
        .json(200, charges(&["ch_1"], false));
    let stripe = client(&network, &clock);
    let mut pages = stripe.get("/v1/charges").pages();
    assert!(pages.next().await.expect("a page").is_some());
    tokio::select! {
        biased;
        _ = pages.next() => panic!("it takes five seconds"),
        () = clock.until_sleeping(1) => {}
    }
    assert_eq!(read(&mut pages, "/data").await.expect("the rest").0, ["\"ch_1\""]);
    assert_eq!(queries(&network), ["", "starting_after=ch_2", "starting_after=ch_2"]);
}

#[tokio::test]
async fn each_page_has_the_deadline_for_itself() {
    let clock = TestClock::auto();
    let mut network = ScriptedTransport::new();
    for page in 0..4 {
        network = network.json(200, charges(&[&format!("ch_{page}")], page < 3));
        network = network.after(Duration::from_secs(4), &clock);
    }
    let network = network.json(200, charges(&[], false)).after(Duration::from_secs(6), &clock);
    let stripe = client(&network, &clock);
    let call = || stripe.get("/v1/charges").deadline(Duration::from_secs(5));
    assert_eq!(read(&mut call().pages(), "/data").await.expect("pages").1, 4);
    assert!(call().pages().next().await.expect_err("too late").is_deadline());
}

#[tokio::test]
async fn an_incoming_requests_deadline_is_one_for_the_whole_list() {
    let clock = TestClock::auto();
    let pages = |waits: &str| {
        let mut network = ScriptedTransport::new();
        for page in 0..4 {
            network = network.json(200, charges(&[&format!("ch_{page}")], page < 3));
            network = network.after(Duration::from_secs(4), &clock);
        }
        let call = client(&network, &clock).get("/v1/charges").inbound(&waits_for(waits, &clock));
        (network, call.pages())
    };
    let begun = clock.now();
    let (network, mut list) = pages("10");
    assert!(list.next().await.expect("a page").is_some() && list.next().await.expect("a page").is_some());
    // The third page has what is left, and after it nothing is sent for a caller that has gone.
    for _ in 0..2 {
        assert!(list.next().await.expect_err("too late").is_deadline());
        assert_eq!((clock.now().since(begun), network.requests().len()), (Duration::from_secs(10), 3));
    }
    // The work on a page is its caller's time too.
    let (network, mut list) = pages("10");
    assert!(list.next().await.expect("a page").is_some());
    clock.advance(Duration::from_secs(6));
    assert!(list.next().await.expect_err("too late").is_deadline());
    assert_eq!(network.requests().len(), 1);
}

#[tokio::test]
async fn the_callers_own_rule_is_asked_behind_each_page() {
    let network = ScriptedTransport::new()
        .json(200, json!({"items": [1], "next": "b c"}))
        .json(200, json!({"items": [2]}))
        .json(200, json!({"items": [2], "next": null}));
    let acme = acme(&network, &TestClock::auto());
    let rule = |page: &Reply| {
        let page: Value = page.json()?;
        let next =
            page.get("next").ok_or_else(|| Error::validation(steadfast::Input::Body, "no word on the rest"));
        Ok(next?.as_str().map(str::to_owned))
    };
    let mut pages = acme.get("/items").query(&[("limit", "1"), ("after", "a")]).pages_by("after", rule);
    assert!(pages.next().await.expect("a page").is_some());
    assert!(pages.next().await.expect_err("the rule's own").is_validation());
    assert_eq!(read(&mut pages, "/items").await.expect("the rest").0, ["2"]);
    assert_eq!(queries(&network), ["limit=1&after=a", "limit=1&after=b+c", "limit=1&after=b+c"]);
}

#[tokio::test]
async fn a_redirect_within_the_host_moves_the_list() {
    let network = ScriptedTransport::new()
        .status(307)
        .header("Location", "/v1/things?limit=1")
        .json(200, json!([1]))
        .header("Link", "<?page=2>; rel=next")
        .json(200, json!([2]));
    let acme = acme(&network, &TestClock::auto());
    assert_eq!(read(&mut acme.get("/items").redirects(1).pages(), "").await.expect("pages").1, 2);
    assert_eq!(network.requests()[2].url.as_str(), "https://api.acme.test/v1/things?page=2");
}

#[tokio::test]
async fn what_is_no_plain_get_is_refused_each_time_and_nothing_is_sent() {
    let network = ScriptedTransport::new();
    let stripe = client(&network, &TestClock::auto());
    for call in [
        stripe.post("/v1/charges"),
        stripe.get("/v1/charges").key("order-42"),
        stripe.get("/v1/charges").after(Duration::from_secs(1)),
        stripe.get("/v1/charges/{charge}/refunds"),
        stripe.get("/v1/charges").header("Authorization", "Bearer mine"),
    ] {
        let mut pages = call.pages();
        let codes = [pages.next().await, pages.next().await].map(|page| page.expect_err("refused").code());
        assert!(codes[0].starts_with("VALIDATION.") && codes[0] == codes[1], "{codes:?}");
    }
    assert_eq!(network.requests().len(), 0);
}

//! The keyed vendors that are known: each is one line of the vendors file, and Plaid's account a second one.

mod routes;

use serde_json::{Value, json};
use steadfast::store::Memory;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::Request;
use steadfast::{Call, Client, Vendors};

use support::rig::plain;

/// Where a vendor wants its key, and for how long it replays it.
struct Case {
    name: &'static str,
    path: &'static str,
    key_header: Option<&'static str>,
    key_len_max: usize,
    window_hours: Option<u64>,
    auth: (&'static str, &'static str),
}

const CASES: [Case; 7] = [
    Case {
        name: "square",
        path: "/v2/payments",
        key_header: None,
        key_len_max: 45,
        window_hours: None,
        auth: ("authorization", "Bearer a-secret"),
    },
    Case {
        name: "paypal",
        path: "/v2/checkout/orders/5O1/capture",
        key_header: Some("paypal-request-id"),
        key_len_max: 108,
        window_hours: Some(6),
        auth: ("authorization", "Bearer a-secret"),
    },
    Case {
        name: "resend",
        path: "/emails",
        key_header: Some("idempotency-key"),
        key_len_max: 256,
        window_hours: Some(24),
        auth: ("authorization", "Bearer a-secret"),
    },
    Case {
        name: "checkout",
        path: "/payments",
        key_header: Some("cko-idempotency-key"),
        key_len_max: 255,
        window_hours: Some(24),
        auth: ("authorization", "Bearer a-secret"),
    },
    Case {
        name: "gocardless",
        path: "/payments",
        key_header: Some("idempotency-key"),
        key_len_max: 255,
        window_hours: None,
        auth: ("authorization", "Bearer a-secret"),
    },
    Case {
        name: "increase",
        path: "/ach_transfers",
        key_header: Some("idempotency-key"),
        key_len_max: 200,
        window_hours: None,
        auth: ("authorization", "Bearer a-secret"),
    },
    Case {
        name: "plaid",
        path: "/transfer/create",
        key_header: None,
        key_len_max: 50,
        window_hours: None,
        auth: ("plaid-secret", "a-secret"),
    },
];

fn client(name: &str, network: &ScriptedTransport, clock: &TestClock) -> Client {
    client_of(&one_line(name), name, network, clock)
}

/// A table of the vendors file that says no more than it must.
fn one_line(name: &str) -> String {
    let account = if name == "plaid" { "\nheaders.PLAID-CLIENT-ID = 'acct-5f1a'" } else { "" };
    format!("[vendors.{name}]\nsecret_env = 'SECRET'{account}\n")
}

fn client_of(text: &str, name: &str, network: &ScriptedTransport, clock: &TestClock) -> Client {
    let vendors = Vendors::parse(text, "vendors.toml").expect(text).with_store(Memory::new());
    let vendors = vendors.with_secrets(|_| Some("a-secret".to_owned()));
    let builder = vendors.builder(name).expect(name).policy(plain()).transport(network.clone());
    builder.clock(clock.clone()).build().expect(name)
}

fn pay(client: &Client, case: &Case) -> Call {
    client.post(case.path).key("order-42").json(&json!({"amount": 1000}))
}

fn key_in(request: &Request, case: &Case) -> String {
    match case.key_header {
        Some(name) => request.headers[name].to_str().expect("text").to_owned(),
        None => {
            let body: Value = serde_json::from_slice(&request.body).expect("json");
            body["idempotency_key"].as_str().expect("a key in the body").to_owned()
        }
    }
}

#[tokio::test]
async fn the_key_travels_where_the_vendor_wants_it_and_the_secret_beside_it() {
    for case in &CASES {
        let network = ScriptedTransport::new().status(200);
        let reply =
            pay(&client(case.name, &network, &TestClock::auto()), case).send().await.expect(case.name);
        let sent = &network.requests()[0];
        let key = key_in(sent, case);
        assert_eq!(Some(key.as_str()), reply.wire_key(), "{}", case.name);
        assert!(key.len() <= case.key_len_max && key.len() >= 16, "{}: {key}", case.name);
        assert!(!key.contains('"'), "{}: raw, not quoted", case.name);
        assert_eq!(sent.headers[case.auth.0], case.auth.1);
        assert!(sent.url.path().ends_with(case.path), "{}", sent.url);
        let in_header = ["idempotency-key", "paypal-request-id", "cko-idempotency-key"]
            .iter()
            .any(|name| sent.headers.contains_key(*name));
        assert_eq!(in_header, case.key_header.is_some(), "{}: in one place only", case.name);
    }
}

/// Also by headers that no preset lists, if their names say so; what the table itself says is the account's own.
#[test]
fn every_header_that_chooses_an_account_is_in_the_name() {
    let account = |config: &str, headers: &[(&'static str, &'static str)]| {
        let config = steadfast::vendor::KeyedConfig::from_toml(config).expect(config);
        let headers = headers.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
        });
        use steadfast::vendor::Vendor as _;
        steadfast::vendor::Keyed::new(config, "s").account(&headers.collect()).into_owned()
    };
    let acme = "name = 'acme'\nbase_url = 'https://acme.test'\n";
    assert_eq!(account(acme, &[]), "default");
    assert_eq!(account(acme, &[("x-request-id", "7"), ("acme-version", "2")]), "default");
    assert_eq!(account(acme, &[("xero-tenant-id", "t1")]), "default>t1");
    assert_eq!(account(acme, &[("x-merchant", "m"), ("x-account-id", "a")]), "default>a>m", "in one order");
    let listed = format!("{acme}account = 'eu'\naccount_headers = ['X-Region']\n");
    assert_eq!(account(&listed, &[("x-region", "west"), ("x-account-id", "a")]), "eu>west");
    assert_eq!(account(&format!("{acme}account_headers = []"), &[("x-account-id", "a")]), "default");
    let plaid = "adapter = 'plaid'\nheaders.PLAID-CLIENT-ID = '5f1a'\n";
    assert_eq!(account(plaid, &[]), "default:5f1a");
    assert_eq!(account(plaid, &[("plaid-client-id", "5f1a")]), "default:5f1a", "as a record has it");
    assert_eq!(account(plaid, &[("plaid-client-id", "77aa")]), "default:5f1a>77aa");
    let odd = steadfast::vendor::KeyedConfig::from_toml(&format!("{acme}account = 'a>b'"));
    assert!(odd.expect_err("refused").to_string().contains("account"));
}

#[test]
fn a_known_vendor_is_one_line_and_its_table_changes_what_is_known() {
    let shown = |text: &str| {
        let vendors =
            Vendors::parse(text, "vendors.toml").expect(text).with_secrets(|_| Some("s".to_owned()));
        format!("{:?}", vendors.builder("square").expect("a builder"))
    };
    let named = "[vendors.square]\nsecret_env = 'S'";
    assert_eq!(shown(named), shown(&format!("{named}\nadapter = 'square'")));
    let whole = "[vendors.square]\nadapter = 'keyed'\nsecret_env = 'S'\nbase_url = 'https://connect.squareup.com'\n\
        auth = { header = 'Authorization', prefix = 'Bearer ' }\nkey = { body = 'idempotency_key' }\nkey_len_max = 45\n\
        reused = [{ says = 'IDEMPOTENCY_KEY_REUSED' }]\n";
    let routes =
        steadfast::vendor::KeyedConfig::preset("square").expect("a preset").keyed_routes.expect("its routes");
    assert_eq!(shown(named), shown(&format!("{whole}keyed_routes = {routes:?}\n")));
    let windowed =
        shown(&format!("{named}\nwindow = '24h'\nbase_url = 'https://connect.squareupsandbox.com'"));
    assert!(windowed.contains("86400s") && windowed.contains("squareupsandbox"), "{windowed}");

    let refusal = |text: &str| Vendors::parse(text, "vendors.toml").expect_err(text).to_string();
    for case in &CASES {
        let bare = refusal(&format!("[vendors.x]\nadapter = '{}'", case.name));
        assert!(bare.contains("`secret_env` is missing"), "{bare}");
        assert!(!bare.contains("`base_url`") && !bare.contains("`auth`"), "{bare}");
    }
    let near = refusal("[vendors.x]\nadapter = 'sqare'");
    assert!(near.contains("square"), "{near}");
}

/// The host of each, and the headers that it wants on each request, whatever the method.
#[tokio::test]
async fn each_is_called_where_it_is_in_production_with_the_headers_that_it_wants() {
    for (name, base, header) in [
        ("checkout", "https://api.checkout.com/", None),
        ("gocardless", "https://api.gocardless.com/", Some(("gocardless-version", "2015-07-06"))),
        ("increase", "https://api.increase.com/", None),
        ("paypal", "https://api-m.paypal.com/", None),
        ("plaid", "https://production.plaid.com/", Some(("plaid-client-id", "acct-5f1a"))),
        ("resend", "https://api.resend.com/", None),
        ("square", "https://connect.squareup.com/", None),
    ] {
        let case = CASES.iter().find(|case| case.name == name).expect("a case");
        let network = ScriptedTransport::new().status(200).status(200);
        let client = client(name, &network, &TestClock::auto());
        pay(&client, case).send().await.expect(name);
        client.get(case.path).send().await.expect(name);
        for request in network.requests() {
            assert!(request.url.as_str().starts_with(base), "{}", request.url);
            let Some((header, value)) = header else { continue };
            assert_eq!(request.headers[header], value, "{name} {}", request.method);
        }
    }
}

#[tokio::test]
async fn a_header_of_the_table_or_of_a_call_counts_before_the_known_one() {
    let network = ScriptedTransport::new().status(200).status(200);
    let text = format!(
        "{}headers = {{ gocardless-version = '2026-01-01', X-Team = 'shop' }}",
        one_line("gocardless")
    );
    let client = client_of(&text, "gocardless", &network, &TestClock::auto());
    let paid = |key: &str| client.post("/payments").key(key).json(&json!({"amount": 1000}));
    paid("order-42").send().await.expect("paid");
    paid("order-43").header("GoCardless-Version", "2027-01-01").send().await.expect("paid");
    let sent = network.requests();
    let versions = |at: usize| {
        let all = sent[at].headers.get_all("gocardless-version").iter();
        all.map(|version| version.to_str().expect("text")).collect::<Vec<_>>()
    };
    assert_eq!((versions(0), versions(1)), (vec!["2026-01-01"], vec!["2027-01-01"]));
    assert!(sent.iter().all(|request| request.headers["x-team"] == "shop"));

    // Another one of the table leaves the known one as it is.
    let network = ScriptedTransport::new().status(200);
    let text = format!("{}headers = {{ X-Team = 'shop' }}", one_line("gocardless"));
    let client = client_of(&text, "gocardless", &network, &TestClock::auto());
    client.post("/payments").key("order-42").json(&json!({})).send().await.expect("paid");
    assert_eq!(network.requests()[0].headers["gocardless-version"], "2015-07-06");
}

#[test]
fn what_plaid_wants_of_its_account_is_asked_for_with_an_example() {
    let refusal = |text: &str| Vendors::parse(text, "vendors.toml").expect_err(text).to_string();
    let missing = "`headers.PLAID-CLIENT-ID` is missing from [vendors.plaid]";
    let said = refusal("[vendors.plaid]\nsecret_env = 'S'");
    assert!(said.contains(missing) && said.contains("`headers.PLAID-CLIENT-ID = \"…\"`"), "{said}");
    // Beside a header of the table's own, and beside what else is missing.
    let said = refusal("[vendors.plaid]\nheaders.Plaid-Version = '2020-09-14'\nwindw = '1h'");
    for part in [missing, "`secret_env` is missing", "windw"] {
        assert!(said.contains(part), "{said}");
    }
    let said = refusal("[vendors.plaid]\nsecret_env = 'S'\nheaders.PLAID-CLIENT-ID = ''");
    assert!(said.contains("`headers.PLAID-CLIENT-ID` in [vendors.plaid]: it is empty"), "{said}");
    let said = refusal("[vendors.plaid]\nsecret_env = 'S'\nheaders = 5");
    assert!(said.contains("must be a table, not 5"), "{said}");
    Vendors::parse(&one_line("plaid").replace("PLAID-CLIENT-ID", "plaid-client-id"), "vendors.toml")
        .expect("good");
}

#[test]
fn a_header_that_is_no_fixed_one_is_refused() {
    for (header, problem) in [
        ("Authorization = 'Bearer x'", "carries a secret"),
        ("X-Api-Key = 'x'", "carries a secret"),
        ("Cookie = 'x'", "carries a secret"),
        ("My-Secret-Header = 'x'", "carries a secret"),
        ("Idempotency-Key = 'x'", "the key goes there"),
        ("Content-Length = '5'", "the connection's own"),
        ("Host = 'other.test'", "the connection's own"),
        ("X-Team = ' '", "it is empty"),
        ("X-Team = \"a\\nb\"", "a header cannot carry"),
        ("'X Team' = 'a'", "not the name of a header"),
        ("X-Team = 'a', x-team = 'b'", "twice"),
    ] {
        let text = format!(
            "[vendors.v]\nadapter = 'keyed'\nsecret_env = 'S'\nbase_url = 'https://v.test'\n\
             auth = {{ header = 'My-Secret-Header' }}\nkey = {{ header = 'Idempotency-Key' }}\nheaders = {{ {header} }}\n"
        );
        let said = Vendors::parse(&text, "vendors.toml").expect_err(header).to_string();
        assert!(said.contains(problem), "{header}: {said}");
    }
}

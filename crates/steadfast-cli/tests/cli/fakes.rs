//! `steadfast fakes`: a process that a test in any language starts, asks and stops.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};

use super::{TestDirectory, schema};

/// The process; killed if a test fails before it ends.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn start(place: &TestDirectory, arguments: &[&str]) -> Running {
        let mut command = place.command(&[&["fakes"], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary runs");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Running { child, stdout }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("reads");
        line
    }

    #[cfg(unix)]
    fn ends_by(mut self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).expect("it runs");
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0), "a signal is its usual end");
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("reads");
        assert_eq!(rest, "");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns status and body, by a client that is independent of the crate.
fn ask(url: &str, method: &str, path: &str, headers: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).expect("it listens");
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("writes");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("reads");
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    Some((status, body.to_owned()))
}

fn json_of(answer: Option<(u16, String)>) -> Value {
    let (status, body) = answer.expect("an answer");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

const STRIPE: &str = "authorization: Bearer sk_test_1\r\nidempotency-key: order-42\r\n";
const CHARGE: &str = "amount=1000&currency=usd";

/// Returns the command's name, for the test of the schema.
pub fn command() -> String {
    let place = TestDirectory::fresh();
    let mut running = Running::start(&place, &["--postmark", "0", "--json"]);
    let answer = schema::answer(&running.line());
    let url = answer["result"]["urls"]["postmark"].as_str().expect("a URL").to_owned();
    assert_eq!(ask(&url, "GET", "/_fake", "", "").expect("an answer").0, 200);
    answer["command"].as_str().expect("a command").to_owned()
}

#[cfg(unix)]
#[test]
fn the_fakes_answer_with_planned_faults_until_a_signal() {
    use rustix::process::Signal;

    let place = TestDirectory::fresh();
    let plan = "[[stripe.fault]]\nfault = 'drop-after-apply'\npath = '/v1/charges'\n";
    std::fs::write(place.path("faults.toml"), plan).expect("writes");
    let options = ["--stripe 0", "--postmark 0", "--bigcommerce 0", "--adyen 0", "--plan faults.toml"];
    let options: Vec<&str> = options.iter().flat_map(|option| option.split(' ')).collect();
    let mut running = Running::start(&place, &options);
    let lines: Vec<String> = (0..4).map(|_| running.line()).collect();
    let named: Vec<(&str, &str)> =
        lines.iter().map(|line| line.trim_end().split_once(' ').expect("two")).collect();
    let [("adyen", adyen), ("bigcommerce", _), ("postmark", postmark), ("stripe", stripe)] = named[..] else {
        panic!("{named:?}")
    };

    assert_eq!(ask(stripe, "POST", "/v1/charges", STRIPE, CHARGE), None, "the plan drops the answer");
    assert_eq!(ask(stripe, "POST", "/v1/charges", STRIPE, CHARGE).expect("an answer").0, 200);
    let ledger = json_of(ask(stripe, "GET", "/_fake/ledger", "", ""));
    assert_eq!((ledger["effects"].as_array().map(Vec::len), &ledger["duplicates"]), (Some(1), &json!([])));
    assert_eq!((&ledger["vendor"], &ledger["requests"]), (&json!("stripe"), &json!({ "order-42": 2 })));
    assert_eq!(ledger["effects"][0]["wire_key"], "order-42");

    // Another vendor, another plan and another ledger.
    assert_eq!(ask(adyen, "POST", "/v71/payments", "x-api-key: AQE\r\n", "{").expect("an answer").0, 400);
    assert_eq!(json_of(ask(adyen, "GET", "/_fake/ledger", "", ""))["vendor"], "adyen");
    assert_eq!(json_of(ask(postmark, "GET", "/_fake/ledger", "", ""))["effects"], json!([]));
    let fault = r#"{"fault": "too-many-requests=seconds:3", "method": "POST", "times": 2}"#;
    let result = json_of(ask(postmark, "POST", "/_fake/faults", "", fault));
    assert_eq!((&result["pending"], &result["requests"]), (&json!(2), &json!(0)), "the page is no request");
    assert_eq!(
        ask(postmark, "POST", "/email", "", "{}").expect("an answer").0,
        401,
        "no token, but the plan"
    );
    let token = "x-postmark-server-token: t\r\n";
    assert_eq!(ask(postmark, "POST", "/email", token, "{}").expect("an answer").0, 429);
    let (status, problem) =
        ask(postmark, "POST", "/_fake/faults", "", r#"{"fault": "rain"}"#).expect("an answer");
    assert!(status == 400 && problem.contains("a fault, one of drop-before-read"), "{problem}");
    assert_eq!(ask(postmark, "GET", "/_fake/none", "", "").expect("an answer").0, 404);
    assert_eq!(json_of(ask(postmark, "DELETE", "/_fake/faults", "", ""))["pending"], 0);

    let form = "fault=%3Cb%3E&times=&method=&path=";
    assert_eq!(ask(stripe, "POST", "/_fake/faults", "", form).expect("an answer").0, 400);
    assert_eq!(
        ask(stripe, "POST", "/_fake/faults", "", "fault=reset&times=2&path=").expect("an answer").0,
        303
    );
    let (_, page) = ask(stripe, "GET", "/_fake", "", "").expect("a page");
    for shown in
        ["order-42", "<li>drop-after-apply: 1</li>", "faults still to come: 2", "ledger</a> (GET, DELETE)"]
    {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    running.ends_by(Signal::TERM);

    let mut again = Running::start(&place, &["--stripe", "0"]);
    assert!(again.line().starts_with("stripe http://127.0.0.1:"));
    again.ends_by(Signal::INT);
}

#[test]
fn a_lasting_fault_set_by_http_is_listed_until_it_is_deleted() {
    let place = TestDirectory::fresh();
    let mut running = Running::start(&place, &["--stripe", "0"]);
    let line = running.line();
    let url = line.trim_end().split_once(' ').expect("two").1;
    let fault = r#"{"fault": "reset", "method": "post", "path": "/v1/charges", "always": true}"#;
    let result = json_of(ask(url, "POST", "/_fake/faults", "", fault));
    let lasting = json!([{ "fault": "reset", "method": "POST", "path": "/v1/charges" }]);
    assert_eq!((&result["always"], &result["pending"]), (&lasting, &json!(0)));
    for _ in 0..3 {
        let mut stream = TcpStream::connect(url.trim_start_matches("http://")).expect("it listens");
        stream
            .write_all(b"POST /v1/charges HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
            .expect("writes");
        assert!(stream.read(&mut [0; 64]).is_err(), "a reset");
    }
    let result = json_of(ask(url, "GET", "/_fake/faults", "", ""));
    assert_eq!(
        (&result["always"], &result["injected"]),
        (&lasting, &json!([{ "fault": "reset", "count": 3 }]))
    );
    assert_eq!(json_of(ask(url, "DELETE", "/_fake/faults", "", ""))["always"], json!([]));
    assert_eq!(ask(url, "POST", "/v1/charges", STRIPE, CHARGE).expect("an answer").0, 200);
}

/// A page that a developer opens reaches the developer's loopback too.
#[test]
fn another_sites_page_changes_nothing_at_a_fake() {
    let place = TestDirectory::fresh();
    let mut running = Running::start(&place, &["--stripe", "0"]);
    let line = running.line();
    let url = line.trim_end().split_once(' ').expect("two").1;
    let fault = r#"{"fault": "reset", "times": 2}"#;
    for headers in ["origin: https://evil.example\r\n", "origin: null\r\n", "sec-fetch-site: cross-site\r\n"]
    {
        for (method, path) in [("POST", "/_fake/faults"), ("DELETE", "/_fake/ledger")] {
            let (status, why) = ask(url, method, path, headers, fault).expect("an answer");
            assert!(status == 403 && why.contains("a page of another site"), "{headers}{status} {why}");
        }
    }
    assert_eq!(json_of(ask(url, "GET", "/_fake/faults", "", ""))["pending"], 0);
    // The fake's own page, as a browser sends its form.
    let own = "origin: http://x\r\nsec-fetch-site: same-origin\r\n";
    assert_eq!(json_of(ask(url, "POST", "/_fake/faults", own, fault))["pending"], 2);
}

/// Returns the page's ledger: the ids, the requests under each key, and the duplicates.
fn ledger_of(url: &str) -> (Vec<String>, Value, Value) {
    let mut ledger = json_of(ask(url, "GET", "/_fake/ledger", "", ""));
    let effects = ledger["effects"].as_array().expect("a list").iter();
    let ids = effects.map(|effect| effect["id"].as_str().expect("an id").to_owned()).collect();
    (ids, ledger["requests"].take(), ledger["duplicates"].take())
}

#[test]
fn a_ledger_is_emptied_by_http_and_the_fake_keeps_its_objects() {
    let place = TestDirectory::fresh();
    let mut running = Running::start(&place, &["--stripe", "0", "--postmark", "0"]);
    let lines = [running.line(), running.line()];
    let [postmark, stripe] = lines.each_ref().map(|line| line.trim_end().split_once(' ').expect("two").1);
    let forget = |url: &str| {
        let answer = ask(url, "DELETE", "/_fake/ledger", "", "").expect("an answer");
        assert_eq!(answer, (204, String::new()));
        assert_eq!(ledger_of(url), (Vec::new(), json!({}), json!([])));
    };

    // Stripe knows the key still: the first answer again, and a request that has no effect.
    let charge = || json_of(ask(stripe, "POST", "/v1/charges", STRIPE, CHARGE))["id"].take();
    let id = charge();
    assert_eq!(
        ledger_of(stripe),
        (vec![id.as_str().expect("an id").to_owned()], json!({ "order-42": 1 }), json!([]))
    );
    forget(stripe);
    assert_eq!(charge(), id);
    assert_eq!(ledger_of(stripe), (Vec::new(), json!({ "order-42": 1 }), json!([])));
    assert_eq!(json_of(ask(stripe, "GET", "/v1/charges", STRIPE, ""))["data"][0]["id"], id);

    // Postmark knows no keys: a second mail under the key of an earlier test is a second mail.
    let headers = "x-postmark-server-token: t\r\ncontent-type: application/json\r\n";
    let mail = |key: &str| {
        let mail = json!({
            "From": "a@example.com", "To": "b@example.com", "Subject": "s", "TextBody": "t",
            "Metadata": { "steadfast_key": key },
        });
        json_of(ask(postmark, "POST", "/email", headers, &mail.to_string()));
    };
    mail("order-42");
    forget(postmark);
    mail("order-43");
    assert_eq!(ledger_of(postmark).2, json!([]), "another key");
    mail("order-42");
    let (ids, requests, duplicates) = ledger_of(postmark);
    assert_eq!((ids.len(), requests), (2, json!({ "order-42": 1, "order-43": 1 })));
    assert_eq!(duplicates, json!(["order-42"]), "two of its mails went out, and one is listed");
    let sent = "/messages/outbound?count=500&offset=0&metadata_steadfast_key=order-42";
    assert_eq!(json_of(ask(postmark, "GET", sent, headers, ""))["TotalCount"], 2);
    forget(postmark);
}

#[test]
fn a_free_port_is_printed_for_each_fake_as_json_too() {
    let place = TestDirectory::fresh();
    let mut running = Running::start(&place, &["--adyen", "0", "--bigcommerce", "0", "--json"]);
    let answer = schema::answer(&running.line());
    let urls = answer["result"]["urls"].as_object().expect("addresses");
    assert_eq!(urls.keys().collect::<Vec<_>>(), ["adyen", "bigcommerce"]);
    for (vendor, url) in urls {
        let url = url.as_str().expect("a URL");
        let port: u16 = url.strip_prefix("http://127.0.0.1:").expect(url).parse().expect("a port");
        assert_ne!(port, 0);
        assert_eq!(json_of(ask(url, "GET", "/_fake/ledger", "", ""))["vendor"], vendor.as_str());
    }
}

#[test]
fn a_fixed_port_is_kept_and_one_that_is_taken_is_named() {
    let place = TestDirectory::fresh();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port().to_string();
    let result = place.run_with(&[], &["fakes", "--stripe", "0", "--bigcommerce", &port]);
    assert_eq!(result.code, 5, "{}", result.err);
    assert!(result.err.contains(&format!("127.0.0.1:{port} cannot be listened on")), "{}", result.err);
    assert!(result.err.contains("--bigcommerce"), "{}", result.err);
    drop(taken);
    let mut running = Running::start(&place, &["--bigcommerce", &port]);
    assert_eq!(running.line(), format!("bigcommerce http://127.0.0.1:{port}\n"));
}

#[test]
fn missing_vendors_and_invalid_plans_are_refused() {
    let place = TestDirectory::fresh();
    let result = place.run_with(&[], &["fakes"]);
    assert!(result.code == 2 && result.err.contains("--stripe <PORT>"), "{}", result.err);
    for (plan, problem) in [
        ("[stripe]\nsed = 1\n", "unknown field `sed`; did you mean `seed`?"),
        ("[stripe.settings]\nbusyfor = '1s'\n", "unknown field `busyfor`; did you mean `busy_for`?"),
        (
            "[adyen.settings]\nsearch_lag = '1s'\n",
            "unknown field `search_lag`, expected one of `busy_for`, `re",
        ),
        ("[stripe.settings]\nconflict_type = 'x'\n", "expected `invalid-request` or `idempotency`"),
        (
            "[bigcommerce.settings]\npartial_batches = true\npartial_batches_unsaid = true\n",
            "partial_batches and partial_batches_unsaid exclude each other",
        ),
        (
            "[paypal]\nseed = 1\n",
            "unknown field `paypal`, expected one of `stripe`, `postmark`, `bigcommerce`, `adyen`",
        ),
        ("[[postmark.fault]]\nfault = 'rain'\n", "a fault, one of drop-before-read"),
    ] {
        std::fs::write(place.path("faults.toml"), plan).expect("writes");
        let result = place.run_with(&[], &["fakes", "--stripe", "0", "--plan", "faults.toml"]);
        assert_eq!(result.code, 5, "{}", result.err);
        assert!(
            result.err.contains("faults.toml is not a plan of faults: TOML parse error at line"),
            "{}",
            result.err
        );
        assert!(result.err.contains(problem), "{}", result.err);
    }
    let result = place.run_with(&[], &["fakes", "--stripe", "0", "--plan", "absent.toml"]);
    assert!(result.code == 5 && result.err.contains("absent.toml cannot be read"), "{}", result.err);
}

/// Returns each setting that the documentation lists, as a file, with a value that is not its default.
fn settings_of(vendor: &str) -> Vec<(String, String)> {
    let page = include_str!("../../../../src/docs/recipes.md");
    let row = page.lines().find(|line| line.starts_with(&format!("| `{vendor}` | `"))).expect("a row");
    let names = row.split('`').skip(3).step_by(2).filter(|name| !name.starts_with('"'));
    let value = |name: &str| match name {
        "conflict_type" => "'idempotency'",
        "second_filter" => "'refuse'",
        "token" | "account_token" => "'only'",
        "quota" => "2",
        "product" | "customer" | "order" => "[7]",
        "cart" => "['c1']",
        "busy_for" | "search_lag" | "apply_after" | "refund_pending" => "'1h'",
        _ => "true",
    };
    names.map(|name| (name.to_owned(), format!("{name} = {}\n", value(name)))).collect()
}

#[test]
fn a_plan_accepts_exactly_the_documented_settings() {
    let place = TestDirectory::fresh();
    for vendor in ["stripe", "postmark", "bigcommerce", "adyen"] {
        let settings = settings_of(vendor);
        // Of two that exclude each other, one is set.
        let result = settings.iter().filter(|(name, _)| name != "partial_batches_unsaid");
        let plan: String = result.map(|(_, line)| line.as_str()).collect();
        std::fs::write(place.path("faults.toml"), format!("[{vendor}.settings]\n{plan}")).expect("writes");
        let mut running = Running::start(&place, &[&format!("--{vendor}"), "0", "--plan", "faults.toml"]);
        assert!(running.line().starts_with(vendor), "{plan}");
        // An unknown name makes the command list all known ones.
        std::fs::write(place.path("faults.toml"), format!("[{vendor}.settings]\nzzzzzzzzzz = 1\n"))
            .expect("writes");
        let result = place.run_with(&[], &["fakes", "--stripe", "0", "--plan", "faults.toml"]);
        let (_, listed) = result.err.split_once("expected one of ").expect(&result.err);
        let listed: Vec<&str> = listed.split('`').skip(1).step_by(2).collect();
        let documented: Vec<&str> = settings.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(listed, documented, "{vendor}");
    }
}

#[test]
fn a_setting_changes_what_a_fake_answers() {
    let place = TestDirectory::fresh();
    let plan = "[stripe.settings]\nignore_form_order = true\n\n[[stripe.fault]]\nfault = 'reset'\npath = '/v1/refunds'\n\n\
                [postmark.settings]\ntoken = 'only'\n\n[bigcommerce.settings]\nproduct = [7]\nquota = 2\n\n\
                [adyen.settings]\nrefuse_reused_keys = true\n";
    std::fs::write(place.path("faults.toml"), plan).expect("writes");
    let options = "--stripe 0 --postmark 0 --bigcommerce 0 --adyen 0";
    let options: Vec<&str> = options.split(' ').collect();
    // What each answers without and with the settings.
    let answers = |arguments: &[&str]| {
        let mut running = Running::start(&place, arguments);
        let urls: Vec<String> =
            (0..4).map(|_| running.line().trim_end().split_once(' ').expect("two").1.to_owned()).collect();
        let [adyen, bigcommerce, postmark, stripe] = &urls[..] else { panic!("{urls:?}") };
        let status = |url: &str, method: &str, path: &str, headers: &str, body: &str| {
            ask(url, method, path, headers, body).expect("an answer").0
        };
        let charge = |form: &str| status(stripe, "POST", "/v1/charges", STRIPE, form);
        let payment = |reference: &str| {
            let payment = json!({
                "merchantAccount": "Shop", "reference": reference, "returnUrl": "https://shop.example/return",
                "amount": { "value": 1000, "currency": "EUR" },
                "paymentMethod": { "type": "scheme", "encryptedCardNumber": "test_4111111111111111" },
            });
            let headers = "x-api-key: AQE\r\nidempotency-key: k\r\ncontent-type: application/json\r\n";
            status(adyen, "POST", "/v71/payments", headers, &payment.to_string())
        };
        let product =
            || status(bigcommerce, "GET", "/stores/s/v3/catalog/products/7", "x-auth-token: t\r\n", "");
        [
            charge("amount=1000&currency=usd"),
            charge("currency=usd&amount=1000"),
            status(postmark, "GET", "/server", "x-postmark-server-token: another\r\n", ""),
            product(),
            product(),
            product(),
            payment("order-1"),
            payment("order-2"),
        ]
    };
    assert_eq!(answers(&options), [200, 400, 200, 404, 404, 404, 200, 200]);
    let with = [&options[..], &["--plan", "faults.toml"]].concat();
    assert_eq!(answers(&with), [200, 200, 401, 200, 200, 429, 200, 422]);
}

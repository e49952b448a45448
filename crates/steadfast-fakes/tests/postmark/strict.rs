//! The refusals of the fake of Postmark, what its filters leave out, and its webhooks.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use steadfast_fakes::PostmarkFake;
use steadfast_testkit::TestClock;

use support::answers::{self, order_webhooks, shows};
use support::receiver::Receiver;

/// Status and body.
async fn ask(fake: &PostmarkFake, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let method: Method = method.parse().unwrap();
    let call = answers::client().request(method, format!("{}{path}", fake.url()));
    let call = call.header("X-Postmark-Server-Token", "token").body(body.to_string());
    answers::told(call).await
}

async fn ok(fake: &PostmarkFake, method: &str, path: &str, body: &Value) -> Value {
    let (status, told) = ask(fake, method, path, body).await;
    assert_eq!(status, 200, "{method} {path} {body}: {told}");
    told
}

fn mail(name: &str, value: Value) -> Value {
    let mut mail =
        json!({ "From": "shop@example.com", "To": "ann@example.com", "Subject": "s", "TextBody": "t" });
    mail[name] = value;
    mail
}

fn by_template(name: &str, value: Value) -> Value {
    let mut mail = json!({
        "From": "shop@example.com", "To": "ann@example.com", "TemplateAlias": "receipt", "TemplateModel": {},
    });
    mail[name] = value;
    mail
}

/// An attachment of so many digits.
fn attached(name: &str, digits: usize) -> Value {
    json!({ "Name": name, "Content": "A".repeat(digits), "ContentType": "application/octet-stream" })
}

fn hook(name: &str, value: Value) -> Value {
    let mut hook = json!({ "Url": "http://127.0.0.1:1/", "Triggers": { "Delivery": { "Enabled": true } } });
    hook[name] = value;
    hook
}

/// Method, path, body and ErrorCode of what is refused. Each of them is accepted with its mistake taken out: the
/// tests of the fake's features send that.
type Refused = (&'static str, String, Value, u64);

fn refused_questions() -> Vec<Refused> {
    let none = Value::Null;
    let mut all = Vec::new();
    let page = "count=1&offset=0";
    for (list, code, queries) in [
        (
            "/messages/outbound",
            700,
            &[
                "fromdate=soon",
                "todate=2026-13-01",
                "status=lost",
                "status=processed",
                "messagestream=none",
                "form=a@example.com",
                "tag=a&tag=b",
                "metadata=x",
                "count=2",
            ][..],
        ),
        (
            "/bounces",
            1000,
            &[
                "fromdate=soon",
                "todate=x",
                "type=Soft",
                "inactive=1",
                "messagestream=none",
                "stream=outbound",
            ],
        ),
        ("/templates", 1100, &["templateType=Standart", "type=Standard"]),
    ] {
        for query in queries {
            all.push(("GET", format!("{list}?{page}&{query}"), none.clone(), code));
        }
        for query in ["", "count=1", "count=0&offset=0", "count=501&offset=0", "count=1&offset=10000"] {
            all.push(("GET", format!("{list}?{query}"), none.clone(), code));
        }
    }
    for (path, code) in [
        ("/message-streams?messageStreamType=Bulk", 1221),
        ("/message-streams?includeArchivedStreams=2", 300),
        ("/message-streams/outbound?count=1", 300),
        ("/webhooks?MessageStream=none", 300),
        ("/webhooks?count=1", 300),
        ("/server?verbose=true", 300),
        ("/deliverystats?tag=a", 300),
        ("/bounces/1?tag=a", 1000),
        ("/templates/receipt?x=1", 1100),
        ("/messages/outbound/1/details?x=1", 700),
    ] {
        all.push(("GET", path.to_owned(), none.clone(), code));
    }
    all
}

fn refused_messages() -> Vec<Refused> {
    let (none, mut all) = (Value::Null, Vec::new());
    all.push(("POST", "/email?tag=a".to_owned(), mail("Tag", json!("a")), 300));
    for (name, value) in [
        ("Cc", json!(["c@example.com"])),
        ("Bcc", json!(7)),
        ("To", json!(["a@example.com"])),
        ("From", none.clone()),
        ("Subject", json!(1)),
        ("Tag", json!(["a"])),
        ("HtmlBody", json!({})),
        ("ReplyTo", json!(false)),
        ("TrackOpens", json!("true")),
        ("TrackLinks", json!("Some")),
        ("MessageStream", json!(1)),
        ("Metadata", json!({ "order": 42 })),
        ("Metadata", json!({ "order": null })),
        ("Metadata", json!(["order"])),
        ("Headers", json!({ "X-A": "b" })),
        ("Headers", json!([{ "Name": "X-A" }])),
        ("Headers", json!([{ "Name": "X-A", "Value": 1 }])),
        ("Headers", json!([{ "Name": "X-A", "Value": "b", "Charset": "utf-8" }])),
        ("Attachments", json!([{ "Name": "a.txt", "Content": "YQ==" }])),
        ("Attachments", json!([{ "Name": "a.txt", "Content": "not base64!", "ContentType": "text/plain" }])),
        ("Attachments", json!([{ "Name": "a.txt", "Content": "YQ", "ContentType": "text/plain" }])),
        ("TemplateId", json!(1)),
        ("Cookies", json!("a")),
    ] {
        all.push(("POST", "/email".to_owned(), mail(name, value), 403));
    }
    for (name, value, code) in [
        ("Tag", json!("x".repeat(1001)), 300),
        ("TextBody", json!("x".repeat(5 * 1024 * 1024 + 1)), 300),
        ("Attachments", json!([attached("a.pdf", 5 << 20), attached("b.pdf", 5 << 20)]), 300),
        ("Attachments", json!([attached("run.EXE", 4)]), 411),
        ("To", json!("\"Ann, B. <ann@example.com>"), 300),
    ] {
        all.push(("POST", "/email".to_owned(), mail(name, value), code));
    }
    for (name, value) in [
        ("TemplateModel", none.clone()),
        ("TemplateModel", json!("x")),
        ("TemplateId", json!("1")),
        ("TemplateAlias", none),
        ("Subject", json!("s")),
        ("TextBody", json!("t")),
        ("InlineCss", json!(1)),
        ("TemplateModel", json!({ "order": { "number": 42 } })),
    ] {
        all.push(("POST", "/email/withTemplate".to_owned(), by_template(name, value), 403));
    }
    all.push(("POST", "/email/withTemplate".to_owned(), by_template("TemplateAlias", json!("none")), 1101));
    all.push(("POST", "/email/batchWithTemplates".to_owned(), json!({ "Messages": [], "Tag": "a" }), 402));
    all.push(("POST", "/email".to_owned(), mail("MessageStream", json!("inbound")), 1236));
    all
}

fn refused_settings() -> Vec<Refused> {
    let (none, mut all) = (Value::Null, Vec::new());
    for (name, value, code) in [
        ("Url", none, 1354),
        ("Url", json!("not a url"), 1354),
        ("Url", json!(7), 403),
        ("MessageStream", json!("none"), 1235),
        ("MessageStream", json!("inbound"), 1351),
        ("HttpAuth", json!({ "Username": "u" }), 403),
        ("HttpHeaders", json!([{ "Name": "X-A" }]), 403),
        ("HttpHeaders", json!([{ "Value": "b" }]), 1358),
        ("HttpHeaders", json!([{ "Name": "X A", "Value": "b" }]), 1358),
        ("ID", json!(7), 1356),
        ("Triggers", json!({ "Deliveries": { "Enabled": true } }), 403),
        ("Triggers", json!({ "Delivery": { "Enabled": "yes" } }), 403),
        ("Triggers", json!({ "Delivery": { "IncludeContent": true } }), 403),
        ("Triggers", json!({ "Bounce": { "Enabled": true, "IncludeContent": true } }), 403),
        ("Triggers", json!({ "Open": { "Enabled": true } }), 403),
        ("Triggers", json!({ "Click": { "Enabled": true } }), 403),
        ("Triggers", json!({ "SpamComplaint": { "Enabled": true } }), 403),
        ("Triggers", json!({ "SubscriptionChange": { "Enabled": true, "IncludeContent": true } }), 403),
        ("Secret", json!("s"), 403),
    ] {
        all.push(("POST", "/webhooks".to_owned(), hook(name, value), code));
    }
    for (method, path, body, code) in [
        ("PUT", "/server", json!({ "ID": 2 }), 403),
        ("PUT", "/server", json!({ "Color": 1 }), 403),
        ("PUT", "/server", json!({ "Colour": "Red" }), 403),
        ("POST", "/templates", json!({ "Name": "T", "TextBody": "t", "TemplateType": "Other" }), 1122),
        ("POST", "/templates", json!({ "Name": "T", "TextBody": "t", "LayoutTemplate": "none" }), 1101),
        ("POST", "/templates", json!({ "TextBody": "t" }), 1120),
        // Text that would be sent as it stands.
        ("POST", "/templates", json!({ "Name": "T", "TextBody": "{{#each all}}{{name}}{{/each}}" }), 1122),
        ("POST", "/templates", json!({ "Name": "T", "TextBody": "{{^none}}t{{/none}}" }), 1122),
        ("POST", "/templates", json!({ "Name": "T", "HtmlBody": "{{{html}}}" }), 1122),
        ("POST", "/templates", json!({ "Name": "T", "TextBody": "t", "Subject": "{{order" }), 1122),
        ("POST", "/templates", json!({ "Name": "T", "HtmlBody": "<p>", "TemplateType": "Layout" }), 1122),
        ("PUT", "/templates/receipt", json!({ "TextBody": "{{#a}}t{{/a}}" }), 1122),
        // A hook that would be kept and not called.
        ("PUT", "/server", json!({ "BounceHookUrl": "http://127.0.0.1:1/" }), 403),
        ("POST", "/templates", json!({ "Name": "T" }), 1120),
        ("POST", "/templates", json!({ "Name": "T", "TextBody": "t", "Alias": "receipt" }), 1122),
        ("PUT", "/templates/receipt", json!({ "Active": false }), 403),
        ("PUT", "/templates/receipt", json!({ "TemplateType": "Layout" }), 403),
        ("GET", "/webhooks/99", Value::Null, 1352),
        ("GET", "/bounces/99", Value::Null, 1001),
        ("GET", "/bounces/99/dump", Value::Null, 1001),
        ("PUT", "/bounces/99/activate", json!({}), 1001),
        ("GET", "/message-streams/none", Value::Null, 1226),
        ("GET", "/message-streams/none/suppressions/dump", Value::Null, 1226),
        ("GET", "/message-streams/inbound/suppressions/dump", Value::Null, 1226),
        ("GET", "/message-streams/outbound/suppressions/dump?suppressionreason=Bounce", Value::Null, 1404),
        ("GET", "/message-streams/outbound/suppressions/dump?origin=Shop", Value::Null, 1405),
        ("GET", "/message-streams/outbound/suppressions/dump?offset=1", Value::Null, 1402),
        ("GET", "/message-streams/outbound/suppressions/dump?fromdate=soon", Value::Null, 300),
        ("GET", "/message-streams/outbound/suppressions/dump?tag=a", Value::Null, 300),
        ("POST", "/message-streams/outbound/suppressions", json!({}), 1409),
        (
            "POST",
            "/message-streams/outbound/suppressions",
            json!({ "Suppressions": [{ "Email": "a@b.c" }] }),
            403,
        ),
        ("POST", "/message-streams/outbound/suppressions/delete", json!({ "Suppressions": "a@b.c" }), 403),
        ("POST", "/message-streams/none/suppressions", json!({ "Suppressions": [] }), 1226),
    ] {
        all.push((method, path.to_owned(), body, code));
    }
    all
}

#[tokio::test]
async fn what_it_does_not_know_it_refuses_as_postmark_does() {
    let fake = PostmarkFake::start().await;
    let refused = [refused_questions(), refused_messages(), refused_settings()].concat();
    for (method, path, body, code) in refused {
        let (status, told) = ask(&fake, method, &path, &body).await;
        assert_eq!((status, told["ErrorCode"].as_u64()), (422, Some(code)), "{method} {path} {body}: {told}");
        assert!(told["Message"].as_str().is_some_and(|words| !words.is_empty()), "{told}");
        assert_eq!(told.as_object().unwrap().len(), 2, "its form is Postmark's: {told}");
    }
    // A webhook that is there is changed by the same rules, and stays as it was.
    let made =
        ok(&fake, "POST", "/webhooks", &hook("HttpAuth", json!({ "Username": "u", "Password": "p" }))).await;
    let path = format!("/webhooks/{}", made["ID"]);
    for (body, code) in [
        (json!({ "MessageStream": "broadcast" }), 1357),
        (json!({ "ID": made["ID"] }), 1357),
        (json!({ "Triggers": { "Open": { "Enabled": true } } }), 403),
    ] {
        assert_eq!(ask(&fake, "PUT", &path, &body).await.1["ErrorCode"], code, "{body}");
    }
    for (method, path) in [(Method::POST, "/webhooks"), (Method::PUT, path.as_str())] {
        let bodiless = answers::client().request(method, format!("{}{path}", fake.url()));
        let (status, told) = answers::told(bodiless.header("X-Postmark-Server-Token", "token")).await;
        assert_eq!((status, &told["ErrorCode"]), (422, &json!(1355)), "{path}");
    }
    assert_eq!(ok(&fake, "GET", &path, &Value::Null).await, made);
    // A route that is not there has no parameters to be wrong.
    assert_eq!(ask(&fake, "GET", "/messages/outbound/opens?count=1&offset=0", &Value::Null).await.0, 404);
    assert_eq!(fake.ledger().count(), 0, "a refusal is no effect");
}

#[tokio::test]
async fn what_postmark_documents_for_a_message_is_taken() {
    let fake = PostmarkFake::start().await;
    let large = json!([attached("a.pdf", 5 << 20), attached("b.pdf", (5 << 20) - 4)]);
    ok(&fake, "POST", "/email", &mail("Attachments", large)).await;
    let whole = json!({
        "From": "shop@example.com", "To": "ann@example.com", "Cc": "c@example.com", "Bcc": null, "Subject": "s",
        "Tag": "t", "HtmlBody": "<p>", "TextBody": "t", "ReplyTo": "r@example.com", "Metadata": { "order": "42" },
        "Headers": [{ "Name": "X-A", "Value": "b" }], "TrackOpens": true, "TrackLinks": "HtmlOnly",
        "MessageStream": "broadcast",
        "Attachments": [{
            "Name": "a.txt", "Content": "YWJj\r\nYQ==", "ContentType": "text/plain", "ContentID": null, "ContentLength": 4,
        }],
    });
    ok(&fake, "POST", "/email", &whole).await;
    ok(&fake, "POST", "/email/withTemplate", &by_template("InlineCss", json!(true))).await;
    let batch = json!({ "Messages": [by_template("TemplateAlias", json!("receipt"))] });
    ok(&fake, "POST", "/email/batchWithTemplates", &batch).await;
    assert_eq!(fake.ledger().count(), 4);
}

#[tokio::test]
async fn a_name_in_quotes_may_have_a_comma() {
    let fake = PostmarkFake::start().await;
    let to = "\"Ann, B.\" <ann@example.com>, \"Bob \\\"B, C\\\"\" <bob@example.com>";
    let id = ok(&fake, "POST", "/email", &mail("To", json!(to))).await["MessageID"].clone();
    let path = format!("/messages/outbound/{}/details", id.as_str().unwrap());
    let told = ok(&fake, "GET", &path, &Value::Null).await;
    assert_eq!(told["Recipients"], json!(["ann@example.com", "bob@example.com"]));
    assert_eq!((&told["To"][0]["Name"], told["To"].as_array().unwrap().len()), (&json!("Ann, B."), 2));
}

#[tokio::test]
async fn a_message_is_within_the_layout_of_its_template_and_tracked_as_its_server_says() {
    let fake = PostmarkFake::start().await;
    ok(&fake, "PUT", "/server", &json!({ "TrackOpens": true, "TrackLinks": "HtmlOnly" })).await;
    for template in [
        json!({ "Name": "L", "Alias": "layout", "HtmlBody": "<b>{{shop}}{{{@content}}}</b>", "TemplateType": "Layout" }),
        json!({
            "Name": "W", "Alias": "within", "Subject": "{{a.b}}{{none}}", "TextBody": "{{n}}", "HtmlBody": "<i>{{n}}</i>",
            "LayoutTemplate": "layout",
        }),
    ] {
        ok(&fake, "POST", "/templates", &template).await;
    }
    let mut mail = by_template("TemplateAlias", json!("within"));
    mail["TemplateModel"] = json!({ "shop": "S", "n": 1, "a": { "b": "c" } });
    for (tracks, links) in [(None, "HtmlOnly"), (Some(false), "None")] {
        if let Some(tracks) = tracks {
            (mail["TrackOpens"], mail["TrackLinks"]) = (json!(tracks), json!(links));
        }
        let id = ok(&fake, "POST", "/email/withTemplate", &mail).await["MessageID"].clone();
        let path = format!("/messages/outbound/{}/details", id.as_str().unwrap());
        let told = ok(&fake, "GET", &path, &Value::Null).await;
        let shown = ["Subject", "TextBody", "HtmlBody", "TrackOpens", "TrackLinks"].map(|name| &told[name]);
        assert_eq!(json!(shown), json!(["c", "1", "<b>S<i>1</i></b>", tracks.unwrap_or(true), links]));
    }
}

#[tokio::test]
async fn each_filter_leaves_out_what_it_does_not_name() {
    let clock = TestClock::new();
    let fake = PostmarkFake::builder().test_clock(&clock).start().await;
    for (to, tag, stream) in [
        ("a@example.com", "one", "outbound"),
        ("b@example.com", "two", "outbound"),
        ("c@example.com", "", "broadcast"),
    ] {
        let mut mail = mail("To", json!(to));
        (mail["Tag"], mail["MessageStream"]) = (json!(tag), json!(stream));
        ok(&fake, "POST", "/email", &mail).await;
        fake.deactivate(to);
        clock.advance(Duration::from_secs(24 * 3600));
    }
    let found = async |list: &str, query: &str| {
        let told = ok(&fake, "GET", &format!("{list}?count=9&offset=0&{query}"), &Value::Null).await;
        let shown = told.as_object().unwrap().values().find_map(Value::as_array).unwrap();
        assert_eq!(told["TotalCount"], shown.len(), "{told}");
        shown.clone()
    };
    let second = found("/bounces", "tag=two").await[0]["MessageID"].as_str().unwrap().to_owned();
    // The clock starts at midnight UTC of 1 January, which is 31 December in New York.
    for (query, emails) in [
        ("", &["b@example.com", "a@example.com"][..]),
        ("tag=one", &["a@example.com"]),
        ("tag=none", &[]),
        ("type=hardbounce", &["b@example.com", "a@example.com"]),
        ("type=SoftBounce", &[]),
        ("inactive=true", &["b@example.com", "a@example.com"]),
        ("inactive=false", &[]),
        ("emailFilter=B@EX", &["b@example.com"]),
        ("emailFilter=example.org", &[]),
        ("fromDate=2026-01-01", &["b@example.com"]),
        ("toDate=2025-12-31", &["a@example.com"]),
        ("messageStream=broadcast", &["c@example.com"]),
        (&format!("messageID={second}"), &["b@example.com"]),
    ] {
        let bounces = found("/bounces", query).await;
        let shown: Vec<&str> = bounces.iter().map(|bounce| bounce["Email"].as_str().unwrap()).collect();
        assert_eq!(shown, emails, "{query}");
    }
    assert_eq!(found("/messages/outbound", "status=queued").await.len(), 0);
    assert_eq!(found("/messages/outbound", "status=Sent&fromemail=shop@example.com").await.len(), 2);

    let layout =
        json!({ "Name": "L", "Alias": "layout", "HtmlBody": "{{{@content}}}", "TemplateType": "Layout" });
    ok(&fake, "POST", "/templates", &layout).await;
    let within = json!({ "Name": "W", "Alias": "within", "TextBody": "t", "LayoutTemplate": "layout" });
    ok(&fake, "POST", "/templates", &within).await;
    for (query, aliases) in [
        ("", &["receipt", "layout", "within"][..]),
        ("templateType=All", &["receipt", "layout", "within"]),
        ("templateType=Layout", &["layout"]),
        ("templateType=Standard", &["receipt", "within"]),
        ("layoutTemplate=layout", &["within"]),
    ] {
        let templates = found("/templates", query).await;
        let shown: Vec<&str> = templates.iter().map(|one| one["Alias"].as_str().unwrap()).collect();
        assert_eq!(shown, aliases, "{query}");
    }
    let (_, told) =
        ask(&fake, "POST", "/email/withTemplate", &by_template("TemplateAlias", json!("layout"))).await;
    assert_eq!(told["ErrorCode"], 1101, "a layout is not sent by itself");
    for (kind, ids) in [("Broadcasts", &["broadcast"][..]), ("All", &["outbound", "broadcast", "inbound"])] {
        let path = format!("/message-streams?MessageStreamType={kind}&includeArchivedStreams=false");
        let told = ok(&fake, "GET", &path, &Value::Null).await;
        let streams = told["MessageStreams"].as_array().unwrap();
        let shown: Vec<&str> = streams.iter().map(|one| one["ID"].as_str().unwrap()).collect();
        assert_eq!((shown, &told["TotalCount"]), (ids.to_vec(), &json!(ids.len())), "{kind}");
    }
}

#[tokio::test]
async fn an_edited_template_is_one_that_could_be_made_and_a_layout_in_use_is_not_removed() {
    let fake = PostmarkFake::start().await;
    let layout =
        json!({ "Name": "L", "Alias": "layout", "HtmlBody": "{{{@content}}}", "TemplateType": "Layout" });
    let layout = ok(&fake, "POST", "/templates", &layout).await;
    let within = json!({ "Name": "W", "Alias": "within", "TextBody": "t", "LayoutTemplate": "layout" });
    ok(&fake, "POST", "/templates", &within).await;
    let path = "/templates/within";
    let before = ok(&fake, "GET", path, &Value::Null).await;
    for (change, code) in [
        (json!({ "Name": "X", "Alias": "RECEIPT" }), 1122),
        (json!({ "Alias": "" }), 1122),
        (json!({ "TemplateType": "Other" }), 1122),
        (json!({ "TemplateType": "Layout" }), 403),
        (json!({ "Subject": "s", "Name": "" }), 1120),
        (json!({ "TextBody": "" }), 1120),
    ] {
        let (status, told) = ask(&fake, "PUT", path, &change).await;
        assert_eq!((status, &told["ErrorCode"]), (422, &json!(code)), "{change}: {told}");
        assert_eq!(ok(&fake, "GET", path, &Value::Null).await, before, "{change}");
    }
    // Null is what is left out, and its own alias is no other one's.
    let change = json!({ "Alias": "Within", "Name": null, "TextBody": null, "Subject": "s" });
    ok(&fake, "PUT", path, &change).await;
    let edited = ok(&fake, "GET", path, &Value::Null).await;
    let shown = ["Alias", "Name", "TextBody", "Subject"].map(|name| edited[name].clone());
    assert_eq!(json!(shown), json!(["Within", "W", "t", "s"]));

    let by_id = format!("/templates/{}", layout["TemplateId"]);
    for path in ["/templates/layout", by_id.as_str()] {
        let (status, told) = ask(&fake, "DELETE", path, &Value::Null).await;
        assert_eq!((status, &told["ErrorCode"]), (422, &json!(1130)), "{path}: {told}");
    }
    ok(&fake, "PUT", path, &json!({ "LayoutTemplate": null })).await;
    ok(&fake, "DELETE", "/templates/layout", &Value::Null).await;
}

#[tokio::test]
async fn a_message_id_is_kept_only_where_the_fake_is_told_so_and_the_message_asks_for_it() {
    let headers = |keeps: &str| json!([{ "Name": "Message-ID", "Value": "<42@example.com>" }, { "Name": "X-PM-KeepID", "Value": keeps }]);
    for (keeps, header, kept) in [(false, "true", false), (true, "true", true), (true, "false", false)] {
        let builder = PostmarkFake::builder();
        let fake = if keeps { builder.keep_message_ids() } else { builder }.start().await;
        let sent = ok(&fake, "POST", "/email", &mail("Headers", headers(header))).await;
        let id = sent["MessageID"].as_str().unwrap();
        let dump = ok(&fake, "GET", &format!("/messages/outbound/{id}/dump"), &Value::Null).await;
        let expected = if kept { "<42@example.com>".to_owned() } else { format!("<{id}@mtasv.net>") };
        let dump = dump["Body"].as_str().unwrap();
        assert!(dump.contains(&format!("\r\nMessage-ID: {expected}\r\n")), "{keeps} {header}: {dump}");
    }
}

/// Kind, and the address, of what was sent since this was last asked.
fn records(receiver: &Receiver) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let about = |record: &Value| text(record.get("Recipient").unwrap_or(&record["Email"]));
    receiver.bodies().iter().map(|record| (text(&record["RecordType"]), about(record))).collect()
}

fn told(records: &[(&str, &str)]) -> Vec<(String, String)> {
    records.iter().map(|(kind, about)| ((*kind).to_owned(), (*about).to_owned())).collect()
}

#[tokio::test]
async fn its_webhooks_come_late_twice_and_out_of_order_when_they_are_ordered_so() {
    let fake = PostmarkFake::start().await;
    let (receiver, url) = Receiver::listen().await;
    let triggers = json!({ "Delivery": { "Enabled": true }, "Bounce": { "Enabled": true } });
    ok(&fake, "POST", "/webhooks", &json!({ "Url": url, "Triggers": triggers })).await;
    order_webhooks(fake.url(), &json!({ "hold": true })).await;
    for to in ["a@example.com", "b@example.com"] {
        ok(&fake, "POST", "/email", &mail("To", json!(to))).await;
    }
    fake.deactivate("b@example.com");
    assert_eq!(records(&receiver), [], "held until it is ordered");

    let sent = order_webhooks(fake.url(), &json!({ "newest_first": true, "times": 2 })).await;
    let (bounce, second, first) =
        (("Bounce", "b@example.com"), ("Delivery", "b@example.com"), ("Delivery", "a@example.com"));
    assert_eq!(records(&receiver), told(&[bounce, bounce, second, second, first, first]));
    // One by one, and again: the id of each is that of its message, or of its bounce.
    let ids: Vec<&str> =
        sent["deliveries"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    order_webhooks(fake.url(), &json!({ "send": [ids[1], ids[2]] })).await;
    assert_eq!(records(&receiver), told(&[second, bounce]));
    assert_eq!(order_webhooks(fake.url(), &json!({ "send": [] })).await["held"], true);
}

#[tokio::test]
async fn a_mail_to_two_is_told_of_once_for_each_of_them() {
    let fake = PostmarkFake::start().await;
    let (receiver, url) = Receiver::listen().await;
    let triggers = json!({ "Delivery": { "Enabled": true } });
    ok(&fake, "POST", "/webhooks", &json!({ "Url": url, "Triggers": triggers })).await;
    order_webhooks(fake.url(), &json!({ "hold": true })).await;
    let both = ["a@example.com", "b@example.com"];
    let sent = ok(&fake, "POST", "/email", &mail("To", json!(both.join(", ")))).await;
    let message = sent["MessageID"].as_str().unwrap();
    let page = order_webhooks(fake.url(), &json!({})).await;
    assert_eq!(records(&receiver), told(&both.map(|to| ("Delivery", to))));
    let deliveries = page["deliveries"].as_array().unwrap();
    let answered: Vec<(&Value, &Value)> =
        deliveries.iter().map(|one| (&one["id"], &one["answers"])).collect();
    let ids = both.map(|to| json!(format!("{message}-{to}-Delivery")));
    let once = json!([200]);
    assert_eq!(answered, [(&ids[0], &once), (&ids[1], &once)]);
    order_webhooks(fake.url(), &json!({})).await;
    assert_eq!(records(&receiver), [], "both were sent");
}

#[tokio::test]
async fn a_bounce_is_told_of_with_its_message_and_to_the_webhooks_of_its_stream() {
    let fake = PostmarkFake::start().await;
    let (outbound, url) = Receiver::listen().await;
    let (broadcast, other) = Receiver::listen().await;
    let triggers = json!({ "Bounce": { "Enabled": true } });
    ok(&fake, "POST", "/webhooks", &json!({ "Url": url, "Triggers": triggers })).await;
    let second = json!({ "Url": other, "MessageStream": "broadcast", "Triggers": triggers });
    ok(&fake, "POST", "/webhooks", &second).await;
    order_webhooks(fake.url(), &json!({ "hold": true })).await;
    let mut news = mail("MessageStream", json!("broadcast"));
    (news["To"], news["Tag"], news["Metadata"]) =
        (json!("Ann <ann@example.com>"), json!("news"), json!({ "issue": "7" }));
    let sent = ok(&fake, "POST", "/email", &news).await;
    // Once: an address that is inactive does not bounce again.
    fake.deactivate("ANN@example.com").deactivate("ann@example.com").deactivate("nobody@example.com");
    order_webhooks(fake.url(), &json!({})).await;
    let record = broadcast.bodies();
    let [record] = &record[..] else { panic!("one: {record:?}") };
    assert_eq!((&record["MessageID"], &record["Tag"]), (&sent["MessageID"], &json!("news")));
    shows(record, &json!({ "Metadata": { "issue": "7" }, "Inactive": true }));
    let listed = ok(&fake, "GET", &format!("/bounces/{}", record["ID"]), &Value::Null).await;
    assert_eq!(listed["BouncedAt"], record["BouncedAt"]);
    // The one that no message led to is of the default stream.
    assert_eq!(records(&outbound), told(&[("Bounce", "nobody@example.com")]));
}

#[tokio::test]
async fn each_change_of_a_suppression_is_told_of_once_and_to_the_webhooks_of_its_stream() {
    let clock = TestClock::new();
    let fake = PostmarkFake::builder().test_clock(&clock).start().await;
    let (broadcast, url) = Receiver::listen().await;
    let (outbound, other) = Receiver::listen().await;
    let triggers = json!({ "SubscriptionChange": { "Enabled": true } });
    let first = json!({ "Url": url, "MessageStream": "broadcast", "Triggers": triggers });
    ok(&fake, "POST", "/webhooks", &first).await;
    ok(&fake, "POST", "/webhooks", &json!({ "Url": other, "Triggers": triggers })).await;
    order_webhooks(fake.url(), &json!({ "hold": true })).await;
    let mut news = mail("MessageStream", json!("broadcast"));
    (news["Tag"], news["Metadata"]) = (json!("news"), json!({ "issue": "7" }));
    let sent = ok(&fake, "POST", "/email", &news).await;
    // An address that is suppressed already, and one that is not suppressed, does not change.
    fake.deactivate("ann@example.com").deactivate("ann@example.com");
    let listed = |address: &str| json!({ "Suppressions": [{ "EmailAddress": address }] });
    let (ann, bob) = (listed("ann@example.com"), listed("bob@example.com"));
    let path = "/message-streams/broadcast/suppressions";
    let deletes = "/message-streams/broadcast/suppressions/delete";
    for (path, body) in
        [(path, &ann), (path, &bob), (path, &bob), (deletes, &bob), (deletes, &bob), (path, &bob)]
    {
        ok(&fake, "POST", path, body).await;
    }
    let bounces = ok(&fake, "GET", "/bounces?count=1&offset=0&messagestream=broadcast", &Value::Null).await;
    let activate = format!("/bounces/{}/activate", bounces["Bounces"][0]["ID"]);
    ok(&fake, "PUT", &activate, &json!({})).await;
    let told = order_webhooks(fake.url(), &json!({})).await;

    let record = |address: &str, reason: Value| {
        json!({
            "RecordType": "SubscriptionChange", "MessageID": null, "ServerID": 1, "MessageStream": "broadcast",
            "ChangedAt": "2026-01-01T00:00:00.000Z", "Recipient": address, "Origin": "Customer",
            "SuppressSending": !reason.is_null(), "SuppressionReason": reason, "Tag": null, "Metadata": {},
        })
    };
    let mut bounced = record("ann@example.com", json!("HardBounce"));
    for (name, value) in [
        ("MessageID", sent["MessageID"].clone()),
        ("Origin", json!("Recipient")),
        ("Tag", json!("news")),
        ("Metadata", json!({ "issue": "7" })),
    ] {
        bounced[name] = value;
    }
    let suppressed = record("bob@example.com", json!("ManualSuppression"));
    let reactivated = ["bob@example.com", "ann@example.com"].map(|address| record(address, Value::Null));
    let [bob_again, ann_again] = reactivated;
    let expected = [bounced, suppressed.clone(), bob_again, suppressed, ann_again];
    assert_eq!(broadcast.bodies(), expected);
    assert_eq!(outbound.bodies(), Vec::<Value>::new());
    let deliveries = told["deliveries"].as_array().unwrap();
    let mut ids: Vec<&str> = deliveries.iter().map(|one| one["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5, "each has an id of its own: {told}");
}

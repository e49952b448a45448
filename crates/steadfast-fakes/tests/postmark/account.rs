//! The account API of the Postmark fake: servers, domains and sender signatures, by the account's own token.

use serde_json::{Value, json};
use steadfast_fakes::{FakeBuilder, PostmarkFake};
use support::answers::{asked, shows};

struct Account(PostmarkFake);

impl Account {
    fn open(settings: impl FnOnce(FakeBuilder<PostmarkFake>) -> FakeBuilder<PostmarkFake>) -> Account {
        Account(settings(PostmarkFake::builder()).in_process())
    }

    async fn ask_as(
        &self,
        token: Option<(&'static str, &str)>,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        asked(&self.0.transport(), method.parse().unwrap(), path, token.as_slice(), body).await
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.ask_as(Some(("x-postmark-account-token", "account")), method, path, &body).await
    }

    async fn ok(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, told) = self.ask(method, path, body.clone()).await;
        assert_eq!(status, 200, "{method} {path} {body}: {told}");
        told
    }

    /// Postmark's code of a refusal.
    async fn code(&self, method: &str, path: &str, body: Value) -> u64 {
        let (status, told) = self.ask(method, path, body.clone()).await;
        assert_eq!(status, 422, "{method} {path} {body}: {told}");
        told["ErrorCode"].as_u64().unwrap()
    }
}

const NONE: Value = Value::Null;

fn names(page: &Value, list: &str, name: &str) -> Vec<String> {
    let all = page[list].as_array().unwrap().iter();
    all.map(|one| one[name].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_account_has_the_server_that_sends_and_those_that_are_made() {
    let account = Account::open(FakeBuilder::<PostmarkFake>::delete_servers);
    let made = account
        .ok("POST", "/servers", json!({ "Name": "Shop", "Color": "blue", "DeliveryType": "Sandbox" }))
        .await;
    shows(&made, &json!({ "Name": "Shop", "Color": "blue", "DeliveryType": "Sandbox" }));
    assert!(made["ApiTokens"][0].is_string() && made["ID"] != 1);
    let path = format!("/servers/{}", made["ID"]);
    let changed = account.ok("PUT", &path, json!({ "Name": "Store", "TrackOpens": true })).await;
    assert_eq!(
        (&changed["ID"], &changed["TrackOpens"], &account.ok("GET", &path, NONE).await),
        (&made["ID"], &json!(true), &changed)
    );
    let all = account.ok("GET", "/servers?count=10&offset=0", NONE).await;
    assert_eq!(
        (&all["TotalCount"], names(&all, "Servers", "Name")),
        (&json!(2), vec!["Fake".into(), "Store".into()])
    );
    let some = account.ok("GET", "/servers?count=1&offset=0&name=sto", NONE).await;
    assert_eq!((&some["TotalCount"], names(&some, "Servers", "Name")), (&json!(1), vec!["Store".to_owned()]));
    // The first is the one that a server's token leads to.
    account.ok("PUT", "/servers/1", json!({ "Name": "Mail" })).await;
    let own = account.ask_as(Some(("x-postmark-server-token", "t")), "GET", "/server", &NONE).await.1;
    assert_eq!(own["Name"], "Mail");
    assert_eq!(account.ok("DELETE", &path, NONE).await["ErrorCode"], 0);
    assert_eq!(account.code("GET", &path, NONE).await, 601);
    assert_eq!(account.0.ledger().count(), 4, "each write");
}

#[tokio::test]
async fn what_is_wrong_with_a_server_a_domain_or_a_sender_is_told_by_its_code() {
    let account = Account::open(|builder| builder);
    let sender = json!({ "FromEmail": "ann@shop.example", "Name": "Ann" });
    account.ok("POST", "/domains", json!({ "Name": "shop.example" })).await;
    account.ok("POST", "/senders/", sender.clone()).await;
    for (method, path, body, code) in [
        ("POST", "/servers", json!({ "Color": "Red" }), 608),
        ("POST", "/servers", json!({ "Name": "fake" }), 603),
        ("POST", "/servers", json!({ "Name": "a", "Color": "Pink" }), 607),
        ("POST", "/servers", json!({ "Name": "a", "Size": 1 }), 403),
        ("POST", "/servers", json!({ "Name": 1 }), 403),
        ("PUT", "/servers/1", json!({ "DeliveryType": "Live" }), 403),
        ("POST", "/servers", NONE, 402),
        ("GET", "/servers/9", NONE, 601),
        ("DELETE", "/servers/1", NONE, 604),
        ("GET", "/servers", NONE, 600),
        ("GET", "/servers?count=1&offset=0&color=red", NONE, 600),
        ("GET", "/domains?count=501&offset=0", NONE, 500),
        ("GET", "/senders?count=1&offset=0&name=a", NONE, 500),
        ("GET", "/domains/2?count=1", NONE, 500),
        ("POST", "/domains", json!({ "Name": "Shop.example" }), 512),
        ("POST", "/domains", json!({ "Name": "shop" }), 516),
        ("POST", "/domains", json!({}), 403),
        ("PUT", "/domains/2", json!({ "Name": "other.example" }), 403),
        ("GET", "/domains/9", NONE, 510),
        ("POST", "/domains/2/rotatedkim", NONE, 505),
        ("PUT", "/domains/2/verifydkim", json!({ "Name": "x" }), 403),
        ("POST", "/senders", sender.clone(), 504),
        ("POST", "/senders", json!({ "FromEmail": "a@gmail.com", "Name": "A" }), 503),
        ("POST", "/senders", json!({ "FromEmail": "nobody", "Name": "A" }), 522),
        ("POST", "/senders", json!({ "FromEmail": "a@shop.example" }), 403),
        ("PUT", "/senders/3", json!({ "FromEmail": "b@shop.example", "Name": "B" }), 403),
        ("GET", "/senders/9", NONE, 501),
    ] {
        assert_eq!(account.code(method, path, body.clone()).await, code, "{method} {path} {body}");
    }
    for (method, path) in [
        ("PUT", "/servers"),
        ("POST", "/domains/2/verifydkim"),
        ("GET", "/domains/2/verifyspf"),
        ("POST", "/servers/1/x"),
        ("PUT", "/templates/push"),
    ] {
        let (status, _) = account.ask(method, path, json!({})).await;
        assert!(status == 404 || path == "/templates/push" && status == 401, "{method} {path}: {status}");
    }
    assert_eq!(account.0.ledger().count(), 2, "a refusal is no effect");
}

#[tokio::test]
async fn a_domain_is_verified_once_its_dns_has_what_it_was_told() {
    for published in [false, true] {
        let account =
            Account::open(|builder| if published { builder.dns_records_published() } else { builder });
        let made = account
            .ok("POST", "/domains", json!({ "Name": "shop.example", "ReturnPathDomain": "pm.shop.example" }))
            .await;
        let path = format!("/domains/{}", made["ID"]);
        shows(&made, &json!({ "DKIMVerified": false, "DKIMUpdateStatus": "Pending" }));
        let verified = account.ok("PUT", &format!("{path}/verifyDkim"), NONE).await;
        assert_eq!(verified["DKIMVerified"], published);
        let returns = account.ok("PUT", &format!("{path}/verifyReturnPath"), NONE).await;
        assert_eq!(returns["ReturnPathDomainVerified"], published);
        let spf = account.ok("POST", &format!("{path}/verifyspf"), NONE).await;
        assert_eq!(
            spf,
            json!({ "SPFHost": "shop.example", "SPFVerified": true, "SPFTextValue": made["SPFTextValue"] })
        );
        let listed = account.ok("GET", "/domains?count=1&offset=0", NONE).await["Domains"][0].clone();
        assert_eq!((&listed["DKIMVerified"], listed.as_object().unwrap().len()), (&json!(published), 6));
        if !published {
            continue;
        }
        assert_eq!(
            (&verified["DKIMHost"], &verified["DKIMPendingHost"]),
            (&made["DKIMPendingHost"], &json!(""))
        );
        // A new key takes the place of the old one once it is verified.
        let rotated = account.ok("POST", &format!("{path}/rotatedkim"), NONE).await;
        assert_eq!(
            (&rotated["DKIMHost"], &rotated["DKIMUpdateStatus"]),
            (&verified["DKIMHost"], &json!("Pending"))
        );
        let again = account.ok("PUT", &format!("{path}/verifydkim"), NONE).await;
        assert_eq!(
            (&again["DKIMHost"], &again["DKIMRevokedHost"]),
            (&rotated["DKIMPendingHost"], &verified["DKIMHost"])
        );
        let changed = account.ok("PUT", &path, json!({ "ReturnPathDomain": "b.shop.example" })).await;
        assert_eq!(changed["ReturnPathDomain"], "b.shop.example");
        account.ok("DELETE", &path, NONE).await;
        assert_eq!(account.code("GET", &path, NONE).await, 510);
    }
}

#[tokio::test]
async fn a_sender_signature_waits_for_the_owner_of_its_address() {
    for confirms in [false, true] {
        let account = Account::open(|builder| if confirms { builder.confirm_senders() } else { builder });
        let sent =
            json!({ "FromEmail": "Ann@shop.example", "Name": "Ann", "ReplyToEmail": "re@shop.example" });
        let made = account.ok("POST", "/senders", sent).await;
        let path = format!("/senders/{}", made["ID"]);
        shows(
            &made,
            &json!({ "Domain": "shop.example", "EmailAddress": "Ann@shop.example", "ReplyToEmailAddress": "re@shop.example", "Confirmed": confirms }),
        );
        let resent = account.ask("POST", &format!("{path}/resend"), NONE).await;
        let told = (resent.0, resent.1["ErrorCode"].clone());
        assert_eq!(told, if confirms { (422, json!(506)) } else { (200, json!(0)) });
        let changed =
            account.ok("PUT", &path, json!({ "Name": "Bob", "ReplyToEmail": "b@shop.example" })).await;
        shows(&changed, &json!({ "Name": "Bob", "ReplyToEmailAddress": "b@shop.example" }));
        let listed = account.ok("GET", "/senders?count=9&offset=0", NONE).await;
        assert_eq!(names(&listed, "SenderSignatures", "EmailAddress"), ["Ann@shop.example"]);
        assert_eq!(
            account.code("POST", &format!("{path}/requestnewdkim"), NONE).await,
            505,
            "the first is pending"
        );
        account.ok("DELETE", &path, NONE).await;
        assert_eq!(account.code("DELETE", &path, NONE).await, 501);
    }
}

#[tokio::test]
async fn an_account_and_a_server_each_have_their_token() {
    let account = Account::open(|builder| builder.account_token("only").token("servers"));
    for (token, status) in [
        (None, 401),
        (Some(("x-postmark-server-token", "servers")), 401),
        (Some(("x-postmark-account-token", "")), 401),
        (Some(("x-postmark-account-token", "another")), 401),
        (Some(("x-postmark-account-token", "only")), 200),
    ] {
        let (answered, told) = account.ask_as(token, "GET", "/servers/1", &NONE).await;
        assert_eq!(answered, status, "{token:?}");
        if status == 401 {
            assert_eq!(told["ErrorCode"], 10);
            assert!(told["Message"].as_str().unwrap().contains("X-Postmark-Account-Token"), "{told}");
        }
    }
    let server = account.ask_as(Some(("x-postmark-account-token", "only")), "GET", "/server", &NONE).await;
    assert_eq!(server.0, 401);
}

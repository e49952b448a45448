//! The facts that a listening fake tells of itself, and the orders that it takes, by HTTP: so that a test in any
//! language can judge and break.
//!
//! Below `/_fake`, which no vendor has. The front answers it before it asks the plan: looking at a ledger meets no
//! fault and is no request.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use steadfast_core::BoxFuture;
use steadfast_testkit::FaultPlan;
use steadfast_testkit::internal::{FaultRule, PAGE, Page, PageAnswer};

use super::ledger::Ledger;
use super::serve::Behaviour;
use super::webhooks::Outbox;

mod shown;

/// The page of one fake.
pub(super) struct ControlPage {
    vendor: &'static str,
    plan: FaultPlan,
    ledger: Ledger,
    outbox: Outbox,
    shoppers: Option<Arc<dyn Behaviour>>,
}

impl ControlPage {
    pub(super) fn new(vendor: &'static str, plan: &FaultPlan, ledger: Ledger, outbox: Outbox) -> ControlPage {
        ControlPage { vendor, plan: plan.clone(), ledger, outbox, shoppers: None }
    }

    /// With shoppers, as far as the vendor has any.
    pub(super) fn with_shoppers(mut self, behaviour: Arc<dyn Behaviour>) -> ControlPage {
        self.shoppers = Some(behaviour);
        self
    }

    fn told(&self, method: &str, path: &str, body: &[u8]) -> PageAnswer {
        let Some(path) = path.trim_end_matches('/').strip_prefix(PAGE) else { return nothing_there() };
        match (method, path) {
            ("GET" | "HEAD", "") => self.shown(),
            ("GET" | "HEAD", "/ledger") => json_answer(200, &self.ledger_told()),
            ("DELETE", "/ledger") => {
                self.ledger.forget();
                PageAnswer { status: 204, reason: "No Content", headers: Vec::new(), body: Vec::new() }
            }
            ("GET" | "HEAD", "/faults") => json_answer(200, &self.faults_told()),
            ("GET" | "HEAD", "/webhooks") => json_answer(200, &self.outbox.told()),
            ("DELETE", "/faults") => {
                self.plan.clear();
                json_answer(200, &self.faults_told())
            }
            ("POST", "/faults") => self.take_faults(body),
            ("POST", "/pay") => match self.shoppers.as_ref().and_then(|shoppers| shoppers.shopper(body)) {
                Some(reply) => json_answer(reply.status, &reply.value()),
                None => problem(404, "this vendor has no shoppers"),
            },
            (_, "") => not_allowed("GET, HEAD"),
            (_, "/ledger") => not_allowed("GET, HEAD, DELETE"),
            (_, "/faults") => not_allowed("GET, HEAD, POST, DELETE"),
            (_, "/webhooks") => not_allowed("GET, HEAD, POST"),
            (_, "/pay") if self.shoppers.is_some() => not_allowed("POST"),
            _ => nothing_there(),
        }
    }

    fn ledger_told(&self) -> Value {
        json!({
            "vendor": self.vendor,
            "effects": self.ledger.effects(),
            "requests": self.ledger.requests(),
            "duplicates": self.ledger.duplicates(),
        })
    }

    fn faults_told(&self) -> Value {
        let injected: Vec<Value> = self
            .plan
            .counts()
            .into_iter()
            .map(|(fault, count)| json!({ "fault": fault, "count": count }))
            .collect();
        let lasting: Vec<Value> = steadfast_testkit::internal::lasting(&self.plan)
            .into_iter()
            .map(|(fault, method, path)| {
                json!({ "fault": fault, "method": method.map(|method| method.to_string()), "path": path })
            })
            .collect();
        json!({
            "requests": self.plan.requests(), "pending": self.plan.pending(), "always": lasting, "injected": injected,
        })
    }

    /// One fault, a list of them, or the form of the page.
    fn take_faults(&self, body: &[u8]) -> PageAnswer {
        let by_form =
            !body.trim_ascii_start().starts_with(b"{") && !body.trim_ascii_start().starts_with(b"[");
        let read = if by_form { shown::read_form(body) } else { read_json(body) };
        let rules = match read {
            Ok(rules) => rules,
            Err(why) => return problem(400, &why),
        };
        rules.iter().for_each(|rule| rule.add_to(&self.plan));
        if by_form {
            let headers = vec![("Location", "/_fake".to_owned())];
            return PageAnswer { status: 303, reason: "See Other", headers, body: Vec::new() };
        }
        json_answer(200, &self.faults_told())
    }

    fn shown(&self) -> PageAnswer {
        let page = shown::page(self.vendor, &self.ledger, &self.plan);
        let headers = vec![("Content-Type", "text/html; charset=utf-8".to_owned())];
        PageAnswer { status: 200, reason: "OK", headers, body: page.into_bytes() }
    }
}

impl Page for ControlPage {
    fn answer(&self, method: &str, path: &str, body: &[u8]) -> BoxFuture<'static, PageAnswer> {
        if (method, path.trim_end_matches('/')) == ("POST", "/_fake/webhooks") {
            let (order, outbox) = (serde_json::from_slice(body), self.outbox.clone());
            return Box::pin(async move {
                match order {
                    Ok(order) => match outbox.carry_out(order).await {
                        Ok(told) => json_answer(200, &told),
                        Err(why) => problem(400, &why),
                    },
                    Err(error) => problem(400, &error.to_string()),
                }
            });
        }
        let told = self.told(method, path, body);
        Box::pin(async { told })
    }
}

fn read_json(body: &[u8]) -> Result<Vec<FaultRule>, String> {
    let value: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let rules = if value.is_array() { value } else { Value::from(vec![value]) };
    serde_json::from_value(rules).map_err(|error| error.to_string())
}

fn json_answer(status: u16, value: &impl Serialize) -> PageAnswer {
    let mut body = serde_json::to_vec_pretty(value).expect("what the page tells is plain data");
    body.push(b'\n');
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let headers = vec![("Content-Type", "application/json".to_owned())];
    PageAnswer { status, reason: reason.unwrap_or("Refused"), headers, body }
}

fn problem(status: u16, why: &str) -> PageAnswer {
    json_answer(status, &json!({ "problem": why }))
}

fn nothing_there() -> PageAnswer {
    problem(404, "there are /_fake, /_fake/ledger, /_fake/faults and /_fake/webhooks, and POST /_fake/pay")
}

/// With the methods that this path has.
fn not_allowed(methods: &str) -> PageAnswer {
    let mut refused = problem(405, &format!("it takes {methods}"));
    refused.headers.push(("Allow", methods.to_owned()));
    refused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Effect;
    use steadfast_core::clock::{SystemClock, Timestamp};
    use steadfast_testkit::Fault;

    fn page() -> ControlPage {
        let outbox = Outbox::new(Arc::new(SystemClock::new()));
        ControlPage::new("stripe", &FaultPlan::new(), Ledger::default(), outbox)
    }

    #[test]
    fn the_ledger_is_deleted_and_the_faults_stay() {
        let page = page();
        page.plan.next(Fault::Reset);
        page.ledger.note_request(Some("order-42"));
        page.ledger.record(Effect {
            wire_key: Some("order-42".to_owned()),
            account: "1".to_owned(),
            method: "POST".to_owned(),
            path: "/v1/charges".to_owned(),
            id: "ch_1".to_owned(),
            part: 0,
            at: Timestamp::from_millis(0),
        });
        // Twice: an empty one is emptied too.
        for _ in 0..2 {
            let answer = page.told("DELETE", "/_fake/ledger", b"");
            assert_eq!((answer.status, answer.reason, answer.body.len()), (204, "No Content", 0));
            let empty = json!({ "vendor": "stripe", "effects": [], "requests": {}, "duplicates": [] });
            assert_eq!(page.ledger_told(), empty);
        }
        assert_eq!(page.plan.pending(), 1);
    }

    #[test]
    fn each_path_tells_the_methods_that_it_takes() {
        let page = page();
        for (path, methods) in [
            ("/_fake", "GET, HEAD"),
            ("/_fake/ledger/", "GET, HEAD, DELETE"),
            ("/_fake/faults", "GET, HEAD, POST, DELETE"),
            ("/_fake/webhooks", "GET, HEAD, POST"),
        ] {
            let answer = page.told("PUT", path, b"");
            let allowed = answer.headers.iter().find(|(name, _)| *name == "Allow");
            assert_eq!((answer.status, allowed), (405, Some(&("Allow", methods.to_owned()))), "{path}");
            for method in methods.split(", ").filter(|method| *method != "POST") {
                assert!(matches!(page.told(method, path, b"").status, 200 | 204), "{method} {path}");
            }
        }
        for path in ["/_fake/ledgers", "/_fake/_fake/ledger", "/_fake/_fake", "/ledger"] {
            assert_eq!(page.told("DELETE", path, b"").status, 404, "{path}");
        }
        assert_eq!(page.told("POST", "/_fake/pay", b"{}").status, 404, "a page without shoppers");
    }
}

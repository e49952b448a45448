//! BigCommerce: no idempotency anywhere, but resources that can be found by a field the client sets.
//!
//! Sending `Idempotency-Key` does nothing there, so none is sent. One field per resource stands in for it ([`routes`]):
//! an order's `external_order_id`, the reason of a refund's items, a product's SKU or name. After an unknown outcome
//! that field is looked up, and what is found counts as ours only if the fields that we set hold what we set.
//! Operations that cannot be looked up (carts, shipments, relative stock changes, payments) end as dead letters of
//! unknown effect after an ambiguous answer. The documentation's advice to retry a 504 is not followed blindly: the
//! POST may have been executed.

use std::borrow::Cow;
use std::time::Duration;

use http::header::{ACCEPT, HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use secrecy::SecretString;
use serde::de::IgnoredAny;
use serde_json::Value;
use url::Url;

use steadfast_core::internal::ext::InputErrorExt;
use steadfast_core::internal::vendor::body::is_text;
use steadfast_core::internal::vendor::{NextPage, check_settle_time};
use steadfast_core::operation::WireKey;
use steadfast_core::transport::{Answer, Request};
use steadfast_core::vendor::rules::{
    asked, by_status, is_anothers_success, is_page, lacks_form, no_answer, refused,
};
use steadfast_core::vendor::{
    Attempt, BaseUrl, Credential, Finding, SpeaksFor, Subject, Vendor, Verdict, is_idempotent, is_plain, wait,
};
use steadfast_core::{Effect, Error, Input, Refusal};

mod lookup;
mod orders;
mod pages;
mod routes;
mod same;

use routes::Resource;

/// BigCommerce's rules, for one store. Built with the store's hash and an API account's access token.
///
/// `Debug` does not show the token.
///
/// An answer with status 207 is done, though some of its items may have failed:
/// [`BigCommerce::partial_errors`] has their errors, [`BigCommerce::unconfirmed_items`] their places in the batch.
///
/// ```
/// # #[cfg(feature = "testkit")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use steadfast::testkit::{Fault, TestClock, fakes::BigCommerceFake};
/// # let clock = TestClock::auto();
/// # let fake = BigCommerceFake::builder().test_clock(&clock).in_process();
/// # fake.plan().next(Fault::DropAfterApply);
/// use serde_json::json;
/// use steadfast::vendor::BigCommerce;
/// use steadfast::{Client, Obtained};
///
/// let bigcommerce = Client::builder(BigCommerce::new("abc123", "a-token"))
/// #   .transport(fake.transport())
/// #   .clock(clock)
///     .build()?;
/// let order = json!({
///     "billing_address": {"first_name": "Jane", "last_name": "Doe", "zip": "12345"},
///     "products": [{"product_id": 1, "quantity": 1}],
/// });
/// let reply = bigcommerce.post("/v2/orders").key("order-42").json(&order).send().await?;
///
/// // The answer was lost. A resend would be a second order, so the first is looked up.
/// assert_eq!(reply.obtained(), Obtained::Reconciled);
/// # assert_eq!(fake.ledger().count(), 1);
#[doc = include_str!("../docs/setup/end.md")]
/// ```
#[derive(Clone, Debug)]
pub struct BigCommerce {
    base: BaseUrl,
    store_hash: String,
    credential: Credential,
    settle_time: Duration,
}

impl BigCommerce {
    /// The store at `https://api.bigcommerce.com/stores/{store_hash}`; paths of calls start with `/v2` or
    /// `/v3`. An empty hash or token is refused by [`Vendor::check`].
    ///
    /// The hash stands in the API path that BigCommerce shows with an API account, and in the control panel's
    /// address, `https://store-{store_hash}.mybigcommerce.com`.
    pub fn new(store_hash: impl Into<String>, access_token: impl Into<SecretString>) -> BigCommerce {
        let store_hash = store_hash.into();
        BigCommerce {
            base: store_base("https://api.bigcommerce.com", &store_hash),
            store_hash,
            credential: Credential::new("", access_token),
            settle_time: SETTLE_TIME,
        }
    }

    /// Sets another host, such as a fake's or `https://payments.bigcommerce.com`. `/stores/{store_hash}` is appended. A
    /// text that is not a URL is refused by [`Vendor::check`].
    #[must_use]
    pub fn base_url(mut self, url: impl AsRef<str>) -> BigCommerce {
        self.base = store_base(url.as_ref(), &self.store_hash);
        self
    }

    /// Sets the time after an unknown outcome at which a lookup is believed, a miss included. Default: 30 s.
    ///
    /// BigCommerce documents neither an index lag nor a longest processing time; its gateway gives up within
    /// half a minute. Raise it for a store whose lookups lag: a miss that comes too early becomes a second
    /// order. Zero and over a day are refused by [`Vendor::check`].
    #[must_use]
    pub fn settle_time(mut self, time: Duration) -> BigCommerce {
        self.settle_time = time;
        self
    }

    /// The failed items of an answer: the `errors` of a partial success (207), each as BigCommerce gave it.
    /// Empty for any other answer. Which item an error belongs to differs from endpoint to endpoint.
    pub fn partial_errors(answer: &Answer) -> Vec<Value> {
        if answer.status.as_u16() != 207 {
            return Vec::new();
        }
        match answer.json().and_then(|mut body| body.get_mut("errors").map(Value::take)) {
            Some(Value::Array(errors)) => errors,
            Some(Value::Object(errors)) if errors.is_empty() => Vec::new(),
            Some(error @ Value::Object(_)) => vec![error],
            _ => Vec::new(),
        }
    }

    /// The places, counted from 0, of the items of a batch that its answer does not show as done. `sent` is the array that
    /// was sent, such as the customers of `PUT /v3/customers`. Empty if all are shown, or if the answer is no success.
    ///
    /// An item is done if a row of the answer's `data` has its `id`, or else agrees with it. In a partial success (207) a row
    /// with its `id` must agree too: a product may be saved without its stock or its URL. Which item an error belongs to
    /// differs from endpoint to endpoint, so that errors are not asked. An item that is not shown may be done all the
    /// same: look before you send it again, under a new key.
    pub fn unconfirmed_items(sent: &Value, answer: &Answer) -> Vec<usize> {
        let (Some(items), true) = (sent.as_array(), answer.status.is_success()) else { return Vec::new() };
        let mut body = answer.json().unwrap_or_default();
        let mut rows = match body.get_mut("data").map(Value::take).unwrap_or(body) {
            Value::Array(rows) => rows,
            row @ Value::Object(_) => vec![row],
            _ => Vec::new(),
        };
        let is_partial = answer.status.as_u16() == 207;
        let mut is_missing = |item: &Value| match rows.iter().position(|row| same::is_row_of(item, row)) {
            Some(at) => {
                let row = rows.swap_remove(at);
                is_partial && !same::agrees(item, &row)
            }
            None => true,
        };
        items.iter().enumerate().filter(|(_, item)| is_missing(item)).map(|(at, _)| at).collect()
    }

    fn resource(&self, request: &Request) -> Resource {
        if request.method != Method::POST {
            return Resource::Other;
        }
        Resource::of(self.base.route(&request.url))
    }
}

impl Vendor for BigCommerce {
    fn name(&self) -> &str {
        "bigcommerce"
    }

    fn base_url(&self) -> &Url {
        self.base.url()
    }

    fn check(&self) -> Result<(), Error> {
        let plain = self.store_hash.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if self.store_hash.is_empty() || !plain {
            let problem = format!("the store hash must be letters and digits; {STORE_HASH_FOUND}");
            return Err(Error::invalid(Input::BaseUrl, problem).set_by("store_hash"));
        }
        self.credential.check()?;
        self.base.check()?;
        if self.base.url().path().matches("/stores/").count() > 1 {
            let problem = "`/stores/{store_hash}` is appended to it; write the host alone";
            return Err(Error::invalid(Input::BaseUrl, problem));
        }
        check_settle_time(self.settle_time)
    }

    /// The store's hash is in the address of its control panel, and no secret. The id of a cart or a checkout is one:
    /// a shopper's browser needs no more than that to open it.
    fn may_show(&self, segment: &str) -> bool {
        segment == self.store_hash || is_plain(segment)
    }

    /// The store's hash.
    fn account(&self, _headers: &HeaderMap) -> Cow<'_, str> {
        Cow::Borrowed(&self.store_hash)
    }

    fn stamp(&self, wire_key: WireKey, request: &mut Request) -> Result<String, Error> {
        let resource = self.resource(request);
        resource.stamp(request, wire_key.to_string())
    }

    fn authorize(&self, request: &mut Request) {
        self.credential.put(AUTH_TOKEN, &mut request.headers);
        // V2 answers XML to whoever does not ask.
        request.headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
    }

    fn secret_headers(&self) -> Vec<HeaderName> {
        vec![AUTH_TOKEN]
    }

    /// Follows HTTP, but for a change of an order that [adds](routes::adds) a product.
    fn is_idempotent(&self, request: &Request) -> bool {
        is_idempotent(&request.method) && !routes::adds(self.base.route(&request.url), request)
    }

    /// None: BigCommerce executes every repeat.
    fn replay_window(&self, _request: &Request) -> Option<Duration> {
        None
    }

    fn classify(&self, attempt: &Attempt<'_>) -> Verdict {
        let answer = match attempt.outcome {
            Ok(answer) => answer,
            Err(error) => return no_answer(error),
        };
        let resource = self.resource(attempt.request);
        if answer.status.is_success() && is_anothers(attempt, &resource, answer) {
            return Verdict::Retry { effect: Effect::Unknown, not_before: asked(attempt, answer) };
        }
        let status = answer.status.as_u16();
        let says = is_own_failure(answer).then_some(SpeaksFor::ThisAttempt);
        if attempt.request.method == Method::POST
            && !answer.status.is_success()
            && is_unsettled_payment(answer)
        {
            return Verdict::Unknown;
        }
        let removes = attempt.request.method == Method::DELETE;
        if matches!(status, 404 | 409 | 422) && !removes && is_of_many(attempt.request) {
            // A no to one of the array's items. Whether the others are applied is not documented.
            return Verdict::Unknown;
        }
        let duplicate = match status {
            409 => resource.has_unique_field(),
            422 => resource == Resource::Customers && is_customer_duplicate(answer),
            _ => false,
        };
        if duplicate {
            // After an unknown outcome the duplicate may be our own: look it up and compare.
            return refused(attempt, Refusal::Duplicate, says, asked(attempt, answer));
        }
        // A 500 may stand in for a 429; whether it was executed is unknown. The quota headers are on every
        // answer, so there the window's end is a wait only if the quota is spent. Where something in front of
        // BigCommerce sends the standard header too, the longer wait counts.
        let own = match status {
            429 => wait::bigcommerce(&answer.headers),
            500 | 503 => wait::bigcommerce_unless_quota_is_left(&answer.headers),
            _ => None,
        };
        by_status(attempt, answer.status, says, own.max(asked(attempt, answer)))
    }

    fn settle_time(&self) -> Duration {
        self.settle_time
    }

    fn lookup(&self, subject: &Subject<'_>) -> Option<Request> {
        let resource = self.resource(subject.request);
        let url = lookup::url(&self.base, &resource, subject)?;
        Some(Request::new(Method::GET, url))
    }

    fn read_lookup(&self, subject: &Subject<'_>, asked: &Request, answer: &Answer) -> Finding {
        lookup::read(&self.base, &self.resource(subject.request), subject, asked, answer)
    }

    /// Orders are archived and not deleted, and the archive is asked for too. A refund cannot be taken back.
    fn lists_deleted(&self, request: &Request) -> bool {
        let resource = self.resource(request);
        matches!(resource, Resource::Orders | Resource::CheckoutOrders { .. } | Resource::Refunds { .. })
    }

    fn next_page(&self, asked: &Request, answer: &Answer) -> NextPage {
        pages::next(self.base.route(&asked.url), asked, answer)
    }
}

fn store_base(root: &str, store_hash: &str) -> BaseUrl {
    BaseUrl::new(&format!("{}/stores/{store_hash}", root.trim_end_matches('/')))
}

/// Payment errors 10000 ("try again later") and 30105 ("duplicate transaction … do not try to pay again"): the
/// order and its transactions must be looked at first (BigCommerce, "Payments: error codes").
fn is_unsettled_payment(answer: &Answer) -> bool {
    let code = answer.json().and_then(|body| body.get("code").and_then(Value::as_u64));
    matches!(code, Some(10_000 | 30_105))
}

/// Returns true if a proxy wrote a success. An answer that creates one of the known resources shows it, whatever
/// headers are there. Of other routes some answer without a body, or with members of their own: there the quota's
/// headers count, but for no text.
fn is_anothers(attempt: &Attempt<'_>, resource: &Resource, answer: &Answer) -> bool {
    let is_known = *resource != Resource::Other;
    let is_foreign = || match answer.headers.contains_key(QUOTA_WINDOW) {
        _ if is_known && lacks_form(answer, &SUCCESS_MEMBERS) => true,
        false => is_anothers_success(answer, &SUCCESS_MEMBERS),
        true => !is_known && is_text(answer) && !answer.body.is_empty(),
    };
    is_page(answer) || !attempt.request.method.is_safe() && is_foreign()
}

/// Returns true if BigCommerce itself wrote a failure. It does so in three shapes: V2 an array of objects with `status`
/// and `message`, V3 an object with `status` and `title`, refunds an array of such objects in `data`. Where a body has
/// none of them, the quota headers decide: they are on each of its answers, and a proxy has no quota to put there.
fn is_own_failure(answer: &Answer) -> bool {
    if is_page(answer) {
        return false;
    }
    let is_problem = |value: &Value| {
        value["status"].is_number()
            && ["title", "message", "error"].iter().any(|name| value[name].is_string())
    };
    let in_shape = match answer.json() {
        Some(Value::Array(problems)) => problems.first().is_some_and(is_problem),
        Some(body) => is_problem(&body) || body["data"].get(0).is_some_and(is_problem),
        None => false,
    };
    in_shape || answer.headers.contains_key(QUOTA_WINDOW)
}

/// Whether the body is an array of more than one item.
fn is_of_many(request: &Request) -> bool {
    serde_json::from_slice::<Vec<IgnoredAny>>(&request.body).is_ok_and(|items| items.len() > 1)
}

/// Returns true for a 422 of `POST /v3/customers` that concerns the creation as a whole, not a field: an e-mail address
/// is taken. It carries no id of the customer that holds it.
fn is_customer_duplicate(answer: &Answer) -> bool {
    answer.json().is_some_and(|body| body["errors"].get(".customer_create").is_some())
}

/// Hint for a caller that has no store hash yet. BigCommerce shows the API path while an API account is created
/// (Settings, "Store-level API accounts"); `GET /v2/store` gives the control panel's address as
/// `control_panel_base_url`.
pub(crate) const STORE_HASH_FOUND: &str = "it stands in the API path that BigCommerce shows with an API account, \
     https://api.bigcommerce.com/stores/{store_hash}/v3/, and in the control panel's address, \
     https://store-{store_hash}.mybigcommerce.com";

/// V3 answers with `data` or `meta`, V2 with the resource.
const SUCCESS_MEMBERS: [&str; 3] = ["data", "meta", "id"];
const QUOTA_WINDOW: HeaderName = HeaderName::from_static("x-rate-limit-time-window-ms");
const AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
const SETTLE_TIME: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;

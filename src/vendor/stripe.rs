//! Stripe: the vendor that replays.
//!
//! Stripe keeps the first outcome under an `Idempotency-Key`, success or failure, and answers every resend from it
//! (docs.stripe.com/api/idempotent_requests). So an unknown outcome is simply sent again with the same key, inside
//! the window. A lookup is needed only once the window is over, or when Stripe replays a 500 that will never change.
//! Lookups go through list endpoints and `metadata`, never through Search, which is not read-after-write.
//!
//! Two things are fixed when an operation is stamped and not at each send: the key and `Stripe-Version`. It is not
//! documented whether Stripe takes a resend with another version for another request, so there is none: a resend is
//! byte-identical.

use std::borrow::Cow;
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, Method};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use steadfast_core::internal::ext::InputErrorExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::vendor::account::{self, check_account};
use steadfast_core::internal::vendor::{NextPage, check_settle_time, check_window, header_value};
use steadfast_core::operation::WireKey;
use steadfast_core::transport::{Answer, Request};
use steadfast_core::vendor::rules::has_content_type;
use steadfast_core::vendor::{Attempt, BaseUrl, Credential, Finding, Subject, Vendor, Verdict, is_plain};
use steadfast_core::{Error, Input};

mod lookup;
mod pages;
mod rules;
mod same;

use rules::Keeps;

/// Stripe's rules. Built with the secret key; everything else has a default.
///
/// `Debug` does not show the secret.
///
/// ```
/// use steadfast::vendor::{Stripe, Vendor};
///
/// let stripe = Stripe::new("sk_test_123").account("acct_1").api_version("2025-08-27.basil");
/// assert!(stripe.check().is_ok());
/// assert!(!format!("{stripe:?}").contains("sk_test_123"));
/// ```
#[derive(Clone, Debug)]
pub struct Stripe {
    base: BaseUrl,
    credential: Credential,
    mode: &'static str,
    is_organizations: bool,
    account: String,
    api_version: Option<String>,
    replay_window: Duration,
    settle_time: Duration,
    metadata_routes: Vec<String>,
}

impl Stripe {
    /// Stripe at `https://api.stripe.com`, with a secret key (`sk_…`) or a restricted one (`rk_…`).
    ///
    /// [`Vendor::check`] refuses an empty secret, and one that a header cannot carry.
    pub fn new(secret: impl Into<SecretString>) -> Stripe {
        let secret = secret.into();
        let mode = mode(secret.expose_secret());
        let is_organizations = secret.expose_secret().starts_with(ORGANIZATION);
        Stripe {
            base: BaseUrl::new("https://api.stripe.com"),
            credential: Credential::new("Bearer ", secret),
            mode,
            is_organizations,
            account: mode.to_owned(),
            api_version: None,
            replay_window: REPLAY_WINDOW,
            settle_time: SETTLE_TIME,
            metadata_routes: METADATA_ROUTES.map(str::to_owned).to_vec(),
        }
    }

    /// Sets another base URL, such as a fake's. A text that is not a URL is refused by [`Vendor::check`].
    #[must_use]
    pub fn base_url(mut self, url: impl AsRef<str>) -> Stripe {
        self.base = BaseUrl::new(url.as_ref());
        self
    }

    /// Names the account that the secret belongs to (`acct_…`). Two accounts that share a store then never share a
    /// key. It is a name in scopes only and is not sent; a call on behalf of another account sets the header
    /// `Stripe-Context`, or the older `Stripe-Account`. Its value is added behind a `>`.
    ///
    /// Default: none, only the secret's mode (`live` or `test`), which is always part of the account. The key of an
    /// organization (`sk_org…`) may not show its mode. It then needs a name here, such as `live`: a sandbox and live
    /// mode that share a store would share keys too.
    #[must_use]
    pub fn account(mut self, account: impl AsRef<str>) -> Stripe {
        self.account = label(self.mode, account.as_ref());
        self
    }

    /// The `Stripe-Version` of calls that do not name one. Default: none, and Stripe uses the account's own.
    ///
    /// It is written into an operation when that is first recorded: a later change does not reach resends.
    #[must_use]
    pub fn api_version(mut self, version: impl Into<String>) -> Stripe {
        self.api_version = Some(version.into());
        self
    }

    /// Sets the time for which Stripe is trusted to replay a v1 key. Default: 24 h, the least it promises. Over 31 days
    /// is refused by [`Vendor::check`].
    #[must_use]
    pub fn replay_window(mut self, window: Duration) -> Stripe {
        self.replay_window = window;
        self
    }

    /// Sets the time after an unknown outcome at which a lookup is believed. Default: 80 s, the time-out of Stripe's
    /// own clients and so the longest that a request is worth waiting for; its lists have no lag. Zero and over a day
    /// are refused by [`Vendor::check`].
    #[must_use]
    pub fn settle_time(mut self, time: Duration) -> Stripe {
        self.settle_time = time;
        self
    }

    /// The v1 create routes whose form bodies get `metadata[steadfast_key]`, so that the effect can be looked
    /// up on the list endpoint of the same path. An empty list turns lookups off. Default: all routes that take metadata
    /// and list by `created`. They are `/v1/payment_intents`, `charges`, `refunds`, `customers`, `invoices`,
    /// `subscriptions`, `products`, `prices`, `payouts`, `transfers`, `topups`, `setup_intents`, `coupons`,
    /// `promotion_codes`, `invoiceitems`, `plans`, `tax_rates`, `shipping_rates`, `subscription_schedules` and `accounts`.
    ///
    /// A route named here must have a list endpoint with `created[gte]`. A body that already has Stripe's
    /// limit of 50 metadata keys is sent without the stamp, and then has no lookup. Of a subscription and of a price only
    /// a hit counts: their lists leave out what is cancelled, and what is not active.
    #[must_use]
    pub fn lookup_by_metadata<R: Into<String>>(mut self, routes: impl IntoIterator<Item = R>) -> Stripe {
        self.metadata_routes = routes.into_iter().map(Into::into).collect();
        self
    }

    fn is_v2(&self, request: &Request) -> bool {
        self.base.route(&request.url).starts_with("/v2/")
    }

    /// v1: every POST. v2: POST and DELETE. Everything else ignores the header.
    fn takes_key(&self, request: &Request) -> bool {
        match request.method {
            Method::POST => true,
            Method::DELETE => self.is_v2(request),
            _ => false,
        }
    }
}

/// Whether this is a v1 path as it is written, without an id: those of which objects are created.
fn is_v1_route(route: &str) -> bool {
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    route.strip_prefix("/v1/").is_some_and(|path| path.split('/').all(is_word))
}

impl Vendor for Stripe {
    fn name(&self) -> &str {
        "stripe"
    }

    fn base_url(&self) -> &Url {
        self.base.url()
    }

    fn check(&self) -> Result<(), Error> {
        self.credential.check()?;
        self.base.check()?;
        check_account(&self.account)?;
        check_window(self.replay_window)?;
        check_settle_time(self.settle_time)?;
        if let Some(route) = self.metadata_routes.iter().find(|route| !is_v1_route(route)) {
            let problem =
                format!("{route:?} is no create route; write its whole path, such as \"/v1/charges\"");
            return Err(Error::invalid(Input::Other("lookup_by_metadata"), problem));
        }
        if self.is_organizations && self.account == NO_MODE {
            let problem = "the key of an organization does not tell live mode from a sandbox; name what it is for in \
                           `account`, such as \"live\"";
            return Err(Error::validation(Input::Other("account"), problem));
        }
        match &self.api_version {
            Some(version) if version.trim().is_empty() => {
                let problem = "it is empty; leave it out to use the account's own";
                Err(Error::validation(Input::Other("api_version"), problem))
            }
            Some(version) => {
                header_value("Stripe-Version", version).map(drop).map_err(|error| error.set_by("api_version"))
            }
            None => Ok(()),
        }
    }

    /// The ids of objects are shown: the dashboard finds them, and without a secret key no other client can.
    fn may_show(&self, segment: &str) -> bool {
        is_plain(segment) || is_object_id(segment)
    }

    /// The secret's mode, behind a colon the configured account, and behind a `>` the account that the call is for.
    fn account(&self, headers: &HeaderMap) -> Cow<'_, str> {
        let of_call =
            [STRIPE_CONTEXT, STRIPE_ACCOUNT].iter().find_map(|name| account::chosen_by(name, headers));
        match of_call {
            Some(connected) => Cow::Owned(format!("{}>{connected}", self.account)),
            None => Cow::Borrowed(&self.account),
        }
    }

    fn stamp(&self, wire_key: WireKey, request: &mut Request) -> Result<String, Error> {
        let key = wire_key.to_string();
        if request.headers.contains_key(IDEMPOTENCY_KEY) {
            let problem = "Idempotency-Key is set by the client; name the operation with its key instead";
            return Err(Error::validation(Input::Header, problem));
        }
        if [STRIPE_CONTEXT, STRIPE_ACCOUNT].iter().all(|name| request.headers.contains_key(name)) {
            let problem = "Stripe-Context and Stripe-Account both name the account; give one of them";
            return Err(Error::validation(Input::Header, problem));
        }
        self.put_version(request)?;
        if self.is_v2(request) && !request.headers.contains_key(STRIPE_VERSION) {
            let problem = "Stripe-Version is required on /v2 paths; set it on the call or by `api_version`";
            return Err(Error::validation(Input::Header, problem));
        }
        if self.is_v2(request) && has_content_type(request, lookup::FORM) {
            return Err(Error::validation(Input::Body, "/v2 paths take JSON, and this is a form"));
        }
        if self.takes_key(request) {
            let route = self.base.route(&request.url);
            if self.metadata_routes.iter().any(|stamped| stamped == route) {
                lookup::stamp_metadata(request, &key)?;
            }
            request.headers.insert(IDEMPOTENCY_KEY, header_value("Idempotency-Key", &key)?);
        }
        Ok(key)
    }

    fn authorize(&self, request: &mut Request) {
        self.credential.put(AUTHORIZATION, &mut request.headers);
        if !request.headers.contains_key(IDEMPOTENCY_KEY) || Guard::VersionAtClaim.is_out() {
            // A stamped request has its version, or was recorded without one and must stay so. `check` has
            // seen that the value is one.
            let _ = self.put_version(request);
        }
    }

    fn secret_headers(&self) -> Vec<HeaderName> {
        vec![AUTHORIZATION]
    }

    fn replay_window(&self, request: &Request) -> Option<Duration> {
        if !self.takes_key(request) || !request.headers.contains_key(IDEMPOTENCY_KEY) {
            return None;
        }
        Some(if self.is_v2(request) { REPLAY_WINDOW_V2 } else { self.replay_window })
    }

    fn classify(&self, attempt: &Attempt<'_>) -> Verdict {
        let keeps = match (attempt.keyed && self.takes_key(attempt.request), self.is_v2(attempt.request)) {
            (false, _) => Keeps::Nothing,
            (true, false) => Keeps::Outcomes,
            (true, true) => Keeps::Successes,
        };
        rules::classify(attempt, keeps)
    }

    fn settle_time(&self) -> Duration {
        self.settle_time
    }

    /// No payment can be deleted, nor what moves money otherwise; it is cancelled, and listed so. Customers, products,
    /// coupons and drafts of invoices are deleted, and listed no more.
    fn lists_deleted(&self, request: &Request) -> bool {
        STAYING_ROUTES.contains(&self.base.route(&request.url))
    }

    fn lookup(&self, subject: &Subject<'_>) -> Option<Request> {
        let route = self.base.route(&subject.request.url);
        if subject.request.method != Method::POST || !lookup::is_stamped(subject) {
            return None;
        }
        let mut request = Request::new(Method::GET, lookup::first_page(&self.base, route, subject));
        for name in [STRIPE_VERSION, STRIPE_ACCOUNT, STRIPE_CONTEXT] {
            if let Some(value) = subject.request.headers.get(&name) {
                request.headers.insert(name, value.clone());
            }
        }
        Some(request)
    }

    fn read_lookup(&self, subject: &Subject<'_>, asked: &Request, answer: &Answer) -> Finding {
        lookup::read(subject, asked, answer)
    }

    fn next_page(&self, asked: &Request, answer: &Answer) -> NextPage {
        pages::next(asked, answer)
    }
}

impl Stripe {
    fn put_version(&self, request: &mut Request) -> Result<(), Error> {
        if let Some(version) = &self.api_version
            && !request.headers.contains_key(STRIPE_VERSION)
        {
            request.headers.insert(STRIPE_VERSION, header_value("Stripe-Version", version)?);
        }
        Ok(())
    }
}

/// Returns the mode in a key's prefix: keys of one mode are unknown in the other. It survives the rotation of the
/// secret.
fn mode(secret: &str) -> &'static str {
    let kind = secret.strip_prefix(ORGANIZATION).or_else(|| secret.get(2..)).unwrap_or_default();
    match kind.get(..6) {
        Some("_live_") => "live",
        Some("_test_") => "test",
        _ => NO_MODE,
    }
}

/// `pi_3MtwBwLkdIwHu7ix28a3tqPa`, and not `pi_…_secret_…`, which a browser pays with.
fn is_object_id(segment: &str) -> bool {
    segment.split_once('_').is_some_and(|(prefix, rest)| {
        OBJECT_PREFIXES.contains(&prefix) && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

fn label(mode: &str, account: &str) -> String {
    format!("{mode}:{account}")
}

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// "Organization API keys are prefixed `sk_org`." (docs.stripe.com/keys/organization-api-keys). It is not stated
/// whether the rest shows the mode.
const ORGANIZATION: &str = "sk_org";
const NO_MODE: &str = "default";
/// docs.stripe.com/context: it supersedes `Stripe-Account`. Its value may be a path, such as `acct_1/acct_2`.
const STRIPE_CONTEXT: HeaderName = HeaderName::from_static("stripe-context");
const STRIPE_ACCOUNT: HeaderName = HeaderName::from_static("stripe-account");
const STRIPE_VERSION: HeaderName = HeaderName::from_static("stripe-version");

/// "Keys can be removed from the system automatically after they're at least 24 hours old."
/// (docs.stripe.com/api/idempotent_requests)
const REPLAY_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);
/// docs.stripe.com/api-v2-overview: 30 days.
const REPLAY_WINDOW_V2: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The default time-out of stripe-node, -python and -ruby.
const SETTLE_TIME: Duration = Duration::from_secs(80);
/// Prefixes of the ids in docs.stripe.com/api that open nothing by themselves. Not among them: `cs_` opens a page of
/// Checkout, `tok_`, `src_` and `cvctok_` stand for a card, `ephkey_` for a customer's access.
const OBJECT_PREFIXES: [&str; 19] = [
    "acct", "ch", "cus", "du", "evt", "ii", "in", "pi", "pm", "po", "price", "prod", "py", "re", "seti",
    "si", "sub", "tr", "txn",
];
/// Routes below whose objects docs.stripe.com/api has no way to delete.
const STAYING_ROUTES: [&str; 11] = [
    "/v1/payment_intents",
    "/v1/charges",
    "/v1/refunds",
    "/v1/payouts",
    "/v1/transfers",
    "/v1/topups",
    "/v1/setup_intents",
    "/v1/promotion_codes",
    "/v1/tax_rates",
    "/v1/shipping_rates",
    "/v1/subscription_schedules",
];

/// Routes that take `metadata` at creation and list by `created` (docs.stripe.com/api). Not among them, because they
/// lack one or the other: checkout/sessions, payment_links, payment_methods, credit_notes and quotes.
const METADATA_ROUTES: [&str; 20] = [
    "/v1/payment_intents",
    "/v1/charges",
    "/v1/refunds",
    "/v1/customers",
    "/v1/invoices",
    "/v1/subscriptions",
    "/v1/products",
    "/v1/prices",
    "/v1/payouts",
    "/v1/transfers",
    "/v1/topups",
    "/v1/setup_intents",
    "/v1/coupons",
    "/v1/promotion_codes",
    "/v1/invoiceitems",
    "/v1/plans",
    "/v1/tax_rates",
    "/v1/shipping_rates",
    "/v1/subscription_schedules",
    "/v1/accounts",
];

#[cfg(test)]
mod tests;

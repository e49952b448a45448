//! The client that service code holds.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use parking_lot::Mutex;
use url::Url;

use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::internal::error::{Kind, field};
use steadfast_core::internal::ext::{ErrorExt, InputErrorExt};
use steadfast_core::internal::policy::Gates;
use steadfast_core::internal::random::SystemRandom;
use steadfast_core::internal::transport::is_loopback;
use steadfast_core::internal::vendor::Adapter;
use steadfast_core::internal::vendor::secret::SecretHeaders;
use steadfast_core::operation::RedactedFields;
use steadfast_core::store::{Memory, Store};
use steadfast_core::transport::Transport;
use steadfast_core::vendor::Vendor;
use steadfast_core::{Effect, Error, Input, Policy, Random};

use crate::call::Call;
use crate::engine::retention::Retention;
use crate::engine::routes::{Route, Routes};
use crate::engine::{Began, Disagreement, Engine, LateWrites, Latency, ReleasedLeases, VendorClock};
use crate::enqueued::Ends;
use crate::reply::Reply;
use crate::telemetry::{self, Meters};
use crate::transport::Http;

mod gates;
#[cfg(feature = "tower")]
mod tower;

/// A client of one vendor. A clone is cheap and shares the gates, the store and the connections.
///
/// Make one per vendor and account, and keep it. A breaker, a budget and a rate limit only work on the calls that
/// they see.
///
/// ```
#[doc = include_str!("docs/setup/stripe.md")]
/// use steadfast::vendor::Stripe;
/// use steadfast::{Client, Policy};
///
/// let stripe = Client::builder(Stripe::new("sk_test_123"))
/// #   .transport(fake.transport())
///     .policy(Policy::background())
///     .build()?;
///
/// let reply = stripe
///     .post("/v1/payment_intents")
///     .key("order-42/charge")
///     .form(&[("amount", "1000"), ("currency", "usd")])
///     .send()
///     .await?;
/// assert_eq!(reply.status(), 200);
#[doc = include_str!("docs/setup/end.md")]
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) engine: Arc<Engine>,
}

impl Client {
    /// Starts a client of `vendor`.
    pub fn builder(vendor: impl Vendor) -> ClientBuilder {
        ClientBuilder {
            vendor: Box::new(vendor),
            policy: Policy::default(),
            store: Records::Unsaid,
            transport: None,
            clock: None,
            is_over_http: true,
            is_in_real_time: true,
            random: None,
            namespace: None,
            redact: Vec::new(),
            retention: Vec::new(),
            routes: Vec::new(),
            secret_headers: Vec::new(),
            former_base_urls: Vec::new(),
            plain_http_allowed: false,
            secret_is_known: true,
        }
    }

    /// A GET of `path`, below the vendor's base URL. It is retried freely, because it has no effect.
    pub fn get(&self, path: &str) -> Call {
        self.request(Method::GET, path)
    }

    /// A POST to `path`. It is an operation. Without [`key`](Call::key) it gets a generated key: that makes this
    /// call's own retries safe, but not a second call by the caller.
    pub fn post(&self, path: &str) -> Call {
        self.request(Method::POST, path)
    }

    /// A PUT to `path`. It is retried freely, and is an operation only with [`key`](Call::key).
    pub fn put(&self, path: &str) -> Call {
        self.request(Method::PUT, path)
    }

    /// A PATCH of `path`. HTTP does not call it idempotent, so it is an operation like a POST.
    pub fn patch(&self, path: &str) -> Call {
        self.request(Method::PATCH, path)
    }

    /// A DELETE of `path`. It is retried freely, and is an operation only with [`key`](Call::key).
    pub fn delete(&self, path: &str) -> Call {
        self.request(Method::DELETE, path)
    }

    /// A call of any method.
    pub fn request(&self, method: Method, path: &str) -> Call {
        Call::new(Arc::clone(&self.engine), method, path)
    }

    /// Sends a request of the crate `http`, retries where that is safe, and gives the one outcome:
    /// [`http`](Client::http) and [`send`](Call::send) in one.
    ///
    /// ```
    #[doc = include_str!("docs/setup/stripe.md")]
    /// use steadfast::http;
    ///
    /// let request = http::Request::post("/v1/payment_intents")
    ///     .header("Idempotency-Key", "order-42/charge")
    ///     .header("Content-Type", "application/x-www-form-urlencoded")
    ///     .body("amount=1000&currency=usd")?;
    /// let reply = stripe.execute(request).await?;
    /// assert_eq!((reply.status().as_u16(), reply.key()), (200, Some("order-42/charge")));
    ///
    /// let response = http::Response::from(reply);
    /// assert_eq!(response.status(), 200);
    #[doc = include_str!("docs/setup/end.md")]
    /// ```
    ///
    /// # Errors
    ///
    /// As [`send`](Call::send). An answer that is no success is an error too: see [`Error::into_answer`].
    ///
    /// # Cancellation safety
    ///
    /// As [`send`](Call::send).
    pub fn execute<B: Into<Bytes>>(
        &self,
        request: http::Request<B>,
    ) -> impl Future<Output = Result<Reply, Error>> + Send + use<B> {
        self.http(request).send()
    }

    /// A call from a request of the crate `http`.
    ///
    /// - Its URI is a path below the base URL, as [`get`](Client::get) takes it, or a whole URL below the base URL. A
    ///   URL of another host is a mistake that [`send`](Call::send) reports: the call would carry the secret there.
    /// - `Idempotency-Key` is the call's [key](Call::key), and is not sent: the vendor sees the wire key. Of a GET or a
    ///   HEAD it is left out, because what is read should not be replayed.
    /// - A `Content-Length` that is the body's and a `Host` that is the base URL's are left out. All other headers are
    ///   taken as [`header`](Call::header) takes them: one that carries a secret, such as `Authorization`, is a mistake.
    pub fn http<B: Into<Bytes>>(&self, request: http::Request<B>) -> Call {
        Call::of_http(&self.engine, request)
    }

    /// Subscribes to the operations of this client's account that end from now on, by a client of the same store in
    /// this process. Those are calls that were sent, calls that a dispatcher delivers, and calls that were cancelled
    /// through a handle.
    ///
    /// It is a hint. Operations that another process ends are not among them, nor those that an operator changes: ask
    /// by key ([`Call::handle`](crate::Call::handle)) for those that are missing. Programs in other languages read the
    /// view `steadfast_ended` of the store's file, or `ended` of its schema on Postgres: see [`outbox`](crate::outbox).
    ///
    /// See [`Ends`] for an example.
    pub fn ends(&self) -> Ends {
        Ends::of(&self.engine)
    }

    /// Registers the terms of the client's account in the store, or compares them with those that another client has
    /// registered there. The terms are the base URL, where the vendor is shown the key, its replay window and its settle
    /// time. Services that share an account's records take over each other's operations, so their terms must be the same.
    /// All else may differ, but for the table of a keyed vendor.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use steadfast::Client;
    /// use steadfast::store::Memory;
    /// use steadfast::vendor::Stripe;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), steadfast::Error> {
    /// let store = Arc::new(Memory::new());
    /// let stripe = Client::builder(Stripe::new("sk_test_123")).store(store.clone()).build()?;
    /// stripe.register().await?;
    ///
    /// // Another service, with the same namespace and account by mistake.
    /// let other = Stripe::new("sk_test_123").base_url("https://stripe.staging.example");
    /// let other = Client::builder(other).store(store).build()?;
    /// assert_eq!(other.register().await.unwrap_err().code(), "VALIDATION.terms");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`keep_recovering`](Client::keep_recovering) does this first. Where terms differ, it takes nothing over and
    /// says so in an event, and keyed calls are refused with this error. To end the service there instead, call this
    /// at its start. Before a change that is meant, `steadfast terms --forget ACCOUNT` removes what is registered;
    /// recovery asks again every 30 seconds.
    ///
    /// A client whose base URL is on loopback, where fakes listen, registers nothing and is never refused.
    ///
    /// # Errors
    ///
    /// `VALIDATION.terms`, with each difference. A store that cannot answer; nothing is refused then.
    ///
    /// # Cancellation safety
    ///
    /// The terms may be registered all the same.
    pub async fn register(&self) -> Result<(), Error> {
        self.engine.register().await.unwrap_or_else(|source| {
            let doing = "register the terms of the account";
            Err(Error::new(Kind::Store { doing }, Effect::None).with_source(source).at_vendor(self.vendor()))
        })
    }

    /// The gates, for tests and benches of this workspace. Their times are those of the client's clock.
    #[cfg(feature = "testkit")]
    #[doc(hidden)]
    pub fn gates(&self) -> &Gates {
        &self.engine.gates
    }

    /// The vendor's name.
    pub fn vendor(&self) -> &str {
        self.engine.vendor.name()
    }

    /// The policy that the client was built with.
    pub fn policy(&self) -> &Policy {
        &self.engine.policy
    }

    /// The store of the client's operations.
    pub fn store(&self) -> &dyn Store {
        &*self.engine.store
    }
}

/// Builds a [`Client`].
///
/// ```
/// use std::sync::Arc;
/// use steadfast::store::Memory;
/// use steadfast::vendor::Postmark;
/// use steadfast::{Client, Policy};
///
/// # fn main() -> Result<(), steadfast::Error> {
/// // One store for all clients. A service takes a file: `store::Sqlite`.
/// let store = Arc::new(Memory::new());
/// let postmark = Client::builder(Postmark::new("a-server-token"))
///     .policy(Policy::interactive())
///     .store(store)
///     .namespace("prod")
///     .redact(["To", "TextBody"])
///     .build()?;
/// assert_eq!(postmark.vendor(), "postmark");
///
/// // What makes no sense is refused here, not at the first call.
/// let error = Client::builder(Postmark::new("")).build().unwrap_err();
/// assert_eq!(error.code(), "VALIDATION.secret");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until build() is called"]
pub struct ClientBuilder {
    vendor: Box<dyn Vendor>,
    policy: Policy,
    store: Records,
    transport: Option<Arc<dyn Transport>>,
    clock: Option<Arc<dyn Clock>>,
    /// Whether the transport is the one of service code.
    is_over_http: bool,
    /// Whether the clock is.
    is_in_real_time: bool,
    random: Option<Arc<dyn Random>>,
    namespace: Option<String>,
    redact: Vec<String>,
    retention: Vec<(String, Duration)>,
    routes: Vec<(String, Route)>,
    secret_headers: Vec<String>,
    former_base_urls: Vec<String>,
    plain_http_allowed: bool,
    secret_is_known: bool,
}

/// Store in which operations are recorded.
enum Records {
    /// The service did not say.
    Unsaid,
    In(Arc<dyn Store>),
    /// A store that is opened when the client is built, and not for one that is refused.
    OpenedBy(Box<Opener>),
}

type Opener = dyn Fn() -> Result<Arc<dyn Store>, Error> + Send + Sync;

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Records::Unsaid => f.write_str("Unsaid"),
            Records::In(store) => f.debug_tuple("In").field(store).finish(),
            Records::OpenedBy(_) => f.write_str("OpenedBy(..)"),
        }
    }
}

impl ClientBuilder {
    /// Sets the policy for calls to the vendor. Default: [`Policy::background`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The store of the client's operations. Share one between the clients of a service, and let each of them
    /// [recover](Client::keep_recovering) what a crash leaves in it.
    ///
    /// Default: [`Memory`], which a crash loses. A client that is built with this default logs a warning, once in a
    /// process. Pass [`Memory::new`] to say that you mean it. A client that a test builds does not warn. That is one
    /// with a clock other than [`SystemClock`], with a transport other than [`Http`], or with a base URL on loopback,
    /// where a vendor's fake listens. (A feature could not decide this: Cargo switches `testkit` on for a service
    /// too, if anything in its build asks for it.)
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Records::In(Arc::new(store));
        self
    }

    /// Sets a store, as [`store`](ClientBuilder::store) does, that is opened when the client is built.
    pub(crate) fn store_by(
        mut self,
        open: impl Fn() -> Result<Arc<dyn Store>, Error> + Send + Sync + 'static,
    ) -> Self {
        self.store = Records::OpenedBy(Box::new(open));
        self
    }

    /// The transport that carries the requests. Default: [`Http`], over a reqwest client of its own.
    ///
    /// Pass one [over](Http::over) reqwest builders for proxies, certificates and pool sizes of your own. The default
    /// takes the proxies of the environment, but none for loopback.
    pub fn transport<T: Transport>(mut self, transport: T) -> Self {
        self.is_over_http = TypeId::of::<T>() == TypeId::of::<Http>();
        self.transport = Some(Arc::new(transport));
        self
    }

    /// The clock. Default: [`SystemClock`].
    pub fn clock<C: Clock>(mut self, clock: C) -> Self {
        self.is_in_real_time = TypeId::of::<C>() == TypeId::of::<SystemClock>();
        self.clock = Some(Arc::new(clock));
        self
    }

    /// The source of jitter and generated keys. Default: the operating system.
    pub fn random(mut self, random: impl Random) -> Self {
        self.random = Some(Arc::new(random));
        self
    }

    /// Sets the namespace, such as `prod`: it keeps apart environments and services that share a vendor account. It is
    /// part of every operation's name, and of the key that the vendor sees.
    ///
    /// Default: `default`, with a warning, once in a process. Another service or developer with a store of its own, the
    /// same account and the same key would be given this one's outcome. Pass `default` to say that you mean it. A
    /// client that a [test builds](ClientBuilder::store) does not warn. To set one later renames every key: see
    /// [renamed](crate::guide::operations#an-account-a-namespace-or-a-vendor-was-renamed).
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Names fields that are redacted wherever this client's operations are shown, beside those that a call names:
    /// see [`Call::redact`]. Default: none but [the vendor's own](crate::vendor::Vendor::redacted).
    pub fn redact<T: Into<String>>(mut self, fields: impl IntoIterator<Item = T>) -> Self {
        self.redact.extend(fields.into_iter().map(Into::into));
        self
    }

    /// The retention of operations whose path begins with `route_prefix`: how long their records are kept once they
    /// are settled. The prefix is whole segments of the path as calls give it, such as `/v1/payment_intents`. A
    /// [parameter](Call::path) in it stands for any one segment: `/v1/payment_intents/{intent}/capture`. The longest
    /// prefix that fits decides; for the same prefix, the last setting. A [call](Call::retention) may set its own.
    /// Default: the policy's [retention](crate::Policy::retention), 7 days unless the policy says otherwise.
    ///
    /// ```
    /// use std::time::Duration;
    /// use steadfast::Client;
    /// use steadfast::vendor::Stripe;
    ///
    /// let day = Duration::from_secs(24 * 3600);
    /// let stripe = |keep| Client::builder(Stripe::new("sk_test_123")).retention("/v1/payment_intents", keep).build();
    /// # let stripe = |keep| Client::builder(Stripe::new("sk_test_123").base_url("http://localhost:1")).retention("/v1/payment_intents", keep).build();
    /// assert!(stripe(30 * day).is_ok());
    /// // Stripe replays a key for a day, and the call itself takes its time.
    /// assert_eq!(stripe(day).unwrap_err().code(), "VALIDATION.retention");
    /// ```
    pub fn retention(mut self, route_prefix: impl Into<String>, retention: Duration) -> Self {
        self.retention.push((route_prefix.into(), retention));
        self
    }

    /// Sets options of the calls whose path begins with `route_prefix`. The longest prefix that fits decides.
    pub(crate) fn route(mut self, route_prefix: impl Into<String>, route: Route) -> Self {
        self.routes.push((route_prefix.into(), route));
        self
    }

    /// Names more headers that carry secrets, such as `X-Signature`. A call that [gives](Call::header) one of them is
    /// refused, because a call's headers are stored and shown to operators. A secret belongs to the adapter, which adds
    /// it at each send. `Authorization`, `Proxy-Authorization`, `Cookie`, `Set-Cookie`, `X-Auth-Token`, `X-Api-Key`,
    /// Postmark's tokens and those of the adapter are always refused. Default: no more.
    ///
    /// An adapter that gives one of them with its key is refused too: what is given there is stored with the call.
    pub fn secret_headers<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.secret_headers.extend(names.into_iter().map(Into::into));
        self
    }

    /// Allows a base URL outside loopback that is not https. Secrets then cross the network readable. Default:
    /// refused.
    pub fn allow_plain_http(mut self) -> Self {
        self.plain_http_allowed = true;
        self
    }

    /// Names a base URL that the vendor had before, such as `https://api.old.example`. An operation that was recorded
    /// for it is then sent to the present base URL, under its path below the former one. You may name several.
    ///
    /// Give the whole base URL, with what an adapter appends: BigCommerce's ends in `/stores/{store_hash}`.
    ///
    /// Both must reach the same vendor account. Repeats and lookups go to the present base URL, so it must know the keys
    /// and the effects of the former one.
    ///
    /// Default: none. An operation of another host becomes a [dead letter](crate::Reason::Elsewhere): its host may be a
    /// mistake, and must not get this client's secret.
    ///
    /// If the path of the base URL changed too, a key has another name below the former one. A keyed call then asks
    /// the store for that name first, and is the same operation. Change the base URL of all processes before any of
    /// them repeats a key. Two that ask at the same moment, one of them by the former URL, may both send.
    pub fn former_base_url(mut self, url: impl Into<String>) -> Self {
        self.former_base_urls.push(url.into());
        self
    }

    /// Builds a client that only knows the rules: of its account, it knows the part that does not come from the secret.
    pub(crate) fn without_secret(mut self) -> Self {
        self.secret_is_known = false;
        self
    }

    /// Checks everything and makes the client.
    ///
    /// # Errors
    ///
    /// A validation error that names the vendor and what is wrong. A secret is empty. A base URL has credentials, or
    /// no https. A policy contradicts itself. A retention is shorter than the vendor and the ladder need. A redacted
    /// field has no name. The store's file is mounted alone, has a second name, or is on a network file system.
    pub fn build(self) -> Result<Client, Error> {
        let vendor = self.vendor.name().to_owned();
        self.checked().map_err(|mistake| mistake.at_vendor(&vendor))
    }

    fn checked(self) -> Result<Client, Error> {
        self.policy.validate()?;
        self.vendor.check()?;
        check_base_url(self.vendor.base_url(), self.plain_http_allowed)?;
        let former_base_urls = self
            .former_base_urls
            .iter()
            .map(|url| former(url, self.vendor.base_url()))
            .collect::<Result<Vec<_>, Error>>()?;
        let redact = RedactedFields::new(self.redact)?.and(&self.vendor.redacted());
        let secrets = SecretHeaders::new(&*self.vendor, &self.secret_headers)?;
        secrets.check_stamp(&*self.vendor)?;
        let retention = Retention::new(self.retention, &self.policy, &*self.vendor)?;
        let routes = Routes::new(self.routes, &self.policy)?;
        let transport = match self.transport {
            Some(transport) => transport,
            None => Arc::new(Http::new(self.policy.timeout.connect)?.attempt(routes.attempt_max())),
        };
        // Last of all that can fail: a client that is refused leaves no file behind.
        let is_a_services = self.is_over_http && self.is_in_real_time && !is_loopback(self.vendor.base_url());
        let store = self.store.open(self.vendor.name(), is_a_services)?;
        let namespace = self.namespace.unwrap_or_else(|| {
            if is_a_services {
                telemetry::nameless(self.vendor.name());
            }
            NAMESPACE_DEFAULT.to_owned()
        });
        if !is_loopback(self.vendor.base_url()) && self.secret_is_known {
            check_footing(&*store, self.vendor.name(), is_a_services)?;
        }
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let random = self.random.unwrap_or_else(|| Arc::new(SystemRandom));
        let began = Began::of(&*clock, &*store);
        let wakes = store.delivery().map(|delivery| delivery.wakes().clone()).unwrap_or_default();
        let engine = Engine {
            meters: Meters::new(self.vendor.name()),
            gates: Gates::new(&self.policy, Arc::clone(&clock), Arc::clone(&random))
                .of_vendor(self.vendor.name()),
            vendor: Arc::new(Adapter(self.vendor)),
            store,
            transport,
            clock,
            random,
            policy: self.policy,
            retention,
            routes,
            namespace,
            redact,
            secrets,
            generated_keys: AtomicU16::new(0),
            vendor_clock: VendorClock::default(),
            latency: Latency::default(),
            late_writes: LateWrites::default(),
            let_go: ReleasedLeases::default(),
            began,
            disagreement: Disagreement::default(),
            former_base_urls,
            wakes,
            secret_is_known: self.secret_is_known,
        };
        let client = Client { engine: Arc::new(engine) };
        ACCOUNTS.lock().insert(client.engine.account_path());
        Ok(client)
    }
}

impl Records {
    /// The store of a client. In a service, one that was given none is warned of: it forgets.
    fn open(self, vendor: &str, is_a_services: bool) -> Result<Arc<dyn Store>, Error> {
        match self {
            Records::In(store) => Ok(store),
            Records::OpenedBy(open) => open(),
            Records::Unsaid => {
                if is_a_services {
                    telemetry::forgetful(vendor);
                }
                Ok(Arc::new(Memory::new()))
            }
        }
    }
}

/// Refuses a store where two processes could take one record for two, and warns a service of one that may be lost.
fn check_footing(store: &dyn Store, vendor: &str, is_a_services: bool) -> Result<(), Error> {
    let doing = "keep the records of this client";
    let refused = |source| Error::new(Kind::Store { doing }, Effect::None).with_source(source);
    for warning in store.footing().map_err(refused)?.iter().filter(|_| is_a_services) {
        telemetry::unsafe_footing(vendor, warning);
    }
    Ok(())
}

/// Account paths of all clients that this process has built: a client alone cannot distinguish an account that was
/// renamed from another client's. As many as a service has accounts.
static ACCOUNTS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The account paths of the clients of this process.
pub(crate) fn accounts() -> BTreeSet<String> {
    ACCOUNTS.lock().clone()
}

/// Namespace of a client that was given none.
pub(crate) const NAMESPACE_DEFAULT: &str = "default";

/// Parses a former base URL; nothing is sent to it, so that its scheme is free.
fn former(url: &str, base: &Url) -> Result<Url, Error> {
    let at = |error: Error| error.at(field!(former_base_urls));
    let parsed = Url::parse(url).ok().filter(|url| url.has_host());
    let url = parsed.ok_or_else(|| {
        let problem = "write each as https://host, with the path below which calls were";
        at(Error::invalid(Input::BaseUrl, problem))
    })?;
    check_parts(&url).map_err(at)?;
    if url.as_str().trim_end_matches('/') == base.as_str().trim_end_matches('/') {
        return Err(at(Error::invalid(
            Input::BaseUrl,
            "it is the base URL itself; name where calls went before",
        )));
    }
    Ok(url)
}

/// Refuses a URL with more than the place of a vendor: the rest of it can be secret.
fn check_parts(url: &Url) -> Result<(), Error> {
    let refuse = |problem: &str| Err(Error::invalid(Input::BaseUrl, problem));
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("it must not contain credentials; give the secret to the adapter");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return refuse("it must not have a query or a fragment");
    }
    Ok(())
}

fn check_base_url(url: &Url, plain_http_allowed: bool) -> Result<(), Error> {
    let refuse = |problem: &str| Err(Error::invalid(Input::BaseUrl, problem));
    check_parts(url)?;
    match url.scheme() {
        "https" => Ok(()),
        "http" if plain_http_allowed || is_loopback(url) => Ok(()),
        "http" => {
            let problem = "http outside loopback sends secrets readable; use https";
            Err(Error::invalid(Input::BaseUrl, problem).unless("allow_plain_http"))
        }
        other => refuse(&format!("the scheme must be https, not {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_https_or_loopback_and_has_no_credentials() {
        let check = |url: &str, allowed| check_base_url(&Url::parse(url).expect(url), allowed);
        for good in
            ["https://api.stripe.com", "http://127.0.0.1:8080/v1", "http://[::1]:1", "http://localhost:1"]
        {
            assert!(check(good, false).is_ok(), "{good}");
        }
        for bad in [
            "http://api.stripe.com",
            "http://localhost.evil.test",
            "http://128.0.0.1",
            "https://user:pass@api.stripe.com",
            "https://user@api.stripe.com",
            "https://api.stripe.com/?a=1",
            "ftp://localhost",
        ] {
            assert_eq!(check(bad, false).expect_err(bad).code(), "VALIDATION.base_url");
        }
        assert!(check("http://vendor.internal", true).is_ok());
        assert!(check("https://user:pass@x.test", true).is_err());
    }
}

//! Adyen's Checkout API: the vendor that replays, and says when a repeat is no help.
//!
//! Adyen keeps the first answer under an `idempotency-key` and gives it to every resend. This holds for POSTs, for at
//! least 7 days from the first one, and for the company account. It does not hold across its regions. A failure with
//! `transient-error: true` had no side effects and asks for the same request again. Any other failure of Adyen's own is
//! not to be repeated (docs.adyen.com/development-resources/api-idempotency). The Checkout specification says of one,
//! at `RequestedTestErrorResponseCode`, that it is stored as the final answer, and that the issuer may have acted.
//!
//! So an unknown outcome is sent again under the same key, inside the window. After the window no question can settle
//! it: Adyen has no lookup of a payment by its `reference`, and does not take a second payment with the same
//! `reference` for a duplicate. An operation that stays unknown is a dead letter, until a webhook or a person settles
//! it.
//!
//! A payment that is refused is an answer: 200 with `resultCode: Refused`. The call has succeeded, and the same key
//! repeats the answer. Another attempt is a new operation with a key of its own. A capture, a cancellation and a refund
//! are answered with `status: received`; a webhook brings their outcome.
//!
//! Routes and the form of errors are those of Adyen's published specification of the Checkout API, version 71.

use std::borrow::Cow;
use std::time::Duration;

use http::header::HeaderName;
use http::{HeaderMap, Method};
use secrecy::SecretString;
use url::Url;

use steadfast_core::internal::ext::InputErrorExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::vendor::account::check_account;
use steadfast_core::internal::vendor::{NextPage, check_window};
use steadfast_core::operation::{RedactedFields, WireKey};
use steadfast_core::transport::{Answer, Request};
use steadfast_core::vendor::{Attempt, BaseUrl, Credential, KeyPlace, Vendor, Verdict, is_plain};
use steadfast_core::{Error, Input};

mod pages;
mod rules;

/// Adyen's rules. Built with an API key; it is Adyen's test environment unless [`live`](Adyen::live) says otherwise.
///
/// The version of the API is part of a call's path, as in `/v71/payments`, or of the base URL. It is no part of an
/// operation's name. A key that was sent to `/v71/payments` is the same operation at `/v72/payments`: the same payment
/// is not made twice, and another one is refused. A resend goes to the path on record, with the version of the first
/// send, unless the base URL moved. `Debug` does not show the API key.
///
/// A payment that is refused is a success of the call: 200 with `resultCode: Refused`. Read `resultCode`. A capture, a
/// refund or a cancellation is answered with `status: received`, and a webhook brings its outcome.
///
/// A lost answer is sent again on payments, their changes and the other routes that take a key. On any other POST it is
/// unknown.
///
/// With [`base_url`](Adyen::base_url) at `https://management-test.adyen.com` it calls the Management API, whose lists
/// [`Call::pages`](crate::Call::pages) reads.
///
/// ```
/// use steadfast::vendor::{Adyen, Vendor};
///
/// let adyen = Adyen::new("AQE-a-key").live("1797a841fbb37ca7-AdyenDemo");
/// assert!(adyen.check().is_ok());
/// assert_eq!(
///     Vendor::base_url(&adyen).as_str(),
///     "https://1797a841fbb37ca7-adyendemo-checkout-live.adyenpayments.com/checkout"
/// );
/// assert!(!format!("{adyen:?}").contains("AQE-a-key"));
/// ```
#[derive(Clone, Debug)]
pub struct Adyen {
    base: BaseUrl,
    live_prefix: Option<String>,
    credential: Credential,
    label: Option<String>,
    account: String,
    replay_window: Duration,
}

impl Adyen {
    /// The Checkout API at `https://checkout-test.adyen.com`, with an API key of the test environment.
    ///
    /// [`Vendor::check`] refuses an empty key, and one that a header cannot carry.
    pub fn new(api_key: impl Into<SecretString>) -> Adyen {
        Adyen {
            base: BaseUrl::new(TEST),
            live_prefix: None,
            credential: Credential::new("", api_key),
            label: None,
            account: TEST_ACCOUNT.to_owned(),
            replay_window: REPLAY_WINDOW,
        }
    }

    /// The live environment, at `https://{prefix}-checkout-live.adyenpayments.com/checkout`. The prefix is the
    /// company's own. Adyen's Customer Area shows it under Developers, API URLs, Prefix. The API key is then one of the
    /// live environment.
    ///
    /// [`Vendor::check`] refuses what is no prefix, such as a whole URL.
    #[must_use]
    pub fn live(mut self, prefix: impl Into<String>) -> Adyen {
        let prefix = prefix.into();
        let own = self.live_prefix.as_deref().map_or_else(|| BaseUrl::new(TEST), live_base);
        if self.base.url() == own.url() {
            self.base = live_base(&prefix);
        }
        self.live_prefix = Some(prefix);
        self.of_its_account()
    }

    /// Sets another base URL, such as a fake's or that of another region. A text that is not a URL is refused by
    /// [`Vendor::check`].
    ///
    /// Adyen does not compare keys across regions. Do not change the region while an operation may be resent.
    ///
    /// It counts before what [`live`](Adyen::live) says. A host with `-checkout-live` in its name is of a live account. For
    /// any other host of a live account call `live` too.
    #[must_use]
    pub fn base_url(mut self, url: impl AsRef<str>) -> Adyen {
        self.base = BaseUrl::new(url.as_ref());
        self.of_its_account()
    }

    /// Names the company account that the API key belongs to. Two companies that share a store then never share a
    /// key. It is a name in scopes only and is not sent.
    ///
    /// Default: none, only the environment (`live` or `test`), which is always part of the account.
    #[must_use]
    pub fn account(mut self, company: impl Into<String>) -> Adyen {
        self.label = Some(company.into());
        self.of_its_account()
    }

    /// Sets the time for which Adyen is trusted to replay a key. Default: 7 days, the least it promises. Over 31 days
    /// is refused by [`Vendor::check`].
    #[must_use]
    pub fn replay_window(mut self, window: Duration) -> Adyen {
        self.replay_window = window;
        self
    }

    /// A key that the test environment has answered must never stand for a live payment.
    fn of_its_account(mut self) -> Adyen {
        let is_live_host = self.base.url().host_str().is_some_and(|host| host.contains(LIVE_HOST));
        let is_live = Guard::LiveApart.keeps(self.live_prefix.is_some() || is_live_host);
        let environment = if is_live { LIVE_ACCOUNT } else { TEST_ACCOUNT };
        self.account = match &self.label {
            Some(company) => format!("{environment}:{company}"),
            None => environment.to_owned(),
        };
        self
    }

    /// The path of a call below the base, without the version.
    ///
    /// The base may end in one, and what was recorded when it was another still has its route.
    fn route<'a>(&self, request: &'a Request) -> &'a str {
        let base = self.base.url().path().trim_end_matches('/');
        let (parent, last) = base.rsplit_once('/').unwrap_or(("", ""));
        let parent = if is_version(last) { parent } else { base };
        let below =
            request.url.path().strip_prefix(parent).filter(|rest| rest.starts_with('/')).unwrap_or("");
        match below.get(1..).and_then(|rest| rest.find('/')) {
            Some(end) if is_version(&below[1..=end]) => &below[end + 1..],
            _ => below,
        }
    }

    /// Whether Adyen answers a repeat of this request from its record.
    fn replays(&self, request: &Request) -> bool {
        request.method == Method::POST
            && request.headers.contains_key(IDEMPOTENCY_KEY)
            && (takes_key(self.route(request)) || Guard::KnownRoutes.is_out())
    }
}

impl Vendor for Adyen {
    fn name(&self) -> &str {
        "adyen"
    }

    fn base_url(&self) -> &Url {
        self.base.url()
    }

    fn check(&self) -> Result<(), Error> {
        let is_plain = |prefix: &String| {
            !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        if !self.live_prefix.as_ref().is_none_or(is_plain) {
            let problem = "the live prefix must be letters, digits and `-`, and no URL; Adyen's Customer Area shows it \
                           under Developers, API URLs, Prefix";
            return Err(Error::invalid(Input::BaseUrl, problem).set_by("live_prefix"));
        }
        self.credential.check()?;
        check_account(&self.account)?;
        check_window(self.replay_window)?;
        self.base.check()
    }

    /// PSP references are shown: the Customer Area finds them, and without an API key no other client can.
    fn may_show(&self, segment: &str) -> bool {
        is_plain(segment) || is_psp_reference(segment)
    }

    /// Removes the version: a payment is the same one in the next version, and must not be made again there. The base
    /// URL has no say in it. An operation below a former base URL keeps its name, also where the version moves from the
    /// base to the call. No other part of a path of Adyen's reads as a version.
    fn operation_path<'a>(&self, path: &'a str) -> Cow<'a, str> {
        let is_version = |segment: &&str| segment.strip_suffix('/').is_some_and(is_version);
        Cow::Owned(path.split_inclusive('/').filter(|segment| !is_version(segment)).collect())
    }

    /// The environment, and after a colon the configured company account. Adyen's keys are unique in that.
    fn account(&self, _headers: &HeaderMap) -> Cow<'_, str> {
        Cow::Borrowed(&self.account)
    }

    /// Stamps every POST, also one whose replay Adyen does not document.
    fn stamp(&self, wire_key: WireKey, request: &mut Request) -> Result<String, Error> {
        let wire_key = wire_key.to_string();
        if request.headers.contains_key(IDEMPOTENCY_KEY) || request.method == Method::POST {
            KeyPlace::Header(IDEMPOTENCY_KEY.as_str().to_owned()).put(&wire_key, request)?;
        }
        Ok(wire_key)
    }

    fn authorize(&self, request: &mut Request) {
        self.credential.put(X_API_KEY, &mut request.headers);
    }

    fn secret_headers(&self) -> Vec<HeaderName> {
        vec![X_API_KEY]
    }

    /// Names the fields of a card or an account, or of their substitutes.
    fn redacted(&self) -> RedactedFields {
        Guard::CardsHidden.keeps(RedactedFields::new(CARD_FIELDS).expect("constants that are names"))
    }

    fn replay_window(&self, request: &Request) -> Option<Duration> {
        self.replays(request).then_some(self.replay_window)
    }

    fn keyed_path(&self) -> Cow<'_, str> {
        Cow::Borrowed("/payments")
    }

    /// Recognises Adyen's own answers by the form of its errors.
    fn is_own(&self, answer: &Answer) -> bool {
        rules::is_own(answer)
    }

    fn classify(&self, attempt: &Attempt<'_>) -> Verdict {
        let route = self.route(attempt.request);
        rules::classify(attempt, moves_money(route), takes_key(route))
    }

    /// Follows the links of the Management API's lists.
    fn next_page(&self, asked: &Request, answer: &Answer) -> NextPage {
        pages::next(asked, answer)
    }
}

fn live_base(prefix: &str) -> BaseUrl {
    BaseUrl::new(&format!("https://{prefix}{LIVE_HOST}.adyenpayments.com/checkout"))
}

/// Returns true for a segment such as `v71`.
fn is_version(segment: &str) -> bool {
    let digits = segment.strip_prefix('v').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The POSTs for which Adyen's specification has the header.
fn takes_key(route: &str) -> bool {
    moves_money(route) || OTHER_KEYED_ROUTES.contains(&route)
}

/// Payments and what changes them. Each of their answers has a `pspReference` or a `resultCode`.
fn moves_money(route: &str) -> bool {
    let mut parts = route.split('/').skip(1);
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("cancels"), None, ..) | (Some("payments"), None | Some("details"), None, _) => true,
        (Some("payments"), Some(_), Some(change), None) => CHANGES.contains(&change),
        _ => false,
    }
}

/// `993617894903480A`: 16 capitals and digits.
fn is_psp_reference(segment: &str) -> bool {
    segment.len() == 16
        && segment.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
        && segment.bytes().any(|byte| byte.is_ascii_digit())
}

/// `servers` of the Checkout specification, without its version.
const TEST: &str = "https://checkout-test.adyen.com";
const TEST_ACCOUNT: &str = "test";
const LIVE_ACCOUNT: &str = "live";
/// Part of every live host's name, behind the company's prefix; a region may follow.
const LIVE_HOST: &str = "-checkout-live";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// "Idempotency keys are valid for a minimum period of 7 days after first submission."
/// (docs.adyen.com/development-resources/api-idempotency)
const REPLAY_WINDOW: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const CHANGES: [&str; 5] = ["amountUpdates", "cancels", "captures", "refunds", "reversals"];
/// The other POSTs of the Checkout specification that have the parameter `Idempotency-Key`. `/validateShopperId` has none.
/// `/forward` has it, and is left out: what it sends goes to a third party, whose repeat Adyen cannot vouch for.
const OTHER_KEYED_ROUTES: [&str; 13] = [
    "/applePay/sessions",
    "/cardDetails",
    "/donationCampaigns",
    "/donations",
    "/orders",
    "/orders/cancel",
    "/originKeys",
    "/paymentLinks",
    "/paymentMethods",
    "/paymentMethods/balance",
    "/paypal/updateOrder",
    "/sessions",
    "/storedPaymentMethods",
];
/// Fields of the Checkout API's payment methods that hold a card, a bank account or a wallet, or stand for one once.
/// The names are those of Adyen's own client libraries.
const CARD_FIELDS: [&str; 41] = [
    "amazonPayToken",
    "applePayToken",
    "authorization_token",
    "bankAccountNumber",
    "bankLocationId",
    "billingToken",
    "blikCode",
    "cardBin",
    "cavv",
    "cupsecureplus.smscode",
    "cvc",
    "encryptedBankAccountNumber",
    "encryptedBankLocationId",
    "encryptedCard",
    "encryptedCardNumber",
    "encryptedExpiryMonth",
    "encryptedExpiryYear",
    "encryptedPassword",
    "encryptedSecurityCode",
    "expiryMonth",
    "expiryYear",
    "facilitatorAccessToken",
    "fastlaneData",
    "googlePayToken",
    "holderName",
    "iban",
    "MD",
    "number",
    "oneTimePasscode",
    "ownerName",
    "PaRes",
    "payload",
    "redirectResult",
    "returnUrlQueryString",
    "samsungPayToken",
    "threeds2.challengeResult",
    "threeDSPaymentData",
    "threeDSResult",
    "tokenAuthenticationVerificationValue",
    "vaultToken",
    "virtualPaymentAddress",
];

#[cfg(test)]
mod tests;

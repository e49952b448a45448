//! An account's terms: the settings that all services which share its records must have the same.
//!
//! Recovery sends what another process recorded, with its own secret, and judges by its own adapter whether it may.
//! Two services that call an account by one name and mean two addresses would send one's secret to the other's host.
//! So the first client registers its terms in the store, and one whose terms differ carries on with nothing and
//! records nothing.
//!
//! The settle time is one of the terms. A record does not keep it, and the service with the shorter one would believe a
//! lookup that comes too early.
//!
//! Rate limits, timeouts, ladders and retention may differ: each record keeps those that matter to it. The version of a
//! vendor's interface may, too: it is part of what was recorded, and is resent as it was.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use http::HeaderValue;
use humantime_serde::re::humantime::format_duration;
use sha2::{Digest, Sha256};
use url::Url;

use steadfast_core::Error;
use steadfast_core::clock::Instant;
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::internal::transport::is_loopback;
use steadfast_core::internal::vendor::{Content, stamped};
use steadfast_core::operation::Fingerprint;
use steadfast_core::store::StoreError;
use steadfast_core::vendor::Vendor;

use super::Engine;
use super::disagreement::refused;
use super::retention::window_of;
use crate::limit;

/// By name, what must agree, for people too.
type Terms = BTreeMap<String, String>;

impl Engine {
    /// Registers the client's terms, or compares them with those that are registered. From then on, keyed calls are
    /// refused as long as they differ. The inner error says how.
    pub(crate) async fn register(&self) -> Result<Result<(), Error>, StoreError> {
        // A fake on loopback has another port each time.
        let is_fake = is_loopback(self.vendor.base_url());
        if !self.secret_is_known || is_fake {
            self.disagreement.is_answered.store(true, Ordering::Release);
            return Ok(Ok(()));
        }
        let (account, own) = (self.account_path(), terms_of(&**self.vendor));
        let text = serde_json::to_string(&own)
            .map_err(|error| StoreError::with_source("the terms of an account cannot be written", error))?;
        let answered = self.store.register(&account, Some(&text)).await;
        self.disagreement.is_unanswered.store(answered.is_err(), Ordering::Release);
        let there = answered?;
        self.disagreement.is_answered.store(true, Ordering::Release);
        let problem = there.and_then(|there| difference(&account, &own, &there));
        self.disagreement.note(problem.as_deref());
        Ok(problem.map_or(Ok(()), |problem| Err(refused(&problem).at_vendor(self.vendor.name()))))
    }
}

impl Engine {
    /// Before anything is taken or admitted, a store that could not say what is registered is asked again. It may be able
    /// to take by now, and what another service recorded would go out with this client's secret.
    pub(crate) async fn check_terms(&self) -> Result<(), Error> {
        if self.disagreement.is_unanswered.load(Ordering::Acquire) {
            // One that still cannot answer stops nobody.
            let _ = self.register().await;
        }
        self.disagreement.check()
    }

    /// Before an operation is left to a dispatcher: a service that only enqueues registers its terms here, once. A
    /// store that cannot answer by `deadline` stops no call, and is asked again the next time.
    pub(super) async fn register_once(&self, deadline: Instant) {
        if !self.disagreement.is_answered.load(Ordering::Acquire) {
            let _ = limit::within(&*self.clock, deadline, self.register()).await;
        }
    }
}

fn terms_of(vendor: &dyn Vendor) -> Terms {
    let window = window_of(vendor, &vendor.keyed_path()).map(|window| format_duration(window).to_string());
    [
        ("base_url", Some(shown_url(vendor, vendor.base_url()))),
        ("key", key_place(vendor)),
        ("replay_window", Some(window.unwrap_or_else(|| "none".to_owned()))),
        ("settle_time", Some(format_duration(vendor.settle_time()).to_string())),
    ]
    .into_iter()
    .filter_map(|(name, said)| Some((name.to_owned(), said?)))
    .collect()
}

/// A base URL, as a log may have it. A part of its path that could be a token is a digest: two that differ still do, and none
/// can be read.
fn shown_url(vendor: &dyn Vendor, url: &Url) -> String {
    if url.path().split('/').filter(|segment| !segment.is_empty()).all(|segment| vendor.may_show(segment)) {
        return url.to_string();
    }
    let digest = Fingerprint::from_bytes(Sha256::digest(url.path()).into()).to_string();
    let digest = &digest[..DIGEST_LEN];
    format!("path #{digest} at {}", url.origin().ascii_serialization())
}

/// As it stands in stores.
const DIGEST_LEN: usize = 12;

/// Where the vendor is shown the key; `None` if it depends on the call.
fn key_place(vendor: &dyn Vendor) -> Option<String> {
    let (request, shown) = stamped(vendor, &vendor.keyed_path(), Content::Json)?;
    let holds = |value: &HeaderValue| value.to_str().is_ok_and(|value| value.contains(&shown));
    let header = request.headers.iter().find(|(_, value)| holds(value)).map(|(name, _)| name.to_string());
    let is_in_body = String::from_utf8_lossy(&request.body).contains(&shown);
    Some(match (header, is_in_body) {
        (Some(name), _) => format!("header {name}"),
        (None, true) => "body".to_owned(),
        (None, false) => "none".to_owned(),
    })
}

/// How the client's own terms differ from those in the store. A term that only one of them names was added, or left out,
/// by another release, and says nothing.
fn difference(account: &str, own: &Terms, there: &str) -> Option<String> {
    let Ok(there) = serde_json::from_str::<Terms>(there) else {
        return Some(format!(
            "what is registered for `{account}` cannot be read; `steadfast terms --forget {account}` removes it"
        ));
    };
    let differs = |(name, ours): (&String, &String)| {
        let said = there.get(name)?;
        (said != ours).then(|| format!("`{name}` is {ours} here and {said} there"))
    };
    let differences: Vec<String> = own.iter().filter_map(differs).collect();
    (!differences.is_empty()).then(|| {
        format!(
            "another service that shares the store has registered `{account}` with other terms: {}; give both the same, \
             or another namespace or account. If the change is meant: steadfast terms --forget {account}",
            differences.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::vendor::{Adyen, BigCommerce, Keyed, KeyedConfig, Postmark, Stripe};

    fn shown(vendor: &dyn Vendor) -> String {
        let terms = terms_of(vendor);
        terms.iter().map(|(name, said)| format!("{name} {said}")).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn terms_are_the_address_the_place_of_the_key_and_its_window() {
        let stripe = Stripe::new("sk_test_1").api_version("2025-08-27.basil");
        assert_eq!(
            shown(&stripe),
            "base_url https://api.stripe.com/, key header idempotency-key, replay_window 1day, settle_time 1m 20s"
        );
        assert_eq!(shown(&stripe), shown(&Stripe::new("sk_test_2")), "neither secret nor version");
        let (postmark, bigcommerce) =
            (shown(&Postmark::new("token")), shown(&BigCommerce::new("abc", "token")));
        assert!(postmark.starts_with("base_url https://api.postmarkapp.com/"), "{postmark}");
        assert!(bigcommerce.contains("replay_window none"), "{bigcommerce}");
    }

    /// It may hold a token, and terms are stored, logged and printed.
    #[test]
    fn of_a_base_url_with_a_token_a_digest_is_registered() {
        let bot = |token: &str| {
            Keyed::new(KeyedConfig::new("chat", format!("https://chat.test/bot{token}/v1")), "secret")
        };
        let (one, other) =
            (bot("110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"), bot("7:another-Token-0000000000"));
        let said = shown(&one);
        assert!(said.contains("base_url path #") && said.contains(" at https://chat.test,"), "{said}");
        let registered = |vendor: &Keyed| serde_json::to_string(&terms_of(vendor)).expect("text");
        assert_eq!(difference("prod/chat/default", &terms_of(&one), &registered(&one)), None);
        let told =
            difference("prod/chat/default", &terms_of(&one), &registered(&other)).expect("they differ");
        assert!(!told.contains("AAHdq") && !told.contains("Token"), "{told}");
        assert!(shown(&BigCommerce::new("k8yfjd03xq", "token")).contains("/stores/k8yfjd03xq"));
    }

    /// Two services of which one resends for longer than the vendor remembers must not share records.
    #[test]
    fn the_window_is_that_of_the_routes_which_take_the_key() {
        let adyen = shown(&Adyen::new("secret"));
        assert!(adyen.contains("key header idempotency-key, replay_window 7days"), "{adyen}");
        let paypal = |window: Option<u64>| {
            let mut config = KeyedConfig::preset("paypal").expect("a preset");
            config.window = window.map(Duration::from_secs).or(config.window);
            shown(&Keyed::new(config, "secret"))
        };
        assert!(paypal(None).contains("key header paypal-request-id, replay_window 6h,"), "{}", paypal(None));
        assert!(paypal(Some(72 * 3600)).contains("replay_window 3days,"));
        let mut plaid = KeyedConfig::preset("plaid").expect("a preset");
        plaid.headers.insert("PLAID-CLIENT-ID".to_owned(), "an-account".to_owned());
        assert!(shown(&Keyed::new(plaid, "secret")).contains("key body"));
    }

    #[test]
    fn what_differs_is_named_and_what_only_one_knows_is_not() {
        let own = terms_of(&Stripe::new("sk_test_1"));
        let there = |text: &str| difference("prod/stripe/live", &own, text);
        assert_eq!(there(&serde_json::to_string(&own).expect("text")), None);
        assert_eq!(there("{\"a_term_of_a_newer_release\":\"x\"}"), None);
        let problem = there("{\"base_url\":\"https://stripe.test/\",\"replay_window\":\"2days\"}");
        let problem = problem.expect("two differ");
        assert!(
            problem.contains(
                "`base_url` is https://api.stripe.com/ here and https://stripe.test/ there, \
                 `replay_window` is 1day here and 2days there"
            ),
            "{problem}"
        );
        assert!(there("no terms").expect("unreadable").contains("cannot be read"));
    }
}

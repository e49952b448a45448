//! Every vendor whose idempotency is a key in a header or in a body field: configuration, no code.
//!
//! The differences between such vendors are data. It says where the key goes and in which form, and for how long the
//! vendor replays it. It also says how answers mark *replayed*, *still in progress* and *used for something else*. A
//! vendor without a stated window gets no resend after an unknown outcome: at most once, whatever its marketing says of
//! idempotency. Nor does a route that does not take the key, where the configuration names those that do
//! ([`KeyedConfig::keyed_routes`]).
//!
//! The mark of the vendor's own failures is data too ([`KeyedConfig::own`]). Without such a mark, a page for a browser
//! counts as a proxy's and everything else as the vendor's. But only JSON is taken for the vendor's word on an earlier
//! attempt.

use std::borrow::Cow;
use std::time::Duration;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use secrecy::SecretString;
use url::Url;

use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::vendor::account;
use steadfast_core::operation::WireKey;
use steadfast_core::transport::{Answer, Request};
use steadfast_core::vendor::rules::{
    asked, by_status, is_page, no_answer, refused, replay_speaks_for, was_deleted,
};
use steadfast_core::vendor::{Attempt, BaseUrl, Credential, KeyPlace, SpeaksFor, Vendor, Verdict};
use steadfast_core::{Effect, Error, Refusal};

mod config;
mod form;
mod headers;
mod presets;
mod routes;

pub use config::KeyedConfig;
use config::{Marker, SuccessForm};
pub(crate) use presets::PRESETS;

/// The rules of a vendor that is described by a [`KeyedConfig`].
///
/// `Debug` does not show the secret.
///
/// ```
/// use steadfast::Client;
/// use steadfast::vendor::{Keyed, KeyedConfig};
///
/// let config = KeyedConfig::from_toml(r#"
///     name = "resend"
///     base_url = "https://api.resend.com"
///     key = { header = "Idempotency-Key" }
///     key_len_max = 256
///     window = "24h"
///     auth = { header = "Authorization", prefix = "Bearer " }
/// "#)?;
/// let resend = Client::builder(Keyed::new(config, "re_123")).build()?;
/// assert_eq!(resend.vendor(), "resend");
/// # Ok::<(), steadfast::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Keyed {
    config: KeyedConfig,
    base: BaseUrl,
    auth: Option<(HeaderName, Credential)>,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The account, with what the vendor's own headers choose.
    account: String,
}

impl Keyed {
    /// The vendor that `config` describes, with the secret for its `auth`. [`Vendor::check`] refuses what is
    /// impossible in it.
    pub fn new(config: KeyedConfig, secret: impl Into<SecretString>) -> Keyed {
        let secret = secret.into();
        let auth = config.auth.as_ref().and_then(move |auth| {
            let name = HeaderName::from_bytes(auth.header.as_bytes()).ok()?;
            Some((name, Credential::new(&auth.prefix, secret)))
        });
        let headers = headers::of(&config);
        let mut account = config.account.clone();
        for (name, value) in &headers {
            if chooses_account(&config, name) {
                account.push(':');
                account.push_str(&account::named(value.as_bytes()));
            }
        }
        Keyed { base: BaseUrl::new(&config.base_url), auth, headers, account, config }
    }

    /// The configuration it was built with.
    pub fn config(&self) -> &KeyedConfig {
        &self.config
    }

    /// The key in the vendor's form, without quotes: the UUID, or as much of its hexadecimal digits as fit.
    /// They come from a hash, so that a part of them still differs from operation to operation.
    fn short_key(&self, wire_key: WireKey) -> String {
        let key = wire_key.to_string();
        if key.len() <= self.config.key_len_max {
            return key;
        }
        key.chars().filter(|&letter| letter != '-').take(self.config.key_len_max).collect()
    }

    /// Whether the vendor is known to take the key on this request's route.
    fn takes_key(&self, request: &Request) -> bool {
        let path = self.base.route(&request.url);
        let is_on = |route: &String| routes::is_on(route, &request.method, path);
        self.config.keyed_routes.as_ref().is_none_or(|listed| listed.iter().any(is_on))
    }

    /// Whether this request was stamped in a way that the vendor replays.
    fn replays(&self, request: &Request) -> bool {
        if self.config.window.is_none() || request.method.is_safe() || !self.takes_key(request) {
            return false;
        }
        self.is_stamped(request)
    }

    /// Whether a success has the form that the configuration has for its route, if it has one. A body that was cut off at its
    /// limit cannot be asked.
    fn has_form(&self, request: &Request, answer: &Answer) -> bool {
        let path = self.base.route(&request.url);
        let is_here = |form: &&SuccessForm| {
            form.route.as_ref().is_none_or(|route| routes::is_on(route, &request.method, path))
        };
        let mut forms = self.config.success.iter().filter(is_here).peekable();
        forms.peek().is_none() || answer.cut || forms.any(|form| form.matches(answer))
    }

    fn is_stamped(&self, request: &Request) -> bool {
        self.config.key.as_ref().is_some_and(|place| place.is_in(request))
    }

    /// Puts the configured headers; the call's own take precedence.
    fn put_headers(&self, request: &mut Request) {
        for (name, value) in &self.headers {
            request.headers.entry(name).or_insert_with(|| value.clone());
        }
    }

    /// Returns the attempts that a failure speaks for; `None` if it is not the vendor's own.
    fn says(&self, attempt: &Attempt<'_>, answer: &Answer, replayed: bool) -> Option<SpeaksFor> {
        if !self.is_own(answer) {
            return None;
        }
        let is_proof = self.config.own.is_some() || answer.json().is_some_and(|body| !body.is_null());
        // A 409 that no marker explains may tell of the earlier attempt: it settles nothing about that. Nor does a no that
        // is kept under no key: a request that is still under way would not find it.
        let in_window = (self.config.stores_failures || Guard::StoredNo.is_out())
            && attempt.keyed
            && attempt.in_window
            && self.replays(attempt.request)
            && answer.status.as_u16() != 409;
        Some(if is_proof && in_window {
            SpeaksFor::EarlierToo
        } else if is_proof && replayed {
            replay_speaks_for(attempt)
        } else {
            SpeaksFor::ThisAttempt
        })
    }
}

impl Vendor for Keyed {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn base_url(&self) -> &Url {
        self.base.url()
    }

    fn check(&self) -> Result<(), Error> {
        self.config.check()?;
        if let Some((_, credential)) = &self.auth {
            credential.check()?;
        }
        self.base.check()
    }

    /// Behind a `>`, what the call's own headers choose. One that says what the vendor's say chooses nothing else.
    fn account(&self, headers: &HeaderMap) -> Cow<'_, str> {
        let is_said = |name: &HeaderName, value: &[u8]| {
            self.headers
                .iter()
                .any(|(known, said)| known == name && said.as_bytes().trim_ascii() == value.trim_ascii())
        };
        let mut chosen: Vec<(&str, String)> = headers
            .iter()
            .filter(|(name, value)| chooses_account(&self.config, name) && !is_said(name, value.as_bytes()))
            .filter_map(|(name, _)| Some((name.as_str(), account::chosen_by(name, headers)?)))
            .collect();
        chosen.sort_unstable();
        chosen.dedup();
        if chosen.is_empty() || Guard::HeaderInName.is_out() {
            return Cow::Borrowed(&self.account);
        }
        let chosen = chosen.iter().fold(String::new(), |all, (_, account)| format!("{all}>{account}"));
        Cow::Owned(format!("{}{chosen}", self.account))
    }

    fn stamp(&self, wire_key: WireKey, request: &mut Request) -> Result<String, Error> {
        let key = self.short_key(wire_key);
        match &self.config.key {
            Some(place @ KeyPlace::Header(_)) if self.config.quoted => {
                place.put(&format!("\"{key}\""), request)?;
            }
            Some(KeyPlace::Body(_)) if !self.takes_key(request) => {}
            Some(place) => place.put(&key, request)?,
            None => {}
        }
        self.put_headers(request);
        Ok(key)
    }

    fn keyed_path(&self) -> Cow<'_, str> {
        let mut listed = self.config.keyed_routes.iter().flatten();
        listed.find_map(|route| routes::path_of_post(route)).map_or(Cow::Borrowed("/"), Cow::Owned)
    }

    fn authorize(&self, request: &mut Request) {
        // A stamped request has them, or was recorded without them and must stay so.
        if !self.headers.is_empty() && !self.is_stamped(request) {
            self.put_headers(request);
        }
        if let Some((name, credential)) = &self.auth {
            credential.put(name.clone(), &mut request.headers);
        }
    }

    fn secret_headers(&self) -> Vec<HeaderName> {
        self.auth.iter().map(|(name, _)| name.clone()).collect()
    }

    fn replay_window(&self, request: &Request) -> Option<Duration> {
        if self.replays(request) { self.config.window } else { None }
    }

    /// Recognises the vendor's own answers by their mark, if its configuration names one. Else by the form: all but a
    /// page for a browser.
    fn is_own(&self, answer: &Answer) -> bool {
        self.config.own.as_ref().map_or_else(|| !is_page(answer), |mark| mark.matches(answer))
    }

    fn classify(&self, attempt: &Attempt<'_>) -> Verdict {
        let answer = match attempt.outcome {
            Ok(answer) => answer,
            Err(error) => return no_answer(error),
        };
        let wait = asked(attempt, answer);
        let replayed = self.config.replay.as_ref().is_some_and(|marker| marker.matches(answer));
        if answer.status.is_success() {
            // What reads a page changes nothing.
            let is_page = is_page(answer) && !self.is_own(answer);
            let is_anothers = is_page || !self.has_form(attempt.request, answer);
            return if is_anothers && !attempt.request.method.is_safe() {
                Verdict::Retry { effect: Effect::Unknown, not_before: wait }
            } else {
                Verdict::Done { replayed }
            };
        }
        let any = |markers: &[Marker]| markers.iter().any(|marker| marker.matches(answer));
        let says = self.says(attempt, answer, replayed);
        // Only what is in the vendor's own form tells of an earlier attempt: a proxy without a route says 404, too.
        let is_gone = matches!(answer.status.as_u16(), 404 | 410) && was_deleted(attempt);
        let is_form = |body: &serde_json::Value| body.is_object() || body.is_array();
        let is_vendors = self.config.own.is_some() || answer.json().as_ref().is_some_and(is_form);
        if is_gone && !is_vendors {
            return Verdict::Retry { effect: Effect::Unknown, not_before: wait };
        }
        if any(&self.config.reused) {
            return refused(attempt, Refusal::KeyReused, says, wait);
        }
        if any(&self.config.duplicate) {
            // What the key has made may well be ours, of a life that is no longer on record.
            return Verdict::Unknown;
        }
        if any(&self.config.unauthorized) {
            return refused(attempt, Refusal::Unauthorized, says, wait);
        }
        // Another request with our key is under way, or the vendor itself asks for a repeat: it may happen yet.
        if any(&self.config.in_progress) || any(&self.config.retry_same_key) {
            return Verdict::Retry { effect: Effect::Unknown, not_before: wait };
        }
        let status = answer.status;
        if replayed && status.is_server_error() {
            // A stored failure: it will not change under this key.
            return Verdict::Unknown;
        }
        by_status(attempt, status, says, wait)
    }
}

fn chooses_account(config: &KeyedConfig, name: &HeaderName) -> bool {
    let is_key =
        matches!(&config.key, Some(KeyPlace::Header(key)) if name.as_str().eq_ignore_ascii_case(key));
    !is_key
        && match &config.account_headers {
            Some(listed) => listed.iter().any(|listed| name.as_str().eq_ignore_ascii_case(listed)),
            None => account::is_usual(name),
        }
}

#[cfg(test)]
mod tests;

//! A keyed vendor as data. Unknown fields are refused: a misspelt `window` would silently be no window.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use url::Url;

use steadfast_core::internal::error::{Field, field};
use steadfast_core::internal::ext::InputErrorExt;
use steadfast_core::internal::vendor::account::check_account;
use steadfast_core::internal::vendor::shown;
use steadfast_core::transport::Answer;
use steadfast_core::vendor::KeyPlace;
use steadfast_core::{Error, Input};

use crate::vendor::keyed::{form, headers, routes};

/// Configuration of a [`Keyed`](super::Keyed) vendor. [From text](KeyedConfig::from_toml), from a
/// [preset](KeyedConfig::preset), or [built](KeyedConfig::new). It holds no secret, and `Debug` shows none that was put
/// into its base URL by mistake.
///
/// ```
/// use steadfast::vendor::{KeyPlace, KeyedConfig};
///
/// let config = KeyedConfig::from_toml(r#"
///     name = "square"
///     base_url = "https://connect.squareup.com"
///     key = { body = "idempotency_key" }
///     key_len_max = 45
/// "#)?;
/// assert_eq!(config.key, Some(KeyPlace::Body("idempotency_key".to_owned())));
/// assert_eq!(config.window, None, "so that an unknown outcome is never sent again");
/// # Ok::<(), steadfast::Error>(())
/// ```
///
/// The meaning of answers is written in text alone, as in [the vendors file](crate::guide::vendors_file):
///
/// | key | marks |
/// |---|---|
/// | `replay` | an answer that comes from the vendor's record. Default: none is known to |
/// | `own` | a failure that the vendor itself wrote, by a `header` or a place in the `json` that is on all of them. Any other failure proves nothing, because a proxy may have written it. Default: all but a page for a browser is the vendor's own |
/// | `success` | a list of what successes have, by a `header` or a place in the `json`, each for all routes or for one `route`. Any other success proves nothing. Default: all but a page for a browser is the vendor's own |
/// | `in_progress` | failures: a request with this key is still under way. Retried with the same key |
/// | `reused` | failures: this key belongs to another request. Never retried, and decided before the others |
/// | `duplicate` | failures: an earlier request with this key has made what this one asks for. Never retried, and unknown |
/// | `unauthorized` | failures that refuse the secret with another status than 401, as some do with 400. Where `own` is given, it must be on them too. [The account is held](crate::guide::operations#the-vendor-refuses-our-secret). A 403 never counts: it forbids one request |
/// | `retry_same_key` | failures that the vendor asks to have repeated with the same key, whatever their status |
///
/// A marker has at least one of these parts, and all that it has must match:
///
/// | part | matches |
/// |---|---|
/// | `status = 409` | the HTTP status |
/// | `header = { name = "X-Error", value = "in_use" }` | a header's whole value, in any case of letters |
/// | `json = { pointer = "/error/code", value = "in_use" }` | the value at a JSON pointer (RFC 6901) of the body |
/// | `says = "in_use"` | a text that is a value anywhere in the JSON body |
/// | `has = "resource_id"` | a member of this name anywhere in the JSON body, with a value other than null |
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct KeyedConfig {
    /// The vendor's name in scopes, logs and metrics. It must never change.
    pub name: String,
    /// The URL that paths of calls are appended to.
    pub base_url: String,
    /// Names the account that the secret belongs to, without `>`. Default: `default`.
    #[serde(default = "default_account")]
    pub account: String,
    /// The header that carries the secret. Default: none is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) auth: Option<Auth>,
    /// Headers of each request, such as the version of the API, by their names. They hold no secret: an operation is
    /// recorded with them. A call's own header of one of these names counts before it. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The headers that choose an account at the vendor. Their values are part of an operation's name, so that two
    /// accounts never share a key: one of [`headers`](KeyedConfig::headers) behind a colon, one that a call gives behind
    /// a `>`. A long value is a digest there. Default: those whose names say so, such as `X-Account-Id`, `Xero-Tenant-Id`
    /// or `X-Merchant`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_headers: Option<Vec<String>>,
    /// Place of the key. Default: nowhere, and every POST is sent at most once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyPlace>,
    /// Whether the key is a quoted string of RFC 8941 in its header, as in the IETF draft: the quotes are part of the
    /// value. Default: it is written as it is. In the vendors file: `key_form`, `raw` or `quoted`.
    #[serde(default, rename = "key_form", with = "form::key_form")]
    pub quoted: bool,
    /// The longest key that the vendor takes, in characters, quotes not counted. A UUID has 36; a shorter limit
    /// gets a shorter key, down to 16. Default: 255.
    #[serde(default = "default_key_len_max")]
    pub key_len_max: usize,
    /// Time, from the first send, for which the vendor answers a resend from its own record. Default: none, and an
    /// unknown outcome is never sent again.
    #[serde(default, with = "humantime_serde::option", skip_serializing_if = "Option::is_none")]
    pub window: Option<Duration>,
    /// The routes on which the vendor takes the key: a method and a whole path below the base URL, such as
    /// `POST /payments/{id}/captures`, where `{id}` is any one segment. Default: all.
    ///
    /// On every other route there is no [`window`](KeyedConfig::window), and an unknown outcome is never sent again. A key
    /// that goes into a header is in it there too, for a vendor that takes it without saying so. One that goes into the body
    /// is left out, for a vendor that refuses a member it does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keyed_routes: Option<Vec<String>>,
    /// Whether the vendor keeps every failure under the key, those of validation included. Default: not known to.
    ///
    /// Then a no to a resend speaks for the attempt before it: a request that is still under way finds that no. Else that
    /// request may yet be executed, and the operation stays unknown.
    ///
    /// Give the vendor's `own` mark with it. Without one every answer in JSON counts as the vendor's, also that of a
    /// gateway on the way, whose no to a resend proves nothing.
    #[serde(default)]
    pub stores_failures: bool,
    /// Marks an answer that comes from the vendor's record. Default: no answer is known to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) replay: Option<Marker>,
    /// Marks a failure that the vendor itself wrote. Any other proves nothing: a proxy may have written it after the
    /// vendor executed the request. Default: no mark is known, and all but a page for a browser is the vendor's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) own: Option<OwnMark>,
    /// Forms of a success. One of them must match where any is for the route; any other success proves nothing, because
    /// a proxy may have written it. Default: no form is known, and all but a page for a browser is the vendor's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) success: Vec<SuccessForm>,
    /// Failures that mean: a request with this key is still under way. Retried with the same key.
    #[serde(default)]
    pub(super) in_progress: Vec<Marker>,
    /// Failures that mean: this key belongs to another request. Never retried. They outrank the other markers.
    #[serde(default)]
    pub(super) reused: Vec<Marker>,
    /// Failures that mean: an earlier request with this key has made what this one asks for. Never retried, and unknown:
    /// a record that was lost or purged may be of that request, so that an effect of none would be untrue. They come after
    /// the markers of [`reused`](KeyedConfig::reused).
    #[serde(default)]
    pub(super) duplicate: Vec<Marker>,
    /// Failures that refuse the secret itself with another status than 401. A 403 forbids one request, and never counts.
    #[serde(default)]
    pub(super) unauthorized: Vec<Marker>,
    /// Failures that the vendor asks to have repeated with the same key, whatever their status.
    #[serde(default)]
    pub(super) retry_same_key: Vec<Marker>,
}

impl fmt::Debug for KeyedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base_url = Url::parse(&self.base_url).map(|url| shown(&url));
        f.debug_struct("KeyedConfig")
            .field("name", &self.name)
            .field("base_url", &base_url)
            .field("account", &self.account)
            .field("auth", &self.auth)
            .field("headers", &self.headers.keys())
            .field("account_headers", &self.account_headers)
            .field("key", &self.key)
            .field("quoted", &self.quoted)
            .field("key_len_max", &self.key_len_max)
            .field("window", &self.window)
            .field("keyed_routes", &self.keyed_routes)
            .field("stores_failures", &self.stores_failures)
            .field("replay", &self.replay)
            .field("own", &self.own)
            .field("success", &self.success)
            .field("in_progress", &self.in_progress)
            .field("reused", &self.reused)
            .field("duplicate", &self.duplicate)
            .field("unauthorized", &self.unauthorized)
            .field("retry_same_key", &self.retry_same_key)
            .finish()
    }
}

/// The header that carries the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Auth {
    /// The header's name.
    pub header: String,
    /// Text before the secret, such as `"Bearer "`. Default: nothing.
    #[serde(default)]
    pub prefix: String,
}

/// Marks answers. All parts that are given must match; one must be given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Marker {
    /// The HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// A header's name with its whole value, in any case of letters.
    #[serde(default, with = "form::header", skip_serializing_if = "Option::is_none")]
    pub header: Option<(String, String)>,
    /// A place in the JSON body, which is a JSON pointer (RFC 6901) such as `/errors/0/code`, with its value: the text,
    /// or the number or boolean as JSON writes it.
    #[serde(default, with = "form::json", skip_serializing_if = "Option::is_none")]
    pub json: Option<(String, String)>,
    /// A text that is a value anywhere in the JSON body, such as the code of an error whose place differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
    /// The name of a member that is anywhere in the JSON body, with a value other than null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has: Option<String>,
}

/// Something that is on each failure which a vendor itself writes, whatever its value. All parts that are given must be
/// there; one must be given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OwnMark {
    /// A header's name, such as `Request-Id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// A place in the JSON body: a JSON pointer (RFC 6901), such as `/error/code`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
}

/// Form of a success: something among its headers, or at a place in its JSON body, whatever its value. All parts that
/// are given must be there; `header` or `json` must be given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SuccessForm {
    /// A method and a whole path, as in [`KeyedConfig::keyed_routes`]. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// A header's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// A JSON pointer (RFC 6901), such as `/id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
}

impl Auth {
    /// A scheme and what it is for are apart (RFC 9110, 11.4).
    fn check_prefix(&self) -> Result<(), Error> {
        let is_scheme = self.header.eq_ignore_ascii_case("Authorization")
            && self.prefix.ends_with(|last: char| last.is_ascii_alphanumeric());
        if !is_scheme {
            return Ok(());
        }
        let problem = format!("the secret would follow without a blank; write \"{} \"", self.prefix);
        Err(invalid(field!(auth.prefix), &problem))
    }
}

impl SuccessForm {
    pub(super) fn matches(&self, answer: &Answer) -> bool {
        self.mark().matches(answer)
    }

    fn mark(&self) -> OwnMark {
        OwnMark { header: self.header.clone(), json: self.json.clone() }
    }

    fn check(&self, field: Field) -> Result<(), Error> {
        match self.route.as_deref().and_then(routes::problem) {
            Some(problem) => Err(invalid(field, problem)),
            None => self.mark().check(field),
        }
    }
}

impl KeyedConfig {
    /// A vendor of this name and base URL without auth, key or window: every POST is sent at most once.
    pub fn new(name: impl Into<String>, base_url: impl Into<String>) -> KeyedConfig {
        KeyedConfig {
            name: name.into(),
            base_url: base_url.into(),
            account: default_account(),
            auth: None,
            headers: BTreeMap::new(),
            account_headers: None,
            key: None,
            quoted: false,
            key_len_max: default_key_len_max(),
            window: None,
            keyed_routes: None,
            stores_failures: false,
            replay: None,
            own: None,
            success: Vec::new(),
            in_progress: Vec::new(),
            reused: Vec::new(),
            duplicate: Vec::new(),
            unauthorized: Vec::new(),
            retry_same_key: Vec::new(),
        }
    }

    /// The header that carries the secret, and what stands before the secret there, such as `"Bearer "`. Default: no
    /// secret is sent.
    ///
    /// ```
    /// use steadfast::vendor::{Keyed, KeyedConfig};
    ///
    /// let acme = KeyedConfig::new("acme", "https://api.acme.example").auth("Authorization", "Bearer ");
    /// let acme = Keyed::new(acme, "a-secret");
    /// # use steadfast::vendor::Vendor;
    /// # assert_eq!(acme.secret_headers(), ["authorization"]);
    /// ```
    #[must_use]
    pub fn auth(mut self, header: impl Into<String>, prefix: impl Into<String>) -> KeyedConfig {
        self.auth = Some(Auth { header: header.into(), prefix: prefix.into() });
        self
    }

    /// Whether a secret is sent at all.
    pub(crate) fn needs_secret(&self) -> bool {
        self.auth.is_some()
    }

    /// Refuses a configuration that makes no sense.
    ///
    /// # Errors
    ///
    /// A validation error that names the field and the mistake.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |field, problem: &str| Err(invalid(field, problem));
        if self.name.is_empty() {
            return refuse(field!(name), "it is empty");
        }
        check_account(&self.account).map_err(|error| error.at(field!(account)))?;
        if let Some(auth) = &self.auth {
            check_header_name(field!(auth.header), &auth.header)?;
            auth.check_prefix()?;
        }
        headers::check(self)?;
        for (index, name) in self.account_headers.iter().flatten().enumerate() {
            check_header_name(field!(account_headers[index]), name)?;
        }
        match &self.key {
            Some(KeyPlace::Header(name)) => check_header_name(field!(key.header), name)?,
            Some(KeyPlace::Body(field)) if field.is_empty() => {
                return refuse(field!(key.body), "it is empty");
            }
            Some(KeyPlace::Body(_)) if self.quoted => {
                let problem = "`quoted` is for headers; this key goes into the body";
                return Err(invalid(field!(key_form), problem).beside(field!(key.body)));
            }
            None if self.window.is_some() => {
                let problem = "without `key` the vendor has nothing to replay";
                return Err(invalid(field!(window), problem).beside(field!(key)));
            }
            _ => {}
        }
        if self.key_len_max < KEY_LEN_LEAST {
            let is_under = format!("{} is under {KEY_LEN_LEAST}", self.key_len_max);
            return refuse(field!(key_len_max), &format!("{is_under}, and shorter keys would collide"));
        }
        if self.window == Some(Duration::ZERO) {
            return refuse(field!(window), "zero; leave it out for a vendor that never replays");
        }
        if self.stores_failures && self.window.is_none() {
            let problem = "without `window` nothing is known to be stored";
            return Err(invalid(field!(stores_failures), problem).beside(field!(window)));
        }
        self.check_routes()?;
        let lists = [
            (field!(in_progress), &self.in_progress),
            (field!(reused), &self.reused),
            (field!(duplicate), &self.duplicate),
            (field!(unauthorized), &self.unauthorized),
            (field!(retry_same_key), &self.retry_same_key),
        ];
        for (list, markers) in lists {
            for (index, marker) in markers.iter().enumerate() {
                marker.check(&list.clone().item(index))?;
            }
        }
        if let Some(index) = self.unauthorized.iter().position(|marker| marker.status == Some(403)) {
            let problem = "a 403 forbids one request; it does not refuse the secret";
            return Err(invalid(field!(unauthorized).item(index), problem));
        }
        if let Some(marker) = &self.replay {
            marker.check(&field!(replay))?;
        }
        for (index, form) in self.success.iter().enumerate() {
            form.check(field!(success).item(index))?;
        }
        self.own.as_ref().map_or(Ok(()), |own| own.check(field!(own)))
    }

    fn check_routes(&self) -> Result<(), Error> {
        let Some(listed) = &self.keyed_routes else { return Ok(()) };
        if self.key.is_none() {
            let problem = "without `key` there is nothing for them to take";
            return Err(invalid(field!(keyed_routes), problem).beside(field!(key)));
        }
        if listed.is_empty() {
            let problem =
                "it is empty; leave it out where every route takes the key, and `key` where none does";
            return Err(invalid(field!(keyed_routes), problem));
        }
        for (index, route) in listed.iter().enumerate() {
            if let Some(problem) = routes::problem(route) {
                return Err(invalid(field!(keyed_routes[index]), problem));
            }
        }
        Ok(())
    }
}

impl OwnMark {
    /// Whether all given parts are there. A mark without parts matches nothing.
    pub(super) fn matches(&self, answer: &Answer) -> bool {
        (self.header.is_some() || self.json.is_some())
            && self.header.as_ref().is_none_or(|name| answer.headers.contains_key(name.as_str()))
            && self.json.as_ref().is_none_or(|pointer| {
                answer.json().is_some_and(|body| body.pointer(pointer).is_some_and(|value| !value.is_null()))
            })
    }

    fn check(&self, field: Field) -> Result<(), Error> {
        let problem = match (&self.header, &self.json) {
            (None, None) => "a mark needs `header` or `json`",
            (_, Some(pointer)) if !pointer.starts_with('/') => "a JSON pointer starts with `/`",
            (Some(name), _) => return check_header_name(field, name),
            _ => return Ok(()),
        };
        Err(invalid(field, problem))
    }
}

impl Marker {
    /// Whether all given parts match. A marker without parts matches nothing.
    pub(super) fn matches(&self, answer: &Answer) -> bool {
        if *self == Marker::default() {
            return false;
        }
        let status = self.status.is_none_or(|status| answer.status.as_u16() == status);
        status
            && self.header.as_ref().is_none_or(|(name, value)| {
                let values = answer.headers.get_all(name.as_str());
                let wanted = value.as_bytes();
                values.iter().any(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(wanted))
            })
            && self.json.as_ref().is_none_or(|json| has(json, answer))
            && self.is_in_body(answer)
    }

    /// Whether the parts that may be anywhere in the body are there.
    fn is_in_body(&self, answer: &Answer) -> bool {
        if self.says.is_none() && self.has.is_none() {
            return true;
        }
        let Some(body) = answer.json() else { return false };
        let says = |text: &String| anywhere(&body, &|value, _| value.as_str() == Some(text));
        let has = |name: &String| anywhere(&body, &|value, member| member == Some(name) && !value.is_null());
        self.says.as_ref().is_none_or(says) && self.has.as_ref().is_none_or(has)
    }

    fn check(&self, field: &Field) -> Result<(), Error> {
        if *self == Marker::default() {
            return Err(invalid(field.clone(), "a marker needs `status`, `header`, `json`, `says` or `has`"));
        }
        if let Some((name, value)) = &self.header {
            check_header_name(field.clone(), name)?;
            if HeaderValue::from_str(value).is_err() {
                return Err(invalid(field.clone(), "no header has this value"));
            }
        }
        match (&self.json, self.status) {
            (Some((pointer, _)), _) if !pointer.is_empty() && !pointer.starts_with('/') => {
                Err(invalid(field.clone(), "a JSON pointer starts with `/`"))
            }
            (_, Some(status)) if !(100..1000).contains(&status) => {
                Err(invalid(field.clone(), &format!("{status} is not an HTTP status")))
            }
            _ => Ok(()),
        }
    }
}

fn has((pointer, wanted): &(String, String), answer: &Answer) -> bool {
    let Some(body) = answer.json() else { return false };
    match body.pointer(pointer) {
        Some(serde_json::Value::String(text)) => text == wanted,
        Some(other) => serde_json::to_string(other).is_ok_and(|text| text == *wanted),
        None => false,
    }
}

/// Whether any value of the body is the one. It is asked with the name of its member. The depth is bounded, because
/// the reader of the body has a bound.
fn anywhere(value: &serde_json::Value, is_it: &impl Fn(&serde_json::Value, Option<&str>) -> bool) -> bool {
    match value {
        serde_json::Value::Object(members) => {
            members.iter().any(|(name, member)| is_it(member, Some(name)) || anywhere(member, is_it))
        }
        serde_json::Value::Array(items) => {
            items.iter().any(|item| is_it(item, None) || anywhere(item, is_it))
        }
        plain => is_it(plain, None),
    }
}

pub(super) fn check_header_name(field: Field, name: &str) -> Result<(), Error> {
    match HeaderName::from_bytes(name.as_bytes()) {
        Ok(_) => Ok(()),
        Err(_) => Err(invalid(field, &format!("{name:?} is not the name of a header"))),
    }
}

pub(super) fn invalid(field: Field, problem: &str) -> Error {
    Error::invalid(Input::Other("vendor"), problem).at(field)
}

fn default_account() -> String {
    "default".into()
}

/// Default: the length that Stripe takes, and more than a UUID needs anywhere.
fn default_key_len_max() -> usize {
    255
}

/// 60 bits of a hash: among a million operations two collide once in about two million such sets.
const KEY_LEN_LEAST: usize = 16;

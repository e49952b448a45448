//! The adapter's name, and the secrets that it must not show.

use http::{HeaderMap, Method};

use steadfast_core::transport::Request;
use steadfast_core::vendor::{Subject, is_plain};

use super::cases::{CLAIMED_AT, is_in};
use super::{Book, Conformance};

impl Conformance<'_> {
    pub(super) fn secrets(&self, book: &mut Book) {
        let vendor = self.vendor;
        if let Some(Err(error)) = self.asked(book, || "check".to_owned(), |vendor| vendor.check()) {
            book.hold(CHECKED, false, || error.to_string());
        }
        let name = vendor.name();
        let is_word =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        book.hold(NAMED, !name.is_empty() && is_word(name), || format!("{name:?}"));

        let Some((stamped, key)) = self.stamped(&Method::POST, false, book) else { return };
        let (Some(sent), Some(again)) = (self.authorized(&stamped, book), self.authorized(&stamped, book))
        else {
            return;
        };
        let (method, url, body) = (&sent.method, &sent.url, &sent.body);
        let is_same = (method, url, body) == (&again.method, &again.url, &again.body);
        book.hold(SENT_SAME, is_same && *method == stamped.method, || {
            "authorize made two requests of one".to_owned()
        });
        let is_there = url.origin() == stamped.url.origin() && url.path() == stamped.url.path();
        book.hold(SENT_THERE, is_there, || "authorize leads the request to another place".to_owned());

        let secrets = self.secrets_of(&sent, book);
        let is_shown = |text: &str| secrets.iter().any(|secret| text.contains(secret.as_str()));
        for shown in [format!("{vendor:?}"), format!("{vendor:#?}")] {
            book.hold(NOT_PRINTED, !is_shown(&shown), || "Debug of the adapter shows it".to_owned());
        }
        let holds = |request: &Request| secrets.iter().any(|secret| is_in(request, secret));
        book.hold(NOT_STORED, !holds(&stamped), || "stamp writes it into the request".to_owned());
        let account = vendor.account(&HeaderMap::new());
        book.hold(NOT_STORED, !is_shown(&account), || "it is in the account's name".to_owned());
        book.hold(NOT_STORED, !is_shown(vendor.base_url().as_str()), || "it is in the base URL".to_owned());
        let subject = Subject::new(&stamped, &key, CLAIMED_AT);
        if let Some(Some(request)) =
            self.asked(book, || "lookup".to_owned(), |vendor| vendor.lookup(&subject))
        {
            book.hold(NOT_STORED, !holds(&request), || "lookup writes it into its request".to_owned());
        }
        // A secret of a test may be as short as a word of a route.
        let long = secrets.iter().map(String::as_str).filter(|secret| !is_plain(secret));
        for token in long.chain(["ada%40example.com", "kQzXwVbTmRpLsNdFgHjK8"]) {
            book.hold(NOT_SHOWN, !vendor.may_show(token), || {
                "may_show passes a secret or an address".to_owned()
            });
        }
    }

    fn authorized(&self, stamped: &Request, book: &mut Book) -> Option<Request> {
        let mut request = stamped.clone();
        self.asked(book, || "authorize".to_owned(), |vendor| vendor.authorize(&mut request))?;
        Some(request)
    }

    /// Returns the texts that authorizing adds and that must stay secret.
    fn secrets_of(&self, sent: &Request, book: &mut Book) -> Vec<String> {
        let kept = self
            .asked(book, || "secret_headers".to_owned(), |vendor| vendor.secret_headers())
            .unwrap_or_default();
        let mut texts = Vec::new();
        for (name, value) in &sent.headers {
            // The stamped request is compared too: a secret does not belong there.
            if self.call.headers.get(name) == Some(value) {
                continue;
            }
            let reads_secret = SECRET_WORDS.iter().any(|word| name.as_str().contains(word));
            if !value.is_sensitive() && !reads_secret {
                continue;
            }
            book.hold(MARKED, value.is_sensitive(), || format!("{name} is not marked"));
            book.hold(MARKED, kept.contains(name), || format!("{name} is not among secret_headers"));
            texts.push(String::from_utf8_lossy(value.as_bytes()).into_owned());
        }
        let known: Vec<_> = self.call.url.query_pairs().collect();
        texts.extend(
            sent.url.query_pairs().filter(|pair| !known.contains(pair)).map(|(_, value)| value.into_owned()),
        );
        // Without the scheme before it, such as `Bearer`.
        let words = texts.iter().filter_map(|text| text.split_whitespace().last()).map(str::to_owned);
        let mut all: Vec<String> = words.filter(|word| word.len() >= SECRET_LEN_MIN).collect();
        all.dedup();
        all
    }
}

const CHECKED: &str = "an adapter under test passes its own check";
const NAMED: &str = "a name is letters, digits and `-`, `_`, `.`";
const SENT_SAME: &str = "a resend is the same request";
const SENT_THERE: &str = "a request goes where its call goes";
const MARKED: &str = "a secret's header is marked as sensitive and refused from callers";
const NOT_PRINTED: &str = "no secret is printed";
const NOT_STORED: &str = "no secret is stored";
const NOT_SHOWN: &str = "a text that could be a token is not shown";

/// Parts of the names of headers that carry secrets.
const SECRET_WORDS: [&str; 7] =
    ["authorization", "token", "secret", "api-key", "apikey", "cookie", "password"];

/// Minimum length of a secret that is searched for: shorter ones are found everywhere by chance.
const SECRET_LEN_MIN: usize = 4;

//! The parts of a call that errors, spans and events show.
//!
//! Of the URL that is the path which the caller wrote: below the adapter's base URL, without the query. The base is
//! configuration and may hold a token (`https://chat.test/bot<token>`), the query may hold anything that a log must not.
//!
//! In what is left there are ids, and most of them are names. But some open a thing to their reader: a cart, a
//! checkout, an invitation, a hook. No text shows which of the two it is, so the rule errs on the safe side. A segment
//! that is long enough to be a token is not shown, unless the vendor's adapter knows that it is none. Little is lost by
//! that: the operation's key names the call, and the record has the path.

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use std::fmt::{self, Write as _};
use std::ops::Deref;

use http::Method;
use url::Url;

use super::Vendor;
use crate::error::Context;
use crate::operation::{Fingerprint, OperationId, REDACTED, fingerprint};
use crate::request::Request;

/// Whether a segment of a path reads as the words of a route, a version, a number or a short id. It judges the form
/// alone: a token that is made of few and short words reads as a route.
///
/// ```
/// use steadfast::vendor::is_plain;
///
/// for shown in ["payment_intents", "v1", "2010-04-01", "1234567890", "acct_1", "batchWithTemplates"] {
///     assert!(is_plain(shown), "{shown}");
/// }
/// for hidden in ["550e8400-e29b-41d4-a716-446655440000", "ada%40example.com", "kQzXwVbTmRpLsNdF"] {
///     assert!(!is_plain(hidden), "{hidden}");
/// }
/// ```
///
/// `-`, `_`, `.` and `:` stand between the parts. These are:
///
/// - words: at most 3, or 2 with a `-`, of at most 28 letters together. One is at most 16 letters of one case (8
///   capitals), or begins its parts with capitals. Each of those is followed by two small letters or more, and such
///   words have at most 20 letters together.
/// - digits, at most 10, or letters and digits mixed, at most 8 together with the other digits.
pub fn is_plain(segment: &str) -> bool {
    let (mut digits, mut mixed) = (0, 0);
    let (mut words, mut letters, mut capitalized) = (0, 0, 0);
    for part in segment.split(['-', '_', '.', ':']) {
        let count = part.bytes().filter(u8::is_ascii_digit).count();
        if !part.bytes().all(|byte| byte.is_ascii_alphanumeric()) || (count == 0 && !is_word(part)) {
            return false;
        }
        if count == part.len() {
            digits += count;
            continue;
        }
        words += 1;
        letters += part.len() - count;
        if count > 0 {
            mixed += part.len();
        } else if part.bytes().any(|byte| byte.is_ascii_uppercase()) {
            capitalized += part.len();
        }
    }
    let digits_max = if mixed == 0 { DIGITS_MAX } else { MIXED_MAX };
    let words_max = if segment.contains('-') { WORDS_MAX - 1 } else { WORDS_MAX };
    digits + mixed <= digits_max
        && words <= words_max
        && letters <= LETTERS_MAX
        && capitalized <= CAPITALIZED_MAX
        && segment.len() <= SEGMENT_LEN_MAX
}

/// Returns true if letters read as a word, or as several that are separated by capitals.
fn is_word(letters: &str) -> bool {
    let is_capital = |letter: u8| letter.is_ascii_uppercase();
    if letters.bytes().all(is_capital) {
        return letters.len() <= MIXED_MAX;
    }
    let letters = letters.as_bytes();
    let mut start = 0;
    for at in 1..=letters.len() {
        if at == letters.len() || is_capital(letters[at]) {
            let is_short = is_capital(letters[start]) && at - start < HUMP_LEN_MIN;
            if is_short || at - start > WORD_LEN_MAX {
                return false;
            }
            start = at;
        }
    }
    true
}

/// A path as it may be shown. Written when it is asked for, so that a call without a listener costs nothing.
#[derive(Clone, Copy)]
pub struct ShownPath<'a> {
    vendor: &'a dyn Vendor,
    path: &'a str,
}

impl<'a> ShownPath<'a> {
    /// The path of a call's URL, below the adapter's base.
    pub fn of(vendor: &'a dyn Vendor, url: &'a Url) -> ShownPath<'a> {
        ShownPath::below(vendor, vendor.base_url().path().trim_end_matches('/'), url.path())
    }

    /// The path of an operation's name, below the base as names have it.
    fn of_name(vendor: &'a dyn Vendor, path: &'a str) -> ShownPath<'a> {
        let base = vendor.base_url().path().trim_end_matches('/');
        let named = [base, "/"].concat();
        ShownPath::below(vendor, vendor.operation_path(&named).trim_end_matches('/'), path)
    }

    /// A whole path. One that is not below this base may be of a base that is configured no more, with a token of its
    /// own: nothing of it is shown.
    fn below(vendor: &'a dyn Vendor, base: &str, path: &'a str) -> ShownPath<'a> {
        let below = path.strip_prefix(base).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        ShownPath::of_text(vendor, below.unwrap_or(REDACTED))
    }

    /// A path as a caller wrote it.
    pub fn of_text(vendor: &'a dyn Vendor, path: &'a str) -> ShownPath<'a> {
        ShownPath { vendor, path }
    }
}

impl fmt::Display for ShownPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = 0;
        for (index, segment) in self.path.split('/').enumerate() {
            if index > 0 {
                f.write_char('/')?;
            }
            let shown = if self.vendor.may_show(segment) { segment } else { REDACTED };
            written += shown.len() + 1;
            if written > PATH_LEN_MAX {
                return f.write_char('…');
            }
            f.write_str(shown)?;
        }
        Ok(())
    }
}

/// An operation's name as it may be shown: its scope's route is a path too.
pub struct ShownOperation<'a> {
    pub vendor: &'a dyn Vendor,
    pub id: &'a OperationId,
}

impl fmt::Display for ShownOperation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scope = &self.id.scope;
        let (account, rest) = scope.as_str().split_at(scope.account_path().len());
        let (method, route) = rest.split_at(rest.find(' ').map_or(rest.len(), |gap| gap + 1));
        write!(f, "{account}{method}")?;
        if !rest.is_empty() {
            write!(f, "{}", ShownPath::of_name(self.vendor, route))?;
        }
        write!(f, " key {}", self.id.key)
    }
}

/// A client's adapter, shared with the replies that it gave: they say whose they are if they cannot be read.
#[derive(Debug)]
pub struct Adapter(pub Box<dyn Vendor>);

impl Deref for Adapter {
    type Target = dyn Vendor;

    fn deref(&self) -> &(dyn Vendor + 'static) {
        &*self.0
    }
}

impl Adapter {
    /// The fingerprint of a request that is not stamped: of what its operation is named by, not of where it is sent.
    pub fn fingerprint(&self, account: &str, request: &Request) -> Fingerprint {
        let path = self.operation_path(request.url.path());
        if path == request.url.path() {
            return fingerprint(account, request);
        }
        let mut named = request.clone();
        named.url.set_path(&path);
        fingerprint(account, &named)
    }

    /// The vendor, the method and the path as it may be shown.
    pub fn context(&self, method: &Method, url: &Url) -> Context {
        let path = ShownPath::of(&**self, url).to_string();
        let path = (!path.is_empty()).then_some(path);
        Context { method: Some(method.clone()), path, ..Context::of_vendor(self.name()) }
    }
}

/// The longest word of the routes that were looked at is `configurations`, with 14 letters.
const WORD_LEN_MAX: usize = 16;

/// Most words of a name, such as `payment_method_configurations`. A phrase that is a password has four or more. With a
/// `-` one fewer: codes such as `abc-defg-hij` are written so, and few routes are.
const WORDS_MAX: usize = 3;

/// Most letters of a name: that one again, which has 27.
const LETTERS_MAX: usize = 28;

/// `batchWithTemplates` has 18, and a token of mixed case seldom fewer.
const CAPITALIZED_MAX: usize = 20;

/// A capital and two small letters: in a random text, capitals stand closer.
const HUMP_LEN_MIN: usize = 3;

/// A phone number with its country's code or a card's number has more, a date or a row's number does not.
const DIGITS_MAX: usize = 10;

/// 48 bits at most: too few for a token that cannot be guessed.
const MIXED_MAX: usize = 8;

/// Words in a row, such as a slug.
const SEGMENT_LEN_MAX: usize = 64;

/// Longest path that is shown: one line of an error has room for more than this, but not for ten thousand segments.
const PATH_LEN_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "550e8400-e29b-41d4-a716-446655440000";

    #[test]
    fn a_possible_token_or_person_is_not_plain() {
        for shown in
            ["", "email", "checkout_settings", "Accounts.json", "items:batch", "order-42", "SKU-1234"]
        {
            assert!(is_plain(shown), "{shown}");
        }
        // Routes of Stripe, BigCommerce, Postmark and Twilio.
        for shown in [
            "payment_intents",
            "subscription_schedules",
            "promotion_codes",
            "payment_method_configurations",
            "payment_method_domains",
            "payment_actions",
            "gift-certificates",
            "withTemplate",
            "batchWithTemplates",
            "message-streams",
            "deliverystats",
            "IncomingPhoneNumbers",
            "Messages.json",
            "api.stripe.com",
        ] {
            assert!(is_plain(shown), "{shown}");
        }
        for hidden in [
            TOKEN,
            "B0tT0kenB0tT0ken",
            "123456789:AAF0",
            "T0123456789",
            "abcdefghijklmnopqrstu",
            "abcdefghijklmnopq",
            "kQzXwVbTmRpLsNdFgHjK",
            "kQzXwVbT",
            "KQZXWVBTM",
            "kqzxwvbtmrplsndf_gjhkqwzxcvbnmlpo_trewqasdfghjklmn",
            "KqzxwvbtmrplSndf_GjhkqwzxCvb",
            "abc-defg-hij",
            "correct-horse-battery-staple",
            "correct_horse_battery_staple",
            "correct-horse-battery",
            "correct.horse.battery.staple",
            "+4915112345678",
            "4915112345678",
            "ada@example.com",
            "a%2Fb",
            "a b",
            "ü",
            "0123456789abcdef",
            &"word-".repeat(13),
        ] {
            assert!(!is_plain(hidden), "{hidden}");
        }
    }
}

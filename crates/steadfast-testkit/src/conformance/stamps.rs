//! Stamping: the place of the key, and the parts of a request that must stay as the caller wrote them.

use std::time::Duration;

use http::Method;

use steadfast_core::vendor::rules::has_content_type;

use super::cases::{is_in, with_method};
use super::{Book, Conformance};

impl Conformance<'_> {
    pub(super) fn stamps(&self, book: &mut Book) {
        for method in [Method::GET, Method::HEAD] {
            let Some((request, key)) = self.stamped(&method, false, book) else { continue };
            let is_bare = !is_in(&request, &key) && request.body.is_empty();
            book.hold(SAFE_WITHOUT, is_bare, || format!("{method} {}", request.url.path()));
        }
        let Some((first, key)) = self.stamped(&Method::POST, false, book) else { return };
        let Some((again, same)) = self.stamped(&Method::POST, false, book) else { return };
        book.hold(SAME, first == again && key == same, || {
            "the same key, stamped twice, made two requests".to_owned()
        });
        if let Some((other, other_key)) = self.stamped(&Method::POST, true, book) {
            let is_placed = is_in(&first, &key);
            book.hold(APART, !is_placed || other != first && other_key != key, || {
                format!("two operations, and both have the key {key}")
            });
        }
        self.body_kept(&first.body, book);

        let (bare, window) = (with_method(&self.call, Method::POST), |request| {
            self.asked(
                &mut Book::default(),
                || "replay_window".to_owned(),
                |vendor| vendor.replay_window(request),
            )
        });
        if let Some(Some(open)) = window(&bare) {
            book.hold(NO_KEY_NO_WINDOW, false, || format!("a POST that was not stamped has {open:?}"));
        }
        if let Some(Some(open)) = window(&first) {
            book.hold(NO_KEY_NO_WINDOW, is_in(&first, &key), || "the key is nowhere in the call".to_owned());
            book.hold(WINDOW, !open.is_zero() && open <= WINDOW_MAX, || format!("{open:?}"));
        }
    }

    /// Checks that the caller's body is unchanged, in the same order and with the same digits.
    fn body_kept(&self, stamped: &[u8], book: &mut Book) {
        let (ours, theirs) =
            (String::from_utf8_lossy(&self.call.body), String::from_utf8_lossy(stamped).into_owned());
        let (wrote, left) = if has_content_type(&self.call, "application/x-www-form-urlencoded") {
            (ours.split('&').map(str::to_owned).collect(), theirs.split('&').map(str::to_owned).collect())
        } else {
            (numbers(&ours), numbers(&theirs))
        };
        let mut rest = left.iter();
        let missing = wrote.iter().find(|part| !rest.any(|held| held == *part));
        book.hold(BODY_KEPT, missing.is_none(), || format!("{} is gone", missing.map_or("", |part| part)));
    }
}

/// Returns the numbers of a JSON text, as they are written.
fn numbers(text: &str) -> Vec<String> {
    let (mut found, mut current) = (Vec::new(), String::new());
    let (mut in_text, mut escaped) = (false, false);
    for letter in text.chars() {
        if in_text {
            (escaped, in_text) = (!escaped && letter == '\\', escaped || letter != '"');
        } else if letter.is_ascii_digit() || !current.is_empty() && ".eE+-".contains(letter) {
            current.push(letter);
        } else {
            in_text = letter == '"';
            if !current.is_empty() {
                found.push(std::mem::take(&mut current));
            }
        }
    }
    if !current.is_empty() {
        found.push(current);
    }
    found
}

const SAFE_WITHOUT: &str = "a GET carries no key";
const SAME: &str = "a key is stamped the same way each time";
const APART: &str = "two operations have two keys";
const BODY_KEPT: &str = "the caller's body stays as it was written";
const NO_KEY_NO_WINDOW: &str = "without a key nothing is replayed";
const WINDOW: &str = "a replay window is longer than nothing and shorter than a year";

const WINDOW_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

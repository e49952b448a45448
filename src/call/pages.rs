//! A list, page by page.

use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::sync::Arc;

use http::{Method, StatusCode};
use url::Url;

use steadfast_core::internal::ext::{ErrorExt, InputErrorExt};
use steadfast_core::internal::guard::Guard;
use steadfast_core::internal::vendor::with_query;
use steadfast_core::transport::Request;
use steadfast_core::{Error, Input};

use super::Call;
use super::redirects::is_within;
use crate::prepared::Prepared;
use crate::reply::Reply;

/// A list at the vendor, page by page: made by [`Call::pages`].
///
/// ```
#[doc = include_str!("../docs/setup/stripe.md")]
/// # for order in 0..5 {
/// #     let form = [("amount", "1000"), ("currency", "usd")];
/// #     stripe.post("/v1/charges").key(format!("order-{order}/charge")).form(&form).send().await?;
/// # }
/// let mut charges = 0;
/// let mut pages = stripe.get("/v1/charges").query(&[("limit", "2")]).pages();
/// while let Some(page) = pages.next().await? {
///     let page: serde_json::Value = page.json()?;
///     charges += page["data"].as_array().unwrap().len();
/// }
/// assert_eq!(charges, 5);
#[doc = include_str!("../docs/setup/end.md")]
/// ```
///
/// Each page is a call of its own. It is retried, passes the gates, and has the call's [deadline](Call::deadline) for
/// itself. That of an [incoming request](Call::inbound) is one for the whole list.
pub struct Pages {
    /// Request of every page, but for its URL.
    call: Call,
    rule: Option<Rule>,
    at: At,
    /// The URLs of the pages that were asked, as hashes.
    seen: HashSet<u64>,
    /// The body of the page before, as a hash.
    before: Option<u64>,
}

/// The caller's rule for the next page: a parameter of the query, and its value after a page.
struct Rule {
    name: String,
    value: Box<ValueAfter>,
}

/// The parameter's value after a page; `None` after the last one.
type ValueAfter = dyn FnMut(&Reply) -> Result<Option<String>, Error> + Send;

/// The next page.
enum At {
    Page(Url),
    End,
    /// There is more, and it is not asked for. The page that shows it, and the reason.
    Stray(Box<Reply>, &'static str),
}

impl Call {
    /// Reads a list page by page. For a GET without a key; for every other call it is a mistake, which the first
    /// [`next`](Pages::next) reports.
    ///
    /// | vendor | the next page |
    /// |---|---|
    /// | [`Stripe`](crate::vendor::Stripe) | `starting_after` the last object, or `ending_before` the first one if the call asks for that; a search's and a v2 list's own |
    /// | [`BigCommerce`](crate::vendor::BigCommerce) V3 | the next `page`, or the cursor's link |
    /// | [`BigCommerce`](crate::vendor::BigCommerce) V2 | the next `page`, until one is empty |
    /// | [`Postmark`](crate::vendor::Postmark) | `offset` after what was shown; give `count` and `offset` |
    /// | [`Adyen`](crate::vendor::Adyen) | the query of `_links.next`, as the lists of its Management API have it |
    /// | any other | the `Link` header with `rel="next"` (RFC 8288) |
    ///
    /// For a vendor that pages otherwise give the rule: [`pages_by`](Call::pages_by). A page that names another one in its
    /// body, in one of the usual forms, is an error without it. An adapter says it in
    /// [`Vendor::next_page`](crate::vendor::Vendor::next_page).
    ///
    /// A list changes while it is read. A cursor (Stripe) leaves nothing out and shows nothing twice. A page number or an
    /// offset (BigCommerce, Postmark) does not keep up. An object that is removed moves the rest up, and one is left out.
    /// An object that is made moves the rest down, and one is shown twice.
    pub fn pages(self) -> Pages {
        Pages::new(self, None)
    }

    /// Reads a list as [`pages`](Call::pages) does, with the caller's rule. `parameter` is the query parameter that
    /// asks for the next page. `value` is given a page, and gives that parameter's value for the next one. `None` marks
    /// the page as the last.
    ///
    /// ```
    /// # #[cfg(feature = "testkit")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use serde_json::json;
    /// # use steadfast::testkit::ScriptedTransport;
    /// # let network = ScriptedTransport::new()
    /// #     .json(200, json!({"payments": [1, 2], "cursor": "c2"})).json(200, json!({"payments": [3]}));
    /// # let square = steadfast::Client::builder(steadfast::vendor::Keyed::new(
    /// #     steadfast::vendor::KeyedConfig::new("acme", "https://api.acme.test"), ""));
    /// # let square = square.transport(network.clone()).build()?;
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize)]
    /// struct Payments {
    ///     payments: Vec<u64>,
    ///     cursor: Option<String>,
    /// }
    ///
    /// let mut pages = square.get("/v2/payments").pages_by("cursor", |page| Ok(page.json::<Payments>()?.cursor));
    /// let mut payments = Vec::new();
    /// while let Some(page) = pages.next().await? {
    ///     payments.extend(page.json::<Payments>()?.payments);
    /// }
    /// assert_eq!(payments, [1, 2, 3]);
    /// # assert_eq!(network.requests()[1].url.query(), Some("cursor=c2"));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "testkit"))]
    /// # fn main() {}
    /// ```
    pub fn pages_by(
        self,
        parameter: impl Into<String>,
        value: impl FnMut(&Reply) -> Result<Option<String>, Error> + Send + 'static,
    ) -> Pages {
        Pages::new(self, Some(Rule { name: parameter.into(), value: Box::new(value) }))
    }
}

impl Pages {
    fn new(mut call: Call, rule: Option<Rule>) -> Pages {
        if call.prepared.request.method != Method::GET || call.prepared.work.key.is_some() {
            call.note(Error::invalid(
                Input::Other("pages"),
                "`pages` needs a GET without an idempotency key",
            ));
        }
        let first = call.prepared.request.url.clone();
        Pages { call, rule, at: At::Page(first), seen: HashSet::new(), before: None }
    }

    /// The next page, or `None` after the last one. A 204 is no page: it ends the list.
    ///
    /// # Errors
    ///
    /// As [`Call::send`]. The place in the list is kept: the next call asks for the same page again, also one that its
    /// vendor did not write as a list ([`is_unreadable_reply`](Error::is_unreadable_reply)).
    ///
    /// A list that leads to another host, or back to a page that was asked before, or that shows the same page again, is
    /// not read on. Each call from then on gives this error, which [is unreadable](Error::is_unreadable_reply) too.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future releases every permit and keeps the place in the list.
    pub async fn next(&mut self) -> Result<Option<Reply>, Error> {
        let url = match &self.at {
            At::Page(url) => url.clone(),
            At::End => return Ok(None),
            At::Stray(page, why) => return Err(page.unreadable(*why)),
        };
        let asked = hash(&url);
        let reply = self.call.for_page(url).send().await?;
        if reply.status() == StatusCode::NO_CONTENT {
            self.at = At::End;
            return Ok(None);
        }
        let body = hash(reply.bytes());
        let is_empty = matches!(&**reply.bytes(), b"" | b"[]" | b"{}");
        if self.before == Some(body) && !is_empty {
            let error = reply.unreadable(SAME);
            self.at = At::Stray(Box::new(reply), SAME);
            return Err(error);
        }
        let next = self.after(&reply)?;
        self.seen.insert(asked);
        self.before = Some(body);
        self.at = match next {
            None => At::End,
            Some(next) if !is_within(&next, self.call.prepared.engine.vendor.base_url()) => {
                At::Stray(Box::new(reply.clone()), ELSEWHERE)
            }
            Some(next) if Guard::PageOnce.keeps(self.seen.contains(&hash(&next))) => {
                At::Stray(Box::new(reply.clone()), AGAIN)
            }
            Some(next) => At::Page(next),
        };
        Ok(Some(reply))
    }

    /// The URL of the page after this one.
    fn after(&mut self, page: &Reply) -> Result<Option<Url>, Error> {
        let vendor = &self.call.prepared.engine.vendor;
        let url = page.url().unwrap_or_else(|| self.call.prepared.request.url.clone());
        let next = match &mut self.rule {
            Some(rule) => (rule.value)(page)?.map(|value| with_query(&url, &[(rule.name.clone(), value)])),
            None => {
                let mut asked = Request::new(Method::GET, url);
                asked.headers.clone_from(&self.call.prepared.request.headers);
                vendor.next_page(&asked, page.answer()).map_err(|why| page.unreadable(why))?
            }
        };
        Ok(next.map(|mut next| {
            next.set_fragment(None);
            next
        }))
    }
}

impl Call {
    /// Returns the same call, for another page.
    fn for_page(&mut self, url: Url) -> Call {
        let engine = &self.prepared.engine;
        let mut work = self.prepared.work.clone();
        work.route = engine.routes.of(engine.vendor.base_url(), &url);
        // A mistake stays one however often it is told: what is asked without it would be another call.
        let told_again = self.prepared.mistake.as_ref().map(Error::again);
        let mut request = self.prepared.request.clone();
        request.url = url;
        let prepared = Prepared {
            engine: Arc::clone(&self.prepared.engine),
            request,
            work,
            due: self.prepared.due,
            unfilled: self.prepared.unfilled.clone(),
            mistake: mem::replace(&mut self.prepared.mistake, told_again),
        };
        Call { prepared, redirects: self.redirects }
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages")
            .field("call", &self.call)
            .field("read", &self.seen.len())
            .finish_non_exhaustive()
    }
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

const ELSEWHERE: &str = "its next page is at another host, and no secret goes there";
const AGAIN: &str = "its next page is one that was read before";
const SAME: &str = "it is the page before it once more, so the vendor takes no notice of where to go on";

//! Lists: the next page, and half a list that is no last page.

use std::error::Error as StdError;

use http::Method;
use url::Url;

use steadfast_core::transport::{Answer, Request};

use super::cases::{JUNK, answer, page};
use super::{Book, Conformance};

/// A list of the vendor's: a request for a page, the answer where there is more, and that of the last page.
pub(super) struct List {
    asked: Request,
    more: Answer,
    last: Answer,
}

type NextPage = Result<Option<Url>, Box<dyn StdError + Send + Sync>>;

impl Conformance<'_> {
    /// Adds the vendor's answers to a page of the list at `path`, with its query: one with more pages behind
    /// it, and the last one. The first must lead to another page, the second to none.
    pub fn list(mut self, path: &str, more: Answer, last: Answer) -> Self {
        let mut url = self.vendor.base_url().clone();
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        url.set_path(&[url.path().trim_end_matches('/'), path].concat());
        url.set_query(query);
        self.list = Some(List { asked: Request::new(Method::GET, url), more, last });
        self
    }

    pub(super) fn lists(&self, book: &mut Book) {
        let some = Request::new(Method::GET, self.vendor.base_url().clone());
        let asked = self.list.as_ref().map_or(&some, |list| &list.asked);
        for status in [200, 204, 206] {
            for body in JUNK {
                self.next_page(asked, &answer(status, &[], body), book);
                self.next_page(asked, &answer(status, &[("link", "<:>;rel=next,<")], body), book);
            }
        }
        self.is_no_end(asked, &page(200), book);
        if let Some(list) = &self.list {
            self.goes_on(list, book);
        }
    }

    fn goes_on(&self, list: &List, book: &mut Book) {
        let parsed = self.next_page(&list.asked, &list.more, book);
        let next = parsed.and_then(Result::ok).flatten();
        book.hold(GOES_ON, next.is_some(), || "the page that list() gives".to_owned());
        if let Some(next) = next {
            let is_there = next.origin() == self.vendor.base_url().origin();
            book.hold(GOES_THERE, is_there, || "it is at another host".to_owned());
            book.hold(GOES_FURTHER, next != list.asked.url, || "it is the same page".to_owned());
        }
        for part in 1..8 {
            let mut broken = list.more.clone();
            broken.body = list.more.body.slice(..list.more.body.len() * part / 8);
            self.is_no_end(&list.asked, &broken, book);
        }
        let last = self.next_page(&list.asked, &list.last, book);
        let ends = last.is_none_or(|parsed| matches!(parsed, Ok(None)));
        book.hold(ENDS, ends, || "the last page that list() gives".to_owned());
    }

    fn is_no_end(&self, asked: &Request, answer: &Answer, book: &mut Book) {
        let parsed = self.next_page(asked, answer, book);
        let is_end = matches!(parsed, Some(Ok(None)));
        book.hold(WHOLE, !is_end, || String::from_utf8_lossy(&answer.body).chars().take(100).collect());
    }

    fn next_page(&self, asked: &Request, answer: &Answer, book: &mut Book) -> Option<NextPage> {
        self.asked(book, || "next_page".to_owned(), |vendor| vendor.next_page(asked, answer))
    }
}

const GOES_ON: &str = "a page with more behind it names the next page";
const GOES_THERE: &str = "the next page is at the vendor";
const GOES_FURTHER: &str = "the next page is another page";
const WHOLE: &str = "an incomplete page of a list is not its last";
const ENDS: &str = "the last page names no other";

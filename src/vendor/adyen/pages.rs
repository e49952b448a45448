//! The next page of a list at Adyen.

use serde_json::Value;
use url::{Url, form_urlencoded};

use steadfast_core::internal::vendor::{NO_LIST, NextPage, object, with_query};
use steadfast_core::transport::{Answer, Request};

/// A list of the Management API names the page after it in `_links.next.href`, which is there "only if there is a next
/// page" (`PaginationLinks` of ManagementService-v3 in github.com/Adyen/adyen-openapi).
///
/// The link's query is followed, and not its host and path: the list stays the one that was asked for. In the
/// specification's own examples a list of v3 links to v1, and `/stores` to another path.
///
/// `_links` may be missing. Then a list of one page is the last. Of one with more pages nothing says how they are
/// counted: most examples begin with page 1, and that of `/terminals` with page 0.
pub(super) fn next(asked: &Request, answer: &Answer) -> NextPage {
    let list = object(answer)?;
    let shown = list.as_object().into_iter().flatten().find_map(|(_, member)| member.as_array());
    let pages = list.get("pagesTotal").and_then(Value::as_u64);
    // An empty list may have its totals and nothing else.
    if shown.is_none() && pages.is_none() {
        return Err(NO_LIST.into());
    }
    if let Some(links) = list.get("_links") {
        return by_links(asked, links);
    }
    match pages {
        Some(0 | 1) => Ok(None),
        Some(_) => Err(NO_LINK.into()),
        None if list.get("hasNext").is_some_and(|more| *more != false) => Err(OTHERWISE.into()),
        // Nothing behind what is empty. Some lists are never parted; of those that are, this page may be any.
        None if is_parted(&asked.url) && shown.is_some_and(|shown| !shown.is_empty()) => {
            Err(OTHERWISE.into())
        }
        None => Ok(None),
    }
}

fn by_links(asked: &Request, links: &Value) -> NextPage {
    if !links.is_object() {
        return Err(NO_LIST.into());
    }
    let Some(next) = links.get("next").filter(|next| !next.is_null()) else { return Ok(None) };
    let href = next.get("href").and_then(Value::as_str).ok_or(NO_LINK)?;
    let query = href.split_once('?').ok_or(NO_LINK)?.1;
    let query = query.split_once('#').map_or(query, |(query, _)| query);
    let pairs: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    if pairs.is_empty() { Err(NO_LINK.into()) } else { Ok(Some(with_query(&asked.url, &pairs))) }
}

/// Whether it is a list that is given in parts, without a word on the next one.
fn is_parted(asked: &Url) -> bool {
    let asks = asked.query_pairs().any(|(name, _)| PAGING.contains(&&*name));
    let last = asked.path_segments().and_then(|mut path| path.next_back());
    asks || last.is_some_and(|last| PARTED.contains(&last))
}

const NO_LINK: &str = "it has more pages, and no link to the next one";
const OTHERWISE: &str = "it does not say where its next page is: give the rule with pages_by";
const PAGING: [&str; 4] = ["limit", "offset", "pageNumber", "pageSize"];
/// The lists of ManagementService-v3 that take a page or an offset, and whose answers have neither links nor totals.
const PARTED: [&str; 6] = [
    "androidApps",
    "androidCertificates",
    "shippingLocations",
    "terminalActions",
    "terminalOrders",
    "terminalProducts",
];

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method, StatusCode};
    use serde_json::json;

    use super::*;

    fn said(path: &str, body: &Value) -> NextPage {
        let url = format!("https://management-test.adyen.com/v3{path}").parse().expect("a URL");
        let answer = Answer::new(StatusCode::OK, HeaderMap::new(), body.to_string());
        next(&Request::new(Method::GET, url), &answer)
    }

    #[test]
    fn the_link_gives_the_query_and_the_list_stays_the_one_that_was_asked_for() {
        // The example of the specification's `GET /stores`, which links to another path, of another version.
        let href = "https://management-test.adyen.com/v1/merchants/M/stores?pageNumber=2&pageSize=1";
        let link = |name: &str| json!({ name: { "href": href } });
        let list = |links: Value| json!({ "_links": links, "itemsTotal": 2, "pagesTotal": 2, "data": [{}] });
        let found = said("/stores?reference=a%20b&pageNumber=1", &list(link("next"))).expect("it tells");
        let expected = "https://management-test.adyen.com/v3/stores?reference=a+b&pageNumber=2&pageSize=1";
        assert_eq!(found.map(String::from).as_deref(), Some(expected));
        assert_eq!(said("/stores", &list(link("prev"))).expect("it tells"), None);
        assert_eq!(said("/stores", &list(json!({ "next": null }))).expect("it tells"), None);
        for broken in [
            json!([]),
            json!({ "next": {} }),
            json!({ "next": { "href": "https://management-test.adyen.com/v3/stores" } }),
            json!({ "next": { "href": "/v3/stores?" } }),
        ] {
            assert!(said("/stores", &list(broken.clone())).is_err(), "{broken}");
        }
    }

    #[test]
    fn without_links_only_a_whole_list_is_the_last_page() {
        for (path, body, ends) in [
            ("/stores", json!({ "itemsTotal": 0, "pagesTotal": 0 }), true),
            ("/stores", json!({ "itemsTotal": 1, "pagesTotal": 1, "data": [{}] }), true),
            ("/stores?pageNumber=2", json!({ "itemsTotal": 11, "pagesTotal": 2, "data": [{}] }), false),
            ("/me/allowedOrigins", json!({ "data": [{}] }), true),
            ("/merchants/M/terminalOrders", json!({ "data": [{}] }), false),
            ("/merchants/M/terminalOrders?offset=9", json!({ "data": [] }), true),
            ("/merchants/M/other?limit=2", json!({ "data": [{}] }), false),
            ("/accountHolders", json!({ "accountHolders": [{}], "hasNext": true }), false),
            ("/accountHolders", json!({ "accountHolders": [{}], "hasNext": false }), true),
            ("/merchants/M", json!({ "id": "M", "status": "Active" }), false),
            ("/stores", json!([]), false),
        ] {
            let said = said(path, &body);
            assert_eq!(said.is_ok(), ends, "{path} {body}: {said:?}");
            assert!(said.is_err() || said.expect("it tells").is_none(), "{path} {body}");
        }
    }
}

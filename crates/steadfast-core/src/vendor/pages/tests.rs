use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::*;

fn request(url: &str) -> Request {
    Request::new(Method::GET, url.parse().expect("a url"))
}

fn by(links: &[&str]) -> Option<String> {
    let mut headers = HeaderMap::new();
    for link in links {
        headers.append(LINK, HeaderValue::from_str(link).expect("a header"));
    }
    let answer = Answer::new(StatusCode::OK, headers, "[]");
    let next = by_link(&request("https://api.test/v1/items?limit=2&page=1"), &answer);
    next.expect("it tells").map(String::from)
}

#[test]
fn a_link_is_read_as_rfc_8288_writes_it() {
    let next = Some("https://api.test/v1/items?page=2".to_owned());
    for value in [
        r#"<https://api.test/v1/items?page=2>; rel="next""#,
        r#"</v1/items?page=2>; rel=next"#,
        r#"<?page=2>;rel="prefetch next""#,
        r#"<?page=2> ; title="a, b; rel=\"last\"" ; REL="NEXT" ; rel="last""#,
        r#"<?page=9>; rel="last", <?page=2>; rel="next""#,
        r#"<?page=9>; rel="prev"; title="<x>; rel=next", <?page=2>; crossorigin; rel=next"#,
        r#"<?page=9>; anchor="/other"; rel="next", <?page=2>; rel="next""#,
    ] {
        assert_eq!(by(&[value]), next, "{value}");
    }
    assert_eq!(by(&["<?page=1>; rel=first", "<?page=2>; rel=next"]), next);
}

#[test]
fn a_page_without_a_next_link_is_the_last() {
    for value in [
        "",
        "<?page=2>",
        r#"<?page=2>; rel="#,
        r#"<?page=2>; rel="last"; rel="next""#,
        r#"<?page=2>; rel="nextish""#,
        r#"<?page=2>; title="; rel=next"#,
    ] {
        assert_eq!(by(&[value]), None, "{value}");
    }
    assert_eq!(by(&[]), None);
}

#[test]
fn a_link_that_cannot_be_read_is_not_the_end() {
    for value in [&b"<"[..], b"<?page=2", b"?page=2; rel=\"next\"", b"<?q=\xff>; rel=\"next\""] {
        let mut headers = HeaderMap::new();
        headers.insert(LINK, HeaderValue::from_bytes(value).expect("a header"));
        let answer = Answer::new(StatusCode::OK, headers, "[]");
        let error = by_link(&request("https://api.test/items"), &answer).expect_err("it cannot be read");
        assert_eq!(error.to_string(), NO_LINK);
    }
    let mut headers = HeaderMap::new();
    headers.insert(LINK, HeaderValue::from_bytes("<?q=café&page=2>; rel=next".as_bytes()).expect("a header"));
    let answer = Answer::new(StatusCode::OK, headers, "[]");
    let next = by_link(&request("https://api.test/items"), &answer).expect("a link").expect("a page");
    assert_eq!(next.as_str(), "https://api.test/items?q=caf%C3%A9&page=2");
}

#[test]
fn a_body_that_names_another_page_is_not_the_last() {
    for (body, more) in [
        (r#"{"payments":[],"cursor":"c2"}"#, true),
        (r#"{"data":[],"next_cursor":"c2"}"#, true),
        (r#"{"meta":{"cursors":{"before":null,"after":"c2"}}}"#, true),
        (r#"{"links":[{"rel":"self"},{"rel":"next","href":"/2"}]}"#, true),
        (r#"{"has_more":true,"data":[]}"#, true),
        (r#"{"payments":[],"cursor":""}"#, false),
        (r#"{"data":[],"next_cursor":null}"#, false),
        (r#"{"meta":{"cursors":{"before":"c0","after":null}}}"#, false),
        (r#"{"links":[{"rel":"self"}]}"#, false),
        (r#"{"has_more":false,"data":[]}"#, false),
    ] {
        let answer = Answer::new(StatusCode::OK, HeaderMap::new(), body);
        let next = by_link(&request("https://api.test/items"), &answer);
        assert_eq!(next.is_err(), more, "{body}");
    }
}

#[test]
fn a_page_for_a_browser_is_no_list() {
    let page = Answer::new(StatusCode::OK, HeaderMap::new(), "<!doctype html><p>Sign in</p>");
    assert!(by_link(&request("https://api.test/items"), &page).is_err());
    let mut headers = HeaderMap::new();
    headers.insert(LINK, HeaderValue::from_static("<https://[>; rel=next"));
    let broken = Answer::new(StatusCode::OK, headers, "[]");
    assert!(
        by_link(&request("https://api.test/items"), &broken).is_err(),
        "there is more, and not known where"
    );
}

#[test]
fn a_parameter_takes_the_place_of_those_of_its_name() {
    let url =
        with_parameter(&request("https://api.test/items?after=a&expand%5B%5D=x%26y&after=b"), "after", "c d");
    assert_eq!(url.as_str(), "https://api.test/items?expand%5B%5D=x%26y&after=c+d");
    assert_eq!(
        with_parameter(&request("https://api.test/items"), "page", "2").as_str(),
        "https://api.test/items?page=2"
    );
}

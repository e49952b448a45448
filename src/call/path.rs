//! The path of a call, below its vendor's base URL.

/// Gives `url` the path `base` + `path`, and the query of `path` if it has one.
///
/// # Errors
///
/// What is wrong with the path.
pub(super) fn set_path(url: &mut url::Url, base: &str, path: &str) -> Result<(), &'static str> {
    if !path.starts_with('/') {
        return Err("must start with a slash; the host comes from the adapter");
    }
    // Most paths are plain, and are looked at once.
    let is_plain = !path.bytes().any(|byte| matches!(byte, b'#' | b'?' | b'.' | b'%'));
    let (path_only, query) = if is_plain { (path, None) } else { checked(path)? };
    let mut base = base;
    while let Some(shorter) = base.strip_suffix('/') {
        base = shorter;
    }
    match base {
        "" => url.set_path(path_only),
        base => url.set_path(&[base, path_only].concat()),
    }
    if query.is_some() {
        url.set_query(query);
    }
    Ok(())
}

/// A path and its query.
fn checked(path: &str) -> Result<(&str, Option<&str>), &'static str> {
    if path.contains('#') {
        return Err("must not have a fragment");
    }
    let (path_only, query) = match path.split_once('?') {
        Some((path_only, query)) => (path_only, Some(query)),
        None => (path, None),
    };
    if path_only.split(['/', '\\']).any(is_dot_segment) {
        return Err("must not have . or .. segments");
    }
    Ok((path_only, query))
}

/// `base` with a longer path than it has: a clone's text then has room for a call's path, and setting it does not
/// allocate again. Made once per client.
pub(crate) fn with_room(base: &url::Url) -> url::Url {
    let mut roomy = base.clone();
    roomy.set_path(&[base.path(), &"-".repeat(PATH_ROOM)].concat());
    roomy
}

/// Longer than most paths of vendors; a longer one costs an allocation.
const PATH_ROOM: usize = 96;

/// Dots as the URL standard reads them, percent-encoded or not: they would climb out of the base path.
fn is_dot_segment(segment: &str) -> bool {
    let after_dot = |rest: &str| match rest.as_bytes() {
        [b'.', ..] => Some(1),
        [b'%', b'2', b'e' | b'E', ..] => Some(3),
        _ => None,
    };
    let Some(first) = after_dot(segment) else { return false };
    let rest = &segment[first..];
    rest.is_empty() || after_dot(rest) == Some(rest.len())
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    fn appended(base: &str, path: &str) -> Result<String, &'static str> {
        let base = Url::parse(base).expect(base);
        let mut url = with_room(&base);
        set_path(&mut url, base.path(), path).map(|()| url.to_string())
    }

    #[test]
    fn a_path_is_appended_to_the_base_path() {
        for (base, path, expected) in [
            ("https://v.test", "/v1/x", "https://v.test/v1/x"),
            ("https://v.test/stores/abc", "/v2/orders", "https://v.test/stores/abc/v2/orders"),
            ("https://v.test/stores/abc/", "/v2/orders?id=1", "https://v.test/stores/abc/v2/orders?id=1"),
            ("https://v.test", "//evil.test/x", "https://v.test//evil.test/x"),
        ] {
            assert_eq!(appended(base, path).expect(path), expected);
        }
    }

    #[test]
    fn a_path_cannot_leave_the_base_path() {
        for path in ["v1/x", "https://evil.test/", "/../x", "/a/%2e%2E/x", "/a/.", "/a\\..\\x", "/x#y", ""] {
            assert!(appended("https://v.test/base", path).is_err(), "{path}");
        }
    }
}

//! The path of a call, below its vendor's base URL.

/// Gives `url` the path `base` + `path`, and the query of `path` if it has one. Gives the path without its query if it
/// has parameters.
///
/// # Errors
///
/// The mistake in the path.
pub(crate) fn set_path(url: &mut url::Url, base: &str, path: &str) -> Result<Option<Box<str>>, &'static str> {
    if !path.starts_with('/') {
        return Err("must start with a slash; the host comes from the adapter");
    }
    // Most paths are plain, and are looked at once.
    let is_special = |byte| matches!(byte, b'#' | b'?' | b'.' | b'%' | b'{') || byte < b' ';
    let is_plain = !path.bytes().any(is_special);
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
    let has_parameters = !is_plain && first_parameter(path_only).is_some();
    Ok(has_parameters.then(|| path_only.into()))
}

/// A path and its query.
fn checked(path: &str) -> Result<(&str, Option<&str>), &'static str> {
    if path.contains('#') {
        return Err("must not have a fragment");
    }
    // A URL drops tabs and line ends, and what stood around one would be a segment then.
    if path.contains(|c: char| c < ' ') {
        return Err("must not have control characters");
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

/// The name of the first parameter in a path.
pub(super) fn first_parameter(path: &str) -> Option<&str> {
    let mut pieces = path.split('{').skip(1);
    pieces.find_map(|piece| piece.split_once('}').map(|(name, _)| name).filter(|name| is_name(name)))
}

/// Returns true for a parameter's name; other text in braces is sent as it is.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Dots as the URL standard reads them, percent-encoded or not: they would climb out of the base path.
pub(crate) fn is_dot_segment(segment: &str) -> bool {
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
pub(crate) mod tests {
    use url::Url;

    use super::*;

    pub(crate) fn appended(base: &str, path: &str) -> Result<String, &'static str> {
        let base = Url::parse(base).expect(base);
        let mut url = base.clone();
        set_path(&mut url, base.path(), path).map(|_| url.to_string())
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

    #[test]
    fn only_a_name_in_braces_is_a_parameter() {
        let first = |path| first_parameter(path).map(str::to_owned);
        assert_eq!(first("/a/{b_1}/{c}").as_deref(), Some("b_1"));
        for plain in ["/a", "/a/{}", "/a/{b c}", "/a/{b", "/a}b{"] {
            assert_eq!(first(plain), None, "{plain}");
        }
    }
}

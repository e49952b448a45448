//! The pairs of a form (`application/x-www-form-urlencoded`) in the order of their names.

use std::borrow::Cow;
use std::collections::HashMap;

/// Gives each decoded pair of a form in the order of their names; pairs of one name keep theirs. `false`, perhaps after
/// some were given, if its bytes are no text, or if another order of other names is another form: `items[][price]`, and
/// what [`depends_on_order`].
pub(super) fn each_pair(body: &[u8], mut give: impl FnMut(&[u8], &[u8])) -> bool {
    let mut room = [Pair::default(); FEW];
    if let Some(pairs) = few_plain_pairs(body, &mut room) {
        pairs.iter().for_each(|(name, value)| give(name, value));
        return true;
    }
    if is_one_name(body) {
        give(body, b"");
        return true;
    }
    if is_plain(body) {
        return each_plain_pair(body, give);
    }
    let Some(pairs) = decoded(body) else { return false };
    for (name, value) in &pairs {
        give(name.as_bytes(), value.as_bytes());
    }
    true
}

type Pair<'a> = (&'a [u8], &'a [u8]);

/// The pairs of a short form in which each byte stands for itself, in one pass: most forms are such. `None` for any
/// other.
fn few_plain_pairs<'a, 'r>(body: &'a [u8], room: &'r mut [Pair<'a>; FEW]) -> Option<&'r [Pair<'a>]> {
    if body.len() > SHORT_BYTES {
        return None;
    }
    let (mut count, mut is_sorted, mut rest) = (0, true, body);
    while !rest.is_empty() {
        let (mut ends, mut name_ends) = (rest.len(), None);
        for (at, byte) in rest.iter().enumerate() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => {}
                b'=' if name_ends.is_none() => name_ends = Some(at),
                b'&' => {
                    ends = at;
                    break;
                }
                b'%' | b'+' | b'[' | 0x80.. => return None,
                _ => {}
            }
        }
        if ends > 0 {
            let pair = match name_ends {
                Some(name_ends) => (&rest[..name_ends], &rest[name_ends + 1..ends]),
                None => (&rest[..ends], &rest[ends..ends]),
            };
            is_sorted &= count == 0 || room[count - 1].0 <= pair.0;
            *room.get_mut(count)? = pair;
            count += 1;
        }
        rest = rest.get(ends + 1..).unwrap_or_default();
    }
    let pairs = &mut room[..count];
    if !is_sorted {
        pairs.sort_by_key(|(name, _)| *name);
    }
    Some(pairs)
}

/// Whether the body is of bytes that neither separate nor escape anything. They are looked at many at a time, as the
/// compiler can do in blocks of one length. The body may be large, and only its hash may take time.
fn is_one_name(body: &[u8]) -> bool {
    // As signed bytes, what is no ASCII is negative.
    let is_of_name = |byte: &u8| (*byte as i8 > b'=' as i8) & (*byte != b'[');
    let (blocks, rest) = body.as_chunks::<64>();
    !body.is_empty()
        && rest.iter().all(is_of_name)
        && blocks.iter().all(|block| block.iter().fold(true, |all, byte| all & is_of_name(byte)))
}

/// Whether each byte stands for itself, and no name can hold `[][`.
fn is_plain(body: &[u8]) -> bool {
    body.iter().all(|byte| byte.is_ascii() && !matches!(byte, b'%' | b'+' | b'['))
}

fn each_plain_pair(body: &[u8], mut give: impl FnMut(&[u8], &[u8])) -> bool {
    let pairs = || body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(name_and_value);
    if pairs().is_sorted_by_key(|(name, _)| name) {
        pairs().for_each(|(name, value)| give(name, value));
        return true;
    }
    let mut pairs: Vec<_> = pairs().collect();
    pairs.sort_by_key(|(name, _)| *name);
    pairs.into_iter().for_each(|(name, value)| give(name, value));
    true
}

fn name_and_value(pair: &[u8]) -> (&[u8], &[u8]) {
    let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
    (&pair[..end], pair.get(end + 1..).unwrap_or_default())
}

fn decoded(body: &[u8]) -> Option<Vec<(Cow<'_, str>, Cow<'_, str>)>> {
    let mut pairs: Vec<_> = url::form_urlencoded::parse(body).collect();
    // The decoder puts this in place of what is no UTF-8.
    let is_text = |text: &str| !text.contains(char::REPLACEMENT_CHARACTER);
    let is_known = |(name, value): &(Cow<'_, str>, Cow<'_, str>)| {
        is_text(name) && is_text(value) && !name.contains("[][")
    };
    if !pairs.iter().all(is_known) {
        return None;
    }
    pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
    (!depends_on_order(&pairs)).then_some(pairs)
}

/// Whether names that differ write into each other, by the rules of PHP, which Rack and qs have too
/// (<https://www.php.net/manual/en/language.variables.external.php>). There `a[]` takes the next number after those
/// that `a[5]` and its like have taken so far, and of `a` and `a[b]` the later one replaces the other. The pairs are
/// in the order of their names.
fn depends_on_order(pairs: &[(Cow<'_, str>, Cow<'_, str>)]) -> bool {
    let is_there = |name: &str| pairs.binary_search_by(|(other, _)| (**other).cmp(name)).is_ok();
    // Of each array, its first name, and whether one of its names appends.
    let mut arrays: HashMap<&str, (&str, bool)> = HashMap::new();
    for (name, _) in pairs {
        let mut brackets = name.match_indices('[').map(|(at, _)| at).filter(|at| *at > 0).peekable();
        let Some(&array) = brackets.peek() else { continue };
        if brackets.any(|at| is_there(&name[..at])) {
            return true;
        }
        let appends = name.contains("[]");
        let (first, one_appends) = arrays.entry(&name[..array]).or_insert((name, appends));
        *one_appends |= appends;
        if *one_appends && **first != **name {
            return true;
        }
    }
    false
}

const FEW: usize = 8;
const SHORT_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    fn pairs(body: &[u8]) -> Option<Pairs> {
        let mut pairs = Vec::new();
        each_pair(body, |name, value| pairs.push((name.to_vec(), value.to_vec()))).then_some(pairs)
    }

    #[test]
    fn where_the_order_of_other_names_is_another_form_it_is_kept() {
        for (one, other) in [
            ("a[5]=x&a[]=y", "a[]=y&a[5]=x"),
            ("a%5B5%5D=x&a[]=y", "a[]=y&a%5B5%5D=x"),
            ("a=1&a[b]=2", "a[b]=2&a=1"),
            ("a[b]=1&a[b][c]=2", "a[b][c]=2&a[b]=1"),
            ("a[b][]=1&a[b][3]=2", "a[b][3]=2&a[b][]=1"),
            ("a[][p]=1&a[][q]=2", "a[][q]=2&a[][p]=1"),
            ("a=1&a-b=2&a[]=3", "a[]=3&a-b=2&a=1"),
            ("a[1]=x&b=2&a[]=y", "a[]=y&b=2&a[1]=x"),
        ] {
            assert_eq!((pairs(one.as_bytes()), pairs(other.as_bytes())), (None, None), "{one} {other}");
        }
    }

    #[test]
    fn where_it_is_the_same_form_it_is_none() {
        for (one, other) in [
            ("a[0]=x&a[1]=y&m[k]=v", "m[k]=v&a[1]=y&a[0]=x"),
            ("expand[]=x&expand[]=y&b=1", "b=1&expand[]=x&expand[]=y"),
            ("ab=1&a[b]=2", "a[b]=2&ab=1"),
            ("a[]=1&b[2]=3", "b[2]=3&a[]=1"),
            ("a[b]=1&a[bc]=2", "a[bc]=2&a[b]=1"),
            ("[]=1&b=2", "b=2&[]=1"),
        ] {
            let sorted = pairs(one.as_bytes());
            assert!(sorted.is_some(), "{one}");
            assert_eq!(sorted, pairs(other.as_bytes()), "{one} {other}");
        }
        assert_ne!(pairs(b"expand[]=x&expand[]=y"), pairs(b"expand[]=y&expand[]=x"), "of one name it counts");
    }

    proptest! {
        /// The reader without the decoder gives the same text as the decoder.
        #[test]
        fn every_short_cut_ends_where_the_decoder_does(
            body in prop_oneof![
                "[a-e=&]{0,40}",
                "[a-e_]{0,40}",
                "[a-c=&+%2\\[\\]é]{0,40}",
                "[a-c]=(x{20}|y)(&[a-c]=(x{20}|y)){5,11}",
                "[a-c=&x]{500,530}",
                "[a-c]{500,530}",
            ]
        ) {
            let decoded = decoded(body.as_bytes());
            let expected = decoded.map(|pairs| -> Pairs {
                pairs.into_iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
            });
            prop_assert_eq!(pairs(body.as_bytes()), expected);
        }
    }
}

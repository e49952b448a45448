//! The canonical form of plain JSON, in one pass over its bytes: what most services send.
//!
//! Plain is JSON whose strings are ASCII without escapes and whose numbers are short integers. Each of them is its own
//! canonical form (RFC 8785), so that only blanks go and members are put in order. Without this pass a keyed POST over
//! loopback takes 6 % more CPU time (`benches/loopback.rs`, `-- --one`).

/// The canonical form of a text; `None` if it is not plain, or no I-JSON.
pub(super) fn canonical(text: &[u8]) -> Option<Vec<u8>> {
    let mut pass = Pass { text, at: 0, out: Vec::with_capacity(text.len()) };
    pass.value(DEPTH_MAX)?;
    pass.skip_blanks();
    (pass.at == text.len()).then_some(pass.out)
}

struct Pass<'a> {
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
}

/// A member's name, and where it begins and ends in what is written.
type Member<'a> = (&'a [u8], usize, usize);

impl<'a> Pass<'a> {
    fn value(&mut self, depth: usize) -> Option<()> {
        self.skip_blanks();
        match self.text.get(self.at)? {
            b'{' => self.object(depth.checked_sub(1)?),
            b'[' => self.array(depth.checked_sub(1)?),
            b'"' => self.string().map(drop),
            b'-' | b'0'..=b'9' => self.integer(),
            _ => ["true", "false", "null"].into_iter().find_map(|word| self.take(word.as_bytes())),
        }
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        self.take(b"{")?;
        let begin = self.out.len();
        let mut members: [Member<'a>; MEMBERS_MAX] = [(b"", 0, 0); MEMBERS_MAX];
        let mut count = 0;
        while !self.ends_with(b"}", count == 0)? {
            let start = self.out.len();
            let name = self.string()?;
            self.skip_blanks();
            self.take(b":")?;
            self.value(depth)?;
            *members.get_mut(count)? = (name, start, self.out.len());
            count += 1;
        }
        let members = &mut members[..count];
        if !members.is_sorted_by(|(one, ..), (other, ..)| one < other) {
            members.sort_unstable_by_key(|(name, ..)| *name);
            if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                return None;
            }
            let written = self.out.split_off(begin);
            for (nth, (_, start, end)) in members.iter().enumerate() {
                self.out.extend_from_slice(if nth == 0 { b"" } else { b"," });
                self.out.extend_from_slice(&written[start - begin..end - begin]);
            }
        }
        self.out.push(b'}');
        Some(())
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        self.take(b"[")?;
        let mut is_first = true;
        while !self.ends_with(b"]", is_first)? {
            self.value(depth)?;
            is_first = false;
        }
        self.out.push(b']');
        Some(())
    }

    /// Whether an object or an array ends here. Else the next of its elements follows.
    fn ends_with(&mut self, end: &[u8], is_first: bool) -> Option<bool> {
        self.skip_blanks();
        if self.text[self.at..].starts_with(end) {
            self.at += 1;
            return Some(true);
        }
        if !is_first {
            self.take(b",")?;
            self.skip_blanks();
        }
        Some(false)
    }

    /// Its text, without the quotation marks.
    fn string(&mut self) -> Option<&'a [u8]> {
        let rest = self.text.get(self.at..)?.strip_prefix(b"\"")?;
        let end =
            rest.iter().position(|byte| !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\'))?;
        (rest[end] == b'"').then_some(())?;
        self.copy(end + 2);
        Some(&rest[..end])
    }

    /// Below 2^53, so that a double holds it. Not `-0`, which is `0` in canonical form.
    fn integer(&mut self) -> Option<()> {
        let rest = &self.text[self.at..];
        let sign = usize::from(rest[0] == b'-');
        let digits = rest[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_short = match rest.get(sign)? {
            b'0' => digits == 1 && sign == 0,
            _ => (1..=15).contains(&digits),
        };
        let goes_on = matches!(rest.get(sign + digits), Some(b'.' | b'e' | b'E'));
        (is_short && !goes_on).then(|| self.copy(sign + digits))
    }

    fn take(&mut self, expected: &[u8]) -> Option<()> {
        self.text[self.at..].starts_with(expected).then(|| self.copy(expected.len()))
    }

    fn copy(&mut self, length: usize) {
        self.out.extend_from_slice(&self.text[self.at..self.at + length]);
        self.at += length;
    }

    fn skip_blanks(&mut self) {
        let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += self.text[self.at..].iter().take_while(is_blank).count();
    }
}

/// Members of one object; their names are held side by side on the stack.
const MEMBERS_MAX: usize = 24;
const DEPTH_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::operation::fingerprint::{canonical as canonical_of, ijson};

    /// The slow way.
    fn expected(text: &str) -> Option<Vec<u8>> {
        canonical_of(ijson::parse(text.as_bytes()))
    }

    #[test]
    fn plain_json_is_canonical_without_its_blanks_and_with_its_members_in_order() {
        for (text, form) in [
            (r#"{"b":1,"a":[true , null]}"#, r#"{"a":[true,null],"b":1}"#),
            (" { } ", "{}"),
            (r#"{"a":{"c":-12,"b":"x y"},"A":[]}"#, r#"{"A":[],"a":{"b":"x y","c":-12}}"#),
            ("999999999999999", "999999999999999"),
        ] {
            assert_eq!(canonical(text.as_bytes()).as_deref(), Some(form.as_bytes()), "{text}");
            assert_eq!(expected(text).as_deref(), Some(form.as_bytes()), "{text}");
        }
    }

    #[test]
    fn json_that_is_not_plain_is_left_to_the_parser() {
        let deep = "[".repeat(DEPTH_MAX + 1) + &"]".repeat(DEPTH_MAX + 1);
        for text in [
            "1.0",
            "-0",
            "01",
            "-",
            "1e2",
            "1000000000000000",
            r#""\n""#,
            r#""é""#,
            r#"{"a":1,"a":2}"#,
            "[1,]",
            r#"{"a":1,}"#,
            "{,}",
            "[1 2]",
            "1 2",
            "truex",
            "\"",
            "",
            "{",
            &deep,
        ] {
            assert_eq!(canonical(text.as_bytes()), None, "{text}");
        }
    }

    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            "-?[1-9][0-9]{0,14}",
            "\"[ -!#-\\[\\]-~]{0,6}\"",
            "true|false|null|0| 1 |-0|1\\.50|\"é\""
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            let member =
                ("[ab]{0,2}", inner.clone()).prop_map(|(name, value)| format!("\"{name}\" :{value}"));
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(" ,"))),
                prop::collection::vec(member, 0..6)
                    .prop_map(|members| format!("{{{} }}", members.join(", "))),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_fast_reader_ends_where_the_parser_does(text in prop_oneof![json(), "[\\[\\]{}\",:0-2ab .e\\\\-]{0,12}"]) {
            if let Some(form) = canonical(text.as_bytes()) {
                prop_assert_eq!(Some(form), expected(&text), "{}", text);
            }
        }
    }
}

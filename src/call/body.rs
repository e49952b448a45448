//! The body of a call and its query: JSON, forms, bytes.
//!
//! A form is written as reqwest writes it while it is flat. Nested values have no form in that encoding. Vendors that
//! take forms read brackets: `metadata[order]=42`, `items[0][price]=price_1` (docs.stripe.com/api). serde_qs writes
//! them from the form's JSON, less what JSON leaves out, calls null or holds nothing. By itself serde_qs writes `None`
//! as a name without a value, and an empty list as an empty value, which Stripe reads as the order to unset the field.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use serde_json::Value;

use steadfast_core::internal::ext::InputErrorExt;
use steadfast_core::internal::guard::Guard;
use steadfast_core::{Error, Input};

use super::Call;

impl Call {
    /// The body as JSON.
    pub fn json<T: Serialize + ?Sized>(self, body: &T) -> Call {
        let bytes = serde_json::to_vec(body).map_err(|problem| format!("JSON cannot hold it: {problem}"));
        self.encoded("application/json", bytes)
    }

    /// The body as a form: a type with fields, a map, or pairs of a name and a value.
    ///
    /// Nested values are written in brackets, as Stripe reads them:
    ///
    /// ```
    #[doc = include_str!("../docs/setup/stripe.md")]
    /// use serde_json::json;
    ///
    /// let form = json!({"amount": 1000, "currency": "usd", "metadata": {"order": "42"}, "expand": ["customer"]});
    /// let charge = stripe.post("/v1/payment_intents").key("order-42/charge").form(&form);
    /// // amount=1000&currency=usd&expand[0]=customer&metadata[order]=42, with its brackets percent-encoded
    /// assert_eq!(charge.send().await?.json::<serde_json::Value>()?["metadata"]["order"], "42");
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    ///
    /// `None`, an empty list and an empty map are left out. To unset a field at Stripe, give it an empty string. A form
    /// that nests nothing is written as reqwest writes it.
    pub fn form<T: Serialize + ?Sized>(self, body: &T) -> Call {
        let text = serde_urlencoded::to_string(body);
        let text = text.or_else(|problem| bracketed(body).ok_or_else(|| not_pairs(&problem)));
        self.encoded("application/x-www-form-urlencoded", text.map(String::into_bytes))
    }

    /// The body as bytes. Set its `Content-Type` with [`header`](Call::header).
    pub fn bytes(mut self, body: impl Into<Bytes>) -> Call {
        self.prepared.request.body = body.into();
        self
    }

    /// Adds query parameters. Nested values are written as in a [form](Call::form): `created[gte]=1790000000`.
    ///
    /// On a call that may have an effect a value that cannot be written is a mistake: `None`, an empty list, an empty
    /// map, a value that JSON cannot hold. So is a query that has no pair at all. Left out, a filter of a deletion
    /// would be gone. On a GET it is left out, as in a form.
    pub fn query<T: Serialize + ?Sized>(mut self, query: &T) -> Call {
        if !self.prepared.request.method.is_safe() && Guard::FilterIsWritten.keeps(loses_a_value(query)) {
            self.note(Error::invalid(Input::Other("query"), LOST));
            return self;
        }
        let before = self.prepared.request.url.query().map(str::len);
        let mut pairs = self.prepared.request.url.query_pairs_mut();
        let result = query.serialize(serde_urlencoded::Serializer::new(&mut pairs)).map(|_| ());
        drop(pairs);
        if let Some("") = self.prepared.request.url.query() {
            self.prepared.request.url.set_query(None);
        }
        if let Err(problem) = result {
            let given =
                self.prepared.request.url.query().zip(before).and_then(|(query, len)| query.get(..len));
            match bracketed(query) {
                Some(pairs) => {
                    let both: Vec<&str> =
                        given.into_iter().chain([&*pairs]).filter(|part| !part.is_empty()).collect();
                    let both = both.join("&");
                    self.prepared.request.url.set_query(Some(&*both).filter(|query| !query.is_empty()));
                }
                None => self.note(Error::invalid(Input::Other("query"), not_pairs(&problem))),
            }
        }
        self
    }

    fn encoded(mut self, kind: &'static str, body: Result<Vec<u8>, String>) -> Call {
        match body {
            Ok(body) => {
                self.prepared.request.headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
                self.prepared.request.body = body.into();
            }
            Err(problem) => self.note(Error::invalid(Input::Body, problem)),
        }
        self
    }
}

/// A form with what is nested in brackets; `None` if it has no fields, or what JSON cannot hold.
fn bracketed<T: Serialize + ?Sized>(body: &T) -> Option<String> {
    // Refuses the numbers that the reading below would round.
    serde_json::to_value(body).ok()?;
    // Read from its text: there a float of 32 bits has the digits that it was written with.
    let fields = match serde_json::from_slice(&serde_json::to_vec(body).ok()?).ok()? {
        Value::Object(fields) => fields.into_iter().collect::<Vec<_>>(),
        Value::Array(pairs) => pairs.into_iter().map(pair).collect::<Option<_>>()?,
        _ => return None,
    };
    let fields =
        fields.into_iter().filter_map(|(name, value)| Some(BTreeMap::from([(name, filled(value)?)])));
    // Each by itself: pairs may have one name twice.
    let written = fields.map(|field| FORM.serialize_string(&field).ok()).collect::<Option<Vec<_>>>()?;
    Some(written.join("&"))
}

/// Returns true if a query would go out without all that it was given: it has no pair, or a value that cannot be
/// written. A value that JSON cannot hold is not recognised here. A value without fields is the mistake of the writing
/// below.
fn loses_a_value<T: Serialize + ?Sized>(query: &T) -> bool {
    match serde_json::to_value(query) {
        Ok(Value::Object(fields)) => fields.is_empty() || fields.values().any(is_lost),
        Ok(Value::Array(pairs)) => {
            pairs.is_empty() || pairs.iter().any(|pair| pair.get(1).is_some_and(is_lost))
        }
        Ok(Value::Null) | Err(_) => true,
        Ok(_) => false,
    }
}

fn is_lost(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty() || items.iter().any(is_lost),
        Value::Object(fields) => fields.is_empty() || fields.values().any(is_lost),
        _ => false,
    }
}

const LOST: &str = "it, or a value in it, is None, empty or beyond JSON and cannot be written, and the call would go out without \
     that filter; leave it out where that is meant";

fn pair(value: Value) -> Option<(String, Value)> {
    let Value::Array(pair) = value else { return None };
    let [name, value] = <[Value; 2]>::try_from(pair).ok()?;
    Some((name.as_str()?.to_owned(), value))
}

/// The value without what is null or holds nothing; `None` if that is all of it.
fn filled(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Array(items) => {
            let items: Vec<Value> = items.into_iter().filter_map(filled).collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        Value::Object(fields) => {
            let fields = fields.into_iter().filter_map(|(name, value)| Some((name, filled(value)?)));
            let fields: serde_json::Map<String, Value> = fields.collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        plain => Some(plain),
    }
}

/// `application/x-www-form-urlencoded` percent-encodes the brackets too.
const FORM: serde_qs::Config = serde_qs::Config::new().use_form_encoding(true);

/// Describes a value that cannot be written as a form, and the kinds that could.
fn not_pairs(problem: &serde_urlencoded::ser::Error) -> String {
    format!("it takes fields, or pairs of a name and a value ({problem})")
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;
    use url::form_urlencoded;

    use super::*;

    fn decoded(body: &impl Serialize) -> Option<Vec<String>> {
        let text = bracketed(body)?;
        let pairs = form_urlencoded::parse(text.as_bytes());
        Some(pairs.map(|(name, value)| format!("{name}={value}")).collect())
    }

    #[derive(Serialize)]
    struct Intent {
        amount: u64,
        confirm: bool,
        rate: f32,
        description: Option<&'static str>,
        metadata: BTreeMap<&'static str, Option<&'static str>>,
        items: Vec<BTreeMap<&'static str, u32>>,
        kinds: &'static [&'static str],
        unset: &'static str,
        nothing: Vec<u8>,
    }

    #[test]
    fn nested_values_are_in_brackets_and_none_is_left_out() {
        let intent = Intent {
            amount: 9_007_199_254_740_993,
            confirm: true,
            rate: 0.1,
            description: None,
            metadata: BTreeMap::from([("order", Some("a&b=[c]")), ("none", None)]),
            items: vec![BTreeMap::from([("price", 1), ("quantity", 2)]), BTreeMap::from([("price", 3)])],
            kinds: &["card", "link"],
            unset: "",
            nothing: Vec::new(),
        };
        let mut pairs = decoded(&intent).expect("a form");
        pairs.sort();
        let expected = [
            "amount=9007199254740993",
            "confirm=true",
            "items[0][price]=1",
            "items[0][quantity]=2",
            "items[1][price]=3",
            "kinds[0]=card",
            "kinds[1]=link",
            "metadata[order]=a&b=[c]",
            "rate=0.1",
            "unset=",
        ];
        assert_eq!(pairs, expected);
    }

    #[test]
    fn pairs_keep_their_order_and_may_hold_nested_values() {
        let pairs = [("b", json!(1)), ("a", json!({"x": [true, null, {"y": []}, "+ é"]})), ("b", json!("2"))];
        assert_eq!(decoded(&pairs).expect("pairs"), ["b=1", "a[x][0]=true", "a[x][1]=+ é", "b=2"]);
        let by_hand = [("metadata[order]", json!("42")), ("items", json!([{"price": "price_1"}]))];
        assert_eq!(decoded(&by_hand).expect("pairs"), ["metadata[order]=42", "items[0][price]=price_1"]);
    }

    #[test]
    fn values_without_fields_are_not_form_encoded() {
        assert_eq!(decoded(&json!("text")), None);
        assert_eq!(decoded(&json!([1, 2])), None);
        assert_eq!(decoded(&json!([["a", 1, 2]])), None);
        assert_eq!(decoded(&BTreeMap::from([("a", vec![u128::MAX])])), None);
    }

    /// A form on record is compared with one that is written now.
    #[test]
    fn a_flat_form_keeps_its_encoding() {
        #[derive(Serialize)]
        struct Flat {
            b: &'static str,
            none: Option<u8>,
            a: bool,
            name: f64,
        }
        let flat = Flat { b: "x y&z[é]*~", none: None, a: false, name: 1.5 };
        let client = crate::Client::builder(crate::vendor::Stripe::new("sk_test_123"));
        let client = client.transport(crate::testkit::ScriptedTransport::new()).build().expect("a client");
        let body = |call: Call| String::from_utf8(call.prepared.request.body.to_vec()).expect("text");
        let form = body(client.post("/v1/charges").form(&flat));
        assert_eq!(form, "b=x+y%26z%5B%C3%A9%5D*%7E&a=false&name=1.5");
        let by_hand = body(client.post("/v1/charges").form(&[("metadata[order]", "42")]));
        let nested = body(client.post("/v1/charges").form(&json!({"metadata": {"order": "42"}})));
        assert_eq!((by_hand.as_str(), &nested), ("metadata%5Border%5D=42", &by_hand));
    }

    #[test]
    fn a_nested_query_is_added_to_the_one_that_is_there() {
        let client = crate::Client::builder(crate::vendor::Stripe::new("sk_test_123"));
        let client = client.transport(crate::testkit::ScriptedTransport::new()).build().expect("a client");
        let call = client.get("/v1/charges?limit=3").query(&json!({"aaa": 1, "created": {"gte": 5}}));
        assert_eq!(call.prepared.request.url.query(), Some("limit=3&aaa=1&created%5Bgte%5D=5"));
        let call = client.get("/v1/charges").query(&json!({"created": {"gte": 5}})).query(&[("limit", 3)]);
        assert_eq!(call.prepared.request.url.query(), Some("created%5Bgte%5D=5&limit=3"));
        let call = client.get("/v1/charges").query(&json!({"created": {}}));
        assert_eq!(call.prepared.request.url.query(), None);
    }

    /// Any of them on a DELETE would remove everything.
    #[test]
    fn a_query_that_writes_no_pair_is_a_mistake_where_it_may_have_an_effect() {
        #[derive(Serialize)]
        struct Filter {
            size: u128,
            ids: Option<u64>,
        }
        let client = crate::Client::builder(crate::vendor::Stripe::new("sk_test_123"));
        let client = client.transport(crate::testkit::ScriptedTransport::new()).build().expect("a client");
        let is_mistake = |method: &Method, add: &dyn Fn(Call) -> Call| {
            let call = add(client.request(method.clone(), "/v1/products"));
            call.prepared.mistake.as_ref().is_some_and(|error| error.effect() == crate::Effect::None)
        };
        let empty: [&dyn Fn(Call) -> Call; 6] = [
            &|call| call.query(&Vec::<(&str, u64)>::new()),
            &|call| call.query(&None::<Filter>),
            &|call| call.query(&BTreeMap::<String, u64>::new()),
            &|call| call.query(&json!({})),
            &|call| call.query(&()),
            &|call| call.query(&Filter { size: u128::MAX, ids: None }),
        ];
        for (which, add) in empty.into_iter().enumerate() {
            for method in [Method::DELETE, Method::POST, Method::PUT, Method::PATCH] {
                assert!(is_mistake(&method, add), "{method} {which}");
            }
            assert!(!is_mistake(&Method::GET, add), "GET {which}");
        }
        let filter = json!({"ids": [1, 2], "name": ""});
        assert!(!is_mistake(&Method::DELETE, &|call| call.query(&filter).query(&[("limit", 3)])));
    }
}

//! The comparison of a message that has our key with the one that was sent.
//!
//! The search shows sender, recipients, subject and tag (Postmark, "Outbound message search"). A template's subject is
//! Postmark's to make, and is not compared. Members that a hit does not show are not compared either.

use serde_json::Value;

use steadfast_core::internal::guard::Guard;

/// Returns true if the hit agrees with the message in the members that distinguish two.
pub(super) fn is_what_was_sent(message: &Value, hit: &Value) -> bool {
    let is_same_text = |name: &str| match (message[name].as_str(), hit[name].as_str()) {
        (Some(sent), Some(held)) => sent.trim() == held.trim(),
        _ => true,
    };
    let is_same_list = |name: &str| match shown(&hit[name]) {
        Some(held) => addresses(message[name].as_str().unwrap_or_default()) == held,
        None => true,
    };
    Guard::HitAtPostmark.is_out()
        || (["Subject", "Tag"].into_iter().all(is_same_text)
            && ["From", "To", "Cc", "Bcc"].into_iter().all(is_same_list))
}

/// The addresses of a hit, which has a list for recipients and a text for the sender. `None` where it shows none.
fn shown(held: &Value) -> Option<Vec<String>> {
    match held {
        Value::String(text) => Some(addresses(text)),
        Value::Array(list) => {
            let all =
                list.iter().map(|one| plain(one["Email"].as_str().or(one.as_str()).unwrap_or_default()));
            let mut all: Vec<String> = all.collect();
            all.sort_unstable();
            Some(all)
        }
        _ => None,
    }
}

/// The addresses in `"Ann, B." <ann@example.com>, bob@example.com`, in small letters and sorted.
fn addresses(text: &str) -> Vec<String> {
    let (mut all, mut one, mut is_quoted, mut is_escaped) = (Vec::new(), String::new(), false, false);
    for letter in text.chars() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ',' | ';' if !is_quoted => all.push(std::mem::take(&mut one)),
            _ if is_quoted => {}
            _ => one.push(letter),
        }
    }
    all.push(one);
    let mut all: Vec<String> = all.iter().map(|one| plain(one)).filter(|one| !one.is_empty()).collect();
    all.sort_unstable();
    all
}

/// Returns the text between the angle brackets, if there are any.
fn plain(one: &str) -> String {
    let inner = one.rsplit_once('<').map_or(one, |(_, rest)| rest.split('>').next().unwrap_or_default());
    inner.trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_quotes_and_case_do_not_differ_and_recipients_do() {
        let hit = json!({
            "From": "\"Shop\" <me@x.test>", "Subject": "Paid", "Tag": "receipt",
            "To": [{"Email": "ann@x.test", "Name": "Ann, B."}, {"Email": "bob@x.test", "Name": null}],
            "Cc": [], "Bcc": [],
        });
        let sent = |to: &str, subject: &str| json!({"From": "Me@x.test", "To": to, "Subject": subject});
        for to in [
            "\"Ann, B.\" <Ann@x.test>, bob@x.test",
            "bob@x.test,ann@x.test",
            " Bob <bob@x.test>, ann@x.test ",
        ] {
            assert!(is_what_was_sent(&sent(to, " Paid"), &hit), "{to}");
        }
        for to in ["ann@x.test", "ann@x.test, zoe@x.test", "ann@x.test, bob@x.test, zoe@x.test"] {
            assert!(!is_what_was_sent(&sent(to, "Paid"), &hit), "{to}");
        }
        let to = "ann@x.test, bob@x.test";
        assert!(!is_what_was_sent(&sent(to, "Sent"), &hit));
        let other = json!({"From": "you@x.test", "To": to});
        assert!(!is_what_was_sent(&other, &hit));
        for copies in ["Cc", "Bcc"] {
            let mut copied = json!({"From": "me@x.test", "To": to});
            copied[copies] = "zoe@x.test".into();
            assert!(!is_what_was_sent(&copied, &hit), "{copies}");
        }
        let template = json!({"From": "me@x.test", "To": to, "TemplateId": 7});
        assert!(is_what_was_sent(&template, &hit), "a template makes its own subject");
        assert!(is_what_was_sent(&template, &json!({"MessageID": "1"})), "what is not shown says nothing");
    }
}

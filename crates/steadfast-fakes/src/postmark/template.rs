//! The text of a template, as far as the fake knows Mustachio (<https://postmarkapp.com/support/article/1077-template-syntax>):
//! values of the model, and the place of the content in a layout. Sections and all else are refused when the template is
//! made: what is sent as it was written would look like a rendered message.

use serde_json::Value;

/// The text with the values of the model in their places; one that the model has not is empty.
pub(super) fn render(text: &str, model: &Value) -> String {
    let mut rendered = String::new();
    let all = walk(text, |before, name| {
        rendered.push_str(before);
        match value_of(model, name) {
            Value::Null => {}
            Value::String(text) => rendered.push_str(text),
            other => rendered.push_str(&other.to_string()),
        }
    });
    rendered + all.unwrap_or(text)
}

fn value_of<'a>(model: &'a Value, name: &str) -> &'a Value {
    name.split('.').fold(model, |value, name| &value[name])
}

/// The first value of a text that the model has as a list or as an object, which have no text.
pub(super) fn without_text(text: &str, model: &Value) -> Option<String> {
    let mut found = None;
    let is_whole = |value: &Value| value.is_array() || value.is_object();
    let _ = walk(text, |_, name| {
        let wrong = is_whole(value_of(model, name)).then(|| name.to_owned());
        found = found.take().or(wrong);
    });
    found
}

/// Gives the part of a text that the fake cannot render, as an error.
pub(super) fn check(text: &str) -> Result<(), String> {
    walk(text, |_, _| {}).map(|_| ())
}

/// Tells each value's name, and the text before it. Gives the text behind the last one.
fn walk(mut text: &str, mut tell: impl FnMut(&str, &str)) -> Result<&str, String> {
    while let Some((before, after)) = text.split_once("{{") {
        let (name, behind) = after.split_once("}}").ok_or("an opening '{{' has no '}}'")?;
        let is_value = !name.trim().is_empty()
            && name.trim().chars().all(|char| char.is_alphanumeric() || "_-.".contains(char))
            && name.trim().split('.').all(|part| !part.is_empty());
        if !is_value {
            return Err(format!("this fake does not implement '{{{{{name}}}}}'"));
        }
        tell(before, name.trim());
        text = behind;
    }
    Ok(text)
}

/// Where the content of a template stands in its layout.
pub(super) const CONTENT: &str = "{{{@content}}}";

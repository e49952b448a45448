//! The webhooks of Adyen's Management API: registered, changed, and listed page by page.
//!
//! Requests, answers and pages are those of ManagementService-v3 (github.com/Adyen/adyen-openapi). An error has the form
//! of its `RestServiceError`. Which of them come with which code is not published: codes and words are composed.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;
use wiremock::Request;

use super::super::encoding::hex;
use super::super::fixture::Reply;
use super::super::serve::header;
use super::contract::{self, Wrong, is_missing};
use super::hooks::{Hook, Hooks, of_owner, with_id};

/// Whether a path is of the Management API.
pub(super) fn is_managed(path: &str) -> bool {
    let mut parts = path.split('/').skip(1);
    matches!(parts.next(), Some("v1" | "v3")) && matches!(parts.next(), Some("merchants" | "companies"))
}

/// The answer to a request of the Management API.
pub(super) fn manage(hooks: &mut Hooks, request: &Request, path: &str) -> Reply {
    let parts: Vec<&str> = path.split('/').skip(2).collect();
    let [kind, account, "webhooks", rest @ ..] = &parts[..] else { return not_found() };
    let owner = Owner { merchant: (*kind == "merchants").then_some(*account) };
    let method = request.method.as_str();
    let done = match (method, rest) {
        ("GET", []) => list(hooks, &owner, request),
        ("POST", []) => hooks.create(&owner, request),
        (_, [id, rest @ ..]) => match hooks.find(&owner, id) {
            Some((ordinal, hook)) => hooks.one(&owner, request, (ordinal, hook), rest),
            None => Err(not_found()),
        },
        _ => Err(not_found()),
    };
    done.unwrap_or_else(|refusal| refusal)
}

/// The account that a request is about: a merchant account, or the company.
struct Owner<'a> {
    merchant: Option<&'a str>,
}

impl Owner<'_> {
    fn is_of(&self, hook: &Hook) -> bool {
        hook.merchant.as_deref() == self.merchant
    }

    const fn request(&self, creates: bool) -> &'static str {
        match (creates, self.merchant.is_some()) {
            (true, true) => "CreateMerchantWebhookRequest",
            (true, false) => "CreateCompanyWebhookRequest",
            (false, true) => "UpdateMerchantWebhookRequest",
            (false, false) => "UpdateCompanyWebhookRequest",
        }
    }
}

impl Hooks {
    fn create(&mut self, owner: &Owner<'_>, request: &Request) -> Result<Reply, Reply> {
        no_parameters(request)?;
        let sent = read(owner.request(true), &request.body)?;
        if sent["type"] != "standard" {
            return Err(invalid("type", &sent["type"], "only standard webhooks are known here"));
        }
        let id = format!("S2-{:012X}", self.made + 1);
        let settings = json!({
            "id": id, "type": "standard", "description": "", "username": "", "hasPassword": false, "hasError": false,
            "acceptsExpiredCertificate": false, "acceptsSelfSignedCertificate": false,
            "acceptsUntrustedRootCertificate": false, "populateSoapActionHeader": false,
        });
        let merchant = owner.merchant.map(str::to_owned);
        let mut hook = Hook { id, merchant, settings, password: String::new(), key: None };
        hook.take(&sent)?;
        let told = Reply::json(200, &hook.settings);
        self.made += 1;
        self.hooks.add(hook);
        Ok(told)
    }

    /// A webhook by its id, and its place.
    fn find(&self, owner: &Owner<'_>, id: &str) -> Option<(u64, Hook)> {
        let mut found = self.hooks.with(&[with_id(owner.merchant, id)]);
        found.find(|(_, hook)| owner.is_of(hook) && hook.id == id).map(|(at, hook)| (at, hook.clone()))
    }

    fn one(
        &mut self,
        owner: &Owner<'_>,
        request: &Request,
        (ordinal, mut hook): (u64, Hook),
        rest: &[&str],
    ) -> Result<Reply, Reply> {
        no_parameters(request)?;
        let reply = match (request.method.as_str(), rest) {
            ("GET", []) => return Ok(Reply::json(200, &hook.settings)),
            ("DELETE", []) => {
                self.hooks.remove(ordinal);
                return Ok(Reply::empty(204));
            }
            ("PATCH", []) => {
                hook.take(&read(owner.request(false), &request.body)?)?;
                Reply::json(200, &hook.settings)
            }
            ("POST", ["generateHmac"]) => hook.generate_key(),
            _ => return Err(not_found()),
        };
        self.hooks.replace(ordinal, hook);
        Ok(reply)
    }
}

impl Hook {
    /// Takes what a request sets, all of it or nothing.
    fn take(&mut self, sent: &Value) -> Result<(), Reply> {
        let mut settings = self.settings.clone();
        for (name, value) in sent.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            match name.as_str() {
                "additionalSettings" | "networkType" | "sslVersion" => {
                    return Err(invalid(name, value, "is not known here"));
                }
                "communicationFormat" if value != "json" => {
                    return Err(invalid(name, value, "only JSON is known here"));
                }
                "url"
                    if value
                        .as_str()
                        .and_then(|url| Url::parse(url).ok())
                        .is_none_or(|url| !url.has_host()) =>
                {
                    return Err(invalid(name, value, "is not a URL"));
                }
                "password" => settings["hasPassword"] = Value::from(value != ""),
                _ => settings[name] = value.clone(),
            }
        }
        let filter = &settings["filterMerchantAccountType"];
        let names_none = settings["filterMerchantAccounts"].as_array().is_none_or(Vec::is_empty);
        if names_none && !filter.is_null() && filter != "allAccounts" {
            return Err(invalid(
                "filterMerchantAccounts",
                &Value::Null,
                "is required by the type of the filter",
            ));
        }
        if let Some(password) = sent["password"].as_str() {
            password.clone_into(&mut self.password);
        }
        self.settings = settings;
        Ok(())
    }

    fn generate_key(&mut self) -> Reply {
        let key: [u8; 32] = Sha256::digest(format!("fake {}", self.id)).into();
        self.key = Some(key);
        Reply::json(200, &json!({ "hmacKey": hex(&key).to_uppercase() }))
    }
}

/// A page of an account's webhooks: `ListWebhooksResponse`, with the links of `PaginationLinks`.
///
/// Pages begin with 1, as in the examples of this list. A page behind the last is not documented, and refused.
fn list(hooks: &Hooks, owner: &Owner<'_>, request: &Request) -> Result<Reply, Reply> {
    let (mut page, mut size) = (1, PAGE_SIZE);
    for (name, value) in request.url.query_pairs() {
        let number = value.parse::<usize>().ok().filter(|number| *number > 0);
        match (&*name, number) {
            ("pageNumber", Some(number)) => page = number,
            ("pageSize", Some(number @ 1..=PAGE_SIZE_MAX)) => size = number,
            ("pageNumber" | "pageSize", _) => {
                return Err(invalid(&name, &Value::from(&*value), "is not within its bounds"));
            }
            _ => return Err(unknown_parameter(&name, &value)),
        }
    }
    let all = of_owner(owner.merchant);
    let total = hooks.hooks.count(all);
    let pages = total.div_ceil(size).max(1);
    if page > pages {
        return Err(invalid("pageNumber", &Value::from(page), "is behind the last page"));
    }
    let host = header(&request.headers, "host").or(request.url.host_str()).unwrap_or_default();
    let link = |page: usize| {
        let url = format!("http://{host}{}?pageNumber={page}&pageSize={size}", request.url.path());
        json!({ "href": url })
    };
    let mut links = Map::new();
    for (name, page) in [
        ("self", Some(page)),
        ("first", Some(1)),
        ("last", Some(pages)),
        ("next", (page < pages).then_some(page + 1)),
        ("prev", (page > 1).then_some(page - 1)),
    ] {
        links.extend(page.map(|page| (name.to_owned(), link(page))));
    }
    let shown: Vec<&Value> =
        hooks.hooks.page(all, (page - 1) * size, size).map(|hook| &hook.settings).collect();
    let body = json!({ "_links": links, "itemsTotal": total, "pagesTotal": pages, "data": shown });
    Ok(Reply::json(200, &body))
}

/// The body of a request of this type, or the refusal of it.
fn read(kind: &str, body: &[u8]) -> Result<Value, Reply> {
    let Ok(value @ Value::Object(_)) = serde_json::from_slice::<Value>(body) else {
        return Err(problem(400, "00_400", "Bad request", "The request is no JSON object.", &json!([])));
    };
    if let Err(wrong) = contract::check(kind, &value) {
        let (member, message) = match wrong {
            Wrong::Unknown { members, .. } => (members.join(", "), "is unknown"),
            Wrong::Kind { member, .. } => (member, "is of another kind"),
            Wrong::Missing { member } => (member, "is required"),
            Wrong::Bounds { member } => (member, "is not within its bounds"),
            Wrong::Currency | Wrong::Metadata | Wrong::MetadataKey => (kind.to_owned(), "is not valid"),
        };
        return Err(invalid(&member, &value[&member], message));
    }
    let required = contract::shape(kind).map_or(&[][..], |shape| &shape.required);
    match required.iter().find(|name| is_missing(&value[name.as_str()])) {
        Some(name) => Err(invalid(name, &Value::Null, "is required")),
        None => Ok(value),
    }
}

fn no_parameters(request: &Request) -> Result<(), Reply> {
    let first = request.url.query_pairs().next();
    first.map_or(Ok(()), |(name, value)| Err(unknown_parameter(&name, &value)))
}

fn unknown_parameter(name: &str, value: &str) -> Reply {
    invalid(name, &Value::from(value), "is not known here")
}

fn invalid(field: &str, value: &Value, message: &str) -> Reply {
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let fields = json!([{ "name": field, "value": shown, "message": message }]);
    problem(422, "31_005", "Invalid input", &format!("{field}: {message}"), &fields)
}

pub(super) fn unauthorized() -> Reply {
    problem(401, "00_401", "Unauthorized", "The request has no API key.", &json!([]))
}

fn not_found() -> Reply {
    problem(404, "00_404", "Not found", "There is no such resource.", &json!([]))
}

/// `RestServiceError`.
fn problem(status: u16, code: &str, title: &str, detail: &str, fields: &Value) -> Reply {
    let problem = json!({
        "type": "https://docs.adyen.com/errors/validation", "errorCode": code, "title": title, "detail": detail,
        "status": status, "invalidFields": fields,
    });
    Reply::json(status, &problem)
}

/// "The number of items to have on a page, maximum 100. The default is 10 items on a page."
const PAGE_SIZE: usize = 10;
const PAGE_SIZE_MAX: usize = 100;

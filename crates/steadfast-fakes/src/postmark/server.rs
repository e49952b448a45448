//! The parts of a Postmark server besides messages: itself, templates, streams and bounces.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wiremock::Request;

use super::super::fixture::Reply;
use super::bounces::{Bounce, no_bounce};
use super::query;
use super::questions::code_of;
use super::shapes::{self, Shape};
use super::suppressions::Suppressions;
use super::template::{self, CONTENT};

/// All of it. It begins with the two streams that every server has, and with one template.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) own: Value,
    templates: BTreeMap<u64, Value>,
    pub(super) webhooks: BTreeMap<u64, Value>,
    pub(super) bounces: BTreeMap<u64, Bounce>,
    pub(super) suppressed: Suppressions,
    made: u64,
}

impl Default for Server {
    fn default() -> Server {
        let mut server = Server {
            own: new_server(SERVER),
            templates: BTreeMap::new(),
            webhooks: BTreeMap::new(),
            bounces: BTreeMap::new(),
            suppressed: Suppressions::default(),
            made: 0,
        };
        let receipt = json!({ "Name": "Receipt", "Alias": "receipt", "Subject": "Order {{order}}", "TextBody": "Thank you." });
        let _ = server.create_template(&receipt);
        server
    }
}

impl Server {
    pub(super) fn next_id(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// `None` for a route that is not of these.
    pub(super) fn answer(&mut self, request: &Request, route: &str, body: Option<&Value>) -> Option<Reply> {
        let parts: Vec<&str> = route.trim_start_matches('/').split('/').collect();
        let writes = matches!(request.method.as_str(), "POST" | "PUT");
        let Some(sent) = body.or(if writes { None } else { Some(&Value::Null) }) else {
            return Some(match parts[0] {
                "webhooks" if request.body.is_empty() => refused(1355, "A request body must be provided."),
                _ => refused(402, "The JSON data provided is invalid."),
            });
        };
        Some(match (request.method.as_str(), &parts[..]) {
            ("GET", ["server"]) => Reply::json(200, &self.own),
            ("PUT", ["server"]) => self.edit_server(sent).unwrap_or_else(|no| no),
            ("GET", ["templates"]) => self.templates(request),
            ("POST", ["templates"]) => self.create_template(sent).unwrap_or_else(|no| no),
            ("GET", ["templates", id]) => {
                self.template(id).map_or_else(no_template, |it| Reply::json(200, it))
            }
            ("PUT", ["templates", id]) => self.edit_template(id, sent).unwrap_or_else(|no| no),
            ("DELETE", ["templates", id]) => self.delete_template(id),
            ("GET", ["message-streams"]) => {
                let wanted =
                    query(request, "messagestreamtype").filter(|wanted| !wanted.eq_ignore_ascii_case("all"));
                let is_of =
                    |kind: &str| wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind));
                let of = STREAMS.iter().filter(|(_, kind)| is_of(kind));
                let streams: Vec<Value> = of.map(|(id, kind)| stream(id, kind)).collect();
                Reply::json(200, &json!({ "MessageStreams": streams, "TotalCount": streams.len() }))
            }
            ("GET", ["message-streams", id]) => match STREAMS.iter().find(|(known, _)| known == id) {
                Some((id, kind)) => Reply::json(200, &stream(id, kind)),
                None => refused(1226, "The message stream for the provided 'ID' was not found."),
            },
            ("GET", ["webhooks"]) => self.webhooks(request),
            ("POST", ["webhooks"]) => self.create_webhook(sent).unwrap_or_else(|no| no),
            (method @ ("GET" | "PUT" | "DELETE"), ["webhooks", id]) => {
                self.webhook(method, id, sent).unwrap_or_else(|no| no)
            }
            ("GET", ["deliverystats"]) => self.delivery_statistics(),
            ("GET", ["bounces"]) => self.bounces(request),
            ("GET", ["bounces", id, rest @ ..]) if matches!(rest, [] | ["dump"]) => {
                match self.bounces.get(&number(id)) {
                    Some(bounce) if rest.is_empty() => Reply::json(200, &bounce.shown),
                    Some(_) => Reply::json(200, &json!({ "Body": "" })),
                    None => no_bounce(),
                }
            }
            _ => return None,
        })
    }

    fn edit_server(&mut self, sent: &Value) -> Result<Reply, Reply> {
        shaped(shapes::SERVER, sent)?;
        for (name, value) in sent.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            self.own[name] = value.clone();
        }
        Ok(Reply::json(200, &self.own))
    }

    fn templates(&self, request: &Request) -> Reply {
        let Some((count, offset)) = page(request) else { return no_page(request) };
        let short = |template: &Value| {
            let names = ["TemplateType", "Active", "TemplateId", "Name", "Alias", "LayoutTemplate"];
            let fields = names.map(|name| (name.to_owned(), template[name].clone()));
            Value::Object(fields.into_iter().collect())
        };
        let kind = query(request, "templatetype").filter(|kind| !kind.eq_ignore_ascii_case("all"));
        let layout = query(request, "layouttemplate");
        let is = |wanted: &Option<String>, held: &Value| {
            wanted
                .as_ref()
                .is_none_or(|wanted| held.as_str().is_some_and(|held| held.eq_ignore_ascii_case(wanted)))
        };
        let passes = |template: &&Value| {
            is(&kind, &template["TemplateType"]) && is(&layout, &template["LayoutTemplate"])
        };
        let found: Vec<&Value> = self.templates.values().filter(passes).collect();
        let shown: Vec<Value> = found.iter().skip(offset).take(count).copied().map(short).collect();
        Reply::json(200, &json!({ "TotalCount": found.len(), "Templates": shown }))
    }

    /// By its id or its alias.
    fn template(&self, id: &str) -> Option<&Value> {
        let alias = |template: &&Value| {
            template["Alias"].as_str().is_some_and(|alias| alias.eq_ignore_ascii_case(id))
        };
        self.templates.get(&number(id)).or_else(|| self.templates.values().find(alias))
    }

    /// The template that a message names, within its layout; what Postmark says if there is none.
    pub(super) fn template_of(&self, item: &Value) -> Result<Value, Reply> {
        let id = item["TemplateId"].as_u64().map(|id| id.to_string());
        let name = id.or_else(|| item["TemplateAlias"].as_str().map(str::to_owned));
        let found = name.and_then(|name| self.template(&name));
        // A layout is not sent by itself.
        let found = found.filter(|found| found["TemplateType"] != "Layout").ok_or_else(no_template)?;
        let layout = found["LayoutTemplate"].as_str().and_then(|layout| self.template(layout));
        let mut whole = found.clone();
        for name in BODIES {
            let frame = layout.and_then(|layout| layout[name].as_str());
            if let (Some(frame), Some(text)) = (frame, found[name].as_str()) {
                whole[name] = Value::from(frame.replace(CONTENT, text));
            }
        }
        let mut texts = TEXTS.iter().filter_map(|name| whole[*name].as_str());
        let wrong = texts.find_map(|text| template::without_text(text, &item["TemplateModel"]));
        match wrong {
            Some(name) => Err(invalid_field(&format!("TemplateModel.{name}"))),
            None => Ok(whole),
        }
    }

    fn create_template(&mut self, sent: &Value) -> Result<Reply, Reply> {
        shaped(shapes::TEMPLATE, sent)?;
        let text = |name: &str| sent[name].as_str().filter(|text| !text.is_empty());
        self.check_template(sent, None)?;
        Self::check_texts(sent)?;
        self.has_layout(sent)?;
        let id = self.next_id();
        let template = json!({
            "TemplateType": text("TemplateType").unwrap_or("Standard"), "Name": sent["Name"], "TemplateId": id,
            "Alias": text("Alias"), "Subject": sent["Subject"], "HtmlBody": text("HtmlBody"), "TextBody": text("TextBody"),
            "Active": true, "AssociatedServerId": SERVER, "LayoutTemplate": text("LayoutTemplate"),
        });
        let told = brief(&template);
        self.templates.insert(id, template);
        Ok(Reply::json(200, &told))
    }

    fn edit_template(&mut self, id: &str, sent: &Value) -> Result<Reply, Reply> {
        shaped(shapes::TEMPLATE, sent)?;
        self.has_layout(sent)?;
        let held = self.template(id).ok_or_else(no_template)?;
        let mut edited = held.clone();
        // Null is what is left out. A layout can be taken away.
        for name in ["TemplateType", "Name", "Subject", "HtmlBody", "TextBody", "Alias", "LayoutTemplate"] {
            if let Some(value) = sent.get(name).filter(|value| name == "LayoutTemplate" || !value.is_null()) {
                edited[name] = value.clone();
            }
        }
        let own = held["TemplateId"].as_u64();
        self.check_template(&edited, own)?;
        if edited["TemplateType"] != held["TemplateType"] {
            return Err(invalid_field("TemplateType"));
        }
        Self::check_texts(&edited)?;
        let told = brief(&edited);
        self.templates.extend(own.map(|own| (own, edited)));
        Ok(Reply::json(200, &told))
    }

    /// The refusal of a template without a name or a body, of an unknown type, or with an alias that is empty or another
    /// one's than `own`.
    fn check_template(&self, template: &Value, own: Option<u64>) -> Result<(), Reply> {
        let is_there = |name: &str| template[name].as_str().is_some_and(|text| !text.is_empty());
        if !is_there("Name") {
            return Err(refused(1120, "The 'Name' for the template is required."));
        }
        if !is_there("HtmlBody") && !is_there("TextBody") {
            return Err(refused(1120, "A template must have an 'HtmlBody' or a 'TextBody'."));
        }
        if template["TemplateType"].as_str().is_some_and(|kind| !["Standard", "Layout"].contains(&kind)) {
            return Err(refused(1122, "The 'TemplateType' for the template is invalid."));
        }
        let Some(alias) = template["Alias"].as_str() else { return Ok(()) };
        if alias.is_empty() {
            return Err(refused(1122, "The 'Alias' for the template is empty."));
        }
        match self.template(alias) {
            Some(other) if other["TemplateId"].as_u64() != own => {
                Err(refused(1122, "A template with this alias already exists."))
            }
            _ => Ok(()),
        }
    }

    /// The refusal of a text that cannot be rendered, and of a layout without the place of its content.
    fn check_texts(template: &Value) -> Result<(), Reply> {
        let is_layout = template["TemplateType"] == "Layout";
        for name in TEXTS {
            let Some(text) = template[name].as_str().filter(|text| !text.is_empty()) else { continue };
            if is_layout && BODIES.contains(&name) && !text.contains(CONTENT) {
                return Err(refused(1122, &format!("The '{name}' of a layout must have '{CONTENT}'.")));
            }
            let text = if is_layout { text.replace(CONTENT, "") } else { text.to_owned() };
            if let Err(why) = template::check(&text) {
                return Err(refused(1122, &format!("The '{name}' of the template is not valid: {why}.")));
            }
        }
        Ok(())
    }

    /// That the layout of a template is one of this server's.
    fn has_layout(&self, sent: &Value) -> Result<(), Reply> {
        let Some(layout) = sent["LayoutTemplate"].as_str().filter(|layout| !layout.is_empty()) else {
            return Ok(());
        };
        let found = self.template(layout).filter(|found| found["TemplateType"] == "Layout");
        found.map(|_| ()).ok_or_else(no_template)
    }

    fn delete_template(&mut self, id: &str) -> Reply {
        let Some(id) = self.template(id).and_then(|template| template["TemplateId"].as_u64()) else {
            return no_template();
        };
        let layout_of = |template: &Value| self.template(template["LayoutTemplate"].as_str()?);
        if self.templates.values().filter_map(layout_of).any(|layout| layout["TemplateId"] == id) {
            let text = "The layout template cannot be deleted because it has dependent templates using it.";
            return refused(1130, text);
        }
        self.templates.remove(&id);
        Reply::json(200, &json!({ "ErrorCode": 0, "Message": format!("Template {id} removed.") }))
    }
}

/// The server of this id, as it is before a request sets anything.
pub(super) fn new_server(id: u64) -> Value {
    let hash = if id == SERVER { "fake".to_owned() } else { format!("fake-{id}") };
    json!({
        "ID": id, "Name": "Fake", "ApiTokens": [hash], "ServerLink": format!("https://postmarkapp.com/servers/{id}/streams"),
        "Color": "Green", "SmtpApiActivated": true, "RawEmailEnabled": false,
        "DeliveryType": if id == SERVER { "Sandbox" } else { "Live" },
        "InboundAddress": format!("{hash}@inbound.postmarkapp.com"), "InboundHookUrl": "", "BounceHookUrl": "",
        "OpenHookUrl": "", "DeliveryHookUrl": "", "ClickHookUrl": "", "PostFirstOpenOnly": false, "InboundDomain": "",
        "InboundHash": hash, "InboundSpamThreshold": 5, "TrackOpens": false, "TrackLinks": "None",
        "IncludeBounceContentInHook": false, "EnableSmtpApiErrorHooks": false,
    })
}

/// The members that a write tells of a template.
fn brief(template: &Value) -> Value {
    json!({
        "TemplateId": template["TemplateId"], "Name": template["Name"], "Active": template["Active"],
        "Alias": template["Alias"], "TemplateType": template["TemplateType"], "LayoutTemplate": template["LayoutTemplate"],
    })
}

fn stream(id: &str, kind: &str) -> Value {
    let unsubscribe = if kind == "Broadcasts" { "Postmark" } else { "None" };
    json!({
        "ID": id, "ServerID": SERVER, "Name": id, "Description": "", "MessageStreamType": kind,
        "CreatedAt": "2020-07-01T00:00:00-04:00", "UpdatedAt": null, "ArchivedAt": null, "ExpectedPurgeDate": null,
        "SubscriptionManagementConfiguration": { "UnsubscribeHandlingType": unsubscribe },
    })
}

/// `count` and `offset`, which lists require.
pub(super) fn page(request: &Request) -> Option<(usize, usize)> {
    let number = |name: &str| query(request, name)?.parse().ok();
    let (count, offset): (usize, usize) = (number("count")?, number("offset")?);
    let is_within = (1..=500).contains(&count) && count.saturating_add(offset) <= 10_000;
    is_within.then_some((count, offset))
}

pub(super) fn no_page(request: &Request) -> Reply {
    let code = code_of(&request.url.path().to_ascii_lowercase());
    refused(code, "Parameters 'count' (1 to 500) and 'offset' are required.")
}

fn no_template() -> Reply {
    refused(
        1101,
        "The Template's 'TemplateId' or 'TemplateAlias' associated with this request is not valid or was not found.",
    )
}

/// The refusal of what has another form than it must have.
pub(super) fn shaped(shape: Shape, sent: &Value) -> Result<(), Reply> {
    shapes::wrong(shape, sent).map_or(Ok(()), |member| Err(invalid_field(&member)))
}

pub(super) fn invalid_field(member: &str) -> Reply {
    refused(403, &format!("Invalid request field(s): '{member}'."))
}

pub(super) fn no_stream(stream: &str) -> Reply {
    refused(1235, &format!("The stream provided: '{stream}' does not exist on this server."))
}

/// The codes are those of the list (<https://postmarkapp.com/developer/api/overview#error-codes>), read in public copies.
/// The words are those of a copy where it has them, and composed where not.
pub(super) fn refused(code: u64, message: &str) -> Reply {
    Reply::json(422, &json!({ "ErrorCode": code, "Message": message }))
}

pub(super) fn number(id: &str) -> u64 {
    id.parse().unwrap_or(0)
}

/// The streams that a message may name: those that every server begins with, the default first
/// (<https://postmarkapp.com/developer/api/message-streams-api>).
pub(super) const STREAMS: [(&str, &str); 3] =
    [("outbound", "Transactional"), ("broadcast", "Broadcasts"), ("inbound", "Inbound")];

const TEXTS: [&str; 3] = ["Subject", "HtmlBody", "TextBody"];
/// The bodies that a layout is around.
const BODIES: [&str; 2] = ["HtmlBody", "TextBody"];

pub(super) const SERVER: u64 = 1;

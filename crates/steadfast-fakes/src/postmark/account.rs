//! The account API: servers, domains and sender signatures, by the account's own token
//! (<https://postmarkapp.com/developer/api/servers-api>, `domains-api` and `signatures-api` beside it).
//!
//! Two things are not Postmark's to say. Whether the records of a domain are in its DNS, and whether the owner of an
//! address has confirmed it: both are switches. So is a third: Postmark deletes a server for accounts that asked for it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wiremock::Request;

use super::super::fixture::Reply;
use super::dns::{authenticate, new_domain, part, rotate, set, text};
use super::query;
use super::server::{SERVER, Server, invalid_field, new_server, no_page, number, page, refused, shaped};
use super::settings::PostmarkSettings;
use super::shapes::{self, Shape};

/// All of it. The server of the fake is one of its servers.
#[derive(Debug, Default)]
pub(super) struct Account {
    servers: BTreeMap<u64, Value>,
    domains: BTreeMap<u64, Value>,
    senders: BTreeMap<u64, Value>,
    made: u64,
}

/// A request, read.
struct Asked<'a> {
    settings: &'a PostmarkSettings,
    request: &'a Request,
    method: &'a str,
    /// Of the route, behind `servers`, `domains` or `senders`.
    rest: &'a [&'a str],
    sent: Value,
}

/// Whether a route is the account's, and not a server's.
pub(super) fn is_route(route: &str) -> bool {
    let first = route.trim_start_matches('/').split('/').next();
    first.is_some_and(|first| ["servers", "domains", "senders"].contains(&first))
}

impl Account {
    /// `None` for a route that there is not.
    pub(super) fn answer(
        &mut self,
        own: &mut Server,
        settings: &PostmarkSettings,
        request: &Request,
        route: &str,
    ) -> Option<Result<Reply, Reply>> {
        let parts: Vec<&str> = route.trim_start_matches('/').split('/').collect();
        let method = request.method.as_str();
        let sent = match read(members(method, &parts)?, request) {
            Ok(sent) => sent,
            Err(refusal) => return Some(Err(refusal)),
        };
        let (kind, rest) = parts.split_first()?;
        let asked = Asked { settings, request, method, rest, sent };
        Some(match *kind {
            "servers" => self.of_servers(own, &asked),
            "domains" => self.of_domains(&asked),
            _ => self.of_senders(&asked),
        })
    }

    fn of_servers(&mut self, own: &mut Server, asked: &Asked<'_>) -> Result<Reply, Reply> {
        let &Asked { settings, request, method, rest, ref sent } = asked;
        let id = rest.first().map_or(0, |id| number(id));
        let held = if id == SERVER { Some(&own.own) } else { self.servers.get(&id) };
        match (method, rest, held) {
            ("GET", [], _) => {
                let name = query(request, "name").unwrap_or_default().to_lowercase();
                let all = [&own.own].into_iter().chain(self.servers.values());
                let is_named = |server: &&Value| text(server, "Name").to_lowercase().contains(&name);
                list(request, "Servers", all.filter(is_named), Value::clone)
            }
            ("POST", ..) => {
                if text(sent, "Name").is_empty() {
                    return Err(refused(608, "The server's name is missing or invalid."));
                }
                self.check_server(own, 0, sent)?;
                let id = self.next_id();
                let mut server = new_server(id);
                set(&mut server, sent);
                self.servers.insert(id, server.clone());
                Ok(Reply::json(200, &server))
            }
            (.., None) => Err(refused(601, "This server does not exist.")),
            ("GET", _, Some(server)) => Ok(Reply::json(200, server)),
            ("DELETE", _, Some(server)) => {
                if !settings.delete_servers || id == SERVER {
                    return Err(refused(604, "You do not have the right to delete this server."));
                }
                let told = removed("Server", text(server, "Name"));
                self.servers.remove(&id);
                Ok(told)
            }
            (_, _, Some(_)) => {
                self.check_server(own, id, sent)?;
                let server = if id == SERVER { &mut own.own } else { self.servers.entry(id).or_default() };
                set(server, sent);
                Ok(Reply::json(200, server))
            }
        }
    }

    /// The refusal of a name that another server has, and of an unknown color.
    fn check_server(&self, own: &Server, id: u64, sent: &Value) -> Result<(), Reply> {
        let name = text(sent, "Name");
        let mut others = self.servers.values().chain([&own.own]).filter(|other| other["ID"] != id);
        if !name.is_empty() && others.any(|other| text(other, "Name").eq_ignore_ascii_case(name)) {
            return Err(refused(603, "A server with this name already exists."));
        }
        let is_color = |color: &str| COLORS.iter().any(|known| known.eq_ignore_ascii_case(color));
        match sent["Color"].as_str() {
            Some(color) if !is_color(color) => Err(refused(607, "This is no color of a server.")),
            _ => Ok(()),
        }
    }

    fn of_domains(&mut self, asked: &Asked<'_>) -> Result<Reply, Reply> {
        let &Asked { settings, request, method, rest, ref sent } = asked;
        match (method, rest) {
            ("GET", []) => list(request, "Domains", self.domains.values(), |domain| {
                part(
                    domain,
                    &["Name", "SPFVerified", "DKIMVerified", "WeakDKIM", "ReturnPathDomainVerified", "ID"],
                )
            }),
            ("POST", []) => {
                let name = text(sent, "Name").to_lowercase();
                if !name.contains('.') || name.contains(['@', '/', ' ']) {
                    return Err(refused(516, "The name of the domain is invalid."));
                }
                if self.domains.values().any(|domain| domain["Name"] == name) {
                    return Err(refused(512, "This domain already exists."));
                }
                let id = self.next_id();
                let mut domain = new_domain(id, &name);
                set(&mut domain, sent);
                domain["Name"] = Value::from(name);
                self.domains.insert(id, domain.clone());
                Ok(Reply::json(200, &domain))
            }
            (method, [id, action @ ..]) => {
                let (id, key) = (number(id), self.next_id());
                let domain = self.domains.get_mut(&id);
                let domain = domain.ok_or_else(|| refused(510, "This domain was not found."))?;
                if (method, action) == ("DELETE", &[][..]) {
                    let told = removed("Domain", text(domain, "Name"));
                    self.domains.remove(&id);
                    return Ok(told);
                }
                authenticate(domain, method, action, settings, key, sent)
            }
            _ => Err(invalid_field("$")),
        }
    }

    fn of_senders(&mut self, asked: &Asked<'_>) -> Result<Reply, Reply> {
        let &Asked { settings, request, method, rest, ref sent } = asked;
        match (method, rest) {
            ("GET", []) => list(request, "SenderSignatures", self.senders.values(), |sender| {
                part(sender, &["Domain", "EmailAddress", "ReplyToEmailAddress", "Name", "Confirmed", "ID"])
            }),
            ("POST", []) => self.create_sender(settings, sent),
            (method, [id, action @ ..]) => {
                let (id, key) = (number(id), self.next_id());
                let sender = self.senders.get_mut(&id);
                let sender = sender.ok_or_else(|| refused(501, "This sender signature was not found."))?;
                let address = text(sender, "EmailAddress").to_owned();
                match (method, action) {
                    ("DELETE", []) => {
                        self.senders.remove(&id);
                        Ok(removed("Signature", &address))
                    }
                    (_, ["resend"]) if sender["Confirmed"] == true => {
                        Err(refused(506, "This sender signature is confirmed already."))
                    }
                    (_, ["resend"]) => {
                        Ok(done(&format!("Confirmation email for Sender Signature {address} was re-sent.")))
                    }
                    (_, ["requestnewdkim"]) => {
                        rotate(sender, key)?;
                        Ok(done(&format!("A new DKIM key for {address} was requested.")))
                    }
                    _ => {
                        if sent["ReplyToEmail"].is_string() {
                            sender["ReplyToEmailAddress"] = sent["ReplyToEmail"].clone();
                        }
                        authenticate(sender, method, action, settings, key, sent)
                    }
                }
            }
            _ => Err(invalid_field("$")),
        }
    }

    fn create_sender(&mut self, settings: &PostmarkSettings, sent: &Value) -> Result<Reply, Reply> {
        let address = text(sent, "FromEmail").to_owned();
        let Some((_, domain)) =
            address.split_once('@').filter(|(mailbox, domain)| !mailbox.is_empty() && domain.contains('.'))
        else {
            return Err(refused(522, "The value of the field 'FromEmail' is invalid."));
        };
        let domain = domain.to_lowercase();
        if PUBLIC.contains(&domain.as_str()) {
            return Err(refused(503, "You cannot use a public domain."));
        }
        if self.senders.values().any(|sender| text(sender, "EmailAddress").eq_ignore_ascii_case(&address)) {
            return Err(refused(504, "This sender signature already exists."));
        }
        let id = self.next_id();
        let mut sender = new_domain(id, &domain);
        for (name, value) in [
            ("Domain", json!(domain)),
            ("EmailAddress", json!(address)),
            ("ReplyToEmailAddress", json!(text(sent, "ReplyToEmail"))),
            ("Confirmed", json!(settings.confirm_senders)),
            ("ConfirmationPersonalNote", json!("")),
        ] {
            sender[name] = value;
        }
        set(&mut sender, sent);
        self.senders.insert(id, sender.clone());
        Ok(Reply::json(200, &sender))
    }

    fn next_id(&mut self) -> u64 {
        self.made += 1;
        SERVER + self.made
    }
}

/// The members that the body of a request may have; `None` for a route that there is not.
fn members(method: &str, parts: &[&str]) -> Option<Shape> {
    Some(match (method, parts) {
        ("GET", [_] | [_, _]) | ("DELETE", [_, _]) => &[],
        ("POST", ["servers"]) => shapes::NEW_SERVER,
        ("PUT", ["servers", _]) => shapes::SERVER,
        ("POST", ["domains"]) => shapes::NEW_DOMAIN,
        ("PUT", ["domains", _]) => shapes::DOMAIN,
        ("PUT", ["domains", _, "verifydkim" | "verifyreturnpath"]) => &[],
        ("POST", ["domains", _, "verifyspf" | "rotatedkim"]) => &[],
        ("POST", ["senders"]) => shapes::NEW_SENDER,
        ("PUT", ["senders", _]) => shapes::SENDER,
        ("POST", ["senders", _, "resend" | "verifyspf" | "requestnewdkim"]) => &[],
        _ => return None,
    })
}

/// A route that takes no members takes no body either, or an empty one.
fn read(shape: Shape, request: &Request) -> Result<Value, Reply> {
    if request.body.is_empty() && shape.is_empty() {
        return Ok(json!({}));
    }
    let sent = serde_json::from_slice(&request.body);
    let sent: Value = sent.map_err(|_| refused(402, "The JSON data provided is invalid."))?;
    shaped(shape, &sent)?;
    Ok(sent)
}

fn list<'a>(
    request: &Request,
    name: &str,
    all: impl Iterator<Item = &'a Value>,
    short: impl Fn(&Value) -> Value,
) -> Result<Reply, Reply> {
    let (count, offset) = page(request).ok_or_else(|| no_page(request))?;
    let all: Vec<&Value> = all.collect();
    let shown: Vec<Value> = all.iter().skip(offset).take(count).map(|one| short(one)).collect();
    Ok(Reply::json(200, &json!({ "TotalCount": all.len(), name: shown })))
}

fn removed(kind: &str, name: &str) -> Reply {
    done(&format!("{kind} {name} removed."))
}

fn done(message: &str) -> Reply {
    Reply::json(200, &json!({ "ErrorCode": 0, "Message": message }))
}

/// <https://postmarkapp.com/developer/api/servers-api#create-server>
const COLORS: [&str; 8] = ["Purple", "Blue", "Turquoise", "Green", "Red", "Yellow", "Grey", "Orange"];

/// Some of those that everybody may have an address at.
const PUBLIC: [&str; 6] =
    ["aol.com", "gmail.com", "googlemail.com", "hotmail.com", "outlook.com", "yahoo.com"];

//! [`Address`]: a server, a database, a schema, and how the connection is secured.
//!
//! The driver reads the options of libpq's URLs. The options that it does not know are read here and not passed
//! on: the schema, and the values of `sslmode` that it lacks.

use std::fmt;
use std::path::{Path, PathBuf};

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use steadfast_core::internal::suggest::{nearest, shown};

use super::schema::Schema;

/// Location of a store on Postgres. `Display` and `Debug` show no password.
#[derive(Clone, PartialEq)]
pub struct Address {
    config: Config,
    schema: Schema,
    security: Security,
    portable: bool,
    is_durable_elsewhere: bool,
    /// Path of the `.pgpass` file. `None` if the URL names none.
    passwords: Option<PathBuf>,
}

/// Security of the connection to the server, as libpq defines it
/// (<https://www.postgresql.org/docs/current/libpq-ssl.html#LIBPQ-SSL-PROTECTION>).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Security {
    pub(super) mode: Mode,
    /// File of the only trusted root certificates. `None`: the platform's are trusted.
    pub(super) roots: Option<PathBuf>,
    /// Files of the client's own certificate and of its key. `None`: the client shows no certificate.
    pub(super) identity: Option<(PathBuf, PathBuf)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    Disable,
    /// TLS if the server offers it. An attacker on the network can pretend that it does not.
    #[default]
    Prefer,
    /// TLS, without a check of the certificate.
    Require,
    /// TLS with a certificate of a trusted root.
    VerifyCa,
    /// TLS with a certificate of a trusted root that is for this host.
    VerifyFull,
}

impl Address {
    /// Parses a URL. The error is the problem alone, for a message that names the place; it repeats only names
    /// of options.
    pub fn parse(text: &str) -> Result<Address, String> {
        let (head, options) = text.split_once('?').unwrap_or((text, ""));
        if head.contains('#') || options.contains('@') {
            return Err("a `?`, `#` or `@` in a name or a password is written %3F, %23 or %40".to_owned());
        }
        let mut own = OwnOptions::default();
        let mut others = Vec::new();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if name.eq_ignore_ascii_case("password") {
                return Err("a password among the options would be shown; write it before the host, or in PGPASSWORD or \
                            a passfile"
                    .to_owned());
            }
            if OWN.contains(&name) {
                own.set(name, decoded(value).ok_or_else(|| format!("`{name}` is not text"))?)?;
            } else if OTHERS.contains(&name) {
                others.push(option);
            } else {
                return Err(unknown(name));
            }
        }
        let mut config: Config = format!("{head}?{}", others.join("&")).parse().map_err(unreadable)?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(format!(
                "the URL names no host; write \"{EXAMPLE}\", or ?host=/run/postgresql for a socket"
            ));
        }
        let security = own.security(&config)?;
        config.ssl_mode(security.mode.as_driver());
        if config.get_application_name().is_none() {
            config.application_name("steadfast");
        }
        let is_one = config.get_hosts().len().max(config.get_hostaddrs().len()) < 2;
        if !is_one && !others.iter().any(|option| option.starts_with(TARGET)) {
            // Of several hosts, one may be a standby, which lags behind.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let (schema, portable) = (own.schema.unwrap_or_default(), own.portable.unwrap_or(false));
        let (passwords, is_durable_elsewhere) = (own.passwords, own.is_durable_elsewhere.is_some());
        Ok(Address { config, schema, security, portable, is_durable_elsewhere, passwords })
    }

    /// Returns the `.pgpass` file that the URL names; `None` if it names none.
    pub(super) fn passwords(&self) -> Option<&Path> {
        self.passwords.as_deref()
    }

    /// Returns true if the URL says `durability=elsewhere`: the server's disk settings are then not checked.
    pub(super) fn is_durable_elsewhere(&self) -> bool {
        self.is_durable_elsewhere
    }

    /// Returns true if the URL has a password.
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(super) fn security(&self) -> &Security {
        &self.security
    }

    /// Returns true if features that a distributed Postgres lacks may not be used.
    pub(super) fn is_portable(&self) -> bool {
        self.portable
    }

    /// Returns the hosts and the database, for messages.
    pub(super) fn place(&self) -> String {
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("{}/{database}", self.hosts())
    }

    fn hosts(&self) -> String {
        let ports = self.config.get_ports();
        let port = |turn: usize| ports.get(turn).or(ports.first()).filter(|port| **port != PORT);
        let hosts = self.config.get_hosts();
        let addresses = self.config.get_hostaddrs();
        let host = |turn: usize| match (hosts.get(turn), addresses.get(turn)) {
            (Some(Host::Tcp(name)), _) if name.contains(':') => format!("[{name}]"),
            (Some(Host::Tcp(name)), _) => name.clone(),
            #[cfg(unix)]
            (Some(Host::Unix(path)), _) => path.display().to_string(),
            (None, Some(address)) => address.to_string(),
            (None, None) => String::new(),
        };
        let shown = |turn| port(turn).map_or_else(|| host(turn), |port| format!("{}:{port}", host(turn)));
        let all: Vec<String> = (0..hosts.len().max(addresses.len())).map(shown).collect();
        all.join(",")
    }
}

/// Writes the URL without the password and without options that do not identify the place.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
        write!(f, "postgres://{user}{}?schema={}", self.place(), self.schema.name())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

impl Mode {
    /// Returns the driver's mode. `verify-ca` and `verify-full` have none; the TLS handshake checks them.
    fn as_driver(self) -> SslMode {
        match self {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }
}

/// Options that the store reads itself.
#[derive(Default)]
struct OwnOptions {
    schema: Option<Schema>,
    mode: Option<Mode>,
    roots: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    portable: Option<bool>,
    is_durable_elsewhere: Option<()>,
    passwords: Option<PathBuf>,
}

impl OwnOptions {
    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        let is_new = match name {
            "schema" => self.schema.replace(Schema::parse(&value)?).is_none(),
            "sslmode" => self.mode.replace(mode(&value)?).is_none(),
            "sslrootcert" => self.roots.replace(value.into()).is_none(),
            "portable" => self.portable.replace(parse_switch(&value)?).is_none(),
            "durability" => self.is_durable_elsewhere.replace(parse_durability(&value)?).is_none(),
            "passfile" => self.passwords.replace(value.into()).is_none(),
            "sslcert" => self.certificate.replace(value.into()).is_none(),
            _ => self.key.replace(value.into()).is_none(),
        };
        if is_new { Ok(()) } else { Err(format!("`{name}` is there twice")) }
    }

    fn security(&self, config: &Config) -> Result<Security, String> {
        let is_system = |roots: &PathBuf| roots.as_os_str() == "system";
        let given = self.roots.clone().filter(|roots| !is_system(roots));
        let mode = match (self.mode, &given) {
            // As in libpq: a URL that names a root wants it checked.
            (Some(Mode::Require), Some(_)) => Mode::VerifyCa,
            (Some(mode), _) => mode,
            (None, _) if self.roots.is_some() => Mode::VerifyFull,
            (None, _) => Mode::default(),
        };
        if mode == Mode::VerifyCa && given.is_none() {
            // Without a file, a server with any certificate of a public root would pass.
            return Err("`sslmode=verify-ca` needs `sslrootcert` and a file; or write verify-full".to_owned());
        }
        // A socket is not a network, and its server offers no TLS on it.
        let mode = if has_network(config) { mode } else { Mode::Disable };
        let identity = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            _ => return Err("`sslcert` and `sslkey` go together".to_owned()),
        };
        if !cfg!(feature = "rustls") && mode != Mode::Disable {
            return Err(
                "this build of steadfast has no TLS for Postgres: build it with feature `rustls`, or write \
                        sslmode=disable if no other host is on the network"
                    .to_owned(),
            );
        }
        Ok(Security { mode, roots: given, identity })
    }
}

fn has_network(config: &Config) -> bool {
    let is_tcp = |host: &Host| matches!(host, Host::Tcp(_));
    !config.get_hostaddrs().is_empty() || config.get_hosts().iter().any(is_tcp)
}

fn mode(value: &str) -> Result<Mode, String> {
    match value {
        "disable" => Ok(Mode::Disable),
        "prefer" => Ok(Mode::Prefer),
        "require" => Ok(Mode::Require),
        "verify-ca" => Ok(Mode::VerifyCa),
        "verify-full" => Ok(Mode::VerifyFull),
        _ => Err("`sslmode` is disable, prefer, require, verify-ca or verify-full".to_owned()),
    }
}

fn parse_switch(value: &str) -> Result<bool, String> {
    match value {
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => Err("`portable` is on or off".to_owned()),
    }
}

fn parse_durability(value: &str) -> Result<(), String> {
    if value == "elsewhere" { Ok(()) } else { Err("`durability` is elsewhere, or is left out".to_owned()) }
}

fn unknown(name: &str) -> String {
    // An unknown name that is long or odd may be a piece of a password.
    let is_word =
        name.len() <= 32 && name.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b'_');
    match nearest(name, OWN.iter().chain(OTHERS).copied()) {
        Some(meant) => format!("it has no such option; did you mean `{meant}`?"),
        None if is_word => format!("there is no option `{}`", shown(name)),
        None => "it has an unknown option".to_owned(),
    }
}

/// Returns the driver's message if it names an option at fault. The driver shows no value.
fn unreadable(error: tokio_postgres::Error) -> String {
    match error.into_source() {
        Some(source) if source.to_string().starts_with("invalid value for option") => source.to_string(),
        _ => format!("it cannot be read; write \"{EXAMPLE}\""),
    }
}

/// Returns `text` with `%2F` and the like decoded; `None` if the result is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let form = text.replace('+', "%2B");
    let pair = format!("v={form}");
    let (_, value) = url::form_urlencoded::parse(pair.as_bytes()).next()?;
    (!value.contains(char::REPLACEMENT_CHARACTER)).then(|| value.into_owned())
}

const EXAMPLE: &str = "postgres://shop@db.internal/shop?schema=payments";

const OWN: &[&str] =
    &["schema", "sslmode", "sslrootcert", "sslcert", "sslkey", "passfile", "portable", "durability"];

const TARGET: &str = "target_session_attrs=";

/// Options that the driver reads.
const OTHERS: &[&str] = &[
    "user",
    "dbname",
    "options",
    "application_name",
    "host",
    "hostaddr",
    "port",
    "connect_timeout",
    "tcp_user_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "target_session_attrs",
    "channel_binding",
    "sslnegotiation",
    "load_balance_hosts",
];

const PORT: u16 = 5432;

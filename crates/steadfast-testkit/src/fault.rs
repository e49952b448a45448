//! Faults between a caller and a vendor, and the plan of when each happens.
//!
//! A [`Fault`] is a value, not a callback, so that a plan can be printed, counted and repeated from a seed. A
//! [`FaultPlan`] decides which request meets which fault. It decides once per request and in one place (the
//! [`Front`](super::Front)). The fakes behind it only obey the [`FAULT_HEADER`], so no fault is injected twice
//! and the counts are exact.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;

use super::{GOLDEN, mix};

pub(crate) mod data;

/// Header by which the [`Front`](super::Front) selects the fault that a fake behind it shows. The front removes
/// the header from requests that come from outside.
pub const FAULT_HEADER: &str = "x-testkit-fault";

/// A way in which a vendor call goes wrong.
///
/// *Applied* means that the vendor took the effect. The faults differ in the vendor's action, and in the part
/// of it that the caller sees. A client must not lose that difference.
///
/// ```
/// use std::time::Duration;
/// use steadfast::testkit::{Fault, WaitForm};
///
/// assert!(Fault::DropAfterApply.applies(), "charged, and the caller does not get to know");
/// assert!(!Fault::TooManyRequests(WaitForm::Seconds(3)).applies());
///
/// let slow = Fault::SlowBody(Duration::from_millis(250));
/// assert_eq!(Fault::from_header(&slow.to_header()), Some(slow));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The connection closes before the body is read. Not applied, no answer.
    DropBeforeRead,
    /// The connection closes without one byte of the answer. Applied.
    DropAfterApply,
    /// The connection is reset (TCP RST). Not applied, no answer.
    Reset,
    /// The connection is reset (TCP RST) without one byte of the answer. Applied.
    ResetAfterApply,
    /// No answer ever comes. Not applied.
    Hang,
    /// No answer ever comes. Applied.
    HangAfterApply,
    /// The answer stops half-way through its body for this long, then continues. Applied.
    SlowBody(Duration),
    /// The connection closes half-way through the body that `Content-Length` promised. Applied.
    TruncatedBody,
    /// 500, not applied.
    Error500Before,
    /// 500, applied.
    Error500After,
    /// 500 that the vendor stores under the key and replays from then on, as Stripe documents it
    /// (<https://docs.stripe.com/api/idempotent_requests>: the first status and body are kept, "including
    /// `500` errors"). A vendor without keys answers a plain 500. Not applied.
    Stored500,
    /// A gateway's HTML page with status 502, where JSON was expected. Not applied.
    Html,
    /// 429 with the given form of `Retry-After`. Not applied.
    TooManyRequests(WaitForm),
    /// 409, the key is in use by another request in flight. Not applied. A vendor without keys answers as it
    /// does without a fault.
    KeyInUse,
}

/// Form in which a 429 asks for a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitForm {
    /// No wait is given.
    None,
    /// `Retry-After` in whole seconds.
    Seconds(u32),
    /// `Retry-After` as an HTTP date this long after the fake's present. The date has whole seconds: it is
    /// rounded up.
    HttpDate(Duration),
    /// The vendor's own header (for BigCommerce the milliseconds of `X-Rate-Limit-Time-Reset-Ms`). A vendor
    /// without one gives no wait.
    VendorForm(Duration),
}

impl Fault {
    /// Returns the fault's name in kebab case, without its parameter: `drop-after-apply`.
    pub const fn name(self) -> &'static str {
        match self {
            Fault::DropBeforeRead => "drop-before-read",
            Fault::DropAfterApply => "drop-after-apply",
            Fault::Reset => "reset",
            Fault::ResetAfterApply => "reset-after-apply",
            Fault::Hang => "hang",
            Fault::HangAfterApply => "hang-after-apply",
            Fault::SlowBody(_) => "slow-body",
            Fault::TruncatedBody => "truncated-body",
            Fault::Error500Before => "error-500-before",
            Fault::Error500After => "error-500-after",
            Fault::Stored500 => "stored-500",
            Fault::Html => "html",
            Fault::TooManyRequests(_) => "too-many-requests",
            Fault::KeyInUse => "key-in-use",
        }
    }

    /// Returns true for a fault of the connection, which the [`Front`](super::Front) produces itself. The
    /// others are answers of the vendor, which the fake behind the front must give.
    pub const fn is_transport(self) -> bool {
        match self {
            Fault::DropBeforeRead
            | Fault::DropAfterApply
            | Fault::Reset
            | Fault::ResetAfterApply
            | Fault::Hang
            | Fault::HangAfterApply
            | Fault::SlowBody(_)
            | Fault::TruncatedBody => true,
            Fault::Error500Before
            | Fault::Error500After
            | Fault::Stored500
            | Fault::Html
            | Fault::TooManyRequests(_)
            | Fault::KeyInUse => false,
        }
    }

    /// Returns true if the vendor applies the request although it goes wrong.
    pub const fn applies(self) -> bool {
        matches!(
            self,
            Fault::DropAfterApply
                | Fault::ResetAfterApply
                | Fault::HangAfterApply
                | Fault::SlowBody(_)
                | Fault::TruncatedBody
                | Fault::Error500After
        )
    }

    /// Returns [`FAULT_HEADER`]'s value: the name, and behind `=` the parameter if it has one. Durations are
    /// whole milliseconds. Only `seconds:` counts seconds, as its header does: `slow-body=250`,
    /// `too-many-requests=none`, `…=seconds:3`, `…=date:2000`, `…=vendor:1500`.
    pub fn to_header(self) -> String {
        let name = self.name();
        match self {
            Fault::SlowBody(pause) => format!("{name}={}", pause.as_millis()),
            Fault::TooManyRequests(WaitForm::None) => format!("{name}=none"),
            Fault::TooManyRequests(WaitForm::Seconds(seconds)) => format!("{name}=seconds:{seconds}"),
            Fault::TooManyRequests(WaitForm::HttpDate(wait)) => format!("{name}=date:{}", wait.as_millis()),
            Fault::TooManyRequests(WaitForm::VendorForm(wait)) => {
                format!("{name}=vendor:{}", wait.as_millis())
            }
            _ => name.to_owned(),
        }
    }

    /// Parses a value of [`to_header`](Fault::to_header); `None` for any other text.
    pub fn from_header(value: &str) -> Option<Fault> {
        let (name, parameter) = match value.split_once('=') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (value, None),
        };
        match (name, parameter) {
            ("slow-body", Some(pause)) => Some(Fault::SlowBody(millis(pause)?)),
            ("too-many-requests", Some(form)) => wait_form(form).map(Fault::TooManyRequests),
            (name, None) => PLAIN.into_iter().find(|fault| fault.name() == name),
            _ => None,
        }
    }
}

/// Returns an example of each fault's name, with a parameter where one is needed.
pub fn names() -> Vec<String> {
    let with_parameter = [
        Fault::SlowBody(Duration::from_millis(250)),
        Fault::TooManyRequests(WaitForm::None),
        Fault::TooManyRequests(WaitForm::Seconds(3)),
    ];
    PLAIN.into_iter().chain(with_parameter).map(Fault::to_header).collect()
}

fn wait_form(text: &str) -> Option<WaitForm> {
    match text.split_once(':') {
        None if text == "none" => Some(WaitForm::None),
        Some(("seconds", seconds)) => seconds.parse().ok().map(WaitForm::Seconds),
        Some(("date", wait)) => millis(wait).map(WaitForm::HttpDate),
        Some(("vendor", wait)) => millis(wait).map(WaitForm::VendorForm),
        _ => None,
    }
}

fn millis(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_millis)
}

/// Faults without a parameter.
const PLAIN: [Fault; 12] = [
    Fault::DropBeforeRead,
    Fault::DropAfterApply,
    Fault::Reset,
    Fault::ResetAfterApply,
    Fault::Hang,
    Fault::HangAfterApply,
    Fault::TruncatedBody,
    Fault::Error500Before,
    Fault::Error500After,
    Fault::Stored500,
    Fault::Html,
    Fault::KeyInUse,
];

/// A plan of which request meets which fault, with a count of each injected fault.
///
/// A clone shares the plan: give one to the front and keep one in the test.
///
/// ```
/// use http::Method;
/// use steadfast::testkit::{Fault, FaultPlan};
///
/// let plan = FaultPlan::new();
/// plan.next(Fault::Reset).when("/v1/refunds", Method::POST, Fault::Error500After);
///
/// // What a front asks, once a request:
/// assert_eq!(plan.decide(&Method::POST, "/v1/charges"), Some(Fault::Reset));
/// assert_eq!(plan.decide(&Method::POST, "/v1/charges"), None);
/// assert_eq!(plan.decide(&Method::POST, "/v1/refunds"), Some(Fault::Error500After));
/// assert_eq!((plan.requests(), plan.injected(Fault::Reset), plan.injected_total()), (3, 1, 2));
/// ```
///
/// # Ordering
///
/// A request takes the first of these that matches: the queue of [`next`](FaultPlan::next), the oldest matching
/// [`when`](FaultPlan::when), the oldest matching [`whenever`](FaultPlan::whenever), the
/// [seed](FaultPlan::seeded). A request meets at most one fault.
/// [seed](FaultPlan::seeded). At most one fault befalls a request.
#[derive(Clone, Default)]
pub struct FaultPlan(Arc<Mutex<Plan>>);

#[derive(Default)]
struct Plan {
    queue: VecDeque<Fault>,
    rules: Vec<Rule>,
    seeded: Option<Seeded>,
    requests: u64,
    injected: Vec<(Fault, u64)>,
}

struct Rule {
    path_prefix: String,
    /// Method that the rule matches. `None`: every method.
    method: Option<Method>,
    fault: Fault,
    once: bool,
}

struct Seeded {
    seed: u64,
    rate: f64,
    faults: Vec<Fault>,
}

impl FaultPlan {
    /// Returns a plan without faults.
    pub fn new() -> FaultPlan {
        FaultPlan::default()
    }

    /// Returns a plan by which each request meets, with probability `rate`, one of `faults`.
    ///
    /// The request's ordinal and the seed decide alone: the *n*-th request to arrive meets the same fault in
    /// every run. With concurrent callers, the scheduler decides which request is the *n*-th.
    ///
    /// `rate` is clamped to `[0, 1]`; NaN is 0. Without `faults` nothing goes wrong.
    pub fn seeded(seed: u64, rate: f64, faults: &[Fault]) -> FaultPlan {
        let rate = if rate.is_nan() { 0.0 } else { rate.clamp(0.0, 1.0) };
        let plan = FaultPlan::new();
        plan.0.lock().seeded = Some(Seeded { seed, rate, faults: faults.to_vec() });
        plan
    }

    /// Adds `fault` to the queue: the next request without an earlier fault in the queue meets it.
    pub fn next(&self, fault: Fault) -> &FaultPlan {
        self.next_n(fault, 1)
    }

    /// Adds `fault` to the queue `n` times: each of the next `n` requests meets it.
    pub fn next_n(&self, fault: Fault, n: usize) -> &FaultPlan {
        self.0.lock().queue.extend(std::iter::repeat_n(fault, n));
        self
    }

    /// Adds a rule for one request: the next one with this method, whose path starts with `path_prefix`, meets
    /// `fault`. Two such calls are for two requests. The query is no part of the path.
    pub fn when(&self, path_prefix: &str, method: Method, fault: Fault) -> &FaultPlan {
        self.rule(path_prefix, method, fault, true)
    }

    /// Form of [`when`](FaultPlan::when) for every such request, until [`clear`](FaultPlan::clear).
    pub fn whenever(&self, path_prefix: &str, method: Method, fault: Fault) -> &FaultPlan {
        self.rule(path_prefix, method, fault, false)
    }

    fn rule(&self, path_prefix: &str, method: Method, fault: Fault, once: bool) -> &FaultPlan {
        self.0.lock().rules.push(Rule {
            path_prefix: path_prefix.to_owned(),
            method: Some(method),
            fault,
            once,
        });
        self
    }

    /// Removes all faults that are still to come, the seed included. The counts stay.
    pub fn clear(&self) -> &FaultPlan {
        let mut plan = self.0.lock();
        plan.queue.clear();
        plan.rules.clear();
        plan.seeded = None;
        drop(plan);
        self
    }

    /// Returns the fault that this request meets; `None` if it meets none. The injector calls it exactly once a
    /// request, because it counts.
    pub fn decide(&self, method: &Method, path: &str) -> Option<Fault> {
        let mut plan = self.0.lock();
        let ordinal = plan.requests;
        plan.requests += 1;
        let fault = plan
            .queue
            .pop_front()
            .or_else(|| plan.by_rule(method, path))
            .or_else(|| plan.seeded.as_ref()?.fault(ordinal))?;
        match plan.injected.iter_mut().find(|(known, _)| *known == fault) {
            Some((_, count)) => *count += 1,
            None => plan.injected.push((fault, 1)),
        }
        Some(fault)
    }

    /// Returns the number of requests that were decided on, with or without a fault.
    pub fn requests(&self) -> u64 {
        self.0.lock().requests
    }

    /// Returns how often exactly this fault, with its parameter, was injected.
    pub fn injected(&self, fault: Fault) -> u64 {
        self.0.lock().injected.iter().find(|(known, _)| *known == fault).map_or(0, |(_, count)| *count)
    }

    /// Returns the number of injected faults.
    pub fn injected_total(&self) -> u64 {
        self.0.lock().injected.iter().map(|(_, count)| count).sum()
    }

    /// Returns each injected fault and how often it was injected, in the order of their first injections.
    pub fn counts(&self) -> Vec<(Fault, u64)> {
        self.0.lock().injected.clone()
    }

    /// Returns how many faults of [`next`](FaultPlan::next) and [`when`](FaultPlan::when) no request has met
    /// yet. A test that ends with one left did not test all that it claims.
    pub fn pending(&self) -> usize {
        let plan = self.0.lock();
        plan.queue.len() + plan.rules.iter().filter(|rule| rule.once).count()
    }
}

impl fmt::Debug for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.0.lock();
        f.debug_struct("FaultPlan")
            .field("queue", &plan.queue)
            .field("rules", &plan.rules.len())
            .field("seed", &plan.seeded.as_ref().map(|seeded| seeded.seed))
            .field("requests", &plan.requests)
            .field("injected", &plan.injected)
            .finish()
    }
}

impl Plan {
    fn by_rule(&mut self, method: &Method, path: &str) -> Option<Fault> {
        let matching = |rule: &Rule| {
            rule.method.as_ref().is_none_or(|wanted| wanted == method) && path.starts_with(&rule.path_prefix)
        };
        if let Some(at) = self.rules.iter().position(|rule| rule.once && matching(rule)) {
            return Some(self.rules.remove(at).fault);
        }
        self.rules.iter().find(|rule| matching(rule)).map(|rule| rule.fault)
    }
}

impl Seeded {
    fn fault(&self, ordinal: u64) -> Option<Fault> {
        let state = self.seed.wrapping_add(ordinal.wrapping_mul(2).wrapping_mul(GOLDEN));
        let chance = (mix(state.wrapping_add(GOLDEN)) >> 11) as f64 / (1u64 << 53) as f64;
        let count = u64::try_from(self.faults.len()).ok().filter(|count| *count > 0)?;
        let choice = usize::try_from(mix(state.wrapping_add(GOLDEN.wrapping_mul(2))) % count).ok()?;
        if chance < self.rate { self.faults.get(choice).copied() } else { None }
    }
}

#[cfg(test)]
mod tests;

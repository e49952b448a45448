//! The suite's teeth: each planted fault is named by the rule that it breaks.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue};
use http::{HeaderMap, HeaderName, Method, StatusCode};
use steadfast::clock::Timestamp;
use steadfast::operation::WireKey;
use steadfast::testkit::conformance::{self, Breach};
use steadfast::transport::{Answer, Request, SendErrorKind};
use steadfast::url::Url;
use steadfast::vendor::{Attempt, Finding, SpeaksFor, Subject, Vendor, Verdict, rules};
use steadfast::{Effect, Error, Input, Refusal};

use crate::conformance::custom_vendor::{self, Parcels};
use support::cores;

/// The fault in an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    ServerErrorRefused,
    ServerErrorUnaffected,
    ConflictDone,
    ConflictUnaffected,
    RetryAfterForgotten,
    DateOnOurClock,
    SecretPrinted,
    SecretNotMarked,
    SecretStamped,
    SecretInAccount,
    EverythingShown,
    KeyOnAGet,
    PageBelieved,
    PagesNoBelieved,
    RequestTimeoutRefused,
    RedirectRefused,
    RateLimitRefused,
    LostAnswerNone,
    LostAnswerRefused,
    RefusedConnectionUnknown,
    RedirectFollowed,
    NotFoundDone,
    NoOfEarlier,
    CredentialsRejected,
    NoRetried,
    SuccessRetried,
    DeletedRefused,
    ReplayNotTold,
    KeptFailureRetried,
    KeptNoRetried,
    KeptNoOutlivesWindow,
    KeptNoAlone,
    KeptCredentialsOfEarlier,
    NewKeyEachTime,
    OneKeyForAll,
    NoKeyTaken,
    FloatBody,
    WindowWithoutKey,
    WindowForEver,
    Elsewhere,
    PanicsOnText,
    CheckFails,
    SlashInName,
    LookupWrites,
    LookupElsewhere,
    LookupAtOnce,
    FailedLookupAbsent,
    EmptyBodyAbsent,
    AnyRowFound,
    OtherRowAbsent,
    PreviousLifeFound,
    OtherContentFound,
    NeverFound,
    BrokenListFound,
    HalfAListLast,
    FirstPageLast,
    NextPageElsewhere,
    SamePageNext,
    NeverLast,
}

/// The example, with one fault.
struct Faulty {
    parcels: Parcels,
    fault: Fault,
    elsewhere: Url,
}

const SECRET: &str = "a-token-0f19c4";

impl Faulty {
    fn new(fault: Fault) -> Faulty {
        let parcels = Parcels::new("main-warehouse", SECRET);
        Faulty { parcels, fault, elsewhere: "https://elsewhere.example/".parse().expect("a URL") }
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// The verdict that the fault makes of an answer. `None`: nothing.
    fn wrong(&self, attempt: &Attempt<'_>, answer: &Answer, right: Verdict) -> Option<Verdict> {
        let refused = |speaks_for| Verdict::Refused { refusal: Refusal::Rejected, speaks_for };
        let retry = |effect| Verdict::Retry { effect, not_before: None };
        let status = answer.status.as_u16();
        let is_page = answer.body.starts_with(b"<!");
        let wait = match right {
            Verdict::Retry { effect, not_before: Some(_) } => Some(retry(effect)),
            _ => None,
        };
        let is_write = !attempt.request.method.is_safe();
        match (self.fault, status) {
            (Fault::ServerErrorRefused, 500) | (Fault::RequestTimeoutRefused, 408) => {
                Some(refused(SpeaksFor::ThisAttempt))
            }
            (Fault::ServerErrorUnaffected, 503) => Some(retry(Effect::None)),
            (Fault::RedirectRefused, 303) | (Fault::RateLimitRefused, 429) => {
                Some(refused(SpeaksFor::ThisAttempt))
            }
            (Fault::ConflictDone, 409) | (Fault::NotFoundDone, 404) => {
                Some(Verdict::Done { replayed: false })
            }
            (Fault::ConflictUnaffected, 409) => Some(retry(Effect::None)),
            (Fault::RetryAfterForgotten, 429 | 503) => wait,
            (Fault::DateOnOurClock, 429 | 503) => {
                let text = answer.header("retry-after")?;
                let at = httpdate::parse_http_date(text).ok()?;
                let not_before = Some(Timestamp::from(at).since(attempt.now));
                Some(Verdict::Retry { effect: Effect::Unknown, not_before })
            }
            (Fault::PageBelieved, 200) if is_page => Some(Verdict::Done { replayed: false }),
            (Fault::PagesNoBelieved, 404) if is_page && is_write => Some(refused(SpeaksFor::ThisAttempt)),
            (Fault::NoOfEarlier, 400) if matches!(right, Verdict::Refused { .. }) => {
                Some(refused(SpeaksFor::EarlierToo))
            }
            (Fault::CredentialsRejected, 401) if !is_page => Some(refused(SpeaksFor::ThisAttempt)),
            (Fault::NoRetried, 400) => Some(retry(Effect::Unknown)),
            (Fault::SuccessRetried, 200) => Some(retry(Effect::Unknown)),
            (Fault::DeletedRefused, 404) if attempt.request.method == Method::DELETE => {
                Some(retry(Effect::Unknown))
            }
            (Fault::PanicsOnText, _) => {
                let text = std::str::from_utf8(&answer.body).expect("every vendor writes UTF-8");
                text.is_empty().then_some(right)
            }
            _ => None,
        }
    }
}

impl Faulty {
    /// The meaning of the mark of a replay, and what the fault makes of it. `None`: it is not marked.
    fn replayed(&self, attempt: &Attempt<'_>, answer: &Answer) -> Option<Verdict> {
        answer.header("replayed")?;
        let retry = Verdict::Retry { effect: Effect::Unknown, not_before: None };
        let of_window = rules::replay_speaks_for(attempt);
        let (refusal, speaks_for) = match (self.fault, answer.status.as_u16()) {
            (_, 200..=299) => return Some(Verdict::Done { replayed: !self.is(Fault::ReplayNotTold) }),
            (Fault::KeptFailureRetried, 500) | (Fault::KeptNoRetried, 400) => return Some(retry),
            (_, 500..) => return Some(Verdict::Unknown),
            (Fault::KeptCredentialsOfEarlier, 401) => (Refusal::Unauthorized, SpeaksFor::EarlierToo),
            (_, 401 | 403) => (Refusal::Unauthorized, SpeaksFor::ThisAttempt),
            (Fault::KeptNoOutlivesWindow, 400) => (Refusal::Rejected, SpeaksFor::EarlierToo),
            (Fault::KeptNoAlone, 400) => (Refusal::Rejected, SpeaksFor::ThisAttempt),
            _ => (Refusal::Rejected, of_window),
        };
        Some(Verdict::Refused { refusal, speaks_for })
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if self.is(Fault::SecretPrinted) { SECRET } else { "" };
        write!(f, "Faulty {{ {:?} {shown} }}", self.parcels)
    }
}

impl Vendor for Faulty {
    fn name(&self) -> &str {
        if self.is(Fault::SlashInName) { "parcels/eu" } else { self.parcels.name() }
    }

    fn base_url(&self) -> &Url {
        self.parcels.base_url()
    }

    fn check(&self) -> Result<(), Error> {
        if self.is(Fault::CheckFails) { Parcels::new("x", "").check() } else { self.parcels.check() }
    }

    fn may_show(&self, segment: &str) -> bool {
        self.is(Fault::EverythingShown) || self.parcels.may_show(segment)
    }

    fn account(&self, headers: &HeaderMap) -> Cow<'_, str> {
        if self.is(Fault::SecretInAccount) { Cow::Borrowed(SECRET) } else { self.parcels.account(headers) }
    }

    fn stamp(&self, wire_key: WireKey, request: &mut Request) -> Result<String, Error> {
        let body = request.body.clone();
        let key = self.parcels.stamp(wire_key, request)?;
        match self.fault {
            Fault::KeyOnAGet => {
                let value = HeaderValue::from_str(&key).expect("a value");
                request.headers.insert(HeaderName::from_static("idempotency-key"), value);
            }
            Fault::SecretStamped => self.parcels.authorize(request),
            Fault::NoKeyTaken => return Err(Error::validation(Input::Body, "no place for a key")),
            Fault::FloatBody if !body.is_empty() => {
                let body: serde_json::Value = serde_json::from_slice(&request.body).expect("JSON");
                request.body = body.to_string().into();
            }
            Fault::OneKeyForAll if !body.is_empty() => {
                request.body = body;
                let key = "1d0c8a57-42be-8c33-b6a4-7e915f20d3c8".parse().expect("a key");
                return self.parcels.stamp(key, request);
            }
            Fault::NewKeyEachTime => {
                let at = std::ptr::from_ref(request) as usize ^ rand_like();
                request.headers.insert("x-try", HeaderValue::from(at));
            }
            _ => {}
        }
        Ok(key)
    }

    fn authorize(&self, request: &mut Request) {
        self.parcels.authorize(request);
        if self.is(Fault::SecretNotMarked) {
            let value = format!("Token {SECRET}").parse().expect("a value");
            request.headers.insert(AUTHORIZATION, value);
        }
        if self.is(Fault::Elsewhere) {
            request.url = self.elsewhere.clone();
        }
    }

    fn replay_window(&self, request: &Request) -> Option<Duration> {
        let is_stamped = request.body.windows(9).any(|part| part == b"reference");
        match self.fault {
            Fault::WindowWithoutKey => Some(Duration::from_secs(3600)),
            Fault::WindowForEver => is_stamped.then_some(Duration::MAX),
            Fault::None | Fault::KeptNoAlone => is_stamped.then_some(Duration::from_secs(3600)),
            _ => None,
        }
    }

    fn is_own(&self, answer: &Answer) -> bool {
        self.parcels.is_own(answer)
    }

    fn classify(&self, attempt: &Attempt<'_>) -> Verdict {
        let right = self.parcels.classify(attempt);
        let retry = |effect| Verdict::Retry { effect, not_before: None };
        match attempt.outcome {
            Ok(answer) => {
                let replayed = || self.replayed(attempt, answer);
                self.wrong(attempt, answer, right).or_else(replayed).unwrap_or(right)
            }
            Err(error) => match (self.fault, error.kind()) {
                (Fault::LostAnswerNone, SendErrorKind::Reset) => retry(Effect::None),
                (Fault::LostAnswerRefused, SendErrorKind::Timeout) => {
                    Verdict::Refused { refusal: Refusal::Rejected, speaks_for: SpeaksFor::ThisAttempt }
                }
                (Fault::RefusedConnectionUnknown, SendErrorKind::Connect)
                | (Fault::RedirectFollowed, SendErrorKind::Redirected) => retry(Effect::Unknown),
                _ => right,
            },
        }
    }

    fn settle_time(&self) -> Duration {
        if self.is(Fault::LookupAtOnce) { Duration::ZERO } else { self.parcels.settle_time() }
    }

    fn lookup(&self, subject: &Subject<'_>) -> Option<Request> {
        let mut request = self.parcels.lookup(subject)?;
        match self.fault {
            Fault::LookupWrites => request.method = Method::POST,
            Fault::LookupElsewhere => request.url = self.elsewhere.clone(),
            _ => {}
        }
        Some(request)
    }

    fn read_lookup(&self, subject: &Subject<'_>, asked: &Request, answer: &Answer) -> Finding {
        let right = self.parcels.read_lookup(subject, asked, answer);
        let rows = answer.json().and_then(|body| body.as_array().cloned()).unwrap_or_default();
        let is_ours = rows.iter().any(|row| row["reference"] == subject.wire_key);
        match self.fault {
            Fault::FailedLookupAbsent if right == Finding::Unanswered && !answer.status.is_success() => {
                Finding::Absent
            }
            Fault::EmptyBodyAbsent if answer.status == StatusCode::OK && rows.is_empty() => Finding::Absent,
            Fault::AnyRowFound if !rows.is_empty() => Finding::Found(answer.clone()),
            Fault::OtherRowAbsent if !rows.is_empty() && !is_ours => Finding::Absent,
            Fault::PreviousLifeFound if is_ours => Finding::Found(answer.clone()),
            Fault::OtherContentFound if is_ours && !rows[0]["amount"].is_null() => {
                Finding::Found(answer.clone())
            }
            Fault::NeverFound if is_ours => Finding::CannotTell,
            Fault::BrokenListFound if answer.body.starts_with(b"[{\"id\":7") => {
                Finding::Found(answer.clone())
            }
            _ => right,
        }
    }

    /// A list of the form `{"rows":[…],"next":2}`.
    fn next_page(
        &self,
        asked: &Request,
        answer: &Answer,
    ) -> Result<Option<Url>, Box<dyn std::error::Error + Send + Sync>> {
        let list = match answer.json() {
            Some(list) if list["rows"].is_array() => list,
            _ if self.is(Fault::HalfAListLast) => return Ok(None),
            _ => return Err("no list".into()),
        };
        let mut next = asked.url.clone();
        next.set_query(list["next"].as_u64().map(|page| format!("page={page}")).as_deref());
        match self.fault {
            Fault::FirstPageLast => Ok(None),
            Fault::NextPageElsewhere => Ok(Some(self.elsewhere.clone())),
            Fault::SamePageNext => Ok(Some(asked.url.clone())),
            Fault::NeverLast => Ok(Some(next)),
            _ => Ok(list["next"].is_u64().then_some(next)),
        }
    }
}

/// Another number each time.
fn rand_like() -> usize {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

fn run(vendor: &dyn Vendor) -> Vec<Breach> {
    let refused = Answer::new(StatusCode::BAD_REQUEST, HeaderMap::new(), r#"{"code":"no_address"}"#);
    let page = |text: &'static str| Answer::new(StatusCode::OK, HeaderMap::new(), text);
    let (more, last) = (page(r#"{"rows":[1],"next":2}"#), page(r#"{"rows":[2]}"#));
    let mark = (HeaderName::from_static("replayed"), HeaderValue::from_static("true"));
    let replayed = Answer::new(StatusCode::OK, HeaderMap::from_iter([mark]), r#"{"id":7}"#);
    let run = conformance::vendor(vendor).failure(refused).replayed(replayed).found(custom_vendor::listed);
    run.another(another).list("/parcels?page=1", more, last).breaches()
}

/// A parcel of another amount that has our key.
fn another(key: &str, at: Timestamp) -> Answer {
    let mut answer = custom_vendor::listed(key, at);
    let mut rows = answer.json().expect("a list");
    rows[0]["amount"] = 99.into();
    answer.body = rows.to_string().into();
    answer
}

/// Each fault with the rule that names it.
const TABLE: [(Fault, &str); 59] = [
    (Fault::ServerErrorRefused, "a 5xx is no refusal, and leaves open what a write did"),
    (Fault::ServerErrorUnaffected, "a 5xx is no refusal, and leaves open what a write did"),
    (Fault::ConflictDone, "a 409 is no success, and leaves open what an earlier attempt did"),
    (Fault::ConflictUnaffected, "a 409 is no success, and leaves open what an earlier attempt did"),
    (Fault::RetryAfterForgotten, "a requested wait is kept"),
    (Fault::DateOnOurClock, "a requested wait is kept"),
    (Fault::SecretPrinted, "no secret is printed"),
    (Fault::SecretNotMarked, "a secret's header is marked as sensitive and refused from callers"),
    (Fault::SecretStamped, "no secret is stored"),
    (Fault::SecretInAccount, "no secret is stored"),
    (Fault::EverythingShown, "a text that could be a token is not shown"),
    (Fault::KeyOnAGet, "a GET carries no key"),
    (Fault::PageBelieved, "a page for a browser is no success of a write"),
    (Fault::PagesNoBelieved, "a proxy's refusal is not the vendor's"),
    (Fault::RequestTimeoutRefused, "a 408 leaves open what a write did"),
    (Fault::RedirectRefused, "a redirect leaves open what a write did"),
    (Fault::RateLimitRefused, "a 425 and a 429 are retried"),
    (Fault::LostAnswerNone, "without an answer, only the transport knows whether the request was sent"),
    (Fault::LostAnswerRefused, "without an answer, only the transport knows whether the request was sent"),
    (
        Fault::RefusedConnectionUnknown,
        "without an answer, only the transport knows whether the request was sent",
    ),
    (Fault::RedirectFollowed, "without an answer, only the transport knows whether the request was sent"),
    (Fault::NotFoundDone, "only a 2xx is a success"),
    (Fault::NoOfEarlier, "a refusal speaks for an earlier attempt only in a replay window"),
    (Fault::CredentialsRejected, "refused credentials prove nothing about the request"),
    (Fault::NoRetried, "the vendor's own refusal is final"),
    (Fault::SuccessRetried, "a success is done"),
    (Fault::DeletedRefused, "an object that is gone after a DELETE was deleted"),
    (Fault::ReplayNotTold, "a success marked as a replay is done, and reported as a replay"),
    (Fault::KeptFailureRetried, "a failure marked as a replay is final, and is not retried"),
    (Fault::KeptNoRetried, "a failure marked as a replay is final, and is not retried"),
    (
        Fault::KeptNoOutlivesWindow,
        "after the window, a refusal marked as a replay speaks for this attempt alone",
    ),
    (Fault::KeptNoAlone, "in the window, a refusal marked as a replay speaks for every attempt"),
    (Fault::KeptCredentialsOfEarlier, "refused credentials prove nothing about the request"),
    (Fault::NewKeyEachTime, "a key is stamped the same way each time"),
    (Fault::OneKeyForAll, "two operations have two keys"),
    (Fault::NoKeyTaken, "the call of the test takes a key"),
    (Fault::FloatBody, "the caller's body stays as it was written"),
    (Fault::WindowWithoutKey, "without a key nothing is replayed"),
    (Fault::WindowForEver, "a replay window is longer than nothing and shorter than a year"),
    (Fault::Elsewhere, "a request goes where its call goes"),
    (Fault::PanicsOnText, "no input makes an adapter panic"),
    (Fault::CheckFails, "an adapter under test passes its own check"),
    (Fault::SlashInName, "a name is letters, digits and `-`, `_`, `.`"),
    (Fault::LookupWrites, "a lookup changes nothing"),
    (Fault::LookupElsewhere, "a lookup goes to the vendor"),
    (Fault::LookupAtOnce, "a lookup has a settle time"),
    (Fault::FailedLookupAbsent, "a lookup that failed proves nothing"),
    (Fault::EmptyBodyAbsent, "a lookup that failed proves nothing"),
    (Fault::AnyRowFound, "another operation's object is not ours"),
    (Fault::OtherRowAbsent, "a filter that was ignored proves nothing"),
    (Fault::PreviousLifeFound, "an object older than the operation is not its effect"),
    (Fault::OtherContentFound, "an object with our key that differs from the request is not ours"),
    (Fault::NeverFound, "a lookup finds an operation that took effect"),
    (Fault::BrokenListFound, "a lookup's answer that broke off proves nothing"),
    (Fault::HalfAListLast, "an incomplete page of a list is not its last"),
    (Fault::FirstPageLast, "a page with more behind it names the next page"),
    (Fault::NextPageElsewhere, "the next page is at the vendor"),
    (Fault::SamePageNext, "the next page is another page"),
    (Fault::NeverLast, "the last page names no other"),
];

#[test]
fn each_planted_fault_is_named_by_the_rule_that_it_breaks() {
    assert_eq!(run(&Faulty::new(Fault::None)), []);
    std::panic::set_hook(Box::new(|_| {}));
    let missed = cores::on_all(&TABLE, |(fault, rule)| missed_by(*fault, rule));
    let _ = std::panic::take_hook();
    let missed: Vec<String> = missed.into_iter().flatten().collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// The words of the suite on an adapter with this fault, instead of naming it by the rule.
fn missed_by(fault: Fault, rule: &str) -> Option<String> {
    let breaches = run(&Faulty::new(fault));
    let leaks = breaches.iter().any(|breach| breach.to_string().contains(SECRET));
    assert!(!leaks, "{fault:?}: a breach shows the secret");
    let is_named = breaches.iter().any(|breach| breach.rule == rule);
    (!is_named).then(|| format!("{fault:?}: {breaches:?}"))
}

//! The extras that a schedule may have, drawn from a stream of its own: a new one does not change what the others
//! draw.

use std::ops::Range;
use std::time::Duration;

use steadfast::clock::Instant;

use crate::world::plan::{
    Caller, Disruption, Operation, Operator, Page, Schedule, Trouble, WallClock, What, When,
};
use crate::world::queue::Queued;
use crate::world::vendors::Kind;
use support::draw::{Draw, ms, secs};

/// Most schedules have one or none of these.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// The hosts' clients of Stripe name one of two versions, in turn from life to life.
    pub versions: bool,
    /// When new secrets are given out, and how long the vendors take the old ones after that.
    pub rotation: Option<(Duration, Duration)>,
    /// The vendors' sign-in fails from the first to the second: they take no secret.
    pub sign_in_fails: Option<(Duration, Duration)>,
    pub lists: Lists,
    /// BigCommerce drops the reasons of refunds, which is where the key is.
    pub drops_reasons: bool,
    /// Somebody else holds the store's file from the first to the second.
    pub locked: Vec<(Duration, Duration)>,
    /// Nobody reaches the store's server from the first to the second, for reading either.
    pub away: Vec<(Duration, Duration)>,
    /// Meanwhile a standby answers who reads, and lags behind.
    pub has_standby: bool,
    /// A newer version of the service sends the key of this operation with another request: from which host, and when.
    pub another: Option<(usize, usize, Duration)>,
    /// How many records the store in memory holds.
    pub records_max: Option<usize>,
    /// An operator gives dead letters another body once all is at rest.
    pub edits: bool,
    /// All is over for longer than a record is kept.
    pub is_outlived: bool,
    /// For how long a vendor that does not say so knows a key, and whether it keeps what failed. `None`: an hour, and it does.
    pub keeps: Option<(Duration, bool)>,
    /// How often an operator acts once the keys are forgotten.
    pub late_rounds: u32,
    /// The troubles that requests meet then. Empty: what they met before.
    pub late_troubles: Vec<Trouble>,
    /// The rows that callers commit into the store's outbox. Empty: the store has none.
    pub rows: Vec<RowPlan>,
    /// How long after all is at rest an operator puts back the rows that are kept aside.
    pub puts_back: Option<Duration>,
    /// The connections that hold requests on the clients' side.
    pub connections: Connections,
}

/// The connections that a host keeps to a vendor, as long as the weather lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connections {
    #[default]
    Good,
    /// A request waits in its connection for a free stream, and what was handed to the kernel arrives after the
    /// connection was closed.
    Queue,
    /// They swallow all that is sent on them, until a host starts anew.
    Swallow,
}

/// A call that a caller commits into the store's outbox.
#[derive(Clone, Copy, Debug)]
pub struct RowPlan {
    pub operation: usize,
    pub host: usize,
    pub at: Duration,
    /// As plain SQL writes it: at the store's time, and for whatever host its client calls.
    pub by_sql: bool,
    /// The caller tells the dispatchers of its process.
    pub wakes: bool,
    /// How long after that an operator keeps it aside, and for how long. `None`: until all is at rest, or for good.
    pub aside: Option<(Duration, Option<Duration>)>,
}

/// The form that vendors give to the lists of lookups, as long as the weather lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lists {
    #[default]
    Whole,
    /// A page holds one row.
    Pages,
    /// The filter of the rows is ignored.
    Unfiltered,
    /// The same, and the first page is full of what others ordered years ago. V2 does not say that there are more.
    Strangers,
}

impl Extras {
    /// When the store was last reached again, of the times that had begun by then. It may be later.
    pub fn store_is_back(&self, by: Instant) -> Option<Instant> {
        let away =
            self.away.iter().map(|(from, to)| (Instant::ORIGIN.plus(*from), Instant::ORIGIN.plus(*to)));
        away.filter(|(from, _)| *from <= by).map(|(_, to)| to).max()
    }
}

impl Schedule {
    pub fn with_sign_in(mut self, draw: &Draw, span: Duration) -> Schedule {
        if draw.one_in(6) {
            let from = draw.within(secs(0)..span / 2);
            self.extras.sign_in_fails = Some((from, from + draw.within(secs(1)..span / 2)));
        }
        self
    }

    pub fn with_extras(mut self, draw: &Draw, span: Duration) -> Schedule {
        if self.is_backlog || self.dispatcher {
            return self;
        }
        if draw.one_in(60) {
            return self.with_late_holder(draw);
        }
        let at = |draw: &Draw| draw.within(secs(0)..span / 2);
        let again = |draw: &Draw| {
            let first = at(draw);
            let hosts = self.hosts;
            let caller = |place| Caller {
                host: draw.index(hosts),
                at: first + span / 6 * place,
                persists: draw.one_in(2),
                deadline: None,
                cancels_after: None,
                waits: false,
                enqueues: None,
            };
            (0..1 + u32::from(draw.one_in(2))).map(caller).collect::<Vec<_>>()
        };
        if draw.one_in(8) {
            let (callers, of_other) = (again(draw), again(draw));
            self.operations.push(Operation { kind: Kind::Intent, resends: false, line: None, callers });
            self.operations.push(Operation {
                kind: Kind::OtherIntent,
                resends: false,
                line: None,
                callers: of_other,
            });
        }
        if draw.one_in(8) {
            let (resends, callers) = (false, again(draw));
            self.operations.push(Operation { kind: Kind::Refund, resends, line: None, callers });
            self.extras.drops_reasons = draw.one_in(2);
        }
        self.extras.versions = draw.one_in(6);
        self.extras.rotation =
            draw.one_in(10).then(|| (draw.within(secs(0)..span), draw.within(secs(0)..span / 4)));
        self.extras.lists = match draw.below(10) {
            0 => Lists::Pages,
            1 => Lists::Unfiltered,
            2 => Lists::Strangers,
            _ => Lists::Whole,
        };
        if draw.one_in(12) {
            let from = at(draw);
            self.extras.locked = vec![(from, from + draw.within(ms(100)..secs(25)))];
        }
        if draw.one_in(10) && !self.sqlite {
            self.extras.records_max = Some(1 + draw.index(self.operations.len()));
        }
        self.extras.edits = draw.one_in(12);
        for operation in &mut self.operations {
            for caller in &mut operation.callers {
                caller.waits = draw.one_in(4);
            }
        }
        if self.extras.lists != Lists::Whole && draw.one_in(2) {
            // A list that is not filtered, or not whole, hides something only where there is another row.
            for _ in 0..2 {
                self.operations.push(Operation {
                    kind: Kind::Order,
                    resends: false,
                    line: None,
                    callers: again(draw),
                });
            }
        }
        self
    }

    /// The store's server goes away, once or twice.
    pub fn with_store_away(mut self, draw: &Draw, span: Duration) -> Schedule {
        if !self.is_backlog && !self.dispatcher && draw.one_in(6) {
            let away = |_| {
                let from = draw.within(secs(0)..span);
                (from, from + draw.within(ms(10)..secs(15)))
            };
            self.extras.away = (0..1 + draw.below(2)).map(away).collect();
        }
        self
    }

    /// A standby takes the place of the store's server while that is away.
    pub fn with_standby(mut self, draw: &Draw) -> Schedule {
        self.extras.has_standby = !self.extras.away.is_empty() && draw.one_in(2);
        self
    }

    /// Somebody sends a key with another request.
    pub fn with_another(mut self, draw: &Draw, span: Duration) -> Schedule {
        if draw.one_in(6) {
            let (number, host) = (draw.index(self.operations.len()), draw.index(self.hosts));
            let is_keyed = self.operations[number].kind != Kind::Get;
            self.extras.another = is_keyed.then(|| (number, host, draw.within(secs(0)..span)));
        }
        self
    }

    /// Callers commit calls into the store's outbox, and others send the same keys. An operator keeps some of the rows
    /// aside, and puts them back, also when what was sent meanwhile is forgotten.
    pub fn with_rows(mut self, draw: &Draw, span: Duration) -> Schedule {
        const DAY: Duration = secs(24 * 3600);
        let is_mixed = self.queue.as_ref().is_none_or(|queue| queue.what == Queued::Mixed);
        let is_of_its_own = self.is_backlog || self.dispatcher || self.horizon != span * 2 || !is_mixed;
        let has_key = |number: &usize| self.operations[*number].kind != Kind::Get;
        let keyed: Vec<usize> = (0..self.operations.len()).filter(has_key).collect();
        if !draw.one_in(10) || is_of_its_own || keyed.is_empty() {
            return self;
        }
        (self.sqlite, self.extras.records_max) = (false, None);
        for _ in 0..1 + draw.below(3) {
            let (operation, host) = (keyed[draw.index(keyed.len())], draw.index(self.hosts));
            let at = draw.within(secs(0)..span / 2);
            let aside = match draw.below(4) {
                0 => Some((Duration::ZERO, None)),
                1 => Some((draw.within(ms(0)..span / 20), Some(draw.within(secs(1)..span)))),
                _ => None,
            };
            let (by_sql, wakes) = (draw.one_in(3), draw.one_in(3));
            self.extras.rows.push(RowPlan { operation, host, at, by_sql, wakes, aside });
            let beside = self.callers_beside(draw, at..at + span / 10);
            let callers = &mut self.operations[operation].callers;
            callers.extend(beside);
            if draw.one_in(2) {
                // Nobody has sent it before.
                callers.retain(|caller| caller.at >= at);
            }
        }
        if draw.one_in(2) {
            // For a while nobody dispatches, or nobody ever does.
            self.recovers_every.iter_mut().for_each(|every| *every = None);
        }
        if draw.one_in(2) {
            let soon = draw.within(secs(60)..secs(6 * 3600));
            let late = draw.within(DAY * 8..DAY * 9);
            self.extras.puts_back = Some([soon, late, late][draw.index(3)]);
            // The week that a wrong clock makes is no row's fault.
            self.clocks = vec![WallClock::default(); self.hosts];
            self.disruptions.retain(|disruption| !matches!(disruption.what, What::Step(_)));
            self.server = None;
        }
        self
    }

    /// Who sends the key of a row: before a dispatcher comes to it, or after.
    fn callers_beside(&self, draw: &Draw, within: Range<Duration>) -> Vec<Caller> {
        let caller = |_| {
            let at = draw.within(within.clone());
            let deadline = match draw.below(4) {
                0 | 1 => Some(Duration::ZERO),
                2 => Some(draw.within(ms(5)..secs(20))),
                _ => None,
            };
            Caller {
                host: draw.index(self.hosts),
                persists: draw.one_in(2),
                waits: draw.one_in(4),
                ..Caller::once(at, deadline)
            }
        };
        (0..1 + draw.below(2)).map(caller).collect()
    }

    /// A host stands still with an answer on its way to it until its key is forgotten, purged and used again.
    fn with_late_holder(self, draw: &Draw) -> Schedule {
        const DAY: Duration = secs(24 * 3600);
        let caller = |host, at| Caller { host, persists: true, ..Caller::once(at, None) };
        let kind = [Kind::Keyed, Kind::Intent, Kind::Order, Kind::Bare][draw.index(4)];
        let (again, wakes) = (9 * DAY, 9 * DAY + draw.within(ms(0)..secs(40)));
        let disrupt = |host, when, what| Disruption { host, when, what };
        let page = Page { status: 502, html: true, wait: None };
        let trouble = [Trouble::AnswerLost, Trouble::AnswerHangs, Trouble::ProxyBefore(page)][draw.index(3)];
        let stalls = if draw.one_in(2) { When::AfterSend(0) } else { When::BeforeWrite(1) };
        let mut weather = self.weather;
        (weather.percent, weather.troubles, weather.outages) = (50, vec![trouble], Vec::new());
        Schedule {
            hosts: 2,
            sqlite: false,
            rate: None,
            clocks: vec![WallClock::default(); 2],
            operations: vec![Operation {
                kind,
                resends: false,
                line: None,
                callers: vec![caller(0, secs(1)), caller(1, secs(3600)), caller(1, again)],
            }],
            disruptions: vec![
                disrupt(0, stalls, What::Stall(wakes)),
                disrupt(1, When::At(again - secs(60)), What::Purge),
            ],
            weather,
            recovers_every: vec![None, Some(secs(6 * 3600))],
            horizon: again + secs(3600),
            operator: Operator::Nothing,
            again_after: None,
            ..self
        }
    }
}

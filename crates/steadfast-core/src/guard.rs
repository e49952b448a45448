//! The rules that keep the promise, each with a switch that only a build for tests has.
//!
//! A proof that has never failed proves little: it may be blind to the very fault that it is there for. So each rule
//! here can be taken out, one at a time, and `tests/proofs/guards.rs` must then notice. At the rule itself the switch
//! is one word of its condition.
//!
//! The switch needs the feature `_guards`, which is no part of the interface. Without it every guard is the constant
//! that it holds, the compiler leaves nothing of it, and no other crate can name it.

macro_rules! guards {
    ($($(#[doc = $rule:literal])+ $name:ident,)+) => {
        /// A rule, by what holds while it is there.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Guard {
            $($(#[doc = $rule])+ $name,)+
        }

        #[cfg(feature = "_guards")]
        impl Guard {
            /// Every guard.
            pub const ALL: &[Guard] = &[$(Guard::$name,)+];

            /// The rule, in a sentence.
            pub const fn rule(self) -> &'static str {
                match self {
                    $(Guard::$name => concat!($($rule),+),)+
                }
            }
        }
    };
}

guards! {
    // The state machine.
    /// A write names the fence that its holder was given.
    Fence,
    /// A new key begins above every fence that was purged.
    FenceAfterPurge,
    /// A write of an earlier life's holder has no bearing on this life.
    LivesApart,
    /// The expiry of a record is decided at the claim.
    ExpiryAtClaim,
    /// A key belongs to one request.
    OneRequest,
    /// A dead holder's operation may have taken effect.
    LapsedIsUnknown,
    /// A dead holder's request is on its way for as long as its longest attempt.
    LongestAttempt,
    /// A lease that a wrong clock wrote keeps no process out.
    LeaseOfWrongClock,
    /// A first claim in the future has no window, also not later.
    ClaimInFuture,
    /// Refused credentials start no new window where an attempt before them may have got through.
    WindowRunsOn,
    /// A success that comes late is proof, also on what was taken for provably not applied.
    LateSuccessIsProof,
    /// A person who undid the effect has the last word.
    UndoneStays,
    /// A dead letter stays until a person has given their word on it.
    DeadLetterStays,
    /// A request that may yet arrive is not reported as without effect.
    LastRequestAwaited,
    /// Force is for what may have taken effect; what has not needs none.
    ForceForUnknown,
    /// Starting over closes the old letter.
    StartOverCloses,
    /// A cancelled operation that may have taken effect is not started over.
    CancelledUnknown,
    /// An adopted operation is closed under its old name.
    Tombstone,
    /// No single host's clock says that a record has expired.
    BelievedTime,
    /// The nearer of two wrong clocks is no less doubted than the other.
    NearerOfTwo,
    // Sequences.
    /// An operation that waits for its turn in a sequence is neither taken nor claimed.
    SequenceOrder,
    /// A sequence has one operation in flight at a time.
    OneAtATime,
    /// A dead letter holds its sequence, unless its call chose to skip it.
    DeadLetterHoldsSequence,
    /// An operation that waits for its next attempt holds its sequence.
    RetryHoldsSequence,
    // What is left to dispatchers.
    /// An operation that is not due is not taken.
    NotBeforeDue,
    /// A scheduled operation keeps its time, whatever clock that time is from.
    LaterKeepsItsTime,
    /// An operation that is enqueued again does not become held by that.
    EnqueueHoldsNothing,
    /// An operation that a process holds is not cancelled.
    HeldNotCancelled,
    /// One client's backlog does not keep another one from its turn.
    TakenInTurn,
    /// A failure of one route is not taken for the vendor's health.
    RouteHasCircuit,
    /// An operation that failed before says nothing of its route while others of it are answered well.
    FailedBeforeIsNeutral,
    /// No more probes are at the vendor at once than a round has.
    ProbesAtOnce,
    /// Refused credentials hold the account of an operation without a caller, and do not end it.
    CredentialsHold,
    /// A process that stops releases the operations that wait in it.
    LetGoOnStop,
    /// A process that stops waits for the outcomes that are still being written.
    LateWritesAwaited,
    // The outbox, and copies.
    /// A row of the outbox goes with the commit that records its operation.
    RowGoesWithClaim,
    /// A row that is gone or was rejected is not admitted.
    RowStillThere,
    /// A row is checked as a call is.
    RowIsChecked,
    /// A store that fails rejects no row.
    FailureRejectsNothing,
    /// No row is recorded while the account's terms differ.
    TermsBeforeRows,
    /// A row of the outbox is recorded before it is cancelled.
    RowRecordedToCancel,
    /// A store whose records go elsewhere takes nothing.
    ClosedStore,
    // Sending again.
    /// An operation of unknown effect is not sent again.
    UnknownIsParked,
    /// Our window ends before the vendor's.
    WindowSlack,
    /// The window runs on the monotonic clock too.
    MonotonicWindow,
    /// Times that a wrong clock wrote open no window.
    WrongClockNoWindow,
    // The engine.
    /// A send that may be a second effect is counted.
    ResendCounted,
    /// The window is asked again after waiting for the gates.
    AskedAgain,
    /// A lookup is believed only after the settle time.
    SettleTime,
    /// The settle time counts once, also if several processes wait for it.
    SettleOnce,
    /// A time span by another host's clock counts less the difference that clocks may have.
    ClocksDiffer,
    /// A clock that the store doubts says nothing of what has passed.
    DoubtedClock,
    /// A clock that was set ahead while the process ran has no say in it either.
    SetAhead,
    /// A wall clock that is set back makes a send no earlier than it was.
    SendNoEarlier,
    /// A process that takes an operation again goes on with its own measure.
    OwnMeasure,
    /// A lookup that failed is not a lookup.
    FailedLookup,
    /// Lookups are counted over all runs.
    LookupsOverRuns,
    /// A lookup's answer that was cut is not read.
    CutLookup,
    /// Nor is one that a cache on the way has kept.
    CachedLookup,
    /// A lookup asks for no answer of a cache.
    LookupPastCaches,
    /// A lookup keeps the lease.
    LookupKeepsLease,
    /// An attempt ends with the hold on its operation.
    StopAt,
    /// A holder stops before its lease ends.
    LeaseMargin,
    /// Each send but the one behind the claim asks the store first.
    RenewBeforeSend,
    /// A hold is fresh only if the wall clock says so too.
    FreshByBothClocks,
    /// The vendor's wish is asked again after the lease was renewed.
    PauseAskedAgain,
    /// A repeat that was accepted, and that a pause postponed, is still to be made.
    PutOffIsNotUsed,
    /// A process that stood still after it released an operation does not report the state from before that.
    FreedLongAgo,
    /// A takeover for a caller is charged as a retry.
    TakeoverPays,
    /// A retry draws on the budget.
    RetryPays,
    /// A safe method has no effect to be unknown.
    SafeHasNoEffect,
    /// A gate that refuses says the effect as on record.
    EffectFromRecord,
    /// A success is replayed whatever refuses.
    ReplayBehindGates,
    /// A replay behind a gate that refuses is of the same request.
    ReplayOfSameRequest,
    /// A claim that failed may be on file.
    FailedClaim,
    /// A claim of a writer that stopped may be on file too.
    StoppedWriter,
    /// An outcome that could not be written is written again.
    WriteAgain,
    /// A no to one attempt says nothing of an earlier one.
    SpeaksFor,
    /// A duplicate after a lookup's miss may be our own.
    OwnDuplicate,
    /// A duplicate after another process's miss may be our own, too.
    LookupInLog,
    /// An account that a call's headers choose is part of the operation's name.
    HeaderInName,
    /// An account is part of the operation's name.
    AccountInScope,
    /// An operation of another account does not go out with this client's secret.
    OwnSecret,
    /// A record outlives the vendor's window and its own call.
    RetentionFloor,
    /// Headers that carry secrets are refused.
    SecretHeaders,
    /// Never earlier than the vendor asked.
    NeverEarly,
    /// The vendor's failures alone count against it: a caller's deadline does not.
    DeadlineIsNeutral,
    /// A 429 says nothing of the vendor's health.
    LimitIsNeutral,
    // Operators.
    /// An operation of unknown effect is redriven by force alone.
    UnsafeNeedsForce,
    /// A redrive that overwrites what was written since is held back.
    OverwriteHeldBack,
    /// A row of the outbox is a repeat of what was on record when it was written.
    RowComparedAsWritten,
    /// A record whose key has a row in the outbox is not purged.
    RowSparesRecord,
    /// A call that is refused before its claim reports a row under its key.
    RowIsToldOf,
    /// A row that becomes a record between two looks is reported as that record.
    RowBecameRecord,
    /// An operator who asks by key finds the rows of the outbox too.
    RowFoundByKey,
    // Adapters.
    /// A page for a browser is no success.
    PageIsNoSuccess,
    /// A text, or nothing, is no success at a vendor that answers in JSON.
    TextIsNoSuccess,
    /// An answer that a proxy on the way wrote is no refusal.
    OwnAnswer,
    /// A replayed failure will not change under its key.
    ReplayMark,
    /// A no speaks for earlier attempts only within the window.
    OnlyInWindow,
    /// A no that is marked as a replay counts only in the window: after it, the key may have had a life in between.
    MarkInWindow,
    /// A no speaks for earlier attempts only where the vendor keeps it under the key.
    StoredNo,
    /// Stripe's second interface keeps no failure under a key.
    NoFailureKept,
    /// Stripe's first interface keeps declines alone, of all its refusals, under the key.
    DeclinesAlone,
    /// Adyen's test environment and a live one share no operation.
    LiveApart,
    /// A key is sent again only on the routes that Adyen documents.
    KnownRoutes,
    /// Fields of a card are hidden whether or not the service names them.
    CardsHidden,
    /// A list that may leave something out is no proof that it is not there.
    PartNoProof,
    /// A lookup's hit is what was sent, and not only what has its key: at BigCommerce.
    HitIsWhatWasSent,
    /// A lookup's hit at Stripe is the object that was sent, and not only one that has its key.
    HitAtStripe,
    /// A lookup's hit at Postmark is the message that was sent, and not only one that has its key.
    HitAtPostmark,
    /// An object that matches the request, and that only its time excludes, may be ours.
    TimeAloneIsNoProof,
    /// Orders that were archived are asked for before a miss is proof.
    ArchivedToo,
    /// A miss is proof within an hour alone, where deleted objects are not listed.
    MissWithinAnHour,
    /// The adapter decides whether a method may be repeated.
    RepeatByVendor,
    /// A choice of the caller's counts for every method with an effect.
    ChoiceForAll,
    /// No vendor's wait is believed beyond a day.
    WaitBelieved,
    /// An operation that was tried is never due later than a day, or the retention if that is longer.
    ScheduleInReach,
    /// A success has the form that successes of its route have.
    FormOfSuccess,
    /// A query that cannot be written is a mistake where it may have an effect.
    FilterIsWritten,
    /// No header of a call makes its method another one.
    MethodIsOne,
    /// An account's name has no mark that begins another's.
    OneAccount,
    // What is read.
    /// A redirect and a next page lead to the vendor's own host.
    SameHost,
    /// A call that may take effect follows no redirect.
    ReadsAlone,
    /// No page is read twice.
    PageOnce,
    /// An id in a path is a part of one segment.
    IdIsASegment,
    /// The account's version is fixed at the claim.
    VersionAtClaim,
    /// A lookup finds nothing older than the operation.
    NothingOlder,
    /// A claim that is ahead of the vendor's clock makes a miss no proof.
    ClaimAhead,
    /// The vendor's clock is that of a first answer: a replay may carry an old date.
    FirstAnswersDate,
    /// A miss among refunds is proof only where reasons are kept.
    ReasonsKept,
    /// A filter that was ignored is noticed.
    FilterNoticed,
    // Policies.
    /// An attempt that was admitted before the circuit opened has no bearing on it afterwards.
    Generation,
    /// One operation's failures count once.
    OneOperationOnce,
    /// Probes are as many as configured.
    ProbesLimited,
    /// A probe that is cancelled is given back.
    ProbeGivenBack,
    /// A pause that one call was asked for holds back all calls.
    PauseForAll,
    /// Room in the rate limit is set aside until the attempt starts.
    RoomSetAside,
    /// Recovery slows down when the vendor fails.
    RecoveryFalls,
    /// Recovery's rate is one for all processes of a store.
    RecoveryShared,
    /// While no call is answered, a failure is no operation's own.
    QuietOutage,
    /// A host that slept while it connected sends nothing.
    WallAtFirstByte,
    // The transport.
    /// A request that is given up before it left never leaves.
    GivenUpStays,
    /// A request that a layer below the transport may still hold is under way.
    QueuedIsUnderWay,
    /// Repeats and probes do not use a connection that gave no answer.
    NewConnection,
    /// A pool that gave no answer is not used again.
    PoolReplaced,
    /// A lack of resources on this host is not the vendor's failure.
    LocalIsNotTheVendors,
    /// Runtimes share no connection.
    RuntimesApart,
    // Stores.
    /// A purge removes expired records only.
    PurgeOnlyExpired,
    /// A full store forgets nothing that a person closed.
    EvictOnlySettled,
    /// A purged record leaves its fence behind.
    PurgeNotesFence,
    /// No name is adopted that is on record already.
    NameTaken,
    /// A store whose file was replaced acknowledges nothing.
    FileReplaced,
    /// A server that takes no claim is believed only of what has ended.
    StandbyKnowsLess,
    /// A request that a store cannot hold is recorded nowhere, and is not tried again.
    NotHeldIsRejected,
    /// A store that was opened at another place than its records are from takes nothing.
    OwnPlace,
    /// A store whose records may have gone on elsewhere does not say that there is none.
    AbsentElsewhere,
    /// A store that a person calls a copy closes what is open: the original carries it out.
    CopyCloses,
    /// No client of a vendor is built on a file whose log may be lost or split.
    SafeFooting,
    /// A store that is sealed reads no record in the clear.
    SealedAlone,
    /// A vendor's text cannot forge a line that an operator reads.
    TextIsVisible,
}

impl Guard {
    /// Whether the rule is there.
    #[cfg(not(feature = "_guards"))]
    #[inline]
    pub const fn holds(self) -> bool {
        let _ = self;
        true
    }

    /// Whether the rule is there: unless this thread has [taken it out](Guard::without), or
    /// [its process](Guard::take_out) has.
    #[cfg(feature = "_guards")]
    pub fn holds(self) -> bool {
        OUT.get() != Some(self) && OUT_OF_PROCESS.get() != Some(&self)
    }

    /// Whether the rule was taken out.
    #[inline]
    pub fn is_out(self) -> bool {
        !self.holds()
    }

    /// `value` while the rule is there, else nothing.
    #[inline]
    pub fn keeps<T: Default>(self, value: T) -> T {
        if self.holds() { value } else { T::default() }
    }

    /// `value` while the rule is there, else what stands in its place.
    #[inline]
    pub fn or<T>(self, value: T, without: T) -> T {
        if self.holds() { value } else { without }
    }

    /// Returns the result of `run` without the rule, on this thread alone.
    #[cfg(feature = "_guards")]
    pub fn without<T>(self, run: impl FnOnce() -> T) -> T {
        let _put_back = PutBack(OUT.replace(Some(self)));
        run()
    }

    /// Takes the rule out of this process for good: for one that a proof starts, and kills. The first that is taken
    /// out is the only one.
    #[cfg(feature = "_guards")]
    pub fn take_out(self) {
        let _ = OUT_OF_PROCESS.set(self);
    }
}

/// Wraps `work` so that it runs with this thread's switch on a thread that works for this one.
#[cfg(feature = "_guards")]
pub fn inherited<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let out = OUT.get();
    move || {
        OUT.set(out);
        work()
    }
}

/// Returns `work` unchanged: there is no switch.
#[cfg(not(feature = "_guards"))]
pub fn inherited<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    work
}

/// Puts the switch back when dropped, also where `run` panics.
#[cfg(feature = "_guards")]
struct PutBack(Option<Guard>);

#[cfg(feature = "_guards")]
impl Drop for PutBack {
    fn drop(&mut self) {
        OUT.set(self.0);
    }
}

#[cfg(feature = "_guards")]
static OUT_OF_PROCESS: std::sync::OnceLock<Guard> = std::sync::OnceLock::new();

#[cfg(feature = "_guards")]
thread_local! {
    static OUT: std::cell::Cell<Option<Guard>> = const { std::cell::Cell::new(None) };
}

/// A build that is not for these tests has no switch: the compiler knows the answer.
#[cfg(not(feature = "_guards"))]
const _: () = assert!(Guard::Fence.holds());

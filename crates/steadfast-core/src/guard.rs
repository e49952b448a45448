//! The rules that keep the promise, each with a switch that only a build for tests has.
//!
//! A proof that has never failed proves little: it may be blind to the very fault that it is there for. So each rule
//! here can be taken out, one at a time, and `tests/proofs/guards.rs` must then notice. What stands at the rule itself is one
//! word at its condition.
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
    /// What an earlier life's holder brings says nothing of this life.
    LivesApart,
    /// Whether a record has expired is decided at the claim.
    ExpiryAtClaim,
    /// A key belongs to one request.
    OneRequest,
    /// What a dead holder left may have taken effect.
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
    /// A request that may yet arrive is not said to have had no effect.
    LastRequestAwaited,
    /// Force is for what may have taken effect; what has not needs none.
    ForceForUnknown,
    /// Starting over closes the old letter.
    StartOverCloses,
    /// What was cancelled and may have taken effect is not started over.
    CancelledUnknown,
    /// What is adopted is closed under its old name.
    Tombstone,
    /// No single host's clock says that a record has expired.
    BelievedTime,
    /// The nearer of two wrong clocks is no less doubted than the other.
    NearerOfTwo,
    // Sequences.
    /// What waits for its turn in a sequence is neither taken nor claimed.
    SequenceOrder,
    /// Of a sequence, one is sent at a time.
    OneAtATime,
    /// A dead letter holds its sequence, unless its call said to skip it.
    DeadLetterHoldsSequence,
    /// What waits for its next attempt holds its sequence.
    RetryHoldsSequence,
    // What is left to dispatchers.
    /// What is not due is not taken.
    NotBeforeDue,
    /// What was left for later keeps its time, whatever clock said it.
    LaterKeepsItsTime,
    /// What is enqueued again is not held by that.
    EnqueueHoldsNothing,
    /// What a process holds is not cancelled.
    HeldNotCancelled,
    /// One client's backlog does not keep another one from its turn.
    TakenInTurn,
    /// What one route fails at is not taken for the vendor's health.
    RouteHasCircuit,
    /// An operation that failed before says nothing of its route while others of it are answered well.
    FailedBeforeIsNeutral,
    /// No more probes are at the vendor at once than a round has.
    ProbesAtOnce,
    /// Refused credentials hold the account of an operation without a caller, and do not end it.
    CredentialsHold,
    /// What waits in a process that stops is let go of.
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
    /// What is in the outbox is recorded before it is cancelled.
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
    /// What another host's clock says to have passed counts less what clocks may differ.
    ClocksDiffer,
    /// A clock that the store doubts says nothing of what has passed.
    DoubtedClock,
    /// Nor does a clock that was set ahead while the process ran.
    SetAhead,
    /// A wall clock that is set back makes a send no earlier than it was.
    SendNoEarlier,
    /// Who takes an operation again goes on with its own measure.
    OwnMeasure,
    /// A lookup that failed is not a lookup.
    FailedLookUp,
    /// Lookups are counted over all runs.
    LookUpsOverRuns,
    /// A lookup's answer that was cut is not read.
    CutLookUp,
    /// Nor is one that a cache on the way has kept.
    CachedLookUp,
    /// A lookup asks for no answer of a cache.
    LookUpPastCaches,
    /// A lookup keeps the lease.
    LookUpKeepsLease,
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
    /// A process that stood still since it let go of an operation does not report what was before.
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
    /// Also where the store's writer stopped.
    StoppedWriter,
    /// An outcome that could not be written is written again.
    WriteAgain,
    /// A no to one attempt says nothing of an earlier one.
    SpeaksFor,
    /// A duplicate after a lookup's miss may be our own.
    OwnDuplicate,
    /// Also where another process looked.
    LookUpInLog,
    /// What a call's headers choose of accounts is part of the operation's name.
    HeaderInName,
    /// An account is part of the operation's name.
    AccountInScope,
    /// What is of another account does not go out with this client's secret.
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
    /// A call that is refused before its claim is told of a row under its key.
    RowIsToldOf,
    /// A row that becomes a record between two looks is told of as that.
    RowBecameRecord,
    /// An operator who asks by key finds the rows of the outbox too.
    RowFoundByKey,
    // Adapters.
    /// A page for a browser is no success.
    PageIsNoSuccess,
    /// A text, or nothing, is no success at a vendor that answers in JSON.
    TextIsNoSuccess,
    /// What a proxy on the way wrote is no refusal.
    OwnAnswer,
    /// A replayed failure will not change under its key.
    ReplayMark,
    /// A no speaks for earlier attempts only within the window.
    OnlyInWindow,
    /// So does a no that is marked as a replay: after the window, the key may have had a life in between.
    MarkInWindow,
    /// A no speaks for earlier attempts only where the vendor keeps it under the key.
    StoredNo,
    /// Stripe's second interface keeps no failure under a key.
    NoFailureKept,
    /// Of what Stripe's first interface refuses, declines alone are kept under the key.
    DeclinesAlone,
    /// Adyen's test environment and a live one share no operation.
    LiveApart,
    /// Only on the routes that Adyen documents is a key sent again.
    KnownRoutes,
    /// What is of a card is hidden whether or not the service says so.
    CardsHidden,
    /// A list that may leave something out is no proof that it is not there.
    PartNoProof,
    /// A lookup's hit is what was sent, and not only what has its key: at BigCommerce.
    HitIsWhatWasSent,
    /// The same at Stripe.
    HitAtStripe,
    /// The same at Postmark.
    HitAtPostmark,
    /// What was sent, and only its time excludes, may be ours.
    TimeAloneIsNoProof,
    /// Orders that were archived are asked for before a miss is proof.
    ArchivedToo,
    /// Where what is deleted is not listed, a miss is proof within an hour alone.
    MissWithinAnHour,
    /// Whether a method may be repeated is the adapter's word.
    RepeatByVendor,
    /// A choice of the caller's counts for every method with an effect.
    ChoiceForAll,
    /// No vendor's wait is believed beyond a day.
    WaitBelieved,
    /// Nothing that was tried is due later than a day, or the retention.
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
    /// What may take effect follows no redirect.
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
    /// What was admitted before the circuit opened says nothing afterwards.
    Generation,
    /// One operation's failures count once.
    OneOperationOnce,
    /// Probes are as many as configured.
    ProbesLimited,
    /// A probe that is cancelled is given back.
    ProbeGivenBack,
    /// What one call is told holds back all.
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
    /// What is given up before it left never leaves.
    GivenUpStays,
    /// What a layer below the transport may still hold is under way.
    QueuedIsUnderWay,
    /// Repeats and probes do not use a connection that gave no answer.
    NewConnection,
    /// A pool that gave no answer is not used again.
    PoolReplaced,
    /// What this host lacks is not the vendor's failure.
    LocalIsNotTheVendors,
    /// Runtimes share no connection.
    RuntimesApart,
    // Stores.
    /// Only what has expired is purged.
    PurgeOnlyExpired,
    /// A full store forgets nothing that a person closed.
    EvictOnlySettled,
    /// What is purged leaves its fence behind.
    PurgeNotesFence,
    /// No name is adopted that is on record already.
    NameTaken,
    /// A store whose file was replaced acknowledges nothing.
    FileReplaced,
    /// A server that takes no claim is believed only of what has ended.
    StandbyKnowsLess,
    /// What a store cannot hold is on record nowhere, and is not asked for again.
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
    /// What a vendor answers forges no line that an operator reads.
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

    /// What `run` comes to without the rule, on this thread alone.
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

/// The same work, with the switch as it is on this thread, for a thread that works for it.
#[cfg(feature = "_guards")]
pub fn inherited<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let out = OUT.get();
    move || {
        OUT.set(out);
        work()
    }
}

/// The same work: there is no switch.
#[cfg(not(feature = "_guards"))]
pub fn inherited<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    work
}

/// Also where `run` panics.
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

//! The guards, each with its proof.

use steadfast::guard::Guard;

use crate::{adapters, calls, life, limits, shelves};

/// A situation in which the promise holds, and does not once `guard` is out.
pub struct Proof {
    pub guard: Guard,
    pub name: &'static str,
    pub holds: fn() -> bool,
}

macro_rules! proofs {
    ($($guard:ident: $module:ident::$proof:ident,)+) => {
        &[$(Proof {
            guard: Guard::$guard,
            name: concat!(stringify!($module), "::", stringify!($proof)),
            holds: $module::$proof,
        },)+]
    };
}

pub const PROOFS: &[Proof] = proofs! {
    Fence: life::an_overtaken_holder_changes_nothing,
    FenceAfterPurge: life::a_key_that_was_purged_goes_on_with_its_fences,
    LivesApart: life::a_late_success_of_an_earlier_life_settles_nothing,
    ExpiryAtClaim: life::what_has_expired_is_a_new_life_at_its_claim,
    OneRequest: life::another_request_under_a_key_is_refused,
    LapsedIsUnknown: life::what_a_dead_holder_left_is_unknown,
    LongestAttempt: life::a_lapse_is_settled_from_the_end_of_the_longest_attempt,
    LeaseOfWrongClock: life::a_lease_of_tomorrow_keeps_nobody_out,
    ClaimInFuture: life::a_claim_of_tomorrow_has_no_window_tomorrow_either,
    WindowRunsOn: life::mended_credentials_start_no_new_window_after_an_unknown_send,
    LateOnlyPromotes: life::a_late_success_does_not_promote_what_provably_had_no_effect,
    UndoneStays: life::a_late_success_does_not_undo_a_persons_word,
    DeadLetterStays: life::a_dead_letter_does_not_expire,
    ForceForUnknown: life::force_leaves_no_spare_send_where_nothing_took_effect,
    StartOverCloses: life::a_letter_that_was_started_over_cannot_be_redriven,
    Tombstone: life::what_was_adopted_cannot_be_redriven_under_its_old_name,
    BelievedTime: life::a_host_that_is_a_month_ahead_expires_nothing,
    UnknownIsParked: life::what_nobody_can_tell_is_not_sent_again,
    WindowSlack: life::a_resend_at_the_windows_last_second_is_too_late,
    MonotonicWindow: life::a_wall_clock_that_is_set_back_opens_no_window,
    WrongClockNoWindow: life::a_first_claim_of_later_than_now_has_no_window,
    ResendCounted: calls::a_caller_who_accepts_one_repeat_gets_one,
    AskedAgain: calls::a_window_that_ended_at_the_gates_sends_nothing,
    SettleTime: calls::nobody_looks_before_the_settle_time,
    SettleOnce: calls::a_settle_time_that_is_longer_than_a_call_ends,
    FailedLookUp: calls::look_ups_that_fail_use_up_none,
    LookUpsOverRuns: calls::three_look_ups_that_cannot_tell_are_all_whoever_makes_them,
    CutLookUp: calls::an_answer_that_was_cut_uses_up_no_look_up,
    LookUpKeepsLease: calls::a_look_up_of_many_pages_is_not_cut_by_its_lease,
    StopAt: calls::no_attempt_outlives_the_lease,
    LeaseMargin: calls::an_attempt_ends_before_its_lease,
    RenewBeforeSend: calls::whoever_was_overtaken_in_a_wait_does_not_send,
    TakeoverPays: calls::a_takeover_for_a_caller_draws_on_the_budget,
    RetryPays: calls::a_retry_without_budget_is_not_sent,
    SafeHasNoEffect: calls::a_read_that_fails_has_no_unknown_effect,
    EffectFromRecord: calls::a_gate_says_no_better_than_the_record,
    ReplayBehindGates: calls::a_success_is_replayed_while_the_vendor_is_switched_off,
    ReplayOfSameRequest: calls::another_request_is_not_answered_with_it,
    FailedClaim: calls::a_claim_that_failed_is_not_said_to_be_without_effect,
    WriteAgain: calls::an_outcome_is_written_although_the_store_fails_once,
    SpeaksFor: calls::a_no_to_the_second_send_is_not_one_to_the_first,
    OwnDuplicate: calls::a_duplicate_behind_a_miss_is_perhaps_our_own,
    AccountInScope: calls::two_accounts_share_no_operation,
    RetentionFloor: calls::a_record_is_kept_for_as_long_as_the_vendor_remembers,
    SecretHeaders: calls::a_secret_in_a_header_is_refused,
    NeverEarly: calls::nobody_comes_back_before_the_vendor_said,
    DeadlineIsNeutral: calls::a_caller_without_time_opens_no_circuit,
    LimitIsNeutral: calls::a_rate_limit_opens_no_circuit,
    RecoveryFalls: calls::recovery_is_slower_at_a_vendor_that_fails,
    UnsafeNeedsForce: calls::what_nobody_can_tell_is_not_redriven_without_force,
    OverwriteHeldBack: calls::a_put_is_not_redriven_over_what_was_written_since,
    PageIsNoSuccess: adapters::a_page_for_a_browser_is_not_done,
    OwnAnswer: adapters::a_proxys_400_is_no_refusal,
    ReplayMark: adapters::a_replayed_500_is_not_sent_again,
    OnlyInWindow: adapters::a_decline_after_the_window_says_nothing_of_the_first_send,
    VersionAtClaim: adapters::a_resend_keeps_to_the_version_of_its_claim,
    NothingOlder: adapters::last_weeks_charge_is_not_this_weeks,
    ClaimAhead: adapters::a_miss_is_no_proof_where_the_claim_is_ahead_of_the_vendor,
    ReasonsKept: adapters::a_miss_among_refunds_without_reasons_is_no_proof,
    FilterNoticed: adapters::an_order_of_somebody_else_is_not_ours,
    Generation: limits::a_failure_from_before_the_circuit_opened_does_not_open_it_again,
    OneOperationOnce: limits::one_operation_alone_opens_no_circuit,
    ProbesLimited: limits::no_more_probes_go_out_than_configured,
    ProbeGivenBack: limits::a_cancelled_probe_does_not_wedge_the_circuit,
    PauseForAll: limits::a_pause_holds_back_every_call,
    RoomSetAside: limits::what_was_admitted_has_its_room_before_it_starts,
    PurgeOnlyExpired: shelves::what_has_settled_just_now_is_not_purged,
    EvictOnlySettled: shelves::a_full_store_refuses_before_it_forgets_what_a_person_closed,
    PurgeNotesFence: shelves::a_key_that_a_file_forgot_goes_on_with_its_fences,
    NameTaken: shelves::two_operations_never_share_a_name,
    FileReplaced: shelves::a_store_whose_file_was_replaced_takes_nothing,
};

//! One suite that every store passes: the rules of [`store`](super), case by case.
//!
//! A backend calls it in three lines and says itself how a fresh store is opened:
//!
//! ```text
//! #[tokio::test(flavor = "multi_thread")]
//! async fn sqlite_keeps_the_contract() {
//!     conformance::check(async || SqliteStore::in_memory().expect("open")).await;
//! }
//! ```
//!
//! Each case asks for a store and works under tenants of its own with random names, so all of them may share one
//! database. Claims and `gc` reach over all tenants, though: nobody else may use that database meanwhile, and the
//! cases run one after another.
//!
//! # Where the cases of `langgraph-checkpoint-conformance` went
//!
//! There a checkpoint holds the whole state and its channels, and a namespace separates subgraphs. Here a log holds
//! what changed as opaque bodies, a snapshot holds the whole now and then, and a subgraph lives inside the step of its
//! parent. So everything about channels, versions and namespaces has no meaning for a store: bodies come back as
//! they were given, and that is all it can know.
//!
//! | theirs | ours |
//! |---|---|
//! | put: returns_config | `commit::entries_are_numbered_without_a_gap` |
//! | put: roundtrip, preserves_channel_values, …_versions, …_versions_seen(_values) | `commit::any_bytes_survive` |
//! | put: preserves_metadata | `submit::a_run_on_a_free_thread_starts_at_once`, `upkeep::metadata_is_merged_key_by_key` |
//! | put: multiple_checkpoints_same_thread | `history::entries_come_oldest_first` |
//! | put: multiple_threads_isolated | `history::threads_do_not_mix` |
//! | put: parent_config | `commit::an_entry_names_its_parent` |
//! | put: preserves_run_id | `commit::an_entry_names_its_run` |
//! | put: incremental_channel_update, new_channel_added, channel_removed | none: what a body changes is the engine's business |
//! | put: root_, child_, default_namespace; across_namespaces and the like everywhere | none: no namespaces |
//! | put_writes: basic, preserves_task_id, preserves_channel_and_value, task_path | `records::records_come_back_with_the_claim` |
//! | put_writes: multiple_writes_same_task, multiple_tasks | `records::tasks_and_keys_are_distinguished` |
//! | put_writes: idempotent | `records::a_record_written_again_is_replaced` |
//! | put_writes: special_channels | `records::every_stage_survives` |
//! | put_writes: cleared_on_next_checkpoint | `records::records_are_cleared_for_the_next_step` |
//! | get_tuple: nonexistent_returns_none, nonexistent_checkpoint_id | `history::what_is_not_there_is_not_found` |
//! | get_tuple: latest_when_no_checkpoint_id | `history::the_newest_state_is_loaded` |
//! | get_tuple: specific_checkpoint_id | `history::an_older_state_is_loaded` |
//! | get_tuple: config_structure, checkpoint_fields, metadata, parent_config | `commit::an_entry_names_its_parent`, `commit::an_entry_names_its_run` |
//! | get_tuple: pending_writes | `records::records_come_back_with_the_claim` |
//! | list: all, by_thread, ordering | `history::runs_are_listed_newest_first`, `history::entries_come_oldest_first` |
//! | list: before, limit, limit_plus_before | `history::runs_are_paged`, `history::entries_come_in_pages`, `history::threads_are_paged`, `history::threads_are_paged_by_position` |
//! | list: metadata_filter_single_key, _multiple_keys, _no_match, metadata_custom_keys | `history::threads_are_found_by_metadata` |
//! | list: metadata_filter_step, combined_thread_and_filter | `history::runs_are_filtered` |
//! | list: empty_result | `history::a_list_may_be_empty` |
//! | list: includes_pending_writes | none: records are read with a claim only |
//! | delete_thread: removes_checkpoints, removes_writes | `upkeep::a_deleted_thread_leaves_nothing` |
//! | delete_thread: preserves_other_threads | `upkeep::deleting_spares_other_threads` |
//! | delete_thread: nonexistent_noop | `upkeep::deleting_nothing_is_no_error` |
//! | delete_for_runs (all seven) | none: the log has no gap, so a run's entries cannot be taken out of it; a rewind leaves them aside |
//! | copy_thread: basic, all_checkpoints, preserves_ordering | `upkeep::a_copy_has_the_whole_log` |
//! | copy_thread: preserves_metadata | `upkeep::a_copy_has_the_metadata` |
//! | copy_thread: preserves_writes | none: records belong to a run, and runs stay with the source |
//! | copy_thread: source_unchanged | `upkeep::a_copy_goes_its_own_way` |
//! | copy_thread: nonexistent_source | `upkeep::copying_needs_a_source_and_a_free_name` |
//! | prune: keep_latest_single_thread, keep_latest_multiple_threads | `gc::old_entries_go_and_the_newest_state_stays` |
//! | prune: keep_latest_preserves_writes | `gc::busy_threads_are_spared` |
//! | prune: delete_all | `gc::idle_threads_go` |
//! | prune: preserves_other_threads | `gc::young_things_stay` |
//! | prune: empty_list_noop, nonexistent_noop | none: `gc` takes no list |
//! | delta: writes_oldest_first | `history::entries_after_a_snapshot_come_oldest_first` |
//! | delta: seed_is_nearest_snapshot | `history::the_nearest_snapshot_is_the_seed` |
//! | delta: walk_to_root_no_seed | `history::without_a_snapshot_the_way_goes_to_the_root` |
//! | delta: excludes_target_pending_writes | `records::records_are_no_entries` |
//! | delta: seed_ancestor_own_writes_are_replayed | `history::a_snapshot_holds_its_own_entry`: the other way round, a snapshot is the state after its entry |
//! | delta: multi_channel, empty_channels_returns_empty, migration_plain_value_as_seed | none: no channels |

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a case fails by panicking")]

mod claim;
mod claim_with_write;
mod commit;
mod deleted_usage;
mod durability;
mod fixture;
mod gc;
mod history;
mod idempotency;
mod items;
mod key_values;
mod race;
mod records;
mod signal;
mod submit;
mod tenants;
mod timers;
mod upkeep;

use std::any::Any;
use std::pin::Pin;
use std::time::Duration;

use self::fixture::StoreFixture;
use super::{IdempotencyStore, KeyValueStore, Store};

/// After this long a case hangs.
const CASE_TIMEOUT: Duration = Duration::from_secs(60);

/// One rule of a store, as a function that panics when it is broken.
pub struct ConformanceCase<S> {
    /// What it is called, with its module.
    pub name: &'static str,
    run: fn(StoreFixture<S>) -> CaseFuture,
}

type CaseFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<S: Store> ConformanceCase<S> {
    /// Runs the case. `Err` tells what was broken.
    pub async fn run(&self, store: S) -> Result<(), String> {
        let task = tokio::spawn((self.run)(StoreFixture::new(store)));
        let stop = task.abort_handle();
        match tokio::time::timeout(CASE_TIMEOUT, task).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if error.is_panic() => Err(panic_message(&*error.into_panic())),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => {
                stop.abort();
                Err(format!("did not end within {CASE_TIMEOUT:?}"))
            }
        }
    }
}

/// Runs every case, each on a store of its own.
///
/// # Panics
///
/// Names every case that failed, and why.
pub async fn check<S: Store, F: AsyncFn() -> S>(open: F) {
    check_some(open, |_| true).await;
}

/// As [`check`], for the cases whose name `wanted` accepts.
///
/// # Panics
///
/// As [`check`], and when no case is wanted.
pub async fn check_some<S: Store, F: AsyncFn() -> S>(open: F, wanted: impl Fn(&str) -> bool) {
    let cases: Vec<ConformanceCase<S>> = cases().into_iter().filter(|case| wanted(case.name)).collect();
    assert!(!cases.is_empty(), "there is no such case");
    run_cases(open, &cases).await;
}

/// Runs every case of [`IdempotencyStore`], each on a store of its own.
///
/// # Panics
///
/// As [`check`].
pub async fn check_idempotency<S: Store + IdempotencyStore, F: AsyncFn() -> S>(open: F) {
    run_cases(open, &idempotency_cases()).await;
}

/// Runs every case of [`KeyValueStore`], each on a store of its own.
///
/// # Panics
///
/// As [`check`].
pub async fn check_key_values<S: Store + KeyValueStore, F: AsyncFn() -> S>(open: F) {
    run_cases(open, &key_value_cases()).await;
}

async fn run_cases<S: Store, F: AsyncFn() -> S>(open: F, cases: &[ConformanceCase<S>]) {
    let mut failed = Vec::new();
    for case in cases {
        if let Err(why) = case.run(open().await).await {
            failed.push(format!("{}: {why}", case.name));
        }
    }
    assert!(failed.is_empty(), "{} of {} cases failed\n{}", failed.len(), cases.len(), failed.join("\n"));
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

macro_rules! list {
    ($(#[$doc:meta])* fn $cases:ident<S: $bound:path>; $($module:ident { $($name:ident)+ })+) => {
        $(#[$doc])*
        pub fn $cases<S: Store + $bound>() -> Vec<ConformanceCase<S>> {
            vec![$($(ConformanceCase {
                name: concat!(stringify!($module), "::", stringify!($name)),
                run: |bench| Box::pin($module::$name(bench)),
            }),+),+]
        }
    };
}

list! {
    /// All cases of [`IdempotencyStore`], by name.
    fn idempotency_cases<S: IdempotencyStore>;

    idempotency {
        a_stored_response_is_returned
        the_first_response_under_a_key_stays
        an_expired_response_is_gone
        the_oldest_responses_are_deleted
        responses_belong_to_a_tenant
    }
}

list! {
    /// All cases of [`KeyValueStore`], by name.
    fn key_value_cases<S: KeyValueStore>;

    key_values {
        a_write_replaces_the_value_it_names
        values_are_found_by_the_beginning_of_their_keys
        changes_are_followed_from_a_revision
        buckets_do_not_mix
        blobs_are_written_and_deleted_with_their_value
        a_value_with_a_lifetime_is_a_lease
        of_many_writers_of_one_value_each_is_counted
        what_cannot_be_stored_is_refused
    }
}

list! {
    /// All cases of [`Store`], by name.
    fn cases<S: Store>;

    claim_with_write {
        an_answer_claims_its_run_before_anybody_else
        a_retry_claims_its_run_before_anybody_else
        a_signal_that_is_refused_claims_nothing
        a_cancel_claims_the_run_that_waited
        an_end_claims_the_next_run_before_anybody_else
        an_end_claims_only_what_the_worker_may_take
        a_pause_of_a_run_to_be_cancelled_claims_it_again
    }
    submit {
        a_run_on_a_free_thread_starts_at_once
        a_run_without_a_claim_waits
        a_run_names_its_thread_once
        the_same_key_gives_the_same_run
        the_same_key_for_something_else_is_refused
        keys_belong_to_a_tenant
        a_key_outlives_its_thread
        a_refused_run_leaves_no_key
        a_used_run_id_is_refused
        a_busy_thread_refuses
        a_thread_with_a_queue_refuses
        enqueued_runs_go_first_in_first_out
        nobody_overtakes_those_who_wait
        an_interrupt_asks_a_running_run_and_goes_next
        interrupts_go_in_the_order_they_came
        an_interrupt_ends_a_paused_run_at_once
        a_rollback_starts_where_the_stopped_run_did
        a_rollback_of_a_running_run_waits
        an_interrupt_of_a_free_thread_just_starts
        a_run_may_start_from_an_older_entry
        the_base_of_a_run_is_the_nearest_snapshot
        a_missing_parent_is_not_found
    }
    claim {
        a_claim_raises_the_epoch_and_fences_the_old_writer
        a_lease_that_runs_out_frees_the_run
        an_expired_lease_alone_fences_nobody
        a_renewal_prolongs_the_lease
        a_renewal_tells_how_each_claim_stands
        the_oldest_of_a_free_thread_is_claimed
        a_run_is_claimed_on_its_first_time_with_its_entry
        a_paused_run_is_not_claimed
        nothing_to_claim_is_no_error
        a_run_of_an_unknown_graph_is_passed_over
        a_queue_is_found_when_its_thread_becomes_free
        claims_reach_over_all_threads
    }
    commit {
        entries_are_numbered_without_a_gap
        an_entry_names_its_parent
        an_entry_names_its_run
        entries_lie_side_by_side
        a_wrong_head_writes_nothing
        records_alone_need_no_new_head
        a_fenced_write_changes_nothing
        a_stale_step_beside_a_write_of_the_new_claim_is_fenced
        an_ended_run_takes_no_write
        a_paused_run_takes_no_write
        the_end_frees_the_thread
        a_failure_is_kept
        usage_and_steps_add_up
        a_commit_tells_of_a_wish_to_cancel
        an_empty_commit_is_fine
        any_bytes_survive
        a_megabyte_survives
    }
    durability {
        positions_rise_and_can_be_waited_for
        a_later_commit_is_read_like_any_other
        a_later_commit_is_checked_like_any_other
        a_run_that_starts_later_is_accepted_like_any_other
        records_are_refused_when_entries_are_missing
        many_wait_at_once
    }
    records {
        records_come_back_with_the_claim
        tasks_and_keys_are_distinguished
        a_record_written_again_is_replaced
        every_stage_survives
        records_are_cleared_for_the_next_step
        records_are_no_entries
        records_belong_to_their_run
    }
    signal {
        a_queued_run_is_cancelled_without_an_entry
        a_paused_run_is_cancelled_with_an_entry
        a_cancel_of_a_running_run_is_noted_for_its_worker
        a_run_to_be_cancelled_does_not_wait
        a_start_leaves_a_run_that_was_let_go_on
        cancelling_an_ended_run_changes_nothing
        an_answer_lets_the_run_be_claimed
        an_answer_is_taken_once
        a_bad_answer_takes_nothing
        some_questions_may_stay_open
        only_a_paused_run_is_answered
        an_answered_run_takes_no_write_before_its_claim
        a_paused_run_is_edited
        an_edit_of_a_paused_run_needs_the_newest_entry
        a_failed_run_goes_on_where_it_stopped
        only_a_failed_run_is_retried
        a_retry_needs_its_own_entry_on_top
        a_run_that_is_not_there_is_not_found
    }
    history {
        what_is_not_there_is_not_found
        an_empty_thread_loads_empty
        the_newest_state_is_loaded
        an_older_state_is_loaded
        the_nearest_snapshot_is_the_seed
        entries_after_a_snapshot_come_oldest_first
        a_snapshot_holds_its_own_entry
        without_a_snapshot_the_way_goes_to_the_root
        a_branch_left_by_a_rewind_is_not_loaded
        entries_come_oldest_first
        entries_come_in_pages
        threads_do_not_mix
        runs_are_listed_newest_first
        runs_are_paged
        runs_are_filtered
        threads_are_listed_last_changed_first
        threads_are_paged
        threads_are_paged_by_position
        threads_are_found_by_metadata
        a_list_may_be_empty
    }
    upkeep {
        metadata_is_merged_key_by_key
        metadata_is_data
        metadata_with_nul_is_refused
        an_edit_is_appended
        an_edit_may_start_a_branch
        an_edit_needs_a_free_thread
        an_edit_needs_the_newest_entry
        a_copy_has_the_whole_log
        a_copy_has_the_metadata
        a_long_log_is_copied_whole
        a_long_log_is_deleted_whole
        a_copy_goes_its_own_way
        a_copy_may_stand_at_an_earlier_entry
        copying_needs_a_source_and_a_free_name
        a_deleted_thread_leaves_nothing
        deleting_fences_a_live_run
        an_old_lease_does_not_follow_a_name
        deleting_spares_other_threads
        deleting_nothing_is_no_error
        a_cached_value_comes_back
        a_cached_value_has_its_lifetime
    }
    gc {
        idle_threads_go
        a_crowd_goes_whole
        busy_threads_are_spared
        old_entries_go_and_the_newest_state_stays
        a_branch_left_goes_with_old_entries
        a_young_entry_keeps_what_it_is_rebuilt_from
        nothing_follows_an_entry_that_cannot_be_rebuilt
        without_a_snapshot_all_entries_stay
        young_things_stay
        old_keys_are_forgotten
        dead_cache_values_go
    }
    deleted_usage {
        a_deleted_run_leaves_what_it_used
        garbage_collection_keeps_what_runs_used
        sums_of_deleted_runs_do_not_overflow
        usage_of_deleted_runs_belongs_to_a_tenant
    }
    items {
        an_item_comes_back
        an_item_put_again_is_replaced
        items_are_found_by_the_beginning_of_their_namespace
        items_are_found_by_their_fields
        items_are_paged
        a_deleted_item_is_gone
        an_expired_item_is_gone
        namespaces_are_listed
        any_text_survives_in_an_item
        a_large_item_is_refused
        items_belong_to_a_tenant
        items_put_at_once_are_all_there
    }
    timers {
        a_timer_comes_back
        a_timer_is_replaced_or_stays
        timers_are_due_in_the_order_of_their_times
        a_timer_is_moved_once
        one_of_many_moves_wins
        timers_are_listed_by_kind
        timers_belong_to_a_tenant
    }
    tenants {
        nobody_reads_what_belongs_to_another
        nobody_changes_what_belongs_to_another
        the_same_names_live_side_by_side
    }
    race {
        of_many_submits_one_is_active
        of_many_enqueued_runs_each_gets_its_turn
        each_run_is_claimed_once
        one_of_two_answers_wins
        one_key_makes_one_run
        one_of_many_edits_wins
        a_delete_and_a_commit_leave_nothing_half_done
        a_takeover_and_a_commit_agree
        no_run_waits_on_a_free_thread_unnoticed
        an_answer_and_a_cancel_agree
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::RamStore;

    #[test]
    fn the_table_names_cases_that_exist() {
        let names: Vec<&str> = cases::<RamStore>().iter().map(|case| case.name).collect();
        let table = include_str!("mod.rs").lines().filter(|line| line.starts_with("//! |"));
        let named: Vec<&str> =
            table.flat_map(|line| line.split('`')).filter(|word| word.contains("::")).collect();
        assert!(named.len() > 30, "{}", named.len());
        for name in named {
            assert!(names.contains(&name), "{name}");
        }
    }

    #[tokio::test]
    async fn a_broken_rule_is_reported_by_name() {
        let case =
            ConformanceCase::<RamStore> { name: "broken", run: |_| Box::pin(async { panic!("no {}", 1) }) };
        assert_eq!(case.run(RamStore::new()).await, Err("no 1".to_owned()));
    }
}

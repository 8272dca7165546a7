//! Tests of the engine from outside.

#![allow(
    clippy::expect_used,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking, and reads better"
)]

mod accepting_runs;
mod awaited_runs;
mod bad_timing;
mod changed_programs;
mod claims_with_writes;
mod crash_loops;
mod damaged_records;
mod defects_of_other_engines;
mod derive;
mod durability;
mod edits_while_paused;
mod effects;
mod end_to_end;
mod error_handling;
mod every_state_type;
mod examples;
mod finished_siblings;
mod given_up_steps;
mod goto_and_handlers;
mod graph_execution;
mod interrupts;
mod limits;
mod missing_logs_and_graphs;
mod nested_graphs;
mod readable_values;
mod run_gates;
mod run_observer;
mod shared_items;
mod snapshots;
mod store_outages;
mod stored_results;
mod support;
mod takeover;
mod threads;
mod timers_and_schedules;
mod usage_accounting;
mod watch;

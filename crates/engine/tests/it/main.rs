//! Tests of the engine from outside.

#![allow(
    clippy::expect_used,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking, and reads better"
)]

mod accepting_runs;
mod changed_programs;
mod crash_loops;
mod damaged_records;
mod defects_of_other_engines;
mod derive;
mod effects;
mod end_to_end;
mod error_handling;
mod examples;
mod given_up_steps;
mod graph_execution;
mod interrupts;
mod limits;
mod missing_logs_and_graphs;
mod readable_values;
mod store_outages;
mod stored_results;
mod support;
mod takeover;
mod threads;
mod usage_accounting;
mod watch;

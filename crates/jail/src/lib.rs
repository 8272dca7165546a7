//! Runs one piece of work on hostile input in a child process that can reach nothing.
//!
//! The child is this same program, started again with a hidden first argument. Before it looks at its input it locks
//! itself in: namespaces, Landlock, a list of allowed system calls, resource limits. Then it reads one message,
//! writes one message, and is gone. The parent waits no longer than it was told, takes no more bytes than it was
//! told, and kills the child when the caller loses interest.
//!
//! ```no_run
//! # async fn example() -> Result<(), doran_jail::JailError> {
//! use doran_jail::{Jail, JailLimits, WorkerCall};
//!
//! let jail = Jail::new(JailLimits::default());
//! let answer = jail.run(WorkerCall { argument: "__shout", input: b"hello" }).await?;
//! # Ok(()) }
//! ```
//!
//! The program's `main` begins with
//!
//! ```no_run
//! # use std::process::ExitCode;
//! fn main() -> ExitCode {
//!     if std::env::args().nth(1).as_deref() == Some("__shout") {
//!         return doran_jail::serve(|input| input.to_ascii_uppercase());
//!     }
//!     // …
//!     ExitCode::SUCCESS
//! }
//! ```
//!
//! What the bytes mean is the caller's business. This crate knows no documents, no Python and no agents.

mod error;
mod frame;
mod jail;
mod limits;
mod lockdown;
mod worker;

pub use error::JailError;
pub use jail::{Jail, WorkerCall};
pub use limits::{IsolationLayer, JailLimits, JailRules, ThreadPermission};
pub use lockdown::lock_down;
pub use worker::{lock_down_and_read_input, serve};

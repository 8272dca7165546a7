//! Processes hostile input in an isolated child process.
//!
//! The child is the current program, started again with a hidden first argument. Before it reads its input it isolates
//! itself with namespaces, Landlock, a system call filter and resource limits. Then it reads one message, writes one
//! message, and exits. The parent enforces limits on time and output, and kills the child when the caller drops the
//! future.
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
//! The program's `main` begins with:
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
//! The bytes are opaque to this crate. It does not depend on documents, Python or agents.

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

//! What the benchmarks share. Each includes this file as a module of its own.

pub(crate) mod arguments;
pub(crate) mod machine;
pub(crate) mod peer;
pub(crate) mod table;
pub(crate) mod times;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

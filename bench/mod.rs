//! Code that the benchmarks share. Each benchmark includes this file as a module.

pub(crate) mod arguments;
pub(crate) mod machine;
pub(crate) mod peer;
pub(crate) mod table;
pub(crate) mod times;

/// The same allocator as the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

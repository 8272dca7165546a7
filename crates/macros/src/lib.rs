//! The derive macros of `doran-engine`: `State` and `Nodes`. They generate code against the engine's public traits.
//! The engine defines what a reduce rule does and how a graph uses its nodes.
//!
//! Depend on `doran-engine`, which re-exports both. The generated code names `::doran_engine`.

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

mod attrs;
mod nodes;
mod state;

/// Implements `State` for a struct with named fields, and generates its update type.
///
/// For `ChatState` this generates `ChatStateUpdate`, with the same visibility and every field optional. The update
/// has a setter for each field and `is_empty`. `ChatState::update()` returns an empty update. Setting a field twice
/// keeps both changes, joined by the field's rule. The setter of a plain number takes that number; any other setter
/// takes `impl Into` of the change.
///
/// The rule of a field says how a change is applied:
///
/// | attribute | a change | type of a change |
/// |---|---|---|
/// | none, or `#[reduce(last)]` | replaces the value | the field's type |
/// | `#[reduce(append)]` | is appended to a list | the field's type |
/// | `#[reduce(by_id)]`, `#[reduce(messages)]` | puts or removes items by their ids | `ItemChanges` |
/// | `#[reduce(merge)]` | inserts or replaces entries of a map | the field's type |
/// | `#[reduce(add)]` | is added | the field's type |
/// | `#[reduce(with = path)]` | is folded by `fn(&mut T, T)`, which also joins two changes, so it must be associative | the field's type |
/// | `#[reduce(rule = Type)]` | is folded by a type that implements `Reduce` | defined by that type |
///
/// An update is serialized as a map of the fields that were set. Unknown fields are ignored and missing fields are
/// unset, so a log that is older or newer than the program still loads. A field set to `None` is written as `null`
/// and read back as set. An update supports these serde attributes: `rename_all` on the struct, and `rename`,
/// `alias`, `with`, `serialize_with` and `deserialize_with` on its fields. A field that serde skips is a compile
/// error, because its value would be lost after a restart.
#[proc_macro_derive(State, attributes(reduce))]
pub fn derive_state(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    state::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `Nodes` for an enum whose variants have no fields.
///
/// The name of a node is its variant in snake case: `CallModel` becomes `call_model`. `#[node(name = "…")]` sets
/// another name. Logs and events contain these names, so use the attribute to keep the old name when you rename a
/// variant. The index of a node is its position in the enum.
#[proc_macro_derive(Nodes, attributes(node))]
pub fn derive_nodes(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    nodes::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Collects errors, so that all are reported at once.
#[derive(Default)]
struct ErrorCollector(Option<syn::Error>);

impl ErrorCollector {
    fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Returns the value, or stores its error for later.
    fn collect<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    fn finish(self) -> syn::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

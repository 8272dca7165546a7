//! The derives of `doran-engine`: `State` and `Nodes`. They read an item and write code against the engine's public
//! traits; what a rule does, and what a graph makes of its nodes, is the engine's to say.
//!
//! Depend on `doran-engine`, which hands both on. The code they write names `::doran_engine`.

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

mod attrs;
mod nodes;
mod state;

/// Makes a struct with named fields a state: writes its update type and the fold.
///
/// For `ChatState` there is then `ChatStateUpdate`, of the same visibility, with every field optional; a method for
/// each field that sets it; `is_empty`; and `ChatState::update()`, an update that changes nothing yet. A field that
/// is set twice keeps both changes, joined by its rule. A field of a plain number takes that number; any other takes
/// what can be made into the change.
///
/// The rule of a field says how it takes a change:
///
/// | attribute | a change | is |
/// |---|---|---|
/// | none, or `#[reduce(last)]` | replaces the value | the field's type |
/// | `#[reduce(append)]` | goes to the end of a list | the field's type |
/// | `#[reduce(by_id)]`, `#[reduce(messages)]` | puts or removes items by their ids | `ItemChanges` |
/// | `#[reduce(merge)]` | inserts or replaces entries of a map | the field's type |
/// | `#[reduce(add)]` | is added | the field's type |
/// | `#[reduce(with = path)]` | is folded by `fn(&mut T, T)`, which also joins two changes, so it has to be associative | the field's type |
/// | `#[reduce(rule = Type)]` | is folded by a type of yours that implements `Reduce` | what that type says |
///
/// An update is written as a map that holds what was set and nothing else. What is unknown in it is passed over and
/// what is absent is unset, so a log that is older or newer than the program still loads. A field that was set to
/// `None` is written as `null` and read back as set. Of the attributes for serde, an update heeds `rename_all` on
/// the struct and `rename`, `alias`, `with`, `serialize_with` and `deserialize_with` on its fields; a field that serde
/// skips is refused, because it would be gone after a restart.
#[proc_macro_derive(State, attributes(reduce))]
pub fn derive_state(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    state::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes an enum without content the nodes of a graph.
///
/// A node is named like its variant, in snake case: `CallModel` is `call_model`. `#[node(name = "…")]` names it
/// otherwise. Names are what logs and events hold, so a variant that is renamed keeps its past under the old name
/// only with this attribute. The index of a node is its place in the enum.
#[proc_macro_derive(Nodes, attributes(node))]
pub fn derive_nodes(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    nodes::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Errors found on the way, told all at once.
#[derive(Default)]
struct ErrorCollector(Option<syn::Error>);

impl ErrorCollector {
    fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// The value, or its error kept for later.
    fn collect<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    fn finish(self) -> syn::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

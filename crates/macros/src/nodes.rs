//! `#[derive(Nodes)]`: names and indexes for the variants of an enum.

use std::collections::HashMap;

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Error, Fields, LitStr, Result, Variant};

use crate::ErrorCollector;

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let ident = &input.ident;
    let Data::Enum(data) = &input.data else {
        return Err(Error::new_spanned(ident, "`Nodes` can be derived for an enum only"));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "an enum of nodes cannot be generic"));
    }
    if data.variants.is_empty() {
        return Err(Error::new_spanned(
            ident,
            "a graph needs at least one node, and this enum has no variants",
        ));
    }

    let mut errors = ErrorCollector::default();
    let mut variants = Vec::new();
    let mut names = Vec::new();
    let mut taken = HashMap::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            errors.push(Error::new_spanned(
                &variant.fields,
                format!(
                    "a node is a bare name; what `{}` needs belongs into the node it stands for",
                    variant.ident
                ),
            ));
            continue;
        }
        let Some(name) = errors.collect(node_name(variant)) else { continue };
        if let Some(other) = taken.insert(name.clone(), &variant.ident) {
            errors.push(Error::new_spanned(&variant.ident, format!("`{other}` is named `{name}` already")));
        }
        variants.push(&variant.ident);
        names.push(name);
    }
    errors.finish()?;

    let indexes = 0..variants.len();
    Ok(quote! {
        #[automatically_derived]
        impl ::doran_engine::graph::Nodes for #ident {
            const ALL: &'static [Self] = &[#(Self::#variants),*];

            fn name(self) -> &'static str {
                match self {
                    #(Self::#variants => #names,)*
                }
            }

            fn index(self) -> usize {
                match self {
                    #(Self::#variants => #indexes,)*
                }
            }
        }
    })
}

/// The name in `#[node(name = "…")]`, or the variant in snake case.
fn node_name(variant: &Variant) -> Result<String> {
    let mut given: Option<LitStr> = None;
    for attr in variant.attrs.iter().filter(|attr| attr.path().is_ident("node")) {
        attr.parse_nested_meta(|meta| {
            if !meta.path.is_ident("name") {
                return Err(meta.error("unknown attribute of a node; known is `name = \"…\"`"));
            }
            if given.is_some() {
                return Err(meta.error("this node has two names"));
            }
            let name: LitStr = meta.value()?.parse()?;
            if name.value().is_empty() || name.value().contains(|c: char| c.is_whitespace() || c.is_control())
            {
                return Err(Error::new_spanned(
                    &name,
                    "the name of a node is not empty and has no white space",
                ));
            }
            given = Some(name);
            Ok(())
        })?;
    }
    Ok(given.map_or_else(|| snake_case(&variant.ident.unraw().to_string()), |name| name.value()))
}

/// Converts to snake case: `CallModel` is `call_model`, `HTTPCall` is `http_call`, `Step2` is `step2`.
fn snake_case(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut snake = String::with_capacity(name.len() + 4);
    for (at, &c) in chars.iter().enumerate() {
        if c.is_uppercase() && at > 0 {
            let before = chars[at - 1];
            let starts_a_word = chars.get(at + 1).is_some_and(|next| next.is_lowercase());
            if before.is_lowercase() || before.is_numeric() || (before.is_uppercase() && starts_a_word) {
                snake.push('_');
            }
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: &str) {
        assert_eq!(snake_case(name), expected);
    }

    #[test]
    fn words_are_parted_by_underscores() {
        check("CallModel", "call_model");
        check("Retrieve", "retrieve");
        check("AskABird", "ask_a_bird");
    }

    #[test]
    fn an_acronym_is_one_word() {
        check("HTTPCall", "http_call");
        check("CallHTTP", "call_http");
        check("RAG", "rag");
    }

    #[test]
    fn a_digit_belongs_to_the_word_before_it() {
        check("Step2", "step2");
        check("Step2Again", "step2_again");
    }

    #[test]
    fn underscores_and_letters_without_case_stay_as_they_are() {
        check("Call_Model", "call_model");
        check("검색", "검색");
        check("ÄpfelÖffnen", "äpfel_öffnen");
    }

    #[test]
    fn a_raw_name_loses_its_mark() {
        let variant: Variant = syn::parse_quote!(r#Try);
        assert_eq!(node_name(&variant).unwrap(), "try");
    }
}

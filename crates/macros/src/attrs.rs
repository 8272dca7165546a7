//! What the attributes of a state and its fields say: `#[reduce(…)]`, and those for serde as far as an update heeds them.

use proc_macro2::TokenStream;
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, ExprLit, Ident, Lit, Meta, Path, Result, Token, Type};

const KNOWN: &str =
    "known are `last`, `append`, `by_id` (or `messages`), `merge`, `add`, `with = path` and `rule = Type`";

/// How a field takes a change.
pub(crate) enum Rule {
    /// The name of a type in `doran_engine::state::reduce`.
    Engine(&'static str),
    /// A type that implements `Reduce`.
    Own(Type),
    /// A function that folds one value into another.
    With(Path),
}

impl Rule {
    /// The rule that `#[reduce(…)]` names; without one, the last write wins.
    pub(crate) fn read(state: &Ident, attrs: &[Attribute]) -> Result<Self> {
        let mut found: Option<Self> = None;
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("reduce")) {
            let mut named = false;
            attr.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
                let rule = match name.as_str() {
                    "last" => Self::Engine("Last"),
                    "append" => Self::Engine("Append"),
                    "by_id" | "messages" => Self::Engine("ById"),
                    "merge" => Self::Engine("Merge"),
                    "add" => Self::Engine("Add"),
                    "rule" => Self::Own(meta.value()?.parse()?),
                    "with" => Self::With(outside(state, meta.value()?.parse()?)),
                    _ => {
                        let path = &meta.path;
                        let path = quote!(#path).to_string().replace(' ', "");
                        return Err(meta.error(format!("no rule is called `{path}`; {KNOWN}")));
                    }
                };
                if found.replace(rule).is_some() {
                    return Err(meta.error("this field has a rule already; a field takes changes in one way"));
                }
                named = true;
                Ok(())
            })?;
            if !named {
                return Err(Error::new_spanned(attr, format!("no rule is named; {KNOWN}")));
            }
        }
        Ok(found.unwrap_or(Self::Engine("Last")))
    }
}

/// What the attributes for serde on a field mean to its update.
#[derive(Default)]
pub(crate) struct FieldSerde {
    /// What is handed on as it stands.
    pub(crate) passed: Vec<Meta>,
    /// The function that writes the field's type.
    pub(crate) write: Option<Path>,
    /// The function that reads the field's type.
    pub(crate) read: Option<Path>,
}

impl FieldSerde {
    pub(crate) fn read(attrs: &[Attribute]) -> Result<Self> {
        let mut serde = Self::default();
        for meta in serde_metas(attrs)? {
            let name = meta.path().get_ident().map(Ident::to_string).unwrap_or_default();
            match name.as_str() {
                "rename" | "alias" => serde.passed.push(meta),
                "with" => {
                    let module: Path = path_in(&meta)?;
                    serde.write = Some(syn::parse_quote!(#module::serialize));
                    serde.read = Some(syn::parse_quote!(#module::deserialize));
                }
                "serialize_with" => serde.write = Some(path_in(&meta)?),
                "deserialize_with" => serde.read = Some(path_in(&meta)?),
                "skip" | "skip_serializing" | "skip_deserializing" => {
                    return Err(Error::new_spanned(
                        meta,
                        "a field of a state cannot be skipped: it would be gone after a restart",
                    ));
                }
                _ => {}
            }
        }
        Ok(serde)
    }
}

/// The `rename_all` of a struct, as it stands.
pub(crate) fn rename_all(attrs: &[Attribute]) -> Result<TokenStream> {
    let passed = serde_metas(attrs)?.into_iter().filter(|meta| meta.path().is_ident("rename_all"));
    Ok(quote!(#(#passed,)*))
}

fn serde_metas(attrs: &[Attribute]) -> Result<Vec<Meta>> {
    let mut metas = Vec::new();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
        metas.extend(attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?);
    }
    Ok(metas)
}

fn path_in(meta: &Meta) -> Result<Path> {
    match &meta.require_name_value()?.value {
        Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) => path.parse(),
        other => Err(Error::new_spanned(other, "expected a path in quotes")),
    }
}

/// A path that starts with `Self`, as seen from outside of the state.
fn outside(state: &Ident, mut path: Path) -> Path {
    if let Some(first) = path.segments.first_mut()
        && first.ident == "Self"
    {
        first.ident = state.clone();
    }
    path
}

#[cfg(test)]
mod tests {
    use quote::format_ident;

    use super::*;

    fn rule(attrs: &[Attribute]) -> String {
        match Rule::read(&format_ident!("Chat"), attrs) {
            Ok(Rule::Engine(name)) => name.to_owned(),
            Ok(Rule::Own(ty)) => quote!(own #ty).to_string(),
            Ok(Rule::With(path)) => quote!(with #path).to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_field_without_an_attribute_keeps_the_last_write() {
        assert_eq!(rule(&[]), "Last");
    }

    #[test]
    fn both_names_of_a_list_with_ids_mean_the_same_rule() {
        assert_eq!(rule(&[syn::parse_quote!(#[reduce(by_id)])]), "ById");
        assert_eq!(rule(&[syn::parse_quote!(#[reduce(messages)])]), "ById");
    }

    #[test]
    fn self_in_a_path_means_the_state() {
        assert_eq!(rule(&[syn::parse_quote!(#[reduce(with = Self::fold)])]), "with Chat :: fold");
        assert_eq!(
            rule(&[syn::parse_quote!(#[reduce(rule = rules::Capped<8>)])]),
            "own rules :: Capped < 8 >"
        );
    }

    #[test]
    fn a_rule_given_twice_is_refused_also_across_attributes() {
        let two = rule(&[syn::parse_quote!(#[reduce(append)]), syn::parse_quote!(#[reduce(append)])]);
        assert!(two.contains("has a rule already"), "{two}");
    }
}

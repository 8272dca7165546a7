//! Parses the attributes of a state and its fields: `#[reduce(…)]`, and the serde attributes that an update supports.

use proc_macro2::TokenStream;
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, ExprLit, Ident, Lit, Meta, Path, Result, Token, Type};

const KNOWN_RULES: &str =
    "known are `last`, `append`, `by_id` (or `messages`), `merge`, `add`, `with = path` and `rule = Type`";

/// How a field is reduced.
pub(crate) enum ReduceRule {
    /// The name of a type in `doran_engine::state::reduce`.
    BuiltIn(&'static str),
    /// A type that implements `Reduce`.
    CustomType(Type),
    /// A function that folds one value into another.
    WithFunction(Path),
}

impl ReduceRule {
    /// The rule that `#[reduce(…)]` names. Without one, the last write wins.
    pub(crate) fn from_attributes(state: &Ident, attrs: &[Attribute]) -> Result<Self> {
        let mut found: Option<Self> = None;
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("reduce")) {
            let mut named = false;
            attr.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
                let rule = match name.as_str() {
                    "last" => Self::BuiltIn("LastWriteWins"),
                    "append" => Self::BuiltIn("Append"),
                    "by_id" | "messages" => Self::BuiltIn("ById"),
                    "merge" => Self::BuiltIn("Merge"),
                    "add" => Self::BuiltIn("Add"),
                    "rule" => Self::CustomType(meta.value()?.parse()?),
                    "with" => Self::WithFunction(replace_self(state, meta.value()?.parse()?)),
                    _ => {
                        let path = &meta.path;
                        let path = quote!(#path).to_string().replace(' ', "");
                        return Err(meta.error(format!("no rule is called `{path}`; {KNOWN_RULES}")));
                    }
                };
                if found.replace(rule).is_some() {
                    return Err(meta.error("this field has a rule already; a field takes changes in one way"));
                }
                named = true;
                Ok(())
            })?;
            if !named {
                return Err(Error::new_spanned(attr, format!("no rule is named; {KNOWN_RULES}")));
            }
        }
        Ok(found.unwrap_or(Self::BuiltIn("LastWriteWins")))
    }
}

/// The serde attributes of a field that apply to its update.
#[derive(Default)]
pub(crate) struct FieldSerde {
    /// Attributes that are copied unchanged.
    pub(crate) passed_through: Vec<Meta>,
    /// The function that serializes the field's type.
    pub(crate) write: Option<Path>,
    /// The function that deserializes the field's type.
    pub(crate) read: Option<Path>,
}

impl FieldSerde {
    pub(crate) fn from_attributes(attrs: &[Attribute]) -> Result<Self> {
        let mut serde = Self::default();
        for meta in serde_metas(attrs)? {
            let name = meta.path().get_ident().map(Ident::to_string).unwrap_or_default();
            match name.as_str() {
                "rename" | "alias" => serde.passed_through.push(meta),
                "with" => {
                    let module: Path = parse_quoted_path(&meta)?;
                    serde.write = Some(syn::parse_quote!(#module::serialize));
                    serde.read = Some(syn::parse_quote!(#module::deserialize));
                }
                "serialize_with" => serde.write = Some(parse_quoted_path(&meta)?),
                "deserialize_with" => serde.read = Some(parse_quoted_path(&meta)?),
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

/// The `rename_all` attribute of a struct, unchanged.
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

fn parse_quoted_path(meta: &Meta) -> Result<Path> {
    match &meta.require_name_value()?.value {
        Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) => path.parse(),
        other => Err(Error::new_spanned(other, "expected a path in quotes")),
    }
}

/// Replaces a leading `Self` in a path with the name of the state.
fn replace_self(state: &Ident, mut path: Path) -> Path {
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
        match ReduceRule::from_attributes(&format_ident!("Chat"), attrs) {
            Ok(ReduceRule::BuiltIn(name)) => name.to_owned(),
            Ok(ReduceRule::CustomType(ty)) => quote!(own #ty).to_string(),
            Ok(ReduceRule::WithFunction(path)) => quote!(with #path).to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_field_without_an_attribute_keeps_the_last_write() {
        assert_eq!(rule(&[]), "LastWriteWins");
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

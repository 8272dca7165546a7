//! `#[derive(State)]`: the update type of a struct, its setters, and the fold.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, Fields, Ident, Lit, Meta, Path, Result, Token, Type,
};

use crate::Errors;

const KNOWN: &str =
    "known are `last`, `append`, `by_id` (or `messages`), `merge`, `add`, `with = path` and `rule = Type`";

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let state = &input.ident;
    let fields = fields(input)?;
    let vis = &input.vis;
    let update = format_ident!("{}Update", state.unraw());
    let rename_all = struct_serde(&input.attrs)?;

    let declared = fields.iter().map(Field::declare).collect::<Vec<_>>();
    let local_rules = fields.iter().map(Field::local_rule);
    let setters = fields.iter().map(Field::setter);
    let codecs = fields.iter().map(Field::codec);
    let folds = fields.iter().map(Field::fold);
    let names = fields.iter().map(|field| field.ident);
    let update_doc = format!("A change to [`{state}`]: every field optional.");

    Ok(quote! {
        #[doc = #update_doc]
        #[derive(
            Clone,
            Debug,
            Default,
            ::doran_engine::__private::serde::Serialize,
            ::doran_engine::__private::serde::Deserialize,
        )]
        #[serde(crate = "::doran_engine::__private::serde", #rename_all)]
        #[allow(private_interfaces)]
        #vis struct #update {
            #(#declared,)*
        }

        // A block of its own, so that the rules written here cannot be named or clash outside.
        const _: () = {
            #(#local_rules)*

            #[automatically_derived]
            impl ::doran_engine::state::State for #state {
                type Update = #update;

                fn apply(&mut self, update: #update) {
                    #(#folds)*
                }
            }

            impl #state {
                /// An update that changes nothing yet.
                pub fn update() -> #update {
                    ::core::default::Default::default()
                }
            }

            #[allow(dead_code, private_bounds, private_interfaces)]
            impl #update {
                #(#setters)*

                /// Whether it changes nothing.
                pub fn is_empty(&self) -> bool {
                    true #(&& self.#names.is_none())*
                }

                #(#codecs)*
            }
        };
    })
}

fn fields(input: &DeriveInput) -> Result<Vec<Field<'_>>> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "`State` can be derived for a struct only"));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &input.generics,
            "a state cannot be generic: its log has to be readable without knowing which type was meant",
        ));
    }
    let named = match &data.fields {
        Fields::Named(fields) => &fields.named,
        Fields::Unit => return Ok(Vec::new()),
        Fields::Unnamed(fields) => {
            return Err(Error::new_spanned(fields, "a state has named fields: its updates are kept by name"));
        }
    };
    let mut errors = Errors::default();
    let fields = named.iter().filter_map(|field| errors.keep(Field::read(&input.ident, field))).collect();
    errors.finish()?;
    Ok(fields)
}

/// One field of a state, as far as its update is concerned.
struct Field<'a> {
    state: &'a Ident,
    ident: &'a Ident,
    vis: &'a syn::Visibility,
    ty: &'a Type,
    docs: Vec<&'a Attribute>,
    rule: Rule,
    serde: FieldSerde,
}

enum Rule {
    /// The name of a type in `doran_engine::state::reduce`.
    Engine(&'static str),
    /// A type that implements `Reduce`.
    Own(Type),
    /// A function that folds one value into another.
    With(Path),
}

impl<'a> Field<'a> {
    fn read(state: &'a Ident, field: &'a syn::Field) -> Result<Self> {
        let Some(ident) = &field.ident else {
            return Err(Error::new_spanned(field, "a state has named fields"));
        };
        if ident == "is_empty" {
            return Err(Error::new_spanned(
                ident,
                "an update has a method `is_empty`; name this field otherwise",
            ));
        }
        let mut errors = Errors::default();
        let rule = errors.keep(Rule::read(state, &field.attrs));
        let serde = errors.keep(FieldSerde::read(&field.attrs));
        errors.finish()?;
        let (Some(rule), Some(serde)) = (rule, serde) else {
            return Err(Error::new_spanned(field, "this field cannot be read"));
        };
        let docs = field.attrs.iter().filter(|attr| attr.path().is_ident("doc")).collect();
        Ok(Self { state, ident, vis: &field.vis, ty: &field.ty, docs, rule, serde })
    }

    /// The type that folds this field. It stands where the field's type stands, so that an ill-fitting rule is told there.
    fn rule(&self) -> TokenStream {
        let span = self.ty.span();
        match &self.rule {
            Rule::Engine(name) => {
                let name = Ident::new(name, span);
                quote_spanned!(span=> ::doran_engine::state::reduce::#name)
            }
            Rule::Own(ty) => quote!(#ty),
            Rule::With(_) => {
                let name = self.hidden("Rule");
                quote!(#name)
            }
        }
    }

    /// What an update carries for this field.
    fn change(&self) -> TokenStream {
        let ty = self.ty;
        match &self.rule {
            Rule::With(_) => quote!(#ty),
            Rule::Engine(_) | Rule::Own(_) => {
                let rule = self.rule();
                quote_spanned!(ty.span()=> <#rule as ::doran_engine::state::Reduce<#ty>>::Change)
            }
        }
    }

    fn hidden(&self, what: &str) -> Ident {
        format_ident!("__{}_{}", what, self.ident.unraw(), span = Span::call_site())
    }

    fn declare(&self) -> TokenStream {
        let Self { ident, vis, docs, .. } = self;
        let change = self.change();
        let update = format_ident!("{}Update", self.state.unraw());
        let passed = &self.serde.passed;
        let write = self.serde.write.as_ref().map(|_| {
            let path = format!("{update}::{}", self.hidden("write"));
            quote!(serialize_with = #path,)
        });
        let read = match &self.serde.read {
            Some(_) => format!("{update}::{}", self.hidden("read")),
            None => "::doran_engine::__private::set".to_owned(),
        };
        quote! {
            #(#docs)*
            #[serde(default, skip_serializing_if = "Option::is_none", #write deserialize_with = #read, #(#passed,)*)]
            #vis #ident: ::core::option::Option<#change>
        }
    }

    /// The type behind `#[reduce(with = path)]`.
    fn local_rule(&self) -> Option<TokenStream> {
        let Rule::With(path) = &self.rule else { return None };
        let (name, ty) = (self.hidden("Rule"), self.ty);
        let call = |into| {
            let into = Ident::new(into, Span::call_site());
            quote_spanned!(path.span()=> #path(#into, __change);)
        };
        let (fold, join) = (call("__field"), call("__earlier"));
        Some(quote! {
            #[allow(non_camel_case_types)]
            struct #name;

            #[automatically_derived]
            impl ::doran_engine::state::Reduce<#ty> for #name {
                type Change = #ty;

                fn fold(__field: &mut #ty, __change: #ty) {
                    #fold
                }

                fn join(__earlier: &mut #ty, __change: #ty) {
                    #join
                }
            }
        })
    }

    fn setter(&self) -> TokenStream {
        let Self { ident, ty, .. } = self;
        let (rule, change) = (self.rule(), self.change());
        // A bare `1` is an `i32` to `impl Into<u64>`, and does not fit.
        let (takes, into) = match is_number(ty) && matches!(self.rule, Rule::Engine(_) | Rule::With(_)) {
            true => (quote!(#change), quote!(change)),
            false => {
                (quote!(impl ::core::convert::Into<#change>), quote!(::core::convert::Into::into(change)))
            }
        };
        let doc = format!("Changes `{}`, after what was set before.", ident.unraw());
        let join = quote_spanned! {ty.span()=>
            <#rule as ::doran_engine::state::Reduce<#ty>>::join(earlier, change)
        };
        quote! {
            #[doc = #doc]
            #[must_use]
            pub fn #ident(mut self, change: #takes) -> Self {
                let change: #change = #into;
                match &mut self.#ident {
                    ::core::option::Option::Some(earlier) => #join,
                    unset => *unset = ::core::option::Option::Some(change),
                }
                self
            }
        }
    }

    fn fold(&self) -> TokenStream {
        let Self { ident, ty, .. } = self;
        let rule = self.rule();
        let fold = quote_spanned! {ty.span()=>
            <#rule as ::doran_engine::state::Reduce<#ty>>::fold(&mut self.#ident, change)
        };
        quote! {
            if let ::core::option::Option::Some(change) = update.#ident {
                #fold;
            }
        }
    }

    /// The field's own way to and from its serialised form, around an option.
    fn codec(&self) -> TokenStream {
        let change = self.change();
        let serde = quote!(::doran_engine::__private::serde);
        let write = self.serde.write.as_ref().map(|path| {
            let name = self.hidden("write");
            let call = quote_spanned!(path.span()=> #path(change, serializer));
            quote! {
                fn #name<S: #serde::Serializer>(
                    change: &::core::option::Option<#change>,
                    serializer: S,
                ) -> ::core::result::Result<S::Ok, S::Error> {
                    match change {
                        ::core::option::Option::Some(change) => #call,
                        ::core::option::Option::None => serializer.serialize_none(),
                    }
                }
            }
        });
        let read = self.serde.read.as_ref().map(|path| {
            let name = self.hidden("read");
            let call = quote_spanned!(path.span()=> #path(deserializer));
            quote! {
                fn #name<'de, D: #serde::Deserializer<'de>>(
                    deserializer: D,
                ) -> ::core::result::Result<::core::option::Option<#change>, D::Error> {
                    #call.map(::core::option::Option::Some)
                }
            }
        });
        quote!(#write #read)
    }
}

impl Rule {
    fn read(state: &Ident, attrs: &[Attribute]) -> Result<Self> {
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
struct FieldSerde {
    /// What is handed on as it stands.
    passed: Vec<Meta>,
    write: Option<Path>,
    read: Option<Path>,
}

impl FieldSerde {
    fn read(attrs: &[Attribute]) -> Result<Self> {
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

fn struct_serde(attrs: &[Attribute]) -> Result<TokenStream> {
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

fn is_number(ty: &Type) -> bool {
    const NUMBERS: [&str; 14] = [
        "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64",
    ];
    matches!(ty, Type::Path(path) if NUMBERS.iter().any(|number| path.path.is_ident(number)))
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn only_a_plain_number_is_a_number() {
        assert!(is_number(&syn::parse_quote!(u64)));
        assert!(!is_number(&syn::parse_quote!(Option<u64>)));
        assert!(!is_number(&syn::parse_quote!(String)));
    }
}

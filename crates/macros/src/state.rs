//! `#[derive(State)]`: generates the update type of a struct, its setters, and the reducer.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Fields, GenericArgument, Ident, PathArguments, Result, Type};

use crate::ErrorCollector;
use crate::attrs::{FieldSerde, ReduceRule, rename_all};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let state = &input.ident;
    let fields = state_fields(input)?;
    let vis = &input.vis;
    let update = format_ident!("{}Update", state.unraw());
    let rename_all = rename_all(&input.attrs)?;

    let declared = fields.iter().map(StateField::declare_update_field);
    let local_rules = fields.iter().map(StateField::local_rule);
    let setters = fields.iter().map(StateField::setter);
    let codecs = fields.iter().map(StateField::serde_functions);
    let folds = fields.iter().map(StateField::fold);
    let indexed_folds = fields.iter().enumerate().map(|(place, field)| field.fold_indexed(place));
    let names = fields.iter().map(|field| field.ident);
    let reducers = fields.iter().map(StateField::reducer);
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

        // A separate block, so that the rules generated here are not visible outside and cannot clash.
        const _: () = {
            #(#local_rules)*

            #[automatically_derived]
            impl ::doran_engine::state::State for #state {
                type Update = #update;

                fn apply(&mut self, update: #update) {
                    #(#folds)*
                }

                fn apply_indexed(&mut self, update: #update, __index: &mut ::doran_engine::state::ItemIndex) {
                    let _ = &__index;
                    #(#indexed_folds)*
                }

                fn reducers() -> &'static [(&'static str, &'static str)] {
                    &[#(#reducers),*]
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

fn state_fields(input: &DeriveInput) -> Result<Vec<StateField<'_>>> {
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
    let mut errors = ErrorCollector::default();
    let fields = named
        .iter()
        .filter_map(|field| errors.collect(StateField::from_field(&input.ident, field)))
        .collect();
    errors.finish()?;
    Ok(fields)
}

/// A field of a state, with what its update needs.
struct StateField<'a> {
    state: &'a Ident,
    ident: &'a Ident,
    vis: &'a syn::Visibility,
    ty: &'a Type,
    docs: Vec<&'a Attribute>,
    rule: ReduceRule,
    serde: FieldSerde,
}

impl<'a> StateField<'a> {
    fn from_field(state: &'a Ident, field: &'a syn::Field) -> Result<Self> {
        let Some(ident) = &field.ident else {
            return Err(Error::new_spanned(field, "a state has named fields"));
        };
        if ident == "is_empty" {
            return Err(Error::new_spanned(
                ident,
                "an update has a method `is_empty`; name this field otherwise",
            ));
        }
        let mut errors = ErrorCollector::default();
        let rule = errors.collect(ReduceRule::from_attributes(state, &field.attrs));
        let serde = errors.collect(FieldSerde::from_attributes(&field.attrs));
        errors.finish()?;
        let (Some(rule), Some(serde)) = (rule, serde) else {
            return Err(Error::new_spanned(field, "this field cannot be read"));
        };
        let docs = field.attrs.iter().filter(|attr| attr.path().is_ident("doc")).collect();
        Ok(Self { state, ident, vis: &field.vis, ty: &field.ty, docs, rule, serde })
    }

    /// The type that reduces this field. It has the span of the field's type, so that a rule that does not fit is
    /// reported there.
    fn rule_type(&self) -> TokenStream {
        let span = self.ty.span();
        match &self.rule {
            ReduceRule::BuiltIn(name) => {
                let name = Ident::new(name, span);
                quote_spanned!(span=> ::doran_engine::state::reduce::#name)
            }
            ReduceRule::CustomType(ty) => quote!(#ty),
            ReduceRule::WithFunction(_) => {
                let name = self.hidden_ident("Rule");
                quote!(#name)
            }
        }
    }

    /// The type of a change to this field. It is written out if the rule is known, so that a rule that does not fit
    /// is reported once, by the reducer, and not by every derive of the update.
    fn change_type(&self) -> TokenStream {
        let ty = self.ty;
        match &self.rule {
            ReduceRule::WithFunction(_)
            | ReduceRule::BuiltIn("LastWriteWins" | "Append" | "Merge" | "Add") => quote!(#ty),
            ReduceRule::BuiltIn(_) | ReduceRule::CustomType(_) => match vec_item_type(ty) {
                Some(item) if matches!(self.rule, ReduceRule::BuiltIn("ById")) => {
                    quote_spanned!(ty.span()=> ::doran_engine::state::ItemChanges<#item>)
                }
                _ => {
                    let rule = self.rule_type();
                    quote_spanned!(ty.span()=> <#rule as ::doran_engine::state::Reduce<#ty>>::Change)
                }
            },
        }
    }

    fn hidden_ident(&self, what: &str) -> Ident {
        format_ident!("__{}_{}", what, self.ident.unraw(), span = Span::call_site())
    }

    fn declare_update_field(&self) -> TokenStream {
        let Self { ident, vis, docs, .. } = self;
        let change = self.change_type();
        let update = format_ident!("{}Update", self.state.unraw());
        let passed = &self.serde.passed_through;
        let write = self.serde.write.as_ref().map(|_| {
            let path = format!("{update}::{}", self.hidden_ident("write"));
            quote!(serialize_with = #path,)
        });
        let read = match &self.serde.read {
            Some(_) => format!("{update}::{}", self.hidden_ident("read")),
            None => "::doran_engine::__private::set".to_owned(),
        };
        quote! {
            #(#docs)*
            #[serde(default, skip_serializing_if = "Option::is_none", #write deserialize_with = #read, #(#passed,)*)]
            #vis #ident: ::core::option::Option<#change>
        }
    }

    /// The generated rule type for `#[reduce(with = path)]`.
    fn local_rule(&self) -> Option<TokenStream> {
        let ReduceRule::WithFunction(path) = &self.rule else { return None };
        let (name, ty) = (self.hidden_ident("Rule"), self.ty);
        let function = quote_spanned!(path.span()=> let __function: fn(&mut #ty, #ty) = #path;);
        Some(quote! {
            #[allow(non_camel_case_types)]
            struct #name;

            #[automatically_derived]
            impl ::doran_engine::state::Reduce<#ty> for #name {
                type Change = #ty;

                fn fold(__field: &mut #ty, __change: #ty) {
                    #function
                    __function(__field, __change);
                }

                fn join(__earlier: &mut #ty, __change: #ty) {
                    #function
                    __function(__earlier, __change);
                }
            }
        })
    }

    fn setter(&self) -> TokenStream {
        let Self { ident, ty, .. } = self;
        let (rule, change) = (self.rule_type(), self.change_type());
        // A bare `1` is an `i32`, which does not fit `impl Into<u64>`.
        let (takes, into) = match is_primitive_number(ty)
            && matches!(self.rule, ReduceRule::BuiltIn(_) | ReduceRule::WithFunction(_))
        {
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

    /// The field and the name of its rule.
    fn reducer(&self) -> TokenStream {
        let name = self.ident.unraw().to_string();
        let rule = match &self.rule {
            ReduceRule::BuiltIn(rule) => (*rule).to_owned(),
            ReduceRule::CustomType(ty) => quote!(#ty).to_string().replace(' ', ""),
            ReduceRule::WithFunction(path) => quote!(#path).to_string().replace(' ', ""),
        };
        quote!((#name, #rule))
    }

    fn fold(&self) -> TokenStream {
        let Self { ident, ty, .. } = self;
        let rule = self.rule_type();
        let fold = quote_spanned! {ty.span()=>
            <#rule as ::doran_engine::state::Reduce<#ty>>::fold(&mut self.#ident, change)
        };
        quote! {
            if let ::core::option::Option::Some(change) = update.#ident {
                #fold;
            }
        }
    }

    /// The same, through the index of the field's list if its rule has one.
    fn fold_indexed(&self, place: usize) -> TokenStream {
        let Self { ident, ty, .. } = self;
        if !matches!(self.rule, ReduceRule::BuiltIn("ById") | ReduceRule::CustomType(_)) {
            return self.fold();
        }
        let rule = self.rule_type();
        let fold = quote_spanned! {ty.span()=>
            <#rule as ::doran_engine::state::Reduce<#ty>>::fold_indexed(&mut self.#ident, change, __index.list(#place))
        };
        quote! {
            if let ::core::option::Option::Some(change) = update.#ident {
                #fold;
            }
        }
    }

    /// Functions that serialize and deserialize the field inside an `Option`.
    fn serde_functions(&self) -> TokenStream {
        let change = self.change_type();
        let serde = quote!(::doran_engine::__private::serde);
        let write = self.serde.write.as_ref().map(|path| {
            let name = self.hidden_ident("write");
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
            let name = self.hidden_ident("read");
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

/// The `T` of a type written as `Vec<T>`.
fn vec_item_type(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Vec")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(item)) if arguments.args.len() == 1 => Some(item),
        _ => None,
    }
}

fn is_primitive_number(ty: &Type) -> bool {
    const NUMBERS: [&str; 14] = [
        "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64",
    ];
    matches!(ty, Type::Path(path) if NUMBERS.iter().any(|number| path.path.is_ident(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_number_is_a_number() {
        assert!(is_primitive_number(&syn::parse_quote!(u64)));
        assert!(!is_primitive_number(&syn::parse_quote!(Option<u64>)));
        assert!(!is_primitive_number(&syn::parse_quote!(String)));
    }
}

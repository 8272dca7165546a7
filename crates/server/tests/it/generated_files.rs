//! The files that are generated from the routes and their types. `cargo xtask openapi` writes them.

use doran_server::{openapi_document, routes};
use expect_test::expect_file;

use crate::typescript_client::typescript_client;
use crate::typescript_types::typescript_types;

#[test]
fn the_openapi_document_is_up_to_date() {
    let document = format!("{:#}\n", openapi_document(&routes()));
    expect_file!["../../openapi.json"].assert_eq(&document);
}

#[test]
fn the_types_of_the_page_are_up_to_date() {
    let types = typescript_types(&openapi_document(&routes()));
    expect_file!["../../ui/src/api-types.ts"].assert_eq(&types);
}

#[test]
fn the_client_of_the_page_is_up_to_date() {
    let client = typescript_client(&openapi_document(&routes()));
    expect_file!["../../ui/src/api-client.ts"].assert_eq(&client);
}

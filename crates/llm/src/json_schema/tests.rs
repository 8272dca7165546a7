//! What fits, what does not, and what schemas cannot do.

use serde_json::json;

use super::*;

/// The first finding of each value, or `fits`.
#[allow(clippy::needless_pass_by_value, reason = "schemas are written in place")]
fn check(schema: Value, cases: &[(Value, &str)]) {
    let validator = SchemaValidator::new(&schema).expect("a schema");
    for (value, expected) in cases {
        let found = validator.violations(value, 1);
        let outcome = found.first().map_or_else(|| "fits".to_owned(), ToString::to_string);
        assert_eq!(outcome, *expected, "{schema} {value}");
    }
}

#[allow(clippy::needless_pass_by_value, reason = "schemas are written in place")]
fn refused(schema: Value) -> String {
    SchemaValidator::new(&schema).expect_err("refused").to_string()
}

#[test]
fn types_and_values() {
    check(
        json!({"type": "integer"}),
        &[
            (json!(3), "fits"),
            (json!(3.0), "fits"),
            (json!(3.5), "/: it is not of type \"integer\""),
            (json!("3"), "/: it is not of type \"integer\""),
        ],
    );
    check(
        json!({"type": ["string", "null"]}),
        &[(json!(null), "fits"), (json!(true), "/: it is not of type \"string\" or \"null\"")],
    );
    check(
        json!({"enum": ["ko", 1, {"a": [1, 2]}]}),
        &[
            (json!("ko"), "fits"),
            (json!(1.0), "fits"),
            (json!({"a": [1.0, 2]}), "fits"),
            (json!("fr"), "/: it is not one of \"ko\", 1 or {\"a\":[1,2]}"),
        ],
    );
    check(json!({"const": "all"}), &[(json!("all"), "fits"), (json!("any"), "/: it is not one of \"all\"")]);
    check(json!(false), &[(json!(1), "/: nothing is allowed here")]);
}

#[test]
fn numbers_and_texts() {
    check(
        json!({"minimum": 1, "exclusiveMaximum": 10, "multipleOf": 0.01}),
        &[
            (json!(4.35), "fits"),
            (json!(0), "/: it is less than the minimum of 1"),
            (json!(10), "/: it is not less than 10"),
            (json!(4.355), "/: it is not a multiple of 0.01"),
        ],
    );
    check(
        json!({"maximum": 9_007_199_254_740_993_u64}),
        &[
            (json!(9_007_199_254_740_993_u64), "fits"),
            (json!(9_007_199_254_740_994_u64), "/: it is greater than the maximum of 9007199254740993"),
        ],
    );
    check(
        json!({"minLength": 2, "maxLength": 3, "pattern": "^[가-힣]+$"}),
        &[
            (json!("연차"), "fits"),
            (json!("날"), "/: it is shorter than 2 characters"),
            (json!("연차휴가"), "/: it is longer than 3 characters"),
            (json!("abc"), "/: it does not match `^[가-힣]+$`"),
        ],
    );
}

#[test]
fn arrays() {
    check(
        json!({"items": {"type": "string"}, "minItems": 1, "maxItems": 2, "uniqueItems": true}),
        &[
            (json!(["a", "b"]), "fits"),
            (json!([]), "/: it has fewer than 1 items"),
            (json!(["a", "b", "c"]), "/: it has more than 2 items"),
            (json!(["a", 2]), "/1: it is not of type \"string\""),
            (json!(["a", "a"]), "/: it has an item twice"),
        ],
    );
    let pair = json!({"type": "integer"});
    for schema in [
        json!({"prefixItems": [pair], "items": false}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": [pair], "additionalItems": false}),
    ] {
        check(schema, &[(json!([1]), "fits"), (json!([1, 2]), "/1: nothing is allowed here")]);
    }
    check(
        json!({"contains": {"const": 1}, "maxContains": 1}),
        &[
            (json!([0, 1]), "fits"),
            (json!([0]), "/: fewer than 1 of its items are as `contains` asks"),
            (json!([1, 1]), "/: more than 1 of its items are as `contains` asks"),
        ],
    );
}

#[test]
fn objects() {
    let schema = json!({
        "properties": {"a/b": {"type": "integer"}},
        "patternProperties": {"^x-": {"type": "string"}},
        "additionalProperties": false,
        "required": ["a/b"],
        "propertyNames": {"maxLength": 5},
        "dependentRequired": {"x-a": ["x-b"]},
    });
    check(
        schema,
        &[
            (json!({"a/b": 1, "x-c": "c"}), "fits"),
            (json!({}), "/: \"a/b\" is a required property"),
            (json!({"a/b": "1"}), "/a~1b: it is not of type \"integer\""),
            (json!({"a/b": 1, "x-c": 3}), "/x-c: it is not of type \"string\""),
            (json!({"a/b": 1, "c": 3}), "/: Additional properties are not allowed ('c' was unexpected)"),
            (
                json!({"a/b": 1, "x-long": "c"}),
                "/: a property cannot have the name 'x-long': it is longer than 5 characters",
            ),
            (json!({"a/b": 1, "x-a": "c"}), "/: \"x-b\" is a required property"),
        ],
    );
}

#[test]
fn combinations_say_why_no_alternative_fits() {
    check(
        json!({"anyOf": [{"type": "string"}, {"properties": {"n": {"type": "integer"}}, "type": "object"}]}),
        &[
            (json!("a"), "fits"),
            (
                json!({"n": "1"}),
                "/: it fits none of the alternatives (/: it is not of type \"string\", /n: it is not of type \"integer\")",
            ),
        ],
    );
    check(
        json!({"oneOf": [{"minimum": 2}, {"maximum": 5}]}),
        &[(json!(1), "fits"), (json!(3), "/: it fits 2 alternatives, and only one may fit")],
    );
    check(
        json!({"allOf": [{"minimum": 2}], "not": {"const": 3}}),
        &[
            (json!(2), "fits"),
            (json!(1), "/: it is less than the minimum of 2"),
            (json!(3), "/: it is what `not` excludes"),
        ],
    );
    check(
        json!({"if": {"const": 1}, "then": false, "else": {"type": "string"}}),
        &[
            (json!("a"), "fits"),
            (json!(1), "/: nothing is allowed here"),
            (json!(2), "/: it is not of type \"string\""),
        ],
    );
}

#[test]
fn references_stay_inside_the_schema() {
    let tree = json!({
        "$id": "https://example.com/tree",
        "$defs": {"a b": {"type": "array", "items": {"$ref": "https://example.com/tree#/$defs/a%20b"}}, "n": {"$anchor": "n", "type": "null"}},
        "properties": {"tree": {"$ref": "#/$defs/a b"}, "none": {"$ref": "#n"}},
    });
    check(
        tree,
        &[
            (json!({"tree": [[], [[]]], "none": null}), "fits"),
            (json!({"tree": [[], [1]]}), "/tree/1/0: it is not of type \"array\""),
            (json!({"none": 1}), "/none: it is not of type \"null\""),
        ],
    );
    for reference in ["#/$defs/none", "#none", "other.json", "file:///etc/passwd", "https://example.com/x"] {
        let error = refused(json!({"properties": {"x": {"$ref": reference}}}));
        assert_eq!(error, format!("at `/properties/x`: `{reference}` is not in the schema"));
    }
}

#[test]
fn beside_a_reference_nothing_counts_until_draft_7() {
    let schema = |version: &str| json!({"$schema": version, "definitions": {"n": {}}, "$ref": "#/definitions/n", "type": "null"});
    check(schema("http://json-schema.org/draft-07/schema#"), &[(json!(1), "fits")]);
    check(
        schema("https://json-schema.org/draft/2020-12/schema"),
        &[(json!(1), "/: it is not of type \"null\"")],
    );
    check(json!({"minimum": 0, "exclusiveMinimum": true}), &[(json!(0), "/: it is not greater than 0")]);
}

#[test]
fn a_schema_that_cannot_be_followed_is_refused() {
    assert_eq!(refused(json!({"type": 7})), "at `/type`: it is not a list of strings");
    assert_eq!(refused(json!({"type": "text"})), "at `/type`: there is no type `text`");
    assert_eq!(refused(json!(3)), "at `/`: a schema is an object, `true` or `false`");
    assert_eq!(
        refused(json!({"properties": {"a": {"required": "a"}}})),
        "at `/properties/a/required`: it is not a list of strings"
    );
    assert_eq!(
        refused(json!({"unevaluatedProperties": false})),
        "at `/`: `unevaluatedProperties` is not supported"
    );
    assert!(refused(json!({"pattern": "^(?!admin)"})).contains("look-around"));
    let many: serde_json::Map<String, Value> = (0..65).map(|n| (format!("^x{n}"), json!({}))).collect();
    assert!(refused(json!({"patternProperties": many})).contains("more than 64 patterns"));
}

#[test]
fn a_schema_that_never_gets_deeper_is_refused() {
    for (schema, place) in [
        (json!({"$ref": "#"}), "/"),
        (json!({"anyOf": [{"type": "null"}, {"$ref": "#"}]}), "/"),
        (json!({"properties": {"a": {"not": {"$ref": "#/properties/a"}}}}), "/properties/a"),
        (
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
            "/$defs/a",
        ),
    ] {
        let error = refused(schema);
        assert!(error.starts_with(&format!("at `{place}`: it refers to itself")), "{error}");
    }
    let list =
        json!({"properties": {"next": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}}, "required": ["next"]});
    check(
        list,
        &[(json!({"next": {"next": null}}), "fits"), (json!({}), "/: \"next\" is a required property")],
    );
}

#[test]
fn no_schema_can_hold_a_thread_or_fill_the_memory() {
    let spent = "/: it cannot be checked: the schema asks for too much work";
    // Thirty lines that ask for a thousand million looks at one value.
    let mut parts = serde_json::Map::new();
    for nth in 0..30 {
        let next = json!({"$ref": format!("#/$defs/{}", nth + 1)});
        parts.insert(nth.to_string(), json!({"allOf": [next, next]}));
    }
    parts.insert("30".into(), json!({"type": "string"}));
    let laughs = json!({"$defs": parts, "$ref": "#/$defs/0"});
    check(laughs.clone(), &[(json!("x"), spent), (json!(1), "/: it is not of type \"string\"")]);
    assert_eq!(SchemaValidator::new(&laughs).expect("a schema").violations(&json!(1), 5).len(), 5);
    // A pattern costs as much as it reads.
    let again = vec![json!({"pattern": "^a*$"}); 20];
    check(
        json!({"allOf": again}),
        &[(json!("a".repeat(64 << 10)), spent), (json!("a".repeat(1 << 10)), "fits")],
    );
}

#[test]
fn a_deep_value_is_checked_to_its_end() {
    let mut value = json!("x");
    for _ in 0..120 {
        value = json!({"next": value});
    }
    let schema = json!({
        "$defs": {"node": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}]}},
        "$ref": "#/$defs/node",
    });
    check(schema, &[(value, "fits")]);
}

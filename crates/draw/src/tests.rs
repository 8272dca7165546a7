//! Laws of the drawings, and small ones word by word.

use std::time::Duration;

use serde_json::json;

use doran_engine::graph::{GraphTopology, TopologyEdge, TopologyNode};

use crate::layout::{DrawingLayout, LinkDirection, PlacedBox, layout};
use crate::route::{DrawingPoint, EdgeRoute, PathSegment};
use crate::{draw_json, draw_mermaid, draw_svg};

#[test]
fn mermaid_shows_branches_dotted_and_deferred_nodes_marked() {
    let drawing = parse_drawing(
        "start > call_model\ncall_model ? call_tools\ncall_model ? sum_up!\ncall_tools > call_model\nsum_up > end",
    );
    let expected = "\
flowchart TD
  n0([\"start\"])
  n1[\"call_model\"]
  n2[\"call_tools\"]
  n3[\"sum_up<br/>deferred\"]
  n4([\"end\"])
  n0 --> n1
  n1 -.-> n2
  n1 -.-> n3
  n2 --> n1
  n3 --> n4
  classDef deferred stroke-dasharray:3 3
  class n3 deferred
";
    assert_eq!(draw_mermaid(&drawing), expected);
}

#[test]
fn mermaid_puts_a_subgraph_in_a_block() {
    let expected = "\
flowchart TD
  n0([\"start\"])
  subgraph n1[\"조사\"]
    n2([\"start\"])
    n3[\"찾기\"]
    n4([\"end\"])
    n2 --> n3
    n3 --> n4
  end
  n5([\"end\"])
  n0 --> n1
  n1 --> n5
";
    assert_eq!(draw_mermaid(&small_nested_drawing()), expected);
}

#[test]
fn no_name_is_mermaid_syntax() {
    let line =
        |name: &str| draw_mermaid(&drawing_with_node(name)).lines().nth(1).expect("a node").trim().to_owned();
    assert_eq!(line("a\"]; b[\"`x`"), "n0[\"a#34;#93;#59; b#91;#34;#96;x#96;\"]");
    assert_eq!(line("%%{init}%% #1;"), "n0[\"#37;#37;#123;init#125;#37;#37; #35;1#59;\"]");
    assert_eq!(line("<b>&\\n</b>"), "n0[\"#60;b#62;#38;#92;n#60;/b#62;\"]");
    assert_eq!(line("두 줄\n이름\r\0"), "n0[\"두 줄<br/>이름  \"]");
    assert_eq!(line(""), "n0[\" \"]");
}

#[test]
fn json_is_what_clients_read() {
    let expected = json!({
        "nodes": [
            { "id": "__start__", "type": "runnable", "data": { "name": "__start__" } },
            { "id": "조사", "type": "runnable", "data": { "name": "조사" }, "inner": {
                "nodes": [
                    { "id": "__start__", "type": "runnable", "data": { "name": "__start__" } },
                    { "id": "찾기", "type": "runnable", "data": { "name": "찾기" } },
                    { "id": "__end__", "type": "runnable", "data": { "name": "__end__" } },
                ],
                "edges": [
                    { "source": "__start__", "target": "찾기" },
                    { "source": "찾기", "target": "__end__" },
                ],
            } },
            { "id": "__end__", "type": "runnable", "data": { "name": "__end__" } },
        ],
        "edges": [{ "source": "__start__", "target": "조사" }, { "source": "조사", "target": "__end__" }],
    });
    assert_eq!(json!(draw_json(&small_nested_drawing())), expected);
    let branch = json!(draw_json(&parse_drawing("start > a\na ? b!\nb > end")));
    assert_eq!(branch["edges"][1], json!({ "source": "a", "target": "b", "conditional": true }));
    assert_eq!(branch["nodes"][2]["deferred"], json!(true));
}

#[test]
fn layouts_keep_the_laws() {
    for (name, drawing) in sample_drawings() {
        check_layout(name, &layout(&drawing));
    }
    for seed in 0..100 {
        check_layout(&format!("seed {seed}"), &layout(&random_drawing(seed, 3 + seed as usize % 25)));
    }
}

#[test]
fn pictures_are_well_formed_and_their_ids_differ() {
    for (name, drawing) in sample_drawings() {
        let svg = draw_svg(&drawing);
        let tags = check_xml(name, &svg);
        assert_eq!(tags.iter().filter(|tag| *tag == "style").count(), 1, "{name}");
        assert!(!tags.iter().any(|tag| tag == "script"), "{name}");
        let mut ids: Vec<&str> =
            svg.split(" id=\"").skip(1).map(|rest| rest.split('"').next().expect("quoted")).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "{name}");
    }
}

#[test]
fn hostile_names_stay_names() {
    for name in [
        "\"><script>alert(1)</script>",
        "]]>",
        "<!--",
        "&lt;",
        "a'b\"c",
        "두\n줄",
        "\0\u{1}\u{FFFF}",
        "",
        " ",
        "x\ty",
    ] {
        check_xml(name, &draw_svg(&drawing_with_node(name)));
    }
    let svg = draw_svg(&drawing_with_node("\"><script>"));
    assert!(
        svg.contains("id=\"node-.22..3e..3c.script.3e.\" data-node=\"&quot;&gt;&lt;script&gt;\""),
        "{svg}"
    );
    assert!(
        draw_svg(&drawing_with_node("두\n줄")).contains("data-node=\"두&#10;줄\""),
        "a page reads the name as it is"
    );
}

#[test]
fn a_page_finds_nodes_and_edges() {
    let svg = draw_svg(&parse_drawing("start > 계획\n계획 ? 실행!\n실행 > 계획\n계획 ? end"));
    for part in [
        "<g class=\"node\" id=\"node-계획\" data-node=\"계획\"><title>계획</title>",
        "<g class=\"node deferred\" id=\"node-실행\" data-node=\"실행\"><title>실행 (deferred)</title>",
        "<g class=\"node start\" id=\"node-__start__\" data-node=\"__start__\"><title>start</title>",
        "<g class=\"edge\" data-source=\"__start__\" data-target=\"계획\">",
        "<g class=\"edge conditional\" data-source=\"계획\" data-target=\"실행\">",
        "<g class=\"edge back\" data-source=\"실행\" data-target=\"계획\">",
    ] {
        assert!(svg.contains(part), "{part} is not in {svg}");
    }
    assert!(
        draw_svg(&small_nested_drawing())
            .contains("id=\"node-조사/찾기\" data-node=\"찾기\" data-in=\"조사\"")
    );
}

#[test]
fn a_wide_name_has_a_wide_box() {
    let width = |name: &str| layout(&drawing_with_node(name)).boxes[0].w;
    assert_eq!(width("가나다라마바사"), width("abcdefghijklmn"));
    assert_eq!(width(&"x".repeat(50)), width(&"x".repeat(5000)), "a long name is cut");
}

#[test]
fn the_end_is_in_the_last_layer_and_cycles_are_cut_where_they_close() {
    let layers = |text: &str| {
        let drawing = parse_drawing(text);
        let layout = layout(&drawing);
        let boxes = layout.boxes.iter().map(|placed| format!("{}{}", placed.drawn.label(), placed.layer));
        let back = layout.routes.iter().filter(|route| route.link.direction == LinkDirection::Back);
        let back = back.map(|route| {
            let [source, target] =
                [route.link.source, route.link.target].map(|at| layout.boxes[at].drawn.label());
            format!("{source}^{target}")
        });
        boxes.chain(back).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(layers("start > a\na ? b\na ? end\nb > c\nc > a"), "start0 a1 b2 c3 end3 c^a");
    assert_eq!(layers("start > a\na > b\nb > c\na > c\nc > end"), "start0 a1 b2 c3 end4");
}

#[test]
fn the_same_drawing_gives_the_same_bytes() {
    let drawing = random_drawing(7, 40);
    assert_eq!(draw_svg(&drawing), draw_svg(&drawing.clone()));
    assert_eq!(draw_mermaid(&drawing), draw_mermaid(&drawing.clone()));
}

/// The time that a processor worked for this thread, whatever else the machine does. Nothing where the system does not tell.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

#[test]
fn five_hundred_nodes_are_drawn() {
    for (name, drawing) in [("tangle", random_drawing(1, 500)), ("chain", chain_drawing(500))] {
        let before = processor_time();
        let svg = draw_svg(&drawing);
        let spent = processor_time().saturating_sub(before);
        // It takes a fraction of a second without optimization. A mistake in the order of growth takes minutes.
        assert!(spent < Duration::from_secs(60), "{name} took {spent:?}");
        assert!(svg.len() < 1_000 * drawing.edges.len(), "{name}: {} bytes", svg.len());
        check_xml(name, &svg);
    }
    check_layout("tangle", &layout(&random_drawing(1, 120)));
}

fn check_layout(name: &str, layout: &DrawingLayout<'_>) {
    let boxes = &layout.boxes;
    for (at, a) in boxes.iter().enumerate() {
        assert!(
            a.x >= 0 && a.y >= 0 && a.x + a.w <= layout.width && a.y + a.h <= layout.height,
            "{name}: in view"
        );
        for b in &boxes[..at] {
            let apart = a.x + a.w < b.x || b.x + b.w < a.x || a.y + a.h < b.y || b.y + b.h < a.y;
            assert!(apart, "{name}: {} and {} overlap", a.label, b.label);
        }
        if let Some(inner) = &a.inner {
            assert!(inner.width < a.w && inner.height < a.h, "{name}: {} holds its graph", a.label);
            check_layout(&format!("{name}/{}", a.label), inner);
        }
    }
    for route in &layout.routes {
        let (source, target) = (&boxes[route.link.source], &boxes[route.link.target]);
        let line = format!("{name}: {} to {}", source.label, target.label);
        assert!(on_border(source, route.from), "{line} does not start at its box");
        assert!(on_border(target, route.tip), "{line} does not end at its box");
        match route.link.direction {
            LinkDirection::Down => {
                assert!(target.layer > source.layer && target.y >= source.y + source.h, "{line} leads down");
            }
            LinkDirection::Back => assert!(target.layer < source.layer, "{line} leads back"),
            LinkDirection::SelfLoop => assert_eq!(route.link.source, route.link.target),
        }
        for (x, y) in points(route) {
            assert!(
                (0..=layout.width).contains(&x) && (0..=layout.height).contains(&y),
                "{line} leaves the view"
            );
            let over = boxes.iter().find(|b| b.x < x && x < b.x + b.w && b.y < y && y < b.y + b.h);
            assert!(over.is_none(), "{line} runs over {}", over.map_or("", |b| &b.label));
        }
    }
}

fn on_border(placed: &PlacedBox<'_>, (x, y): DrawingPoint) -> bool {
    let PlacedBox { x: left, y: top, w, h, .. } = placed;
    let across = (*left..=left + w).contains(&x) && (y == *top || y == top + h);
    let along = (*top..=top + h).contains(&y) && (x == *left || x == left + w);
    across || along
}

/// Points along a line, close enough to meet any box it would cross.
fn points(route: &EdgeRoute) -> Vec<DrawingPoint> {
    let mut points = vec![route.from];
    let mut at = route.from;
    for step in &route.segments {
        let (a, b, to) = match step {
            PathSegment::Line(to) => (at, *to, *to),
            PathSegment::Curve(a, b, to) => (*a, *b, *to),
        };
        let parts = 32 + (to.0 - at.0).abs() / 8 + (to.1 - at.1).abs() / 8;
        for part in 1..=parts {
            let t = f64::from(part) / f64::from(parts);
            let mix = |p: [i32; 4]| {
                let [p0, p1, p2, p3] = p.map(f64::from);
                let u = 1.0 - t;
                (u * u * u * p0 + 3.0 * u * u * t * p1 + 3.0 * u * t * t * p2 + t * t * t * p3).round() as i32
            };
            points.push((mix([at.0, a.0, b.0, to.0]), mix([at.1, a.1, b.1, to.1])));
        }
        at = to;
    }
    points
}

/// A small reader of XML that knows what the pictures use and refuses all else. Returns the tags that were opened.
fn check_xml(name: &str, xml: &str) -> Vec<String> {
    let mut tags = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    let check_text = |text: &str| {
        assert!(!text.contains(['<', '>']), "{name}: bare bracket in {text}");
        assert!(
            text.chars().all(|c| c >= ' ' || c == '\n') && !text.contains(['\u{FFFE}', '\u{FFFF}']),
            "{name}: {text}"
        );
        for entity in text.split('&').skip(1) {
            let entity = entity.split_once(';').unwrap_or_else(|| panic!("{name}: bare & in {text}")).0;
            let known = ["amp", "lt", "gt", "quot"].contains(&entity);
            assert!(
                known || entity.strip_prefix('#').is_some_and(|n| n.parse::<u32>().is_ok()),
                "{name}: &{entity};"
            );
        }
    };
    while let Some((text, after)) = rest.split_once('<') {
        check_text(text);
        let (tag, after) = after.split_once('>').unwrap_or_else(|| panic!("{name}: a tag does not end"));
        rest = after;
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "{name}");
            continue;
        }
        let (tag, is_open) = tag.strip_suffix('/').map_or((tag, true), |tag| (tag, false));
        let (element, mut attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(element.chars().all(|c| c.is_ascii_lowercase()), "{name}: <{element}>");
        assert!(!open.is_empty() || tags.is_empty(), "{name}: one root");
        tags.push(element.to_owned());
        if is_open {
            open.push(element);
        }
        let mut seen = Vec::new();
        while !attributes.trim().is_empty() {
            let (key, after) = attributes.split_once("=\"").unwrap_or_else(|| panic!("{name}: {attributes}"));
            let (value, after) = after.split_once('"').unwrap_or_else(|| panic!("{name}: {attributes}"));
            let key = key.trim();
            assert!(
                !key.is_empty() && key.chars().all(|c| c.is_ascii_alphabetic() || c == '-'),
                "{name}: {key}"
            );
            assert!(!seen.contains(&key), "{name}: {key} twice");
            seen.push(key);
            check_text(value);
            attributes = after;
        }
    }
    check_text(rest);
    assert!(open.is_empty(), "{name}: {open:?} stay open");
    tags
}

fn drawing_with_node(name: &str) -> GraphTopology {
    let node = TopologyNode { id: name.to_owned(), deferred: false, inner: None };
    GraphTopology { nodes: vec![node], edges: Vec::new() }
}

fn small_nested_drawing() -> GraphTopology {
    let mut drawing = parse_drawing("start > 조사\n조사 > end");
    drawing.nodes[0].inner = Some(Box::new(parse_drawing("start > 찾기\n찾기 > end")));
    drawing
}

fn chain_drawing(count: usize) -> GraphTopology {
    let steps: String = (1..count).map(|at| format!("n{} > n{at}\nn{at} ? end\n", at - 1)).collect();
    parse_drawing(&format!("start > n0\n{steps}"))
}

/// A graph with about three edges a node, in any direction.
fn random_drawing(seed: u64, count: usize) -> GraphTopology {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut text = String::from("start > n0\n");
    for at in 0..count {
        for _ in 0..1 + next(4) {
            match next(12) {
                0 => text += &format!("n{at} ? end\n"),
                _ => text += &format!("n{at} {} n{}\n", [">", "?"][next(2)], next(count)),
            }
        }
    }
    parse_drawing(&text)
}

/// Reads `a > b` as an edge and `a ? b` as one of a branch; `start` and `end` are the ends, and `name!` is deferred.
fn parse_drawing(text: &str) -> GraphTopology {
    let mut drawing = GraphTopology::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (source, target, conditional) = match (line.split_once(" > "), line.split_once(" ? ")) {
            (Some((source, target)), _) => (source, target, false),
            (None, Some((source, target))) => (source, target, true),
            (None, None) => panic!("no edge: {line}"),
        };
        let mut end = |name: &str| match name {
            "start" => "__start__".to_owned(),
            "end" => "__end__".to_owned(),
            _ => {
                let id = name.trim_end_matches('!').to_owned();
                if !drawing.nodes.iter().any(|node| node.id == id) {
                    let deferred = name.ends_with('!');
                    drawing.nodes.push(TopologyNode { id: id.clone(), deferred, inner: None });
                }
                id
            }
        };
        let edge = TopologyEdge { source: end(source), target: end(target), conditional };
        drawing.edges.push(edge);
    }
    drawing
}

fn sample_drawings() -> Vec<(&'static str, GraphTopology)> {
    let contract = parse_drawing(
        "start > scope_validator
         scope_validator ? check_previous_context
         scope_validator ? respond
         check_previous_context > planner
         planner ? executor
         planner ? parallel_executor
         executor > evaluator
         parallel_executor > evaluator
         evaluator ? planner
         evaluator ? executor
         evaluator ? respond
         respond > end",
    );
    let fan: String = (0..10).map(|at| format!("plan ? look_{at}\nlook_{at} > join!\n")).collect();
    let hub: String =
        (0..6).map(|at| format!("supervisor ? worker_{at}\nworker_{at} > supervisor\n")).collect();
    let mut nested = parse_drawing(
        "start > intake\nintake ? research\nintake ? refuse\nresearch > write\nwrite ? research\nwrite ? end\nrefuse > end",
    );
    nested.nodes[1].inner =
        Some(Box::new(parse_drawing("start > search\nsearch ? read_page\nread_page > search\nsearch ? end")));
    let mut twice = parse_drawing("start > outer\nouter > outer_b!\nouter_b > end");
    twice.nodes[0].inner = Some(Box::new(nested.clone()));
    twice.nodes[1].inner = Some(Box::new(parse_drawing("start > one\none > end")));
    vec![
        ("contract", contract),
        ("fan", parse_drawing(&format!("start > plan\n{fan}join > end"))),
        ("hub", parse_drawing(&format!("start > supervisor\n{hub}supervisor ? end"))),
        ("nested", nested),
        ("twice", twice),
        (
            "react",
            parse_drawing(
                "start > call_model\ncall_model ? call_tools\ncall_model ? end\ncall_tools > call_model",
            ),
        ),
        (
            "korean",
            parse_drawing(
                "start > 질문 분류\n질문 분류 ? 사내 규정 검색\n질문 분류 ? 계약서 검토\n질문 분류 ? 답변 거절\n사내 규정 검색 > 답변 작성\n계약서 검토 > 답변 작성\n답변 작성 ? 답변 작성\n답변 작성 ? 질문 분류\n답변 작성 ? end\n답변 거절 > end",
            ),
        ),
        (
            "skips",
            parse_drawing(
                "start > a\na > b\nb > c\nc > d\nd > e\na ? e\nb ? end\nc ? end\ne > end\nd ? b\ne ? a",
            ),
        ),
        (
            "hostile",
            parse_drawing(
                "start > \"><script>alert(1)</script>\n\"><script>alert(1)</script> > ]]>&amp;'\n]]>&amp;' > a very long name that goes on and on and on until nobody reads it\na very long name that goes on and on and on until nobody reads it > end",
            ),
        ),
        (
            "chain",
            parse_drawing(&format!(
                "start > n0\n{}n29 > end",
                (0..29).map(|at| format!("n{at} > n{}\nn{at} ? end\n", at + 1)).collect::<String>()
            )),
        ),
        ("empty", GraphTopology::default()),
        (
            "lonely",
            GraphTopology {
                nodes: vec![TopologyNode { id: "alone".into(), deferred: false, inner: None }],
                edges: vec![],
            },
        ),
    ]
}

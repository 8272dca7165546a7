//! Writes a layout as SVG. Presentation attributes carry the looks, so that the picture is whole in programs that
//! know no style sheets and in pages that forbid them; the style sheet adds what a page may set.

use std::fmt::{self, Write as _};

use doran_engine::graph::GraphTopology;

use crate::DrawnBoxKind;
use crate::layout::{DrawingLayout, LinkDirection, PlacedBox, SUBGRAPH_PADDING, layout};
use crate::route::{ARROW_HEAD_LENGTH, ArrowHeading, EdgeRoute, PathSegment};

/// Selectors in `:where` weigh nothing, so that any rule of the page wins.
const SVG_STYLE: &str = "\
.graph:root{color:#1f2328}\
@media(prefers-color-scheme:dark){.graph:root{color:#e6edf3;background:#0d1117}}\
:where(.graph .box){fill:var(--graph-box,currentColor);stroke:var(--graph-line,currentColor)}\
:where(.graph .line){stroke:var(--graph-line,currentColor)}\
:where(.graph .head){fill:var(--graph-line,currentColor)}\
:where(.graph text){fill:var(--graph-text,currentColor)}";

/// Around the whole picture.
const PICTURE_MARGIN: i32 = 12;

pub(super) fn render_svg(topology: &GraphTopology) -> String {
    SvgPicture(layout(topology)).to_string()
}

struct SvgPicture<'a>(DrawingLayout<'a>);

impl fmt::Display for SvgPicture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_document(f, &self.0)
    }
}

fn write_document(out: &mut fmt::Formatter<'_>, layout: &DrawingLayout<'_>) -> fmt::Result {
    let (width, height) = (layout.width + 2 * PICTURE_MARGIN, layout.height + 2 * PICTURE_MARGIN);
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"graph\" role=\"img\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"{} {} {width} {height}\" font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,monospace\" \
         font-size=\"13\" text-anchor=\"middle\" fill=\"currentColor\">",
        -PICTURE_MARGIN, -PICTURE_MARGIN
    )?;
    let names: Vec<&str> = layout.boxes.iter().map(|placed| placed.drawn.label()).collect();
    writeln!(out, "<title>Graph: {}</title>", XmlText(&names.join(", ")))?;
    writeln!(out, "<style>{SVG_STYLE}</style>")?;
    write_graph(out, layout, &[])?;
    writeln!(out, "</svg>")
}

fn write_graph(out: &mut fmt::Formatter<'_>, layout: &DrawingLayout<'_>, path: &[&str]) -> fmt::Result {
    // Faded as a whole, so that lines that share a stretch are no darker there.
    writeln!(out, "<g class=\"edges\" opacity=\"0.75\">")?;
    for route in &layout.routes {
        write_edge(out, layout, route)?;
    }
    writeln!(out, "</g>")?;
    for placed in &layout.boxes {
        write_node(out, placed, path)?;
        if let Some(inner) = &placed.inner {
            // The inner graph stands in the middle when the name is the wider of the two.
            let (x, y) = (
                placed.x + (placed.w - inner.width) / 2,
                placed.y + placed.h - SUBGRAPH_PADDING - inner.height,
            );
            writeln!(out, "<g class=\"inner\" transform=\"translate({x} {y})\">")?;
            let path: Vec<&str> = path.iter().copied().chain([placed.drawn.id]).collect();
            write_graph(out, inner, &path)?;
            writeln!(out, "</g>")?;
        }
    }
    Ok(())
}

fn write_node(out: &mut fmt::Formatter<'_>, placed: &PlacedBox<'_>, path: &[&str]) -> fmt::Result {
    let PlacedBox { drawn: shown, x, y, w, h, .. } = placed;
    let class = match shown.kind {
        DrawnBoxKind::Start => " start",
        DrawnBoxKind::Node => "",
        DrawnBoxKind::End => " end",
    };
    let deferred = if shown.is_deferred() { " deferred" } else { "" };
    let sub = if placed.inner.is_some() { " subgraph" } else { "" };
    write!(out, "<g class=\"node{class}{sub}{deferred}\" id=\"node-")?;
    for outer in path {
        write!(out, "{}/", XmlId(outer))?;
    }
    write!(out, "{}\" data-node=\"{}\"", XmlId(shown.id), XmlText(shown.id))?;
    if !path.is_empty() {
        write!(out, " data-in=\"{}\"", XmlText(&path.join("/")))?;
    }
    write!(out, "><title>{}", XmlText(shown.label()))?;
    if shown.is_deferred() {
        write!(out, " (deferred)")?;
    }
    write!(out, "</title>")?;
    let (radius, tint) = match (shown.kind, &placed.inner) {
        (DrawnBoxKind::Start | DrawnBoxKind::End, _) => (h / 2, "0.14"),
        (DrawnBoxKind::Node, Some(_)) => (12, "0.03"),
        (DrawnBoxKind::Node, None) => (8, "0.06"),
    };
    write!(
        out,
        "<rect class=\"box\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" rx=\"{radius}\" fill=\"currentColor\" \
         fill-opacity=\"{tint}\" stroke=\"currentColor\" stroke-opacity=\"0.55\"/>"
    )?;
    // A line of text looks centred when it stands a third of its size below the middle.
    let base = match (&placed.inner, shown.is_deferred()) {
        (Some(_), true) => y + 20,
        (Some(_), false) => y + 21,
        (None, true) => y + h / 2 - 2,
        (None, false) => y + h / 2 + 4,
    };
    let middle = x + w / 2;
    write!(out, "<text x=\"{middle}\" y=\"{base}\">{}</text>", XmlText(&placed.label))?;
    if shown.is_deferred() {
        let base = base + 13;
        write!(
            out,
            "<text class=\"note\" x=\"{middle}\" y=\"{base}\" font-size=\"10\" opacity=\"0.7\">deferred</text>"
        )?;
    }
    writeln!(out, "</g>")
}

fn write_edge(out: &mut fmt::Formatter<'_>, layout: &DrawingLayout<'_>, route: &EdgeRoute) -> fmt::Result {
    let [source, target] = [route.link.source, route.link.target].map(|at| &layout.boxes[at].drawn);
    let back = match route.link.direction {
        LinkDirection::Down => "",
        LinkDirection::Back | LinkDirection::SelfLoop => " back",
    };
    let (conditional, dashes) =
        if route.link.conditional { (" conditional", " stroke-dasharray=\"5 4\"") } else { ("", "") };
    write!(
        out,
        "<g class=\"edge{conditional}{back}\" data-source=\"{}\" data-target=\"{}\"><title>{} → {}</title>",
        XmlText(source.id),
        XmlText(target.id),
        XmlText(source.label()),
        XmlText(target.label())
    )?;
    write!(out, "<path class=\"line\" d=\"M{} {}", route.from.0, route.from.1)?;
    for step in &route.segments {
        match step {
            PathSegment::Line((x, y)) => write!(out, "L{x} {y}")?,
            PathSegment::Curve(a, b, to) => {
                write!(out, "C{} {} {} {} {} {}", a.0, a.1, b.0, b.1, to.0, to.1)?
            }
        }
    }
    write!(out, "\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.3\"{dashes}/>")?;
    // The two corners of the head, from its point.
    let (a, b) = match route.heading {
        ArrowHeading::Down => ((-4, -ARROW_HEAD_LENGTH - 1), (8, 0)),
        ArrowHeading::Up => ((-4, ARROW_HEAD_LENGTH + 1), (8, 0)),
        ArrowHeading::Left => ((ARROW_HEAD_LENGTH + 1, -4), (0, 8)),
        ArrowHeading::Right => ((-ARROW_HEAD_LENGTH - 1, -4), (0, 8)),
    };
    let (x, y) = route.tip;
    writeln!(out, "<path class=\"head\" d=\"M{x} {y}l{} {}l{} {}z\"/></g>", a.0, a.1, b.0, b.1)
}

/// Any text, safe between tags and in attributes. What XML cannot hold at all becomes U+FFFD.
struct XmlText<'a>(&'a str);

impl fmt::Display for XmlText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // Written bare, a reader would make spaces of them in an attribute.
                '\t' | '\n' | '\r' => write!(f, "&#{};", u32::from(c))?,
                '\0'..'\u{20}' | '\u{FFFE}' | '\u{FFFF}' => f.write_char('\u{FFFD}')?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// A name as part of an id: different names stay different, and no sign in it needs an escape in XML.
struct XmlId<'a>(&'a str);

impl fmt::Display for XmlId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '_' | '-' => f.write_char(c)?,
                _ if c.is_alphanumeric() => f.write_char(c)?,
                _ => write!(f, ".{:x}.", u32::from(c))?,
            }
        }
        Ok(())
    }
}

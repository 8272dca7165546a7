//! How lines run between placed boxes. Lines bend only in the gaps between layers and pass a layer straight, in room
//! that was kept for them or beyond its boxes, so that none runs over a box.

use crate::grid::LayerGrid;
use crate::layout::{LayoutLink, LinkDirection, PlacedBox};

/// How far an edge from a box to itself reaches out.
pub(super) const SELF_LOOP_REACH: i32 = 28;
/// Length of an arrow's head. Lines are straight for that long at both ends of a gap.
pub(super) const ARROW_HEAD_LENGTH: i32 = 8;
/// Between two lines at the side.
const LANE_SPACING: i32 = 16;
/// From the middle of a box to the lines down and to the lines back, where it has both.
const PORT_OFFSET: i32 = 10;
const CORNER_RADIUS: i32 = 10;
/// Kept free around everything.
const ROUTE_MARGIN: i32 = 4;

pub(super) type DrawingPoint = (i32, i32);

/// A line from the border of one box to the border of another.
pub(super) struct EdgeRoute {
    pub link: LayoutLink,
    pub from: DrawingPoint,
    pub segments: Vec<PathSegment>,
    /// The arrow's point, on the border of the target; the line ends a head's length before it.
    pub tip: DrawingPoint,
    pub heading: ArrowHeading,
}

pub(super) enum PathSegment {
    Line(DrawingPoint),
    /// Two control points, then where it ends.
    Curve(DrawingPoint, DrawingPoint, DrawingPoint),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ArrowHeading {
    Up,
    Down,
    Left,
    Right,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LaneSide {
    Left,
    Right,
}

/// The course of a link before heights are known.
enum LinkCourse {
    /// Through the layers from the upper box to the lower: its place at each.
    Through(Vec<i32>),
    /// Out at the side of one box, along a lane, in at the side of the other.
    Around(LaneSide, i32),
    SelfLoop,
}

/// Gives the boxes their heights and moves all into view; returns width, height and the lines.
pub(super) fn route_links(
    boxes: &mut [PlacedBox<'_>],
    links: &[LayoutLink],
    grid: &LayerGrid,
) -> (i32, i32, Vec<EdgeRoute>) {
    let sides: Vec<Option<LaneSide>> =
        links.iter().map(|link| choose_side(link, boxes, links, grid)).collect();
    let mut extents: Vec<(i32, i32)> = grid
        .layers
        .iter()
        .map(|layer| {
            let items = || layer.iter().map(|item| &grid.items[*item]);
            let left = items().map(|item| item.x - item.w / 2).min().unwrap_or(0);
            (left, items().map(|item| item.x + item.w / 2).max().unwrap_or(0))
        })
        .collect();
    let mut courses = link_courses(boxes, links, grid, &sides, &mut extents);

    let shift = ROUTE_MARGIN - extents.iter().map(|extent| extent.0).min().unwrap_or(0);
    let width = extents.iter().map(|extent| extent.1).max().unwrap_or(0) + shift + ROUTE_MARGIN;
    for placed in boxes.iter_mut() {
        placed.x += shift;
    }
    for course in &mut courses {
        match course {
            LinkCourse::Through(xs) => xs.iter_mut().for_each(|x| *x += shift),
            LinkCourse::Around(_, lane) => *lane += shift,
            LinkCourse::SelfLoop => {}
        }
    }

    let bands = layer_bands(boxes, links, &courses, grid.layers.len());
    for placed in boxes.iter_mut() {
        let (top, bottom) = bands[placed.layer];
        placed.y = (top + bottom - placed.h) / 2;
    }
    let height = bands.last().map_or(0, |band| band.1) + ROUTE_MARGIN;
    let pen = RoutePainter { boxes, bands: &bands, links, sides: &sides };
    let routes = links.iter().zip(courses).map(|(link, course)| pen.draw(*link, course)).collect();
    (width, height, routes)
}

/// At which side a link back runs around, if nothing stands between its boxes and that side.
fn choose_side(
    link: &LayoutLink,
    boxes: &[PlacedBox<'_>],
    links: &[LayoutLink],
    grid: &LayerGrid,
) -> Option<LaneSide> {
    let ends = [link.source, link.target];
    if link.direction != LinkDirection::Back || boxes[link.source].layer - boxes[link.target].layer < 2 {
        return None;
    }
    let is_box = |item: &&usize| **item < boxes.len();
    let is_last = |at: &usize| grid.layers[boxes[*at].layer].iter().rfind(is_box) == Some(at);
    let is_first = |at: &usize| grid.layers[boxes[*at].layer].iter().find(is_box) == Some(at);
    let has_own =
        |at: &usize| links.iter().any(|link| link.direction == LinkDirection::SelfLoop && link.source == *at);
    if ends.iter().all(|at| is_last(at) && !has_own(at)) {
        Some(LaneSide::Right)
    } else if ends.iter().all(is_first) {
        Some(LaneSide::Left)
    } else {
        None
    }
}

fn link_courses(
    boxes: &[PlacedBox<'_>],
    links: &[LayoutLink],
    grid: &LayerGrid,
    sides: &[Option<LaneSide>],
    extents: &mut [(i32, i32)],
) -> Vec<LinkCourse> {
    // Whether lines down and lines back meet the top, and the bottom, of a box.
    let mut tops = vec![[false; 2]; boxes.len()];
    let mut bottoms = vec![[false; 2]; boxes.len()];
    for (link, _) in links.iter().zip(sides).filter(|(_, side)| side.is_none()) {
        match link.direction {
            LinkDirection::Down => (bottoms[link.source][0], tops[link.target][0]) = (true, true),
            LinkDirection::Back => (tops[link.source][1], bottoms[link.target][1]) = (true, true),
            LinkDirection::SelfLoop => {}
        }
    }
    let port = |at: usize, meets: &[[bool; 2]], apart: i32| {
        grid.items[at].x + if meets[at] == [true, true] { apart } else { 0 }
    };
    let span = |link: &LayoutLink| boxes[link.source].layer.abs_diff(boxes[link.target].layer);
    let mut courses: Vec<LinkCourse> = links.iter().map(|_| LinkCourse::SelfLoop).collect();
    // Short ones first, so that long ones run outside of them.
    let mut order: Vec<usize> =
        (0..links.len()).filter(|at| links[*at].direction != LinkDirection::SelfLoop).collect();
    order.sort_by_key(|at| (span(&links[*at]), *at));
    for at in order {
        let link = &links[at];
        let (upper, lower, apart) = match link.direction {
            LinkDirection::Back => (link.target, link.source, PORT_OFFSET),
            LinkDirection::Down | LinkDirection::SelfLoop => (link.source, link.target, -PORT_OFFSET),
        };
        let (top, bottom) = (boxes[upper].layer, boxes[lower].layer);
        if let Some(side) = sides[at] {
            courses[at] = LinkCourse::Around(side, next_free_lane(&mut extents[top..=bottom], side));
            continue;
        }
        let mut xs = vec![port(upper, &bottoms, apart)];
        if !grid.bends[at].is_empty() {
            xs.extend(grid.bends[at].iter().map(|bend| grid.items[*bend].x));
        } else if bottom - top > 1 {
            let side = if link.direction == LinkDirection::Back { LaneSide::Right } else { LaneSide::Left };
            let x = next_free_lane(&mut extents[top + 1..bottom], side);
            xs.resize(bottom - top, x);
        }
        xs.push(port(lower, &tops, apart));
        courses[at] = LinkCourse::Through(xs);
    }
    courses
}

/// Takes the next free lane beside these layers.
fn next_free_lane(extents: &mut [(i32, i32)], side: LaneSide) -> i32 {
    match side {
        LaneSide::Right => {
            let x = extents.iter().map(|extent| extent.1).max().unwrap_or(0) + LANE_SPACING;
            extents.iter_mut().for_each(|extent| extent.1 = x);
            x
        }
        LaneSide::Left => {
            let x = extents.iter().map(|extent| extent.0).min().unwrap_or(0) - LANE_SPACING;
            extents.iter_mut().for_each(|extent| extent.0 = x);
            x
        }
    }
}

/// The top and bottom of each layer. A gap is higher where lines go far aside in it.
fn layer_bands(
    boxes: &[PlacedBox<'_>],
    links: &[LayoutLink],
    courses: &[LinkCourse],
    count: usize,
) -> Vec<(i32, i32)> {
    let mut heights = vec![0; count];
    for placed in boxes {
        heights[placed.layer] = heights[placed.layer].max(placed.h);
    }
    let mut aside = vec![0; count];
    for (link, course) in links.iter().zip(courses) {
        if let LinkCourse::Through(xs) = course {
            let top = boxes[link.source].layer.min(boxes[link.target].layer);
            for (gap, pair) in xs.windows(2).enumerate() {
                aside[top + gap] = aside[top + gap].max((pair[0] - pair[1]).abs());
            }
        }
    }
    let mut y = ROUTE_MARGIN;
    let mut bands = Vec::new();
    for (height, aside) in heights.into_iter().zip(aside) {
        bands.push((y, y + height));
        y += height + 40 + (aside / 12).min(60);
    }
    bands
}

struct RoutePainter<'p, 'a> {
    boxes: &'p [PlacedBox<'a>],
    bands: &'p [(i32, i32)],
    links: &'p [LayoutLink],
    sides: &'p [Option<LaneSide>],
}

impl RoutePainter<'_, '_> {
    fn draw(&self, link: LayoutLink, course: LinkCourse) -> EdgeRoute {
        match (course, link.direction) {
            (LinkCourse::SelfLoop, _) => self.draw_self_loop(link),
            (LinkCourse::Around(side, lane), _) => self.draw_around(link, side, lane),
            (LinkCourse::Through(xs), LinkDirection::Back) => self.draw_up(link, &xs),
            (LinkCourse::Through(xs), LinkDirection::Down | LinkDirection::SelfLoop) => {
                self.draw_down(link, &xs)
            }
        }
    }

    fn draw_down(&self, link: LayoutLink, xs: &[i32]) -> EdgeRoute {
        let (source, target) = (&self.boxes[link.source], &self.boxes[link.target]);
        let from = (xs[0], source.y + source.h);
        let mut steps = Vec::new();
        for (at, pair) in xs.windows(2).enumerate() {
            let layer = source.layer + at;
            append_bend(
                &mut steps,
                (pair[0], self.bands[layer].1 + ARROW_HEAD_LENGTH),
                (pair[1], self.bands[layer + 1].0 - ARROW_HEAD_LENGTH),
            );
        }
        let tip = (xs[xs.len() - 1], target.y);
        append_vertical(&mut steps, (tip.0, tip.1 - ARROW_HEAD_LENGTH));
        EdgeRoute { link, from, segments: steps, tip, heading: ArrowHeading::Down }
    }

    fn draw_up(&self, link: LayoutLink, xs: &[i32]) -> EdgeRoute {
        let (source, target) = (&self.boxes[link.source], &self.boxes[link.target]);
        let from = (xs[xs.len() - 1], source.y);
        let mut steps = Vec::new();
        for (at, pair) in xs.windows(2).enumerate().rev() {
            let layer = target.layer + at;
            append_bend(
                &mut steps,
                (pair[1], self.bands[layer + 1].0 - ARROW_HEAD_LENGTH),
                (pair[0], self.bands[layer].1 + ARROW_HEAD_LENGTH),
            );
        }
        let tip = (xs[0], target.y + target.h);
        append_vertical(&mut steps, (tip.0, tip.1 + ARROW_HEAD_LENGTH));
        EdgeRoute { link, from, segments: steps, tip, heading: ArrowHeading::Up }
    }

    fn draw_around(&self, link: LayoutLink, side: LaneSide, lane: i32) -> EdgeRoute {
        let (source, target) = (&self.boxes[link.source], &self.boxes[link.target]);
        let (sign, heading) = match side {
            LaneSide::Right => (1, ArrowHeading::Left),
            LaneSide::Left => (-1, ArrowHeading::Right),
        };
        let border = |placed: &PlacedBox<'_>| match side {
            LaneSide::Right => placed.x + placed.w,
            LaneSide::Left => placed.x,
        };
        // What comes in comes from below, and what goes out goes up: so they do not cross where a box has both.
        let both = |at: usize| {
            self.has_link_at_side(side, |link| link.source == at)
                && self.has_link_at_side(side, |link| link.target == at)
        };
        let from_y = source.y + source.h / 2 - if both(link.source) { 7 } else { 0 };
        let tip_y = target.y + target.h / 2 + if both(link.target) { 7 } else { 0 };
        let (from, tip) = ((border(source), from_y), (border(target), tip_y));
        let inside = lane - sign * CORNER_RADIUS;
        let steps = vec![
            PathSegment::Line((inside, from_y)),
            PathSegment::Curve((lane, from_y), (lane, from_y), (lane, from_y - CORNER_RADIUS)),
            PathSegment::Line((lane, tip_y + CORNER_RADIUS)),
            PathSegment::Curve((lane, tip_y), (lane, tip_y), (inside, tip_y)),
            PathSegment::Line((tip.0 + sign * ARROW_HEAD_LENGTH, tip_y)),
        ];
        EdgeRoute { link, from, segments: steps, tip, heading }
    }

    fn has_link_at_side(&self, side: LaneSide, wanted: impl Fn(&LayoutLink) -> bool) -> bool {
        self.links.iter().zip(self.sides).any(|(link, of)| *of == Some(side) && wanted(link))
    }

    fn draw_self_loop(&self, link: LayoutLink) -> EdgeRoute {
        let placed = &self.boxes[link.source];
        let (right, middle) = (placed.x + placed.w, placed.y + placed.h / 2);
        let reach = right + SELF_LOOP_REACH + ARROW_HEAD_LENGTH;
        let tip = (right, middle + 8);
        let curve = PathSegment::Curve(
            (reach, middle - 8),
            (reach, middle + 8),
            (right + ARROW_HEAD_LENGTH, middle + 8),
        );
        EdgeRoute { link, from: (right, middle - 8), segments: vec![curve], tip, heading: ArrowHeading::Left }
    }
}

/// Straight to `from`, then over to `to`, upright at both ends.
fn append_bend(steps: &mut Vec<PathSegment>, from: DrawingPoint, to: DrawingPoint) {
    append_vertical(steps, from);
    if from.0 == to.0 {
        append_vertical(steps, to);
    } else {
        let middle = (from.1 + to.1) / 2;
        steps.push(PathSegment::Curve((from.0, middle), (to.0, middle), to));
    }
}

/// Straight up or down to a point. A line that already runs that way grows.
fn append_vertical(steps: &mut Vec<PathSegment>, to: DrawingPoint) {
    match steps.last_mut() {
        Some(PathSegment::Line(end)) => *end = to,
        Some(PathSegment::Curve(..)) | None => steps.push(PathSegment::Line(to)),
    }
}

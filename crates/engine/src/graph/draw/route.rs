//! How lines run between placed boxes. Lines bend only in the gaps between layers and pass a layer straight, in room
//! that was kept for them or beyond its boxes, so that none runs over a box.

use crate::graph::draw::grid::Grid;
use crate::graph::draw::layout::{Link, LinkWay, Placed};

/// How far an edge from a box to itself reaches out.
pub(super) const OWN: i32 = 28;
/// Length of an arrow's head. Lines are straight for that long at both ends of a gap.
pub(super) const HEAD: i32 = 8;
/// Between two lines at the side.
const LANE: i32 = 16;
/// From the middle of a box to the lines down and to the lines back, where it has both.
const APART: i32 = 10;
const CORNER: i32 = 10;
/// Kept free around everything.
const MARGIN: i32 = 4;

pub(super) type Point = (i32, i32);

/// A line from the border of one box to the border of another.
pub(super) struct Route {
    pub link: Link,
    pub from: Point,
    pub steps: Vec<Step>,
    /// The arrow's point, on the border of the target; the line ends a head's length before it.
    pub tip: Point,
    pub heading: Heading,
}

pub(super) enum Step {
    Line(Point),
    /// Two control points, then where it ends.
    Curve(Point, Point, Point),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Heading {
    Up,
    Down,
    Left,
    Right,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// The course of a link before heights are known.
enum Course {
    /// Through the layers from the upper box to the lower: its place at each.
    Through(Vec<i32>),
    /// Out at the side of one box, along a lane, in at the side of the other.
    Around(Side, i32),
    Own,
}

/// Gives the boxes their heights and moves all into view; returns width, height and the lines.
pub(super) fn route(boxes: &mut [Placed<'_>], links: &[Link], grid: &Grid) -> (i32, i32, Vec<Route>) {
    let sides: Vec<Option<Side>> = links.iter().map(|link| side(link, boxes, links, grid)).collect();
    let mut extents: Vec<(i32, i32)> = grid
        .layers
        .iter()
        .map(|layer| {
            let items = || layer.iter().map(|item| &grid.items[*item]);
            let left = items().map(|item| item.x - item.w / 2).min().unwrap_or(0);
            (left, items().map(|item| item.x + item.w / 2).max().unwrap_or(0))
        })
        .collect();
    let mut courses = courses(boxes, links, grid, &sides, &mut extents);

    let shift = MARGIN - extents.iter().map(|extent| extent.0).min().unwrap_or(0);
    let width = extents.iter().map(|extent| extent.1).max().unwrap_or(0) + shift + MARGIN;
    for placed in boxes.iter_mut() {
        placed.x += shift;
    }
    for course in &mut courses {
        match course {
            Course::Through(xs) => xs.iter_mut().for_each(|x| *x += shift),
            Course::Around(_, lane) => *lane += shift,
            Course::Own => {}
        }
    }

    let bands = bands(boxes, links, &courses, grid.layers.len());
    for placed in boxes.iter_mut() {
        let (top, bottom) = bands[placed.layer];
        placed.y = (top + bottom - placed.h) / 2;
    }
    let height = bands.last().map_or(0, |band| band.1) + MARGIN;
    let pen = Pen { boxes, bands: &bands, links, sides: &sides };
    let routes = links.iter().zip(courses).map(|(link, course)| pen.draw(*link, course)).collect();
    (width, height, routes)
}

/// At which side a link back runs around, if nothing stands between its boxes and that side.
fn side(link: &Link, boxes: &[Placed<'_>], links: &[Link], grid: &Grid) -> Option<Side> {
    let ends = [link.source, link.target];
    if link.way != LinkWay::Back || boxes[link.source].layer - boxes[link.target].layer < 2 {
        return None;
    }
    let is_box = |item: &&usize| **item < boxes.len();
    let is_last = |at: &usize| grid.layers[boxes[*at].layer].iter().rfind(is_box) == Some(at);
    let is_first = |at: &usize| grid.layers[boxes[*at].layer].iter().find(is_box) == Some(at);
    let has_own = |at: &usize| links.iter().any(|link| link.way == LinkWay::Own && link.source == *at);
    if ends.iter().all(|at| is_last(at) && !has_own(at)) {
        Some(Side::Right)
    } else if ends.iter().all(is_first) {
        Some(Side::Left)
    } else {
        None
    }
}

fn courses(
    boxes: &[Placed<'_>],
    links: &[Link],
    grid: &Grid,
    sides: &[Option<Side>],
    extents: &mut [(i32, i32)],
) -> Vec<Course> {
    // Whether lines down and lines back meet the top, and the bottom, of a box.
    let mut tops = vec![[false; 2]; boxes.len()];
    let mut bottoms = vec![[false; 2]; boxes.len()];
    for (link, _) in links.iter().zip(sides).filter(|(_, side)| side.is_none()) {
        match link.way {
            LinkWay::Down => (bottoms[link.source][0], tops[link.target][0]) = (true, true),
            LinkWay::Back => (tops[link.source][1], bottoms[link.target][1]) = (true, true),
            LinkWay::Own => {}
        }
    }
    let port = |at: usize, meets: &[[bool; 2]], apart: i32| {
        grid.items[at].x + if meets[at] == [true, true] { apart } else { 0 }
    };
    let span = |link: &Link| boxes[link.source].layer.abs_diff(boxes[link.target].layer);
    let mut courses: Vec<Course> = links.iter().map(|_| Course::Own).collect();
    // Short ones first, so that long ones run outside of them.
    let mut order: Vec<usize> = (0..links.len()).filter(|at| links[*at].way != LinkWay::Own).collect();
    order.sort_by_key(|at| (span(&links[*at]), *at));
    for at in order {
        let link = &links[at];
        let (upper, lower, apart) = match link.way {
            LinkWay::Back => (link.target, link.source, APART),
            LinkWay::Down | LinkWay::Own => (link.source, link.target, -APART),
        };
        let (top, bottom) = (boxes[upper].layer, boxes[lower].layer);
        if let Some(side) = sides[at] {
            courses[at] = Course::Around(side, lane(&mut extents[top..=bottom], side));
            continue;
        }
        let mut xs = vec![port(upper, &bottoms, apart)];
        if !grid.bends[at].is_empty() {
            xs.extend(grid.bends[at].iter().map(|bend| grid.items[*bend].x));
        } else if bottom - top > 1 {
            let side = if link.way == LinkWay::Back { Side::Right } else { Side::Left };
            let x = lane(&mut extents[top + 1..bottom], side);
            xs.resize(bottom - top, x);
        }
        xs.push(port(lower, &tops, apart));
        courses[at] = Course::Through(xs);
    }
    courses
}

/// Takes the next free lane beside these layers.
fn lane(extents: &mut [(i32, i32)], side: Side) -> i32 {
    match side {
        Side::Right => {
            let x = extents.iter().map(|extent| extent.1).max().unwrap_or(0) + LANE;
            extents.iter_mut().for_each(|extent| extent.1 = x);
            x
        }
        Side::Left => {
            let x = extents.iter().map(|extent| extent.0).min().unwrap_or(0) - LANE;
            extents.iter_mut().for_each(|extent| extent.0 = x);
            x
        }
    }
}

/// The top and bottom of each layer. A gap is higher where lines go far aside in it.
fn bands(boxes: &[Placed<'_>], links: &[Link], courses: &[Course], count: usize) -> Vec<(i32, i32)> {
    let mut heights = vec![0; count];
    for placed in boxes {
        heights[placed.layer] = heights[placed.layer].max(placed.h);
    }
    let mut aside = vec![0; count];
    for (link, course) in links.iter().zip(courses) {
        if let Course::Through(xs) = course {
            let top = boxes[link.source].layer.min(boxes[link.target].layer);
            for (gap, pair) in xs.windows(2).enumerate() {
                aside[top + gap] = aside[top + gap].max((pair[0] - pair[1]).abs());
            }
        }
    }
    let mut y = MARGIN;
    let mut bands = Vec::new();
    for (height, aside) in heights.into_iter().zip(aside) {
        bands.push((y, y + height));
        y += height + 40 + (aside / 12).min(60);
    }
    bands
}

struct Pen<'p, 'a> {
    boxes: &'p [Placed<'a>],
    bands: &'p [(i32, i32)],
    links: &'p [Link],
    sides: &'p [Option<Side>],
}

impl Pen<'_, '_> {
    fn draw(&self, link: Link, course: Course) -> Route {
        match (course, link.way) {
            (Course::Own, _) => self.own(link),
            (Course::Around(side, lane), _) => self.around(link, side, lane),
            (Course::Through(xs), LinkWay::Back) => self.up(link, &xs),
            (Course::Through(xs), LinkWay::Down | LinkWay::Own) => self.down(link, &xs),
        }
    }

    fn down(&self, link: Link, xs: &[i32]) -> Route {
        let (source, target) = (&self.boxes[link.source], &self.boxes[link.target]);
        let from = (xs[0], source.y + source.h);
        let mut steps = Vec::new();
        for (at, pair) in xs.windows(2).enumerate() {
            let layer = source.layer + at;
            bend(
                &mut steps,
                (pair[0], self.bands[layer].1 + HEAD),
                (pair[1], self.bands[layer + 1].0 - HEAD),
            );
        }
        let tip = (xs[xs.len() - 1], target.y);
        upright(&mut steps, (tip.0, tip.1 - HEAD));
        Route { link, from, steps, tip, heading: Heading::Down }
    }

    fn up(&self, link: Link, xs: &[i32]) -> Route {
        let (source, target) = (&self.boxes[link.source], &self.boxes[link.target]);
        let from = (xs[xs.len() - 1], source.y);
        let mut steps = Vec::new();
        for (at, pair) in xs.windows(2).enumerate().rev() {
            let layer = target.layer + at;
            bend(
                &mut steps,
                (pair[1], self.bands[layer + 1].0 - HEAD),
                (pair[0], self.bands[layer].1 + HEAD),
            );
        }
        let tip = (xs[0], target.y + target.h);
        upright(&mut steps, (tip.0, tip.1 + HEAD));
        Route { link, from, steps, tip, heading: Heading::Up }
    }

    fn around(&self, link: Link, side: Side, lane: i32) -> Route {
        let (source, target) = (&self.boxes[link.source], &self.boxes[link.target]);
        let (sign, heading) = match side {
            Side::Right => (1, Heading::Left),
            Side::Left => (-1, Heading::Right),
        };
        let border = |placed: &Placed<'_>| match side {
            Side::Right => placed.x + placed.w,
            Side::Left => placed.x,
        };
        // What comes in comes from below, and what goes out goes up: so they do not cross where a box has both.
        let both = |at: usize| {
            self.meets(side, |link| link.source == at) && self.meets(side, |link| link.target == at)
        };
        let from_y = source.y + source.h / 2 - if both(link.source) { 7 } else { 0 };
        let tip_y = target.y + target.h / 2 + if both(link.target) { 7 } else { 0 };
        let (from, tip) = ((border(source), from_y), (border(target), tip_y));
        let inside = lane - sign * CORNER;
        let steps = vec![
            Step::Line((inside, from_y)),
            Step::Curve((lane, from_y), (lane, from_y), (lane, from_y - CORNER)),
            Step::Line((lane, tip_y + CORNER)),
            Step::Curve((lane, tip_y), (lane, tip_y), (inside, tip_y)),
            Step::Line((tip.0 + sign * HEAD, tip_y)),
        ];
        Route { link, from, steps, tip, heading }
    }

    fn meets(&self, side: Side, wanted: impl Fn(&Link) -> bool) -> bool {
        self.links.iter().zip(self.sides).any(|(link, of)| *of == Some(side) && wanted(link))
    }

    fn own(&self, link: Link) -> Route {
        let placed = &self.boxes[link.source];
        let (right, middle) = (placed.x + placed.w, placed.y + placed.h / 2);
        let reach = right + OWN + HEAD;
        let tip = (right, middle + 8);
        let curve = Step::Curve((reach, middle - 8), (reach, middle + 8), (right + HEAD, middle + 8));
        Route { link, from: (right, middle - 8), steps: vec![curve], tip, heading: Heading::Left }
    }
}

/// Straight to `from`, then over to `to`, upright at both ends.
fn bend(steps: &mut Vec<Step>, from: Point, to: Point) {
    upright(steps, from);
    if from.0 == to.0 {
        upright(steps, to);
    } else {
        let middle = (from.1 + to.1) / 2;
        steps.push(Step::Curve((from.0, middle), (to.0, middle), to));
    }
}

/// Straight up or down to a point. A line that already runs that way grows.
fn upright(steps: &mut Vec<Step>, to: Point) {
    match steps.last_mut() {
        Some(Step::Line(end)) => *end = to,
        Some(Step::Curve(..)) | None => steps.push(Step::Line(to)),
    }
}

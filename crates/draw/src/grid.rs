//! Boxes and the bends of long edges in layers: their order, and their places from left to right.

use crate::layout::{LayoutLink, LinkDirection, PlacedBox};
use crate::route;

/// Between two boxes side by side.
const BOX_GAP: i32 = 28;
/// An edge over more layers than this runs at the side: room for it in each layer would cost more than it gives.
const MAX_BENT_LAYERS: usize = 10;
/// A line that goes aside no more than this is better upright.
const STRAIGHTEN_TOLERANCE: i32 = 14;
const ORDER_SWEEPS: usize = 8;
/// Sweeps that look both ways. Each carries a change one layer on, roughly, and they are cheap.
const BALANCE_SWEEPS: usize = 40;

/// Boxes and the bends of long edges, in layers.
pub(super) struct LayerGrid {
    /// The boxes first, in their order, then the bends.
    pub items: Vec<GridItem>,
    /// The items of each layer from left to right.
    pub layers: Vec<Vec<usize>>,
    /// The bends of each link from top to bottom; none for links that run at the side.
    pub bends: Vec<Vec<usize>>,
}

pub(super) struct GridItem {
    /// The middle.
    pub x: i32,
    pub w: i32,
    up: Vec<usize>,
    down: Vec<usize>,
    is_bend: bool,
    layer: usize,
    /// Its place in the order of its layer.
    position: usize,
}

impl LayerGrid {
    pub fn new(boxes: &[PlacedBox<'_>], links: &[LayoutLink]) -> Self {
        let mut layers = vec![Vec::new(); boxes.iter().map(|placed| placed.layer + 1).max().unwrap_or(0)];
        let item = |w, is_bend| GridItem {
            x: 0,
            w,
            up: Vec::new(),
            down: Vec::new(),
            is_bend,
            layer: 0,
            position: 0,
        };
        let mut items: Vec<GridItem> = Vec::new();
        for (at, placed) in boxes.iter().enumerate() {
            layers[placed.layer].push(at);
            let own = links.iter().any(|link| link.direction == LinkDirection::SelfLoop && link.source == at);
            items.push(item(if own { placed.w + 2 * route::SELF_LOOP_REACH } else { placed.w }, false));
        }
        let mut bends = vec![Vec::new(); links.len()];
        for (link, bends) in
            links.iter().zip(&mut bends).filter(|(link, _)| link.direction == LinkDirection::Down)
        {
            let (top, bottom) = (boxes[link.source].layer, boxes[link.target].layer);
            if bottom - top > MAX_BENT_LAYERS {
                continue;
            }
            let mut above = link.source;
            for layer in &mut layers[top + 1..bottom] {
                let bend = items.len();
                items.push(item(8, true));
                layer.push(bend);
                bends.push(bend);
                items[above].down.push(bend);
                items[bend].up.push(above);
                above = bend;
            }
            items[above].down.push(link.target);
            items[link.target].up.push(above);
        }
        Self { items, layers, bends }
    }

    /// Orders each layer by the middle of its neighbours above, then below, and keeps the order with fewest crossings.
    pub fn order_layers(&mut self) {
        let mut best = (self.crossings(), self.layers.clone());
        for sweep in 0..ORDER_SWEEPS {
            if best.0 == 0 {
                break;
            }
            let down = sweep % 2 == 0;
            let mut at = self.positions();
            let count = self.layers.len();
            for step in 0..count {
                let layer = if down { step } else { count - 1 - step };
                let mut keyed: Vec<(f64, usize)> = self.layers[layer]
                    .iter()
                    .map(|item| {
                        let near = if down { &self.items[*item].up } else { &self.items[*item].down };
                        (mean(near.iter().map(|near| at[*near] as f64)).unwrap_or(at[*item] as f64), *item)
                    })
                    .collect();
                keyed.sort_by(|left, right| left.0.total_cmp(&right.0));
                self.layers[layer] = keyed.into_iter().map(|(_, item)| item).collect();
                for (position, item) in self.layers[layer].iter().enumerate() {
                    at[*item] = position;
                }
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
            }
        }
        self.layers = best.1;
        for (layer, items) in self.layers.iter().enumerate() {
            for (position, item) in items.iter().enumerate() {
                (self.items[*item].layer, self.items[*item].position) = (layer, position);
            }
        }
    }

    fn positions(&self) -> Vec<usize> {
        let mut at = vec![0; self.items.len()];
        for layer in &self.layers {
            for (position, item) in layer.iter().enumerate() {
                at[*item] = position;
            }
        }
        at
    }

    /// How often two edges cross, counted between neighbouring layers.
    fn crossings(&self) -> usize {
        let at = self.positions();
        let mut crossings = 0;
        for pair in self.layers.windows(2) {
            // A Fenwick tree of the lower ends seen so far: those to the right of the next one are crossed by it.
            let mut tree = vec![0_usize; pair[1].len() + 1];
            let mut seen = 0;
            for item in &pair[0] {
                let mut lower: Vec<usize> = self.items[*item].down.iter().map(|low| at[*low]).collect();
                lower.sort_unstable();
                for low in &lower {
                    let mut upto = 0;
                    let mut ix = low + 1;
                    while ix > 0 {
                        upto += tree[ix];
                        ix &= ix - 1;
                    }
                    crossings += seen - upto;
                }
                for low in lower {
                    seen += 1;
                    let mut ix = low + 1;
                    while ix < tree.len() {
                        tree[ix] += 1;
                        ix += ix & ix.wrapping_neg();
                    }
                }
            }
        }
        crossings
    }

    /// Gives each item a place, near its neighbours, in order and without overlaps.
    pub fn place_items(&mut self) {
        let mut x = vec![0.0; self.items.len()];
        for layer in &self.layers {
            let preferred: Vec<(f64, f64)> = layer.iter().map(|_| (0.0, 1.0)).collect();
            self.place_layer(layer, &preferred, &mut x);
        }
        let count = self.layers.len();
        for sweep in 0..ORDER_SWEEPS + BALANCE_SWEEPS {
            for step in 0..count {
                let layer = &self.layers[if sweep % 2 == 0 { step } else { count - 1 - step }];
                let preferred: Vec<(f64, f64)> =
                    layer.iter().map(|item| self.desired_position(*item, sweep, &x)).collect();
                self.place_layer(layer, &preferred, &mut x);
            }
        }
        for (item, x) in self.items.iter_mut().zip(x) {
            item.x = x.round() as i32;
        }
    }

    /// Where a line would be nearly upright, makes it upright: of a box to the only one above it, and of all bends of a
    /// link, best in line with one of its ends.
    pub fn straighten(&mut self, links: &[LayoutLink]) {
        let boxes = self.layers.iter().flatten().copied().filter(|item| !self.items[*item].is_bend);
        for item in boxes.collect::<Vec<usize>>() {
            let mut above = self.items[item].up.iter().filter(|up| !self.items[**up].is_bend);
            if let (Some(above), None) = (above.next(), above.next()) {
                let x = self.items[*above].x;
                let (low, high) = self.free_range(item);
                if (x - self.items[item].x).abs() <= STRAIGHTEN_TOLERANCE && (low..=high).contains(&x) {
                    self.items[item].x = x;
                }
            }
        }
        for (link, bends) in links.iter().zip(&self.bends) {
            let (mut low, mut high) = (i32::MIN, i32::MAX);
            for (left, right) in bends.iter().map(|bend| self.free_range(*bend)) {
                (low, high) = (low.max(left), high.min(right));
            }
            if low > high {
                continue;
            }
            let (source, target) = (self.items[link.source].x, self.items[link.target].x);
            let aside = |x: i32| (x - source).abs() + (x - target).abs();
            let wishes = [source, target].into_iter().chain(bends.iter().map(|bend| self.items[*bend].x));
            if let Some(x) = wishes.map(|x| x.clamp(low, high)).min_by_key(|x| aside(*x)) {
                bends.iter().for_each(|bend| self.items[*bend].x = x);
            }
        }
    }

    /// From where to where an item may move between its neighbours.
    fn free_range(&self, item: usize) -> (i32, i32) {
        let GridItem { w, layer, position, .. } = self.items[item];
        let near = |near: &usize| {
            let near = &self.items[*near];
            (near.x, (near.w + w) / 2 + BOX_GAP / 2)
        };
        let left = position.checked_sub(1).and_then(|left| self.layers[layer].get(left)).map(near);
        let right = self.layers[layer].get(position + 1).map(near);
        (left.map_or(i32::MIN, |(x, apart)| x + apart), right.map_or(i32::MAX, |(x, apart)| x - apart))
    }

    /// Where an item wants to be, and how much. Early sweeps look one way, to bring order in from the ends; the last
    /// ones look both ways, to even it out.
    fn desired_position(&self, item: usize, sweep: usize, x: &[f64]) -> (f64, f64) {
        let GridItem { up, down, is_bend, .. } = &self.items[item];
        let (up, down): (&[usize], &[usize]) = match (sweep < ORDER_SWEEPS, sweep % 2) {
            (true, 0) => (up, &[]),
            (true, _) => (&[], down),
            (false, _) => (up, down),
        };
        let (mut sum, mut weight) = (0.0, 0.0);
        for near in up.iter().chain(down) {
            // Long edges are to be straight, and boxes to stand under each other rather than at a long edge's end.
            let pull = match (is_bend, self.items[*near].is_bend) {
                (false, false) => 40.0,
                (true, true) => 8.0,
                (true, false) => 1.0,
                (false, true) => 0.001,
            };
            sum += x[*near] * pull;
            weight += pull;
        }
        // What has no neighbour that way stays, unless someone pushes.
        if weight == 0.0 { (x[item], 0.1) } else { (sum / weight, weight) }
    }

    /// The places nearest to the wishes, by weighted squares, that keep order and distance: neighbours that would
    /// come too close are joined to blocks, which go to the mean of their wishes.
    fn place_layer(&self, layer: &[usize], preferred: &[(f64, f64)], x: &mut [f64]) {
        let mut offset = 0.0;
        let mut offsets = Vec::new();
        // Of each block: the mean preferred position, the weight, how many items.
        let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
        for (at, item) in layer.iter().enumerate() {
            if at > 0 {
                offset += f64::from((self.items[layer[at - 1]].w + self.items[*item].w) / 2 + BOX_GAP);
            }
            offsets.push(offset);
            let mut block = (preferred[at].0 - offset, preferred[at].1, 1);
            while let Some(left) = blocks.pop_if(|left| left.0 >= block.0) {
                let weight = left.1 + block.1;
                block = ((left.0 * left.1 + block.0 * block.1) / weight, weight, left.2 + block.2);
            }
            blocks.push(block);
        }
        let places = blocks.iter().flat_map(|(place, _, count)| std::iter::repeat_n(*place, *count));
        for ((item, offset), place) in layer.iter().zip(offsets).zip(places) {
            x[*item] = place + offset;
        }
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let count = values.len();
    if count == 0 { None } else { Some(values.sum::<f64>() / count as f64) }
}

// Lays out a flowchart in layers: ranks by the longest path, few crossings by sorting neighbours, long edges around the nodes between.

import type { FlowEdge, FlowNode, Flowchart } from './flowchart'
import { textLines, textWidth } from './text-size'

export interface PlacedNode extends FlowNode {
  x: number
  y: number
  width: number
  height: number
  lines: string[]
}

export interface PlacedEdge extends FlowEdge {
  points: { x: number; y: number }[]
}

export interface FlowchartLayout {
  width: number
  height: number
  nodes: PlacedNode[]
  edges: PlacedEdge[]
}

const LINE_HEIGHT = 18
const GAP = 36
const RANK_GAP = 54
const MARGIN = 12
/** Room for the line and the head of an edge beside its label. */
const LABEL_MARGIN = 60
/** Longer labels of edges are broken. */
export const LABEL_CHARS = 22
const SWEEPS = 6

/** A node, or a place where a long edge passes a rank. */
interface Slot {
  key: string
  rank: number
  /** Size along the rank and across it. */
  along: number
  across: number
  at: number
  node: PlacedNode | null
}

export function layoutFlowchart(chart: Flowchart): FlowchartLayout {
  const isHorizontal = chart.direction === 'LR' || chart.direction === 'RL'
  const nodes: PlacedNode[] = chart.nodes.map((node) => ({ ...node, x: 0, y: 0, ...nodeSize(node) }))
  const ranks = rankNodes(chart)
  const slots = new Map<string, Slot>()
  const layers: Slot[][] = []
  const add = (slot: Slot) => {
    slots.set(slot.key, slot)
    ;(layers[slot.rank] ??= []).push(slot)
  }
  for (const node of nodes) {
    const [along, across] = isHorizontal ? [node.height, node.width] : [node.width, node.height]
    add({ key: node.id, rank: ranks.get(node.id) ?? 0, along, across, at: 0, node })
  }
  // Where an edge passes ranks between its ends it takes a place of its own.
  const chains = chart.edges.map((edge, index) => {
    const [low, high] = [ranks.get(edge.from) ?? 0, ranks.get(edge.to) ?? 0]
    const step = Math.sign(high - low)
    const keys = [edge.from]
    for (let rank = low + step; step !== 0 && rank !== high; rank += step) {
      const key = `\u0000${index}/${rank}`
      add({ key, rank, along: 8, across: 0, at: 0, node: null })
      keys.push(key)
    }
    keys.push(edge.to)
    return keys
  })
  orderLayers(layers, chains)
  placeAlong(layers, chains)
  // Between ranks there is room for the labels of edges.
  const labels = chart.edges.flatMap((edge) => (edge.label === '' ? [] : [textLines(edge.label, LABEL_CHARS)]))
  const labelRoom = isHorizontal ? Math.max(0, ...labels.flat().map(textWidth)) : Math.max(0, ...labels.map((lines) => (lines.length - 1) * LINE_HEIGHT))
  const rankGap = labels.length === 0 ? RANK_GAP : Math.max(RANK_GAP, labelRoom + LABEL_MARGIN)
  const starts: number[] = []
  let across = MARGIN
  for (const layer of layers) {
    starts.push(across)
    across += Math.max(...layer.map((slot) => slot.across)) + rankGap
  }
  const total = across - rankGap + MARGIN
  const breadth = Math.max(...layers.flat().map((slot) => slot.at + slot.along / 2)) + MARGIN
  const isReversed = chart.direction === 'BT' || chart.direction === 'RL'
  const middle = (slot: Slot) => {
    const thick = Math.max(...(layers[slot.rank] ?? []).map((one) => one.across))
    const main = (starts[slot.rank] ?? 0) + thick / 2
    const deep = isReversed ? total - main : main
    return isHorizontal ? { x: deep, y: slot.at } : { x: slot.at, y: deep }
  }
  for (const slot of slots.values()) if (slot.node) Object.assign(slot.node, middle(slot))
  const edges = chart.edges.map((edge, index) => {
    const points = (chains[index] ?? []).flatMap((key) => slots.get(key) ?? []).map(middle)
    return { ...edge, points: cutAtBorders(edge, points, nodes) }
  })
  return { width: isHorizontal ? total : breadth, height: isHorizontal ? breadth : total, nodes, edges }
}

function nodeSize(node: FlowNode): { width: number; height: number; lines: string[] } {
  const lines = textLines(node.label, 26)
  const width = Math.max(...lines.map(textWidth)) + 28
  const height = lines.length * LINE_HEIGHT + 18
  switch (node.shape) {
    case 'diamond':
      return { width: width * 1.35 + 12, height: height * 1.5 + 8, lines }
    case 'circle': {
      const size = Math.max(width, height)
      return { width: size, height: size, lines }
    }
    case 'hexagon':
      return { width: width + 20, height, lines }
    case 'database':
      return { width, height: height + 14, lines }
    default:
      return { width, height, lines }
  }
}

/** The rank of each node: one more than the highest before it. Edges that would close a circle do not count. */
function rankNodes(chart: Flowchart): Map<string, number> {
  const next = new Map<string, string[]>()
  for (const { from, to } of chart.edges) next.set(from, [...(next.get(from) ?? []), to])
  const state = new Map<string, 'open' | 'done'>()
  const order: string[] = []
  const back = new Set<string>()
  const visit = (id: string) => {
    state.set(id, 'open')
    for (const to of next.get(id) ?? []) {
      if (state.get(to) === 'open') back.add(`${id}\u0000${to}`)
      else if (!state.has(to)) visit(to)
    }
    state.set(id, 'done')
    order.unshift(id)
  }
  for (const { id } of chart.nodes) if (!state.has(id)) visit(id)
  const ranks = new Map(chart.nodes.map(({ id }) => [id, 0]))
  for (const id of order) {
    for (const to of next.get(id) ?? []) {
      if (!back.has(`${id}\u0000${to}`) && to !== id) ranks.set(to, Math.max(ranks.get(to) ?? 0, (ranks.get(id) ?? 0) + 1))
    }
  }
  return ranks
}

function neighbours(chains: string[][]): Map<string, string[]> {
  const near = new Map<string, string[]>()
  const link = (a: string, b: string) => near.set(a, [...(near.get(a) ?? []), b])
  for (const keys of chains) for (let at = 1; at < keys.length; at += 1) {
    link(keys[at - 1] ?? '', keys[at] ?? '')
    link(keys[at] ?? '', keys[at - 1] ?? '')
  }
  return near
}

/** Sorts each layer by the middle of its neighbours in the layer before, down and up a few times. */
function orderLayers(layers: Slot[][], chains: string[][]): void {
  const near = neighbours(chains)
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const isDown = sweep % 2 === 0
    const all = isDown ? layers : [...layers].reverse()
    for (let at = 1; at < all.length; at += 1) {
      const before = new Map((all[at - 1] ?? []).map((slot, index) => [slot.key, index]))
      const weight = new Map((all[at] ?? []).map((slot, index) => {
        const places = (near.get(slot.key) ?? []).flatMap((key) => before.get(key) ?? [])
        return [slot.key, places.length === 0 ? index : places.reduce((sum, one) => sum + one, 0) / places.length]
      }))
      all[at]?.sort((a, b) => (weight.get(a.key) ?? 0) - (weight.get(b.key) ?? 0))
    }
  }
}

/** Puts every slot near the middle of its neighbours, without overlaps. */
function placeAlong(layers: Slot[][], chains: string[][]): void {
  const near = neighbours(chains)
  const slots = new Map(layers.flat().map((slot) => [slot.key, slot]))
  for (const layer of layers) {
    let at = 0
    for (const slot of layer) {
      slot.at = at + slot.along / 2
      at += slot.along + GAP
    }
    for (const slot of layer) slot.at -= (at - GAP) / 2
  }
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const layer of sweep % 2 === 0 ? layers : [...layers].reverse()) {
      const wanted = layer.map((slot) => {
        const places = (near.get(slot.key) ?? []).flatMap((key) => slots.get(key)?.at ?? [])
        return places.length === 0 ? slot.at : places.reduce((sum, one) => sum + one, 0) / places.length
      })
      layer.forEach((slot, index) => {
        const left = layer[index - 1]
        const least = left ? left.at + left.along / 2 + GAP / 2 + slot.along / 2 : -Infinity
        slot.at = Math.max(least, wanted[index] ?? 0)
      })
      // What was pushed to one side comes back as a whole.
      const drift = layer.reduce((sum, slot, index) => sum + slot.at - (wanted[index] ?? 0), 0) / layer.length
      for (const slot of layer) slot.at -= drift
    }
  }
  const least = Math.min(...layers.flat().map((slot) => slot.at - slot.along / 2))
  for (const slot of slots.values()) slot.at += MARGIN - least
}

/** Edges end at the borders of their nodes. */
function cutAtBorders(edge: FlowEdge, points: { x: number; y: number }[], nodes: PlacedNode[]): { x: number; y: number }[] {
  const from = nodes.find((node) => node.id === edge.from)
  const to = nodes.find((node) => node.id === edge.to)
  if (!from || !to || points.length < 2) return points
  if (from === to) {
    const [right, up] = [from.x + from.width / 2, from.y]
    return [{ x: right, y: up - 8 }, { x: right + 26, y: up - 14 }, { x: right + 26, y: up + 14 }, { x: right, y: up + 8 }]
  }
  const cut = [...points]
  cut[0] = border(from, cut[1] ?? to)
  cut[cut.length - 1] = border(to, cut[cut.length - 2] ?? from)
  return cut
}

function border(node: PlacedNode, towards: { x: number; y: number }): { x: number; y: number } {
  const [dx, dy] = [towards.x - node.x, towards.y - node.y]
  if (dx === 0 && dy === 0) return { x: node.x, y: node.y }
  const [w, h] = [node.width / 2, node.height / 2]
  const share = node.shape === 'diamond' ? 1 / (Math.abs(dx) / w + Math.abs(dy) / h)
    : node.shape === 'circle' ? w / Math.hypot(dx, dy)
      : Math.min(dx === 0 ? Infinity : w / Math.abs(dx), dy === 0 ? Infinity : h / Math.abs(dy))
  return { x: node.x + dx * share, y: node.y + dy * share }
}

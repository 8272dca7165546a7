// Turns flowcharts and sequence diagrams, in the syntax of Mermaid, into shapes. Loaded on demand, so it imports nothing of the page.

import { parseFlowchart, type Flowchart } from './flowchart'
import { LABEL_CHARS, layoutFlowchart, type PlacedEdge, type PlacedNode } from './flowchart-layout'
import { parseSequence, type SequenceDiagram } from './sequence'
import { textLines, textWidth } from './text-size'

/** A longer source is shown as it is. */
const MAX_SOURCE_CHARS = 8000

/** What a shape is, for its colours. */
export type ShapeKind = 'node' | 'line' | 'dotted' | 'thick' | 'head' | 'ground' | 'frame' | 'note' | 'life'

export type Shape =
  | { t: 'path'; kind: ShapeKind; d: string }
  | { t: 'rect'; kind: ShapeKind; x: number; y: number; width: number; height: number; rx: number }
  | { t: 'circle'; kind: ShapeKind; x: number; y: number; r: number }
  | { t: 'text'; x: number; y: number; lines: string[]; anchor: 'middle' | 'start' }

export interface DrawnDiagram {
  kind: 'flowchart' | 'sequence'
  /** The number of nodes or participants. */
  count: number
  width: number
  height: number
  shapes: Shape[]
}

interface Point {
  x: number
  y: number
}

/** The shapes of a diagram, or null if it cannot be drawn. */
export function drawDiagram(source: string): DrawnDiagram | null {
  if (source.length > MAX_SOURCE_CHARS) return null
  // Front matter and directives are about looks.
  const text = source.replace(/^---\n[\s\S]*?\n---\n/, '').replace(/%%\{[\s\S]*?\}%%/g, '').trim()
  const flowchart = parseFlowchart(text)
  if (flowchart) return drawFlowchart(flowchart)
  const sequence = parseSequence(text)
  return sequence && drawSequence(sequence)
}

const round = (value: number) => Math.round(value * 10) / 10
const path = (kind: ShapeKind, d: string): Shape => ({ t: 'path', kind, d })
const rect = (kind: ShapeKind, x: number, y: number, width: number, height: number, rx: number): Shape => ({ t: 'rect', kind, x: round(x), y: round(y), width: round(width), height: round(height), rx })
const label = (x: number, y: number, lines: string[], anchor: 'middle' | 'start' = 'middle'): Shape => ({ t: 'text', x: round(x), y: round(y), lines, anchor })

function drawFlowchart(chart: Flowchart): DrawnDiagram {
  const { width, height, nodes, edges } = layoutFlowchart(chart)
  return { kind: 'flowchart', count: nodes.length, width: round(width), height: round(height), shapes: [...edges.flatMap(edgeShapes), ...nodes.flatMap(nodeShapes)] }
}

function nodeShapes({ x, y, width, height, shape, lines }: PlacedNode): Shape[] {
  const [left, top, w, h] = [x - width / 2, y - height / 2, width, height].map(round) as [number, number, number, number]
  const [cx, cy] = [round(x), round(y)]
  const outline = (): Shape => {
    switch (shape) {
      case 'diamond':
        return path('node', `M${cx} ${top}L${left + w} ${cy}L${cx} ${top + h}L${left} ${cy}Z`)
      case 'circle':
        return { t: 'circle', kind: 'node', x: cx, y: cy, r: w / 2 }
      case 'hexagon':
        return path('node', `M${left + 12} ${top}H${left + w - 12}L${left + w} ${cy}L${left + w - 12} ${top + h}H${left + 12}L${left} ${cy}Z`)
      case 'database':
        return path('node', `M${left} ${top + 8}a${w / 2} 7 0 0 1 ${w} 0v${h - 16}a${w / 2} 7 0 0 1 ${-w} 0zM${left} ${top + 8}a${w / 2} 7 0 0 0 ${w} 0`)
      default:
        return rect('node', left, top, w, h, shape === 'stadium' ? h / 2 : shape === 'round' ? 10 : 4)
    }
  }
  return [outline(), label(x, shape === 'database' ? y + 5 : y, lines)]
}

function edgeShapes({ points, label: text, line, hasArrow, isTwoWay }: PlacedEdge): Shape[] {
  const [first, second] = points
  const last = points.at(-1)
  if (!first || !second || !last) return []
  const middle = points.length % 2 === 1 ? points[(points.length - 1) / 2] ?? first : halfway(points[points.length / 2 - 1] ?? first, points[points.length / 2] ?? last)
  const lines = textLines(text, LABEL_CHARS)
  const width = Math.max(...lines.map(textWidth)) + 8
  return [
    path(line === 'solid' ? 'line' : line, smoothPath(points)),
    ...(hasArrow ? [arrow(points.at(-2) ?? first, last)] : []),
    ...(isTwoWay ? [arrow(second, first)] : []),
    ...(text === '' ? [] : [rect('ground', middle.x - width / 2, middle.y - lines.length * 9, width, lines.length * 18, 2), label(middle.x, middle.y, lines)]),
  ]
}

const halfway = (a: Point, b: Point): Point => ({ x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 })

function arrow(from: Point, to: Point): Shape {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1
  const [dx, dy] = [(to.x - from.x) / length, (to.y - from.y) / length]
  const corner = (side: number) => `${round(to.x - dx * 9 + side * dy * 4.5)} ${round(to.y - dy * 9 - side * dx * 4.5)}`
  return path('head', `M${round(to.x)} ${round(to.y)}L${corner(1)}L${corner(-1)}Z`)
}

function smoothPath(points: Point[]): string {
  const [first] = points
  const last = points.at(-1)
  if (!first || !last) return ''
  let d = `M${round(first.x)} ${round(first.y)}`
  for (let at = 1; at < points.length - 1; at += 1) {
    const [here, next] = [points[at] ?? last, points[at + 1] ?? last]
    const end = at === points.length - 2 ? next : halfway(here, next)
    d += `Q${round(here.x)} ${round(here.y)} ${round(end.x)} ${round(end.y)}`
  }
  return points.length === 2 ? `${d}L${round(last.x)} ${round(last.y)}` : d
}

const HEAD_HEIGHT = 40
const ROW = 44
const BLOCK_ROW = 30
const END_ROW = 16
/** Room to the right of the last participant for messages to itself and notes. */
const SIDE_ROOM = 190

function drawSequence({ participants, items, isNumbered }: SequenceDiagram): DrawnDiagram {
  const widths = participants.map((name) => Math.max(70, textWidth(name) + 24))
  const gaps = participants.map((_, at) => {
    const texts = items.flatMap((item) => (item.t === 'message' && Math.min(item.from, item.to) === at && Math.abs(item.from - item.to) === 1 ? [textWidth(item.text) + 46] : []))
    return Math.max(((widths[at] ?? 0) + (widths[at + 1] ?? 0)) / 2 + 30, ...texts)
  })
  const xs = participants.map((_, at) => 14 + (widths[0] ?? 0) / 2 + gaps.slice(0, at).reduce((sum, one) => sum + one, 0))
  const atEdge = items.some((item) => (item.t === 'message' && item.from === item.to && item.to === participants.length - 1) || (item.t === 'note' && item.side === 'right' && item.to === participants.length - 1))
  const width = (xs.at(-1) ?? 0) + (widths.at(-1) ?? 0) / 2 + 14 + (atEdge ? SIDE_ROOM : 0)
  const rows = items.map((item) => (item.t === 'end' ? END_ROW : item.t === 'begin' || item.t === 'else' ? BLOCK_ROW : ROW))
  const tops = rows.map((_, at) => HEAD_HEIGHT + 24 + rows.slice(0, at).reduce((sum, one) => sum + one, 0))
  const height = (tops.at(-1) ?? HEAD_HEIGHT) + (rows.at(-1) ?? 0) + 20
  const shapes: Shape[] = []
  const open: number[] = []
  items.forEach((item, at) => {
    if (item.t === 'begin') open.push(at)
    const start = item.t === 'end' ? open.pop() : undefined
    const block = start === undefined ? undefined : items[start]
    if (start === undefined || block?.t !== 'begin') return
    const [top, inset] = [tops[start] ?? 0, 4 + open.length * 6]
    shapes.push(rect('frame', inset, top, width - inset * 2, (tops[at] ?? 0) + 10 - top, 4), label(inset + 8, top + 13, [`${block.kind} ${block.text}`.trim()], 'start'))
  })
  participants.forEach((name, at) => {
    const [x, w] = [xs[at] ?? 0, widths[at] ?? 0]
    shapes.push(path('life', `M${round(x)} ${HEAD_HEIGHT}V${round(height - 8)}`), rect('node', x - w / 2, 6, w, HEAD_HEIGHT - 6, 6), label(x, 23, [name]))
  })
  let number = 0
  items.forEach((item, at) => {
    const y = (tops[at] ?? 0) + 28
    if (item.t === 'else') shapes.push(path('frame', `M8 ${y - 22}H${round(width - 8)}`), label(14, y - 10, [item.text], 'start'))
    if (item.t === 'note') {
      const [left, right] = [Math.min(xs[item.from] ?? 0, xs[item.to] ?? 0), Math.max(xs[item.from] ?? 0, xs[item.to] ?? 0)]
      const wide = Math.max(item.side === 'over' ? right - left + 50 : 0, textWidth(item.text) + 20)
      const middle = item.side === 'over' ? (left + right) / 2 : item.side === 'right' ? right + wide / 2 + 8 : Math.max(wide / 2 + 4, left - wide / 2 - 8)
      shapes.push(rect('note', middle - wide / 2, y - 22, wide, 30, 3), label(middle, y - 7, [item.text]))
    }
    if (item.t !== 'message') return
    number += 1
    const [from, to] = [xs[item.from] ?? 0, xs[item.to] ?? 0]
    const text = isNumbered ? `${number}. ${item.text}` : item.text
    const isSelf = item.from === item.to
    const end = isSelf ? { x: to + 1, y: y + 8 } : { x: to, y }
    shapes.push(path(item.isDashed ? 'dotted' : 'line', isSelf ? `M${round(from)} ${y - 8}h34v16h-34` : `M${round(from)} ${y}H${round(to)}`))
    if (item.head === 'arrow') shapes.push(arrow({ x: isSelf ? to + 30 : from, y: end.y }, end))
    if (item.head === 'cross') shapes.push(path('line', `M${round(to) - 5} ${y - 5}l10 10m0 -10l-10 10`))
    shapes.push(isSelf ? label(from + 42, y, [text], 'start') : label((from + to) / 2, y - 10, [text]))
  })
  return { kind: 'sequence', count: participants.length, width: round(width), height: round(height), shapes }
}

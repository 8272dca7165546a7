// Reads flowcharts in the syntax of Mermaid. What is not understood gives null, so that no half of a diagram is shown.

export type NodeShape = 'box' | 'round' | 'stadium' | 'circle' | 'diamond' | 'hexagon' | 'database'
export type EdgeLine = 'solid' | 'dotted' | 'thick'

export interface FlowNode {
  id: string
  label: string
  shape: NodeShape
}

export interface FlowEdge {
  from: string
  to: string
  label: string
  line: EdgeLine
  hasArrow: boolean
  isTwoWay: boolean
}

export interface Flowchart {
  direction: 'TB' | 'BT' | 'LR' | 'RL'
  nodes: FlowNode[]
  edges: FlowEdge[]
}

/** The most that is laid out. */
const MAX_NODES = 120
const MAX_EDGES = 240

/** Brackets of each shape. Longer ones come first. */
const SHAPES: [string, string, NodeShape][] = [
  ['(((', ')))', 'circle'], ['((', '))', 'circle'], ['([', '])', 'stadium'], ['[(', ')]', 'database'], ['[[', ']]', 'box'], ['{{', '}}', 'hexagon'],
  ['[/', '/]', 'box'], ['[\\', '\\]', 'box'], ['[', ']', 'box'], ['(', ')', 'round'], ['{', '}', 'diamond'], ['>', ']', 'box'],
]

/** Statements about looks and links. They change nothing that is drawn here. */
const IGNORED = /^(classDef|class|style|linkStyle|click|accTitle|accDescr)\b/

const NODE_ID = /^[\p{L}\p{N}_.]+(?:-[\p{L}\p{N}_.]+)*/u
const EDGE = /^(<)?(--+|==+|-\.+-?)(?:([ox>])|(?=\s|\||[\p{L}\p{N}_"]))/u

export function parseFlowchart(source: string): Flowchart | null {
  const lines = source.split(/\r?\n|;/).map((line) => line.replace(/%%.*$/, '').trim()).filter((line) => line !== '')
  const head = /^(?:graph|flowchart)(?:\s+(TB|TD|BT|LR|RL))?$/i.exec(lines.shift() ?? '')
  if (!head) return null
  const named = (head[1] ?? 'TB').toUpperCase()
  const chart: Flowchart = { direction: named === 'TD' ? 'TB' : (named as Flowchart['direction']), nodes: [], edges: [] }
  for (const line of lines) {
    if (!IGNORED.test(line) && !readStatement(line, chart)) return null
    if (chart.nodes.length > MAX_NODES || chart.edges.length > MAX_EDGES) return null
  }
  return chart.nodes.length > 0 ? chart : null
}

/** Reads `a & b --> c -->|text| d`. */
function readStatement(line: string, chart: Flowchart): boolean {
  let rest = line
  let before: string[] | null = null
  let edge: Omit<FlowEdge, 'from' | 'to'> | null = null
  for (;;) {
    const group: string[] = []
    for (;;) {
      const got = readNode(rest, chart)
      if (!got) return false
      group.push(got.id)
      rest = got.rest
      if (!rest.startsWith('&')) break
      rest = rest.slice(1).trimStart()
    }
    if (before && edge) for (const from of before) for (const to of group) chart.edges.push({ from, to, ...edge })
    if (rest === '') return true
    const got = readEdge(rest)
    if (!got || chart.edges.length > MAX_EDGES) return false
    edge = got.edge
    rest = got.rest
    before = group
  }
}

function readNode(text: string, chart: Flowchart): { id: string; rest: string } | null {
  const id = NODE_ID.exec(text)?.[0]
  if (!id || id === 'subgraph' || id === 'end' || id === 'direction') return null
  let rest = text.slice(id.length)
  let given: Omit<FlowNode, 'id'> | null = null
  for (const [open, close, shape] of SHAPES) {
    if (!rest.startsWith(open)) continue
    const inner = rest.slice(open.length)
    const quoted = /^\s*"([^"]*)"\s*/.exec(inner)
    const end = quoted && inner.startsWith(close, quoted[0].length) ? quoted[0].length : inner.indexOf(close)
    if (end === -1) continue
    given = { label: labelText(quoted && end === quoted[0].length ? (quoted[1] ?? '') : inner.slice(0, end)), shape }
    rest = inner.slice(end + close.length)
    break
  }
  // A class at the end is about looks.
  rest = rest.replace(/^:::[\w-]+/, '').trimStart()
  const known = chart.nodes.find((node) => node.id === id)
  if (!known) chart.nodes.push({ id, label: id, shape: 'box', ...given })
  else if (given) Object.assign(known, given)
  return { id, rest }
}

function readEdge(text: string): { edge: Omit<FlowEdge, 'from' | 'to'>; rest: string } | null {
  const start = EDGE.exec(text)
  if (!start) return null
  const [whole, back, dashes = '', head] = start
  const line: EdgeLine = dashes.startsWith('=') ? 'thick' : dashes.includes('.') ? 'dotted' : 'solid'
  let rest = text.slice(whole.length)
  let label = ''
  let hasArrow = head !== undefined
  if (head === undefined && !rest.startsWith('|')) {
    // `-- text -->`, or a line without a head.
    const middle = /^\s*(.+?)\s*(--+|==+|\.+-)([ox>])?(?=\s|[\p{L}\p{N}_"]|$)/u.exec(rest)
    if (middle && dashes.length === 2 && rest.startsWith(' ') && (middle[3] !== undefined)) {
      label = middle[1] ?? ''
      hasArrow = true
      rest = rest.slice(middle[0].length)
    }
  }
  rest = rest.trimStart()
  const piped = /^\|([^|]*)\|\s*/.exec(rest)
  if (piped) {
    label = piped[1] ?? ''
    rest = rest.slice(piped[0].length)
  }
  return rest === '' ? null : { edge: { label: labelText(label), line, hasArrow, isTwoWay: back !== undefined }, rest }
}

/** Quotes, line breaks and Markdown marks around a label are not part of it. */
export function labelText(text: string): string {
  return text.trim().replace(/^"([\s\S]*)"$/, '$1').replace(/^`([\s\S]*)`$/, '$1').replace(/<br\s*\/?>/gi, '\n').trim()
}

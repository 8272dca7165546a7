// The graph of an agent, with the progress of a run highlighted.

import { useEffect, useRef, useState } from 'preact/hooks'

import * as api from '../api'
import type { RunView } from '../transcript'
import { t, type MessageKey } from '../i18n'
import { edgeKey, END, highlightGraph, nodeKey, START, type NodeHighlight } from '../graph-highlight'
import { sanitizeSvg } from '../graph-svg'
import { breakpointsOf } from '../breakpoints'
import { ProblemCard } from './problem-card'

const svgCache = new Map<string, string>()

const HIGHLIGHT_LABELS: Record<NodeHighlight, MessageKey> = { done: 'done', running: 'running', waiting: 'waiting', failed: 'failed', stopped: 'status_cancelled' }

interface GraphViewProps {
  agent: string
  run: RunView | null
  upto: number | null
  /** Called with the names of the nodes, in the order of the picture, and of the entry nodes. */
  onNodes: (nodes: string[], starts: string[]) => void
  choose: (node: string, path: string) => void
}

export function GraphView({ agent, run, upto, onNodes, choose }: GraphViewProps) {
  const frame = useRef<HTMLDivElement>(null)
  const breakpoints = breakpointsOf(agent)
  const [svg, setSvg] = useState<SVGSVGElement | null>(null)
  const [error, setError] = useState<unknown>(null)

  useEffect(() => {
    let isOld = false
    setSvg(null)
    setError(null)
    const text = svgCache.get(agent)
    const got = text === undefined ? api.fetchGraphSvg(agent) : Promise.resolve(text)
    got.then(
      (drawn) => {
        svgCache.set(agent, drawn)
        if (!isOld) setSvg(sanitizeSvg(drawn))
      },
      (why) => { if (!isOld) setError(why) },
    )
    return () => { isOld = true }
  }, [agent])

  useEffect(() => {
    const one = frame.current
    if (!one || !svg) return
    svg.setAttribute('role', 'group')
    svg.setAttribute('aria-label', t('graph_of', { name: agent }))
    one.replaceChildren(svg)
    const names = Array.from(svg.querySelectorAll<SVGGElement>('[data-node]'), (node) => node.dataset.node ?? '')
    onNodes([...new Set(names)].filter((name) => name !== START && name !== END), entryNodes(svg))
  }, [svg])

  useEffect(() => {
    if (!svg) return
    const nodes = Array.from(svg.querySelectorAll<SVGGElement>('[data-node]'))
    const edges = Array.from(svg.querySelectorAll<SVGGElement>('[data-source]'))
    const lit = run ? highlightGraph(run, upto, entryNodes(svg)) : null
    for (const node of nodes) {
      const name = node.dataset.node ?? ''
      const path = node.dataset.in ?? ''
      const found = lit?.nodes.get(nodeKey(name, path))
      node.classList.toggle('has-breakpoint', breakpoints.before.includes(name) || breakpoints.after.includes(name))
      for (const light of Object.keys(HIGHLIGHT_LABELS)) node.classList.toggle(`is-${light}`, found?.highlight === light)
      showCount(node, found?.count ?? 0)
      if (name === START || name === END) continue
      node.setAttribute('tabindex', '0')
      node.setAttribute('role', 'button')
      node.setAttribute('aria-label', found ? `${name}${found.count > 1 ? `×${found.count}` : ''}, ${t(HIGHLIGHT_LABELS[found.highlight])}` : name)
      node.onclick = () => choose(name, path)
      node.onkeydown = (event) => {
        if (event.key !== 'Enter' && event.key !== ' ') return
        event.preventDefault()
        choose(name, path)
      }
    }
    for (const edge of edges) {
      edge.classList.toggle('is-taken', lit?.edges.has(edgeKey(edge.dataset.source ?? '', edge.dataset.target ?? '')) ?? false)
    }
  })

  if (error !== null) return <ProblemCard error={error} />
  return <div class="graph-frame" ref={frame} />
}

/** The entry nodes of the outermost graph. */
function entryNodes(svg: SVGSVGElement): string[] {
  const outer = new Set(Array.from(svg.querySelectorAll<SVGGElement>('[data-node]:not([data-in])'), (node) => node.dataset.node))
  const targets = Array.from(svg.querySelectorAll<SVGGElement>(`[data-source="${START}"]`), (edge) => edge.dataset.target ?? '')
  return targets.filter((target) => outer.has(target))
}

/** Shows how often a node ran, if more than once. */
function showCount(node: SVGGElement, times: number) {
  let label = node.querySelector<SVGTextElement>(':scope > text.times')
  if (times < 2) {
    label?.remove()
    return
  }
  const box = node.querySelector<SVGRectElement>(':scope > rect')
  if (!box) return
  if (!label) {
    label = document.createElementNS('http://www.w3.org/2000/svg', 'text')
    label.setAttribute('class', 'times')
    label.setAttribute('font-size', '11')
    node.append(label)
  }
  label.setAttribute('x', String(Number(box.getAttribute('x')) + Number(box.getAttribute('width')) - 2))
  label.setAttribute('y', String(Number(box.getAttribute('y')) - 4))
  label.textContent = `×${times}`
}

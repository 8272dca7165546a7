// Computes which nodes and edges of a graph to highlight for a run. Pure functions.

import { graphPath } from './task-path'
import type { RunView } from './transcript'

export type NodeHighlight = 'done' | 'running' | 'waiting' | 'failed' | 'stopped'

export interface GraphHighlights {
  /** Keyed by `nodeKey`. */
  nodes: Map<string, { highlight: NodeHighlight; count: number }>
  /** Keyed by `edgeKey`. */
  edges: Set<string>
}

export const START = '__start__'
export const END = '__end__'

export function nodeKey(node: string, path = ''): string {
  return path === '' ? node : `${path}/${node}`
}

export function edgeKey(source: string, target: string): string {
  return `${source}\u0000${target}`
}

/** The highlights after `upto` steps, or of the whole run if `upto` is null. `starts` are the entry nodes of the graph. */
export function highlightGraph(run: RunView, upto: number | null, starts: string[]): GraphHighlights {
  const nodes: GraphHighlights['nodes'] = new Map()
  const edges: GraphHighlights['edges'] = new Set()
  const isLive = upto === null || upto >= run.steps.length
  const steps = isLive ? run.steps : run.steps.slice(0, upto)
  const set = (key: string, light: NodeHighlight) => {
    const before = nodes.get(key)
    nodes.set(key, { highlight: light, count: before?.count ?? 0 })
  }
  if (run.lastEventNumber > 0) nodes.set(START, { highlight: 'done', count: 1 })
  let due = starts
  let previousNodes = [START]
  for (const step of steps) {
    for (const task of step.tasks) {
      const key = nodeKey(task.node, graphPath(run, step.path, starts))
      nodes.set(key, { highlight: 'done', count: (nodes.get(key)?.count ?? 0) + 1 })
      if (step.path === '') for (const source of previousNodes) if (due.includes(task.node)) edges.add(edgeKey(source, task.node))
    }
    if (step.path === '') {
      previousNodes = step.tasks.map((task) => task.node)
      due = step.next
    }
  }
  if (!isLive) {
    // A step in the past: the nodes that ran in it stand out, not those that came next.
    for (const node of previousNodes) if (node !== START) set(node, 'running')
    return { nodes, edges }
  }
  const settled = run.status
  if (settled === 'running' || settled === 'waiting') {
    for (const node of due) {
      set(node, 'running')
      for (const source of previousNodes) edges.add(edgeKey(source, node))
    }
    for (const { node } of run.liveReplies) if (!due.includes(node)) set(node, 'running')
  } else if (settled === 'paused') {
    for (const node of due) set(node, 'waiting')
    for (const { node } of run.questions) set(node, 'waiting')
  } else if (settled === 'failed' && run.failure?.node) {
    set(run.failure.node, 'failed')
  } else if (settled === 'cancelled') {
    for (const { outcome, task } of run.stoppedTasks) if (outcome === 'cancelled') set(task.node, 'stopped')
  } else if (settled === 'finished') {
    nodes.set(END, { highlight: 'done', count: 1 })
    for (const source of previousNodes) edges.add(edgeKey(source, END))
  }
  return { nodes, edges }
}

// Breakpoints that the user set in the inspector, by agent. The next run of the agent pauses there.

import { signal } from '@preact/signals'

export type BreakpointSide = 'before' | 'after'

export interface Breakpoints {
  before: readonly string[]
  after: readonly string[]
}

const NONE: Breakpoints = { before: [], after: [] }

const breakpointsByAgent = signal<Record<string, Breakpoints>>({})

export function breakpointsOf(agent: string): Breakpoints {
  return breakpointsByAgent.value[agent] ?? NONE
}

export function toggleBreakpoint(agent: string, node: string, side: BreakpointSide): void {
  const all = breakpointsOf(agent)
  const nodes = all[side].includes(node) ? all[side].filter((one) => one !== node) : [...all[side], node]
  breakpointsByAgent.value = { ...breakpointsByAgent.value, [agent]: { ...all, [side]: nodes } }
}

/** The fields of a request that make a run pause. */
export function pauseFields(agent: string): { pause_before?: string[]; pause_after?: string[] } {
  const { before, after } = breakpointsOf(agent)
  return {
    ...(before.length > 0 ? { pause_before: [...before].sort() } : {}),
    ...(after.length > 0 ? { pause_after: [...after].sort() } : {}),
  }
}

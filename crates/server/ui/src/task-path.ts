// Paths of tasks inside other tasks. `0.1/2.0` is the first task of step 2 of the graph inside the second task of step 0.

import type { RunView } from './transcript'

/**
 * The names of the nodes that a path leads through, such as `help/search`. `starts` are the entry nodes of the outermost
 * graph: until the first step is recorded, only they tell what runs. A part that is not known yet stays a number.
 */
export function graphPath(run: RunView, path: string, starts: readonly string[] = []): string {
  const parts = path === '' ? [] : path.split('/')
  return parts.map((part, at) => {
    const around = parts.slice(0, at).join('/')
    const [step, place] = part.split('.').map(Number) as [number, number]
    const stepsAround = run.steps.filter((one) => one.path === around)
    const recorded = stepsAround.find((one) => one.step === step + 1)?.tasks[place]?.node
    const due = step === 0 ? (around === '' ? starts : []) : stepsAround.find((one) => one.step === step)?.next
    return recorded ?? due?.[place] ?? part
  }).join('/')
}

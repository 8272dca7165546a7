// The branches of a thread. Runs that follow the same log entry are versions of one turn.

import type { RunInfo } from './api-types'

type StartedRun = RunInfo & { first: number }

const hasStarted = (run: RunInfo): run is StartedRun => typeof run.first === 'number'
/** A question that was cancelled while it stood in line leaves nothing in the log. */
const isWithdrawn = (run: RunInfo) => run.first === null && run.status === 'cancelled'
const contains = (run: StartedRun, entry: number) => run.first <= entry && entry <= (run.last ?? Number.POSITIVE_INFINITY)

/** The runs on the branch that leads to the entry `tip`, or to the newest entry, and those that have not started yet. */
export function runsOnBranch(runs: RunInfo[], tip: number | null): RunInfo[] {
  const started = runs.filter(hasStarted)
  const kept = new Set<RunInfo>()
  let run = tip === null ? newest(started) : started.find((one) => contains(one, tip))
  while (run && !kept.has(run)) {
    kept.add(run)
    const { from } = run
    run = typeof from === 'number' ? started.find((one) => contains(one, from)) : undefined
  }
  return runs.filter((one) => kept.has(one) || (!hasStarted(one) && tip === null && !isWithdrawn(one)))
}

/** The versions of the turn that a run belongs to, oldest first. */
export function turnVersions(runs: RunInfo[], id: string): RunInfo[] {
  const run = runs.find((one) => one.id === id)
  if (!run || !hasStarted(run) || typeof run.from !== 'number') return []
  return runs.filter(hasStarted).filter((one) => one.from === run.from).sort((left, right) => left.first - right.first)
}

/** The last entry of the newest branch that goes through a run. Null if that is the newest entry of the thread. */
export function branchTip(runs: RunInfo[], id: string): number | null {
  const started = runs.filter(hasStarted).sort((left, right) => left.first - right.first)
  const reached = started.filter((one) => one.id === id)
  for (const run of started) {
    const { from } = run
    if (!reached.includes(run) && typeof from === 'number' && reached.some((one) => contains(one, from))) reached.push(run)
  }
  const last = newest(reached)
  return last === undefined || last === newest(started) ? null : (last.last ?? null)
}

function newest(runs: StartedRun[]): StartedRun | undefined {
  return runs.reduce<StartedRun | undefined>((best, one) => (best && best.first > one.first ? best : one), undefined)
}

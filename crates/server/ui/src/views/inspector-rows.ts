// The rows of the timeline in the inspector.

import { graphPath } from '../task-path'
import type { RecordedStep, RunView, StoppedTask } from '../transcript'
import type { StepTask } from '../api-types'

/** A row of the timeline: a task of a recorded step, or one that failed or was stopped. */
export interface InspectorRow {
  /** Number of completed steps at this row. */
  upto: number
  step: Pick<RecordedStep, 'step' | 'path'>
  task: StepTask
  key: string
  outcome: 'done' | StoppedTask['outcome']
  /** The names of the nodes around the task, such as `help/search`. Empty in the outermost graph. */
  graph: string
  /** How deep the graph of the task is nested. */
  depth: number
  /** Number of tasks of the same step, which ran side by side. */
  parallel: number
  /** When the task began and ended, in milliseconds since 1970. */
  began: number
  ended: number
}

/** The rows of a run. `starts` are the entry nodes of the graph. */
export function inspectorRows(run: RunView | null, starts: readonly string[] = []): InspectorRow[] {
  if (!run) return []
  const rows = run.steps.flatMap((step, at): InspectorRow[] =>
    step.tasks.map((task, index) => ({
      upto: at + 1, step, task, key: `${step.n}.${index}`, outcome: 'done', graph: graphPath(run, step.path, starts), depth: step.path === '' ? 0 : step.path.split('/').length,
      parallel: step.tasks.length, began: step.at - task.ms, ended: step.at,
    })))
  const stopped = run.stoppedTasks.map(({ n, at, outcome, afterSteps, task }, index): InspectorRow => {
    const { input_tokens = 0, output_tokens = 0 } = task.usage ?? {}
    const shown: StepTask = { node: task.node, ms: task.ms, attempts: task.attempts, notes: task.notes ?? {}, input_tokens, output_tokens, update: {} }
    return {
      upto: afterSteps, step: { step: -1, path: '' }, task: shown, key: `${n}.stopped.${index}`, outcome, graph: '', depth: 0, parallel: 1,
      began: at - task.ms, ended: at,
    }
  })
  // A stopped task comes after the steps that were recorded before it.
  return [...rows, ...stopped].sort((left, right) => rowNumber(left) - rowNumber(right))
}

function rowNumber({ key }: InspectorRow): number {
  return Number.parseInt(key, 10)
}

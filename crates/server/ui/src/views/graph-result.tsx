// The result of a graph that is not a chat: its steps and its state after the run.

import { useEffect, useState } from 'preact/hooks'

import * as api from '../api'
import type { Json } from '../api-types'
import { formatDuration, t } from '../i18n'
import { sanitizeText } from '../sanitize-text'
import type { RunView } from '../transcript'
import { JsonTree } from './json-tree'
import { ProblemCard } from './problem-card'

export function GraphResult({ run }: { run: RunView }) {
  const [state, setState] = useState<Json | undefined>(undefined)
  const [error, setError] = useState<unknown>(null)
  useEffect(() => {
    let isOld = false
    const load = async () => {
      const { last } = await api.fetchRun(run.thread, run.id)
      const found = await api.fetchState(run.thread, last ?? undefined, run.agent)
      if (!isOld) setState(found.state)
    }
    load().catch((failed) => { if (!isOld) setError(failed) })
    return () => { isOld = true }
  }, [run.thread, run.id])
  const tasks = run.steps.flatMap((step) => step.tasks.map((task) => ({ task, step: step.step, path: step.path })))
  return (
    <div class="graph-result">
      <ol class="graph-steps" aria-label={t('timeline')}>
        {tasks.map(({ task, step, path }) => (
          <li key={`${path} ${step} ${task.node}`}><code>{sanitizeText(task.node)}</code> <span class="dim">{formatDuration(task.ms)}</span></li>
        ))}
      </ol>
      {error !== null && <ProblemCard error={error} />}
      {state !== undefined && <JsonTree label={t('state_after')} value={state} changed={new Set()} />}
    </div>
  )
}

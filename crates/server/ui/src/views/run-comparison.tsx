// Compares a run with another one of the same agent: steps, tokens, answer and final state.

import { useEffect, useState } from 'preact/hooks'

import * as api from '../api'
import { loadRunView, questionOfRun } from '../conversation'
import { diffStates, type StateChange } from '../state-diff'
import { buildTranscript, isSettled, type RunView } from '../transcript'
import { formatDateTime, formatDuration, formatNumber, t } from '../i18n'
import { sanitizeLine, sanitizeText } from '../sanitize-text'
import { threads } from '../agents-and-threads'
import type { RunInfo } from '../api-types'
import { ProblemCard } from './problem-card'
import { RUN_STATUS_LABELS } from './run-status'
import { threadTitle } from './sidebar'
import { DiffLine } from './state-diff-line'
import { TableFrame } from './table-frame'

interface Comparison {
  other: RunView
  changes: StateChange[]
}

export function RunComparison({ run }: { run: RunView }) {
  const [runs, setRuns] = useState<RunInfo[] | null>(null)
  const [chosen, setChosen] = useState('')
  const [got, setGot] = useState<Comparison | null>(null)
  const [error, setError] = useState<unknown>(null)
  useEffect(() => {
    api.fetchAllRuns({ agent: run.agent, limit: 50 }).then(({ runs: all }) => setRuns(all.filter((one) => one.id !== run.id)), setError)
  }, [run.id])
  useEffect(() => {
    const other = runs?.find((one) => one.id === chosen)
    setGot(null)
    setError(null)
    if (!other) return
    const left = new AbortController()
    compare(run, other, left.signal).then((made) => { if (!left.signal.aborted) setGot(made) }, (wrong) => { if (!left.signal.aborted) setError(wrong) })
    return () => left.abort()
  }, [chosen, run.id])
  return (
    <section class="comparison" aria-label={t('compare')}>
      <label class="field">
        <span>{t('compare_with')}</span>
        <select value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
          <option value="">{t('compare_choose')}</option>
          {(runs ?? []).map((one) => <option key={one.id} value={one.id}>{runLabel(one)}</option>)}
        </select>
      </label>
      {error !== null && <ProblemCard error={error} />}
      {chosen !== '' && got === null && error === null && <p class="dim" role="status">{t('loading')}</p>}
      {got && <ComparisonTable run={run} other={got.other} />}
      {got && (got.changes.length === 0 ? <p class="dim">{t('compare_same_state')}</p> : (
        <>
          <h3>{t('compare_state')}</h3>
          <ul class="diff">{got.changes.map((one) => <DiffLine key={one.path} change={one} />)}</ul>
        </>
      ))}
    </section>
  )
}

async function compare(run: RunView, other: RunInfo, signal: AbortSignal): Promise<Comparison> {
  const [view, own] = await Promise.all([loadRunView(other.thread, other.id, other.agent, signal), api.fetchRun(run.thread, run.id)])
  const stateAfter = (thread: string, entry: number | null | undefined) => api.fetchState(thread, entry ?? undefined, run.agent).then(({ state }) => state)
  const [before, after] = await Promise.all([stateAfter(run.thread, own.last), stateAfter(other.thread, other.last)])
  return { other: view, changes: diffStates(before, after) }
}

function ComparisonTable({ run, other }: { run: RunView; other: RunView }) {
  const sides = [run, other].map((view) => {
    const transcript = buildTranscript(view)
    const tasks = view.steps.flatMap((step) => step.tasks)
    const tokens = transcript.models.reduce((sum, one) => sum + (one.input_tokens ?? 0) + (one.output_tokens ?? 0), 0)
    return { view, transcript, tasks, tokens }
  })
  const rows: [string, (side: (typeof sides)[number]) => string][] = [
    [t('status'), ({ view }) => t(RUN_STATUS_LABELS[view.status])],
    [t('timeline'), ({ tasks }) => tasks.map((task) => sanitizeText(task.node)).join(' → ')],
    [t('duration'), ({ view, tasks }) => formatDuration(isSettled(view.status) && view.ended > view.started ? view.ended - view.started : tasks.reduce((sum, task) => sum + task.ms, 0))],
    [t('tokens_and_cost'), ({ tokens }) => t('tokens', { n: formatNumber(tokens) })],
    [t('reply'), ({ transcript }) => sanitizeText(transcript.text)],
  ]
  return (
    <TableFrame name="table" label={t('compare')}>
      <table>
        <thead><tr><th /><th>{t('compare_this')}</th><th>{t('compare_other')}</th></tr></thead>
        <tbody>
          {rows.map(([label, text]) => {
            const [left, right] = sides.map(text)
            return <tr key={label} class={left === right ? '' : 'is-different'}><th scope="row">{label}</th><td>{left}</td><td>{right}</td></tr>
          })}
        </tbody>
      </table>
    </TableFrame>
  )
}

/** A run is named by its question, as far as that is loaded, else by its conversation. */
function runLabel(run: RunInfo): string {
  const thread = threads.value.find((one) => one.id === run.thread)
  const name = sanitizeLine(questionOfRun(run.id)) || (thread ? threadTitle(thread) : run.thread)
  return `${formatDateTime(run.created)} · ${t(RUN_STATUS_LABELS[run.status])} · ${name}`.slice(0, 120)
}

// The inspector: the graph, the timeline and the steps of a run.

import { useEffect, useMemo, useState } from 'preact/hooks'

import { sanitizeText } from '../sanitize-text'
import { conversation, watchTurn } from '../conversation'
import { modelCallsIn, type RunView, type RecordedStep } from '../transcript'
import { formatNumber, t, formatDuration, type MessageKey } from '../i18n'
import { selectedAgent } from '../agents-and-threads'
import { inspectorOpen } from '../settings'
import type { StepTask } from '../api-types'
import { agentName } from './agent-picker'
import { GraphView } from './graph'
import { Icon } from './icons'
import { inspectedTurn } from './inspected-turn'
import { StepDetail } from './step-detail'

const STATUS_LABELS: Record<RunView['status'], MessageKey> = {
  waiting: 'status_waiting', running: 'status_running', paused: 'status_paused', finished: 'status_finished',
  failed: 'status_failed', cancelled: 'status_cancelled',
}

/** A row of the timeline. */
export interface InspectorRow {
  /** Number of completed steps at this row. */
  upto: number
  step: RecordedStep
  task: StepTask
  key: string
}

export function Inspector() {
  const turn = inspectedTurn.value
  const run = turn?.run.value ?? null
  const [chosen, setChosen] = useState<string | null>(null)
  const [upto, setUpto] = useState<number | null>(null)
  useEffect(() => {
    setChosen(null)
    setUpto(null)
    if (turn && !turn.run.peek() && turn.id.peek() !== null) watchTurn(turn)
  }, [turn])

  const rows = useMemo(() => inspectorRows(run), [run])
  const id = run?.agent || turn?.agent || selectedAgent.value
  const row = rows.find((one) => one.key === chosen) ?? null
  const choose = (next: InspectorRow) => {
    if (next.key === chosen) {
      setChosen(null)
      setUpto(null)
      return
    }
    setChosen(next.key)
    setUpto(next.upto)
  }
  const { thread } = conversation.value
  const most = Math.max(1, ...rows.map((one) => one.task.ms))
  const total = run?.steps.length ?? 0
  return (
    <section class="panel inspector" aria-label={t('inspector')}>
      <header class="panel-head">
        <div class="grow">
          <h2>{t('inspector')}</h2>
          <p class="dim">
            {agentName(id)}
            {run && <> · <span class={`status is-${run.status}`}>{t(STATUS_LABELS[run.status])}</span></>}
            {run && run.restarts > 0 && <> · {t('restarted_n', { n: run.restarts })}</>}
          </p>
        </div>
        <button type="button" class="ghost" onClick={() => { inspectorOpen.value = false }} aria-label={t('close')} title={t('close')}><Icon name="close" /></button>
      </header>
      <div class="panel-body">
        {id !== '' && <GraphView agent={id} run={run} upto={upto} choose={(node, path) => {
          const found = rows.findLast((one) => one.task.node === node && one.step.path === path)
          if (found) choose(found)
        }} />}
        {total > 1 && (
          <label class="scrub">
            <span>{t('step_of', { n: upto ?? total, all: total })}</span>
            <input type="range" min={0} max={total} value={upto ?? total} aria-label={t('rewind')}
              onInput={(event) => {
                const at = Number(event.currentTarget.value)
                setUpto(at >= total ? null : at)
                setChosen(null)
              }} />
          </label>
        )}
        {rows.length > 0 ? (
          <ol class="timeline" aria-label={t('timeline')}>
            {rows.map((one) => (
              <li key={one.key} class={upto !== null && one.upto > upto ? 'is-later' : ''}>
                <button type="button" class={one.key === chosen ? 'is-on' : ''} aria-expanded={one.key === chosen} onClick={() => choose(one)}>
                  <span class="pip" aria-hidden="true" />
                  <span class="row-node">{one.step.path && <small>{sanitizeText(one.step.path)} › </small>}{sanitizeText(one.task.node)}</span>
                  {one.task.attempts > 1 && <span class="tag warm">{t('tries_n', { n: one.task.attempts })}</span>}
                  <RowTokens task={one.task} />
                  <meter class="bar" min={0} max={most} value={one.task.ms} aria-hidden="true" />
                  <span class="row-ms">{formatDuration(one.task.ms)}</span>
                </button>
                {one.key === chosen && row && run && thread !== null && <StepDetail row={row} run={run} thread={thread} />}
              </li>
            ))}
            {run && (run.status === 'running' || run.status === 'paused') && run.next.map((node) => (
              <li key={`next-${node}`} class={`is-${run.status}`}>
                <div class="due"><span class="pip" aria-hidden="true" /><span class="row-node">{sanitizeText(node)}</span>
                  <span class="row-ms">{t(run.status === 'paused' ? 'waiting' : 'running')}</span></div>
              </li>
            ))}
            {run?.failure?.node && (
              <li class="is-failed"><div class="due"><span class="pip" aria-hidden="true" /><span class="row-node">{sanitizeText(run.failure.node)}</span>
                <span class="row-ms">{t('failed')}</span></div></li>
            )}
          </ol>
        ) : <p class="dim pad">{t(turn ? 'no_steps_yet' : 'ask_to_see')}</p>}
      </div>
    </section>
  )
}

function RowTokens({ task }: { task: StepTask }) {
  const tokens = task.input_tokens + task.output_tokens
    || modelCallsIn(task).reduce((sum, one) => sum + (one.input_tokens ?? 0) + (one.output_tokens ?? 0), 0)
  return tokens > 0 ? <span class="row-tokens">{t('tokens', { n: formatNumber(tokens) })}</span> : null
}

export function inspectorRows(run: RunView | null): InspectorRow[] {
  return (run?.steps ?? []).flatMap((step, at) =>
    step.tasks.map((task, index) => ({ upto: at + 1, step, task, key: `${step.n}.${index}` })),
  )
}

// The runs of all threads, with filters.

import { useEffect, useState } from 'preact/hooks'

import * as api from '../api'
import { agents, threads } from '../agents-and-threads'
import { formatCost, formatDateTime, formatDuration, formatNumber, t } from '../i18n'
import { questionOfRun } from '../conversation'
import { sanitizeLine } from '../sanitize-text'
import { inspectorOpen } from '../settings'
import { navigate } from '../route'
import type { RunInfo } from '../api-types'
import { agentName } from './agent-picker'
import { ProblemCard } from './problem-card'
import { RUN_STATUS_LABELS } from './run-status'
import { threadTitle } from './sidebar'
import { TableFrame } from './table-frame'

const STATUSES = ['queued', 'running', 'paused', 'finished', 'failed', 'cancelled'] as const

export function Runs() {
  const [agent, setAgent] = useState('')
  const [status, setStatus] = useState('')
  const [got, setGot] = useState<{ runs: RunInfo[]; next: string | null } | null>(null)
  const [error, setError] = useState<unknown>(null)
  const load = async (before?: string) => {
    setError(null)
    try {
      const page = await api.fetchAllRuns({ agent, status, limit: 50, ...(before ? { before } : {}) })
      setGot((old) => ({ runs: before ? [...(old?.runs ?? []), ...page.runs] : page.runs, next: page.next }))
    } catch (wrong) {
      setError(wrong)
    }
  }
  useEffect(() => {
    setGot(null)
    void load()
  }, [agent, status])
  return (
    <div class="runs scroller" tabIndex={-1}>
      <div class="runs-page">
        <h1>{t('runs')}</h1>
        <p class="dim">{t('runs_about')}</p>
        <div class="row filters">
          <label class="picker"><span class="away">{t('agent')}</span>
            <select value={agent} onChange={(event) => setAgent(event.currentTarget.value)}>
              <option value="">{t('all_agents')}</option>
              {agents.value.map(({ id }) => <option key={id} value={id}>{agentName(id)}</option>)}
            </select>
          </label>
          <label class="picker"><span class="away">{t('status')}</span>
            <select value={status} onChange={(event) => setStatus(event.currentTarget.value)}>
              <option value="">{t('all_statuses')}</option>
              {STATUSES.map((one) => <option key={one} value={one}>{t(RUN_STATUS_LABELS[one])}</option>)}
            </select>
          </label>
        </div>
        {error !== null && <ProblemCard error={error}><button type="button" onClick={() => void load()}>{t('try_again')}</button></ProblemCard>}
        {got === null && error === null && <p class="dim" role="status">{t('loading')}</p>}
        {got?.runs.length === 0 && <p class="dim" role="status">{t('runs_empty')}</p>}
        {got && got.runs.length > 0 && (
          <TableFrame name="table" label={t('runs')}>
            <table>
              <thead><tr><th>{t('started_at')}</th><th>{t('status')}</th><th>{t('conversation')}</th><th>{t('agent')}</th><th>{t('timeline')}</th><th>{t('duration')}</th><th>{t('tokens_and_cost')}</th></tr></thead>
              <tbody>{got.runs.map((run) => <RunRow key={run.id} run={run} />)}</tbody>
            </table>
          </TableFrame>
        )}
        {got?.next && <button type="button" class="more" onClick={() => void load(got.next ?? undefined)}>{t('more')}</button>}
      </div>
    </div>
  )
}

function RunRow({ run }: { run: RunInfo }) {
  const thread = threads.value.find((one) => one.id === run.thread)
  const title = thread ? threadTitle(thread) : run.thread
  const question = sanitizeLine(run.question ?? questionOfRun(run.id)).slice(0, 200)
  const tokens = run.usage.input_tokens + run.usage.output_tokens
  const open = () => {
    inspectorOpen.value = true
    navigate({ view: 'chat', thread: run.thread }, 'push', { run: run.id, row: null })
  }
  return (
    <tr>
      <td>{formatDateTime(run.started ?? run.created)}</td>
      <td><span class={`status is-${run.status}`}>{t(RUN_STATUS_LABELS[run.status])}</span></td>
      <td><button type="button" class="link" onClick={open}>{title}</button>{question !== '' && question !== title && <p class="dim">{question}</p>}</td>
      <td>{agentName(run.agent)}{run.agent_missing && <> <span class="dim">{t('agent_missing')}</span></>}</td>
      <td class="to-right">{formatNumber(run.steps)}</td>
      <td class="to-right">{run.started !== null && run.ended !== null ? formatDuration(run.ended - run.started) : '–'}</td>
      <td class="to-right">{t('tokens', { n: formatNumber(tokens) })}{run.usage.cost_micros > 0 && <> · {formatCost(run.usage.cost_micros)}</>}</td>
    </tr>
  )
}

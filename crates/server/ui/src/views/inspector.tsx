// The inspector: the graph, the timeline and the steps of a run.

import { useEffect, useMemo, useState } from 'preact/hooks'

import { sanitizeText } from '../sanitize-text'
import { conversation, showVersion, watchTurn, type Turn } from '../conversation'
import { buildTranscript, modelCallsIn, type RunView } from '../transcript'
import { citedNumbers } from '../citation-marks'
import { formatNumber, t, formatDuration } from '../i18n'
import { isChatAgent, selectedAgent } from '../agents-and-threads'
import { curlCommand, curlCommandWithSettings } from '../curl-command'
import { settingsForNewThread, settingsOfChat } from '../models'
import { hasApiKey, randomId } from '../api'
import { parseJsonObject } from '../json-search'
import { openedLink, showInspectorLink } from '../route'
import { inspectorOpen, isInspectorFull } from '../settings'
import type { StepTask } from '../api-types'
import { agentName } from './agent-picker'
import { BreakpointList } from './breakpoint-list'
import { CopyButton } from './copy-button'
import { GraphView } from './graph'
import { Icon } from './icons'
import { inspectedTurn, inspectRun } from './inspected-turn'
import { inspectorRows, type InspectorRow } from './inspector-rows'
import { RunComparison } from './run-comparison'
import { RUN_STATUS_LABELS } from './run-status'
import { saveAsCase } from './save-case'
import { StepDetail } from './step-detail'

export function Inspector() {
  const turn = inspectedTurn.value
  const run = turn?.run.value ?? null
  const [chosen, setChosen] = useState<string | null>(null)
  const [upto, setUpto] = useState<number | null>(null)
  const [graph, setGraph] = useState<{ nodes: string[]; starts: string[] }>({ nodes: [], starts: [] })
  const [isComparing, setComparing] = useState(false)
  useEffect(() => {
    setChosen(null)
    setUpto(null)
    setComparing(false)
    if (turn && !turn.run.peek() && turn.id.peek() !== null) watchTurn(turn)
  }, [turn])

  const rows = useMemo(() => inspectorRows(run, graph.starts), [run, graph.starts])
  const id = run?.agent || turn?.agent || selectedAgent.value
  const row = rows.find((one) => one.key === chosen) ?? null
  const choose = (next: InspectorRow | null) => {
    setChosen(next?.key ?? null)
    setUpto(next?.upto ?? null)
  }
  useFollowLink(turn, rows, choose)
  const runId = turn?.id.value ?? null
  useEffect(() => {
    // The link that the page was opened with stays in the address until it was followed.
    if (openedLink.value === null) showInspectorLink(runId === null ? null : { run: runId, row: chosen })
  }, [runId, chosen, openedLink.value])
  useEffect(() => () => showInspectorLink(null), [])
  const { thread } = conversation.value
  const total = run?.steps.length ?? 0
  return (
    <section class="panel inspector" aria-label={t('inspector')}>
      <header class="panel-head">
        <div class="grow">
          <h2>{t('inspector')}</h2>
          <p class="dim">
            {agentName(id)}
            {run && <> · <span class={`status is-${run.status}`}>{t(RUN_STATUS_LABELS[run.status])}</span></>}
            {run && run.restarts > 0 && <> · {t('restarted_n', { n: run.restarts })}</>}
          </p>
        </div>
        {run && <CopyButton icon="link" label={t('copy_link')} text={() => location.href} />}
        {turn && turn.question !== '' && <CopyButton icon="terminal" label={t('copy_curl')} text={() => curlOfTurn(turn, id, thread)} />}
        {run && turn && turn.question !== '' && (
          <button type="button" class="ghost" onClick={() => saveEvalCase(turn, run, id)} aria-label={t('save_case')} title={t('save_case')}><Icon name="check" /></button>
        )}
        {run && (
          <button type="button" class={isComparing ? 'ghost is-on' : 'ghost'} aria-pressed={isComparing} onClick={() => setComparing(!isComparing)}
            aria-label={t('compare')} title={t('compare')}><Icon name="compare" /></button>
        )}
        <button type="button" class="ghost only-wide" aria-pressed={isInspectorFull.value} onClick={() => { isInspectorFull.value = !isInspectorFull.value }}
          aria-label={t(isInspectorFull.value ? 'inspector_docked' : 'inspector_full')} title={t(isInspectorFull.value ? 'inspector_docked' : 'inspector_full')}>
          <Icon name={isInspectorFull.value ? 'dock' : 'wide'} />
        </button>
        <button type="button" class="ghost" onClick={() => { inspectorOpen.value = false }} aria-label={t('close')} title={t('close')}><Icon name="close" /></button>
      </header>
      <div class="panel-body">
        <div class="inspector-graph">
          {id !== '' && <GraphView agent={id} run={run} upto={upto} onNodes={(nodes, starts) => setGraph({ nodes, starts })} choose={(node, path) => {
            const found = rows.findLast((one) => one.task.node === node && one.graph === path)
            if (found) choose(found.key === chosen ? null : found)
          }} />}
          <BreakpointList agent={id} nodes={graph.nodes} />
        </div>
        <div class="inspector-steps">
          {isComparing && run && <RunComparison run={run} />}
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
                <li key={one.key} class={rowClass(one, upto)}>
                  <TimelineButton row={one} rows={rows} isChosen={one.key === chosen} choose={() => choose(one.key === chosen ? null : one)} />
                  {one.key === chosen && row && run && thread !== null && <StepDetail row={row} run={run} thread={thread} />}
                </li>
              ))}
              {run && <DueNodes run={run} rows={rows} />}
            </ol>
          ) : <p class="dim pad">{t(turn ? 'no_steps_yet' : 'ask_to_see')}</p>}
        </div>
      </div>
    </section>
  )
}

/** The command that asks the question of a turn again, with the settings of its chat. */
function curlOfTurn({ question }: Turn, agent: string, thread: string | null): string {
  const request = { agent, ...(isChatAgent(agent) ? { message: question } : { input: parseJsonObject(question) ?? {} }) }
  const settings = settingsForNewThread(settingsOfChat(thread))
  if (Object.keys(settings).length > 0) return curlCommandWithSettings(location.origin, settings, request, hasApiKey())
  return curlCommand(location.origin, `from-curl-${randomId().slice(0, 8)}`, request, hasApiKey())
}

/** Opens the dialog that saves the turn as a case. The case expects what the run did; whoever saves it corrects what was wrong. */
function saveEvalCase(turn: Turn, run: RunView, agent: string): void {
  const { items, sources, text } = buildTranscript(run)
  const cited = new Set(citedNumbers(text, sources.map((one) => one.number), true))
  const { turns } = conversation.value
  saveAsCase({
    id: caseId(turn.question, run.id),
    agent,
    before: turns.slice(0, turns.indexOf(turn)).map((one) => one.question).filter((question) => question !== ''),
    ask: turn.question,
    expect: {
      contains: [],
      lacks: [],
      tools: [...new Set(items.flatMap((item) => (item.kind === 'tool' && !item.isDenied ? [item.name] : [])))],
      sources: [...new Set(sources.filter((one) => cited.has(one.number)).map((one) => one.title))],
    },
  })
}

/** A name that people recognise, and that no other case has. */
function caseId(question: string, run: string): string {
  const words = question.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
  return [...words.slice(0, 4), run.slice(-6)].join('-').slice(0, 100)
}

/** Opens the run and the step that the address of the page names, once they are loaded. */
function useFollowLink(turn: Turn | null, rows: InspectorRow[], choose: (row: InspectorRow) => void): void {
  const link = openedLink.value
  const { state, turns, runs } = conversation.value
  useEffect(() => {
    if (!link || state !== 'ready' || turns.length === 0) return
    if (turn?.id.value !== link.run) {
      if (inspectRun(link.run)) return
      // The run may be on another branch.
      if (runs.some((one) => one.id === link.run)) void showVersion(link.run)
      else openedLink.value = null
      return
    }
    const row = rows.find((one) => one.key === link.row)
    if (row) choose(row)
    if (row || link.row === null) openedLink.value = null
  }, [link, state, turns, turn, rows])
}

function rowClass(row: InspectorRow, upto: number | null): string {
  return [upto !== null && row.upto > upto ? 'is-later' : '', `is-${row.outcome}`, `depth-${Math.min(3, row.depth)}`, row.parallel > 1 ? 'is-parallel' : ''].join(' ').trim()
}

interface TimelineButtonProps {
  row: InspectorRow
  rows: InspectorRow[]
  isChosen: boolean
  choose: () => void
}

function TimelineButton({ row, rows, isChosen, choose }: TimelineButtonProps) {
  const { task, graph, outcome, parallel } = row
  return (
    <button type="button" class={isChosen ? 'is-on' : ''} aria-expanded={isChosen} onClick={choose}>
      <span class="pip" aria-hidden="true" />
      <span class="row-node">{graph !== '' && <small>{sanitizeText(graph.replaceAll('/', ' › '))} › </small>}{sanitizeText(task.node)}</span>
      {parallel > 1 && <span class="tag">{t('parallel_n', { n: parallel })}</span>}
      {outcome !== 'done' && <span class="tag warm">{t(outcome === 'failed' ? 'failed' : 'status_cancelled')}</span>}
      {task.attempts > 1 && <span class="tag warm">{t('tries_n', { n: task.attempts })}</span>}
      <RowTokens task={task} />
      <TimeBar row={row} rows={rows} />
      <span class="row-ms">{formatDuration(task.ms)}</span>
    </button>
  )
}

/** When the task ran, within the whole run. */
function TimeBar({ row, rows }: { row: InspectorRow; rows: InspectorRow[] }) {
  const from = Math.min(...rows.map((one) => one.began))
  const all = Math.max(1, Math.max(...rows.map((one) => one.ended)) - from)
  const x = Math.min(98, Math.max(0, ((row.began - from) / all) * 100))
  const width = Math.max(2, Math.min(100 - x, (row.task.ms / all) * 100))
  return <svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect x={x} y={0} width={width} height={4} /></svg>
}

/** The nodes that run now or wait, and the one that failed without a record of its own. */
function DueNodes({ run, rows }: { run: RunView; rows: InspectorRow[] }) {
  const { failure } = run
  const isListed = rows.some((one) => one.outcome === 'failed' && one.task.node === failure?.node)
  return (
    <>
      {(run.status === 'running' || run.status === 'paused') && run.next.map((node) => (
        <li key={`next-${node}`} class={`is-${run.status}`}>
          <div class="due"><span class="pip" aria-hidden="true" /><span class="row-node">{sanitizeText(node)}</span>
            <span class="row-ms">{t(run.status === 'paused' ? 'waiting' : 'running')}</span></div>
        </li>
      ))}
      {failure?.node && !isListed && (
        <li class="is-failed"><div class="due"><span class="pip" aria-hidden="true" /><span class="row-node">{sanitizeText(failure.node)}</span>
          <span class="row-ms">{t('failed')}</span></div></li>
      )}
    </>
  )
}

function RowTokens({ task }: { task: StepTask }) {
  const tokens = task.input_tokens + task.output_tokens
    || modelCallsIn(task).reduce((sum, one) => sum + (one.input_tokens ?? 0) + (one.output_tokens ?? 0), 0)
  return tokens > 0 ? <span class="row-tokens">{t('tokens', { n: formatNumber(tokens) })}</span> : null
}

// The activity of an agent before its answer: one line that expands to its reasoning and tool calls.

import { useEffect, useState } from 'preact/hooks'

import { sanitizeText } from '../sanitize-text'
import type { TranscriptItem, RunView } from '../transcript'
import { t, formatDuration, type MessageKey } from '../i18n'
import { activityDetail } from '../settings'
import type { Json } from '../api-types'
import { CopyButton } from './copy-button'
import { Icon } from './icons'

const STEP_LABELS: Record<string, MessageKey> = {
  planning: 'step_planning',
  tool_selected: 'step_tool_selected',
  evaluation_result: 'step_evaluation_result',
  generating: 'step_generating',
  routing: 'step_routing',
  searching: 'step_searching',
  summarizing: 'step_summarizing',
}

export function stepName(step: string): string {
  const key = STEP_LABELS[step]
  return key ? t(key) : sanitizeText(step)
}

interface ActivityProps {
  run: RunView | null
  items: TranscriptItem[]
  isLive: boolean
  /** Loads the events of the run if they are not loaded yet. */
  load: () => void
}

export function Activity({ run, items, isLive, load }: ActivityProps) {
  const [isOpen, setOpen] = useState(activityDetail.value === 'all')
  useEffect(() => {
    setOpen(activityDetail.value === 'all')
    if (activityDetail.value === 'all') load()
  }, [activityDetail.value])
  const doings = items.filter((item, at) => !isRepeatedByNext(item, items[at + 1])).filter((item) => item.kind !== 'text')
  const newest = doings.at(-1)
  const tasks = run?.steps.filter((step) => step.path === '').flatMap((step) => step.tasks) ?? []
  const ms = run && run.ended > run.started ? run.ended - run.started : tasks.reduce((sum, task) => sum + task.ms, 0)
  const isWriting = items.at(-1)?.kind === 'text' && items.at(-1)?.live === true
  const now = isLive ? (isWriting ? t('writing') : currentActivity(newest, run)) : run ? t('steps_took', { n: tasks.length, time: formatDuration(ms) }) : t('steps')
  return (
    <div class={isLive ? 'activity is-live' : 'activity'}>
      <button type="button" class="activity-line" aria-expanded={isOpen} onClick={() => { load(); setOpen(!isOpen) }}>
        <span class={isOpen ? 'turner is-open' : 'turner'}><Icon name="chevron" size={14} /></span>
        <span class="activity-now">{now}</span>
      </button>
      {isOpen && (
        <ol class="doings">
          {doings.map((item, at) => (
            <li key={at}>
              {item.kind === 'thinking' ? (
                <div class="thought">
                  <span class="tag">{stepName(item.step)}</span>
                  <span class="thought-text">{sanitizeText(item.content)}</span>
                </div>
              ) : (
                <ToolCard item={item} isLive={isLive} />
              )}
            </li>
          ))}
          {doings.length === 0 && (
            <li class="thought">
              {tasks.length > 0
                ? tasks.map((task, at) => <span key={at} class="node-chip">{sanitizeText(task.node)} <small>{formatDuration(task.ms)}</small></span>)
                : <span class="dim">{t('nothing_to_show')}</span>}
            </li>
          )}
        </ol>
      )}
    </div>
  )
}

/** Whether the item only says which tool was chosen, and the next item is its call. */
function isRepeatedByNext(item: TranscriptItem, next: TranscriptItem | undefined): boolean {
  return item.kind === 'thinking' && item.step === 'tool_selected' && next?.kind === 'tool' && item.content.includes(next.name)
}

function currentActivity(newest: TranscriptItem | undefined, run: RunView | null): string {
  if (newest?.kind === 'tool' && newest.result === null) return t('using_tool', { name: sanitizeText(newest.name) })
  if (newest?.kind === 'thinking') return `${stepName(newest.step)} · ${shorten(sanitizeText(newest.content))}`
  const due = run?.next[0]
  return due ? t('working_on', { name: sanitizeText(due) }) : t('working')
}

function shorten(text: string): string {
  const line = text.replace(/\s+/g, ' ')
  return line.length > 90 ? `${line.slice(0, 90)}…` : line
}

export function ToolCard({ item, isLive }: { item: Extract<TranscriptItem, { kind: 'tool' }>; isLive: boolean }) {
  const { result } = item
  const isDenied = item.isDenied && result?.failed !== false
  const state = isDenied ? 'is-denied' : result === null ? (isLive ? 'is-running' : 'is-open') : result.failed ? 'is-failed' : 'is-done'
  const stateText = isDenied ? t('denied') : result === null ? (isLive ? t('running') : t('no_result')) : result.failed ? t('failed') : t('done')
  return (
    <details class={`tool ${state}`} open={activityDetail.value === 'all'}>
      <summary>
        <Icon name="tool" size={15} />
        <code class="tool-name">{sanitizeText(item.name)}</code>
        <span class="tool-args">{shorten(sanitizeText(oneLine(item.arguments)))}</span>
        <span class="tool-state">{stateText}{!isDenied && result?.ms !== undefined && ` · ${formatDuration(result.ms)}`}</span>
      </summary>
      <LabelledText label={t('arguments')} text={formatJson(item.arguments)} />
      {result && <LabelledText label={t(isDenied ? 'told_model' : result.failed ? 'error' : 'result')} text={result.text} />}
    </details>
  )
}

/** Longer texts are cut, with a button to show the rest. */
const MAX_SHOWN_CHARS = 4000

export function LabelledText({ label, text }: { label: string; text: string }) {
  const [isWhole, setWhole] = useState(false)
  const tidy = sanitizeText(text)
  const cut = isWhole || tidy.length <= MAX_SHOWN_CHARS ? tidy : tidy.slice(0, MAX_SHOWN_CHARS)
  return (
    <div class="labelled">
      <div class="labelled-head">
        <span>{label}</span>
        <CopyButton text={text} />
      </div>
      <pre tabIndex={0}>{cut}</pre>
      {cut.length < tidy.length && (
        <button type="button" class="more" onClick={() => setWhole(true)}>{t('show_more', { n: tidy.length - cut.length })}</button>
      )}
    </div>
  )
}

export function formatJson(value: Json): string {
  return typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '')
}

function oneLine(value: Json): string {
  if (value === null) return ''
  if (typeof value === 'object' && !Array.isArray(value)) {
    return Object.entries(value).map(([name, one]) => `${name}: ${typeof one === 'string' ? one : JSON.stringify(one)}`).join(', ')
  }
  return JSON.stringify(value)
}

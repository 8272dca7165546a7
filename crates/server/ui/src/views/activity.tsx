// What an agent did before it answered: one line, which opens to its thoughts and tool calls.

import { useEffect, useState } from 'preact/hooks'

import { clean } from '../clean'
import type { Item, Run } from '../fold'
import { t, took, type Key } from '../i18n'
import { detail } from '../settings'
import type { Json } from '../types'
import { CopyButton } from './copy'
import { Icon } from './icons'

const STEPS: Record<string, Key> = {
  planning: 'step_planning',
  tool_selected: 'step_tool_selected',
  evaluation_result: 'step_evaluation_result',
  generating: 'step_generating',
  routing: 'step_routing',
  searching: 'step_searching',
  summarizing: 'step_summarizing',
}

export function stepName(step: string): string {
  const key = STEPS[step]
  return key ? t(key) : clean(step)
}

interface Props {
  run: Run | null
  items: Item[]
  isLive: boolean
  /** Asks for what is not loaded yet. */
  load: () => void
}

export function Activity({ run, items, isLive, load }: Props) {
  const [isOpen, setOpen] = useState(detail.value === 'all')
  useEffect(() => {
    setOpen(detail.value === 'all')
    if (detail.value === 'all') load()
  }, [detail.value])
  const doings = items.filter((item, at) => !saysTheSame(item, items[at + 1])).filter((item) => item.kind !== 'text')
  const newest = doings.at(-1)
  const tasks = run?.steps.filter((step) => step.path === '').flatMap((step) => step.tasks) ?? []
  const ms = run && run.ended > run.started ? run.ended - run.started : tasks.reduce((sum, task) => sum + task.ms, 0)
  const now = isLive ? doing(newest, run) : run ? t('steps_took', { n: tasks.length, time: took(ms) }) : t('steps')
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
                  <span class="thought-text">{clean(item.content)}</span>
                </div>
              ) : (
                <ToolCard item={item} isLive={isLive} />
              )}
            </li>
          ))}
          {doings.length === 0 && (
            <li class="thought">
              {tasks.length > 0
                ? tasks.map((task, at) => <span key={at} class="node-chip">{clean(task.node)} <small>{took(task.ms)}</small></span>)
                : <span class="dim">{t('nothing_to_show')}</span>}
            </li>
          )}
        </ol>
      )}
    </div>
  )
}

/** A tool that is chosen and then used is told once, by its use. */
function saysTheSame(item: Item, next: Item | undefined): boolean {
  return item.kind === 'thinking' && item.step === 'tool_selected' && next?.kind === 'tool' && item.content.includes(next.name)
}

function doing(newest: Item | undefined, run: Run | null): string {
  if (newest?.kind === 'tool' && newest.result === null) return t('using_tool', { name: clean(newest.name) })
  if (newest?.kind === 'thinking') return `${stepName(newest.step)} · ${shorten(clean(newest.content))}`
  const due = run?.next[0]
  return due ? t('working_on', { name: clean(due) }) : t('working')
}

function shorten(text: string): string {
  const line = text.replace(/\s+/g, ' ')
  return line.length > 90 ? `${line.slice(0, 90)}…` : line
}

export function ToolCard({ item, isLive }: { item: Extract<Item, { kind: 'tool' }>; isLive: boolean }) {
  const { result } = item
  const isDenied = item.isDenied && result?.failed !== false
  const state = isDenied ? 'is-denied' : result === null ? (isLive ? 'is-running' : 'is-open') : result.failed ? 'is-failed' : 'is-done'
  const said = isDenied ? t('denied') : result === null ? (isLive ? t('running') : t('no_result')) : result.failed ? t('failed') : t('done')
  return (
    <details class={`tool ${state}`} open={detail.value === 'all'}>
      <summary>
        <Icon name="tool" size={15} />
        <code class="tool-name">{clean(item.name)}</code>
        <span class="tool-args">{shorten(clean(oneLine(item.arguments)))}</span>
        <span class="tool-state">{said}{!isDenied && result?.ms !== undefined && ` · ${took(result.ms)}`}</span>
      </summary>
      <Labelled label={t('arguments')} text={pretty(item.arguments)} />
      {result && <Labelled label={t(isDenied ? 'told_model' : result.failed ? 'error' : 'result')} text={result.text} />}
    </details>
  )
}

/** More than this is shown when it is asked for. */
const SHOWN = 4000

export function Labelled({ label, text }: { label: string; text: string }) {
  const [isWhole, setWhole] = useState(false)
  const tidy = clean(text)
  const cut = isWhole || tidy.length <= SHOWN ? tidy : tidy.slice(0, SHOWN)
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

export function pretty(value: Json): string {
  return typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '')
}

function oneLine(value: Json): string {
  if (value === null) return ''
  if (typeof value === 'object' && !Array.isArray(value)) {
    return Object.entries(value).map(([name, one]) => `${name}: ${typeof one === 'string' ? one : JSON.stringify(one)}`).join(', ')
  }
  return JSON.stringify(value)
}

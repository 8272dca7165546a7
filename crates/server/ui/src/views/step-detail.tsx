// The details of one step: prompt, reply, tokens and cost, state change.

import { useEffect, useRef, useState } from 'preact/hooks'

import * as api from '../api'
import { sanitizeText } from '../sanitize-text'
import { diffStates, type StateChange } from '../state-diff'
import { isJsonObject, modelCallsIn, repliesIn, activitiesIn, type ModelCall, type RunView } from '../transcript'
import { formatCost, formatNumber, t, formatDuration, type MessageKey } from '../i18n'
import { isExtractive, loadThreads, threads } from '../agents-and-threads'
import { navigate } from '../route'
import type { Json, StepTask } from '../api-types'
import { LabelledText, formatJson, stepName } from './activity'
import { Icon } from './icons'
import type { InspectorRow } from './inspector'
import { ProblemCard } from './problem-card'
import { threadTitle } from './sidebar'

type StepTab = 'reply' | 'prompt' | 'change' | 'state' | 'raw'

const TABS: [StepTab, MessageKey][] = [['reply', 'tab_reply'], ['prompt', 'tab_prompt'], ['change', 'tab_change'], ['state', 'tab_state'], ['raw', 'tab_raw']]

export function StepDetail({ row, run, thread }: { row: InspectorRow; run: RunView; thread: string }) {
  const [tab, setTab] = useState<StepTab>('reply')
  const { task, step } = row
  const models = modelCallsIn(task)
  const tabs = models.length > 0 || task.input_tokens > 0 ? TABS : TABS.filter(([name]) => name !== 'prompt')
  const move = (event: KeyboardEvent) => {
    const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0
    if (by === 0) return
    event.preventDefault()
    const at = tabs.findIndex(([name]) => name === tab)
    const next = tabs[(at + by + tabs.length) % tabs.length]
    if (!next) return
    setTab(next[0])
    const list = (event.currentTarget as HTMLElement)
    requestAnimationFrame(() => (list.querySelector('[aria-selected=true]') as HTMLElement | null)?.focus())
  }
  const shown = useRef<HTMLDivElement>(null)
  useEffect(() => {
    // Scrolls a step into view that opens below the edge of the panel.
    const one = shown.current
    const panel = one?.closest('.panel-body')
    if (one && panel && one.getBoundingClientRect().bottom > panel.getBoundingClientRect().bottom) {
      one.closest('li')?.scrollIntoView({ block: 'start' })
    }
  }, [])
  return (
    <div class="step" ref={shown}>
      {models.length > 0 && <ModelRows models={models} />}
      {step.path === '' && <ForkButton thread={thread} run={run} step={step.step} node={task.node} />}
      <div class="tabs" role="tablist" aria-label={sanitizeText(task.node)} onKeyDown={move}>
        {tabs.map(([name, words]) => (
          <button key={name} type="button" role="tab" id={`tab-${name}`} aria-selected={tab === name} aria-controls="step-body"
            tabIndex={tab === name ? 0 : -1} onClick={() => setTab(name)}>{t(words)}</button>
        ))}
      </div>
      <div class="tab-body" role="tabpanel" id="step-body" aria-labelledby={`tab-${tab}`} tabIndex={0}>
        {tab === 'reply' && <ReplyTab task={task} />}
        {tab === 'prompt' && <PromptTab thread={thread} run={run} step={step.step} node={task.node} />}
        {tab === 'change' && <ChangeTab update={task.update} />}
        {tab === 'state' && <StateTab thread={thread} run={run} step={step.step} node={task.node} />}
        {tab === 'raw' && <LabelledText label={t('tab_raw')} text={formatJson(task as unknown as Json)} />}
      </div>
    </div>
  )
}

const PURPOSE_LABELS: Record<string, MessageKey> = {
  answer: 'purpose_answer', route: 'purpose_route', scope: 'purpose_scope', previous_context: 'purpose_previous', plan: 'purpose_plan',
  sufficiency: 'purpose_sufficiency', classify: 'purpose_classify', summarize: 'purpose_summarize', rewrite: 'purpose_rewrite',
}

function purposeName(purpose: string): string {
  const key = PURPOSE_LABELS[purpose]
  return key ? t(key) : sanitizeText(purpose)
}

/** Forks the thread after the step and opens the fork. */
function ForkButton({ thread, run, step, node }: StepPosition) {
  const [isAway, setAway] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const [idempotencyKey] = useState(api.randomId)
  const fork = async () => {
    setAway(true)
    setError(null)
    try {
      const entry = await api.findHistoryEntry(thread, run.id, step, node)
      if (!entry) throw new Error(t('no_state'))
      const source = threads.value.find((one) => one.id === thread)
      const title = t('fork_title', { title: source ? threadTitle(source).slice(0, 180) : t('untitled') })
      const made = await api.forkThread(thread, entry.at, run.agent, title, idempotencyKey)
      void loadThreads()
      navigate({ view: 'chat', thread: made.id })
    } catch (wrong) {
      setError(wrong)
    }
    setAway(false)
  }
  return (
    <div class="step-acts">
      <button type="button" class="small" disabled={isAway} title={t('fork_about')} onClick={() => void fork()}>
        <Icon name="fork" size={15} />{t(isAway ? 'forking' : 'fork')}
      </button>
      {error !== null && <ProblemCard error={error} />}
    </div>
  )
}

function ModelRows({ models }: { models: ModelCall[] }) {
  return (
    <ul class="model-calls">
      {models.map((one, at) => (
        <li key={at}>
          <code>{sanitizeText(one.name)}</code>
          {isExtractive(one) && <span class="tag warm">{t('not_llm')}</span>}
          {one.purpose && <span class="tag">{purposeName(one.purpose)}</span>}
          <span class="dim">
            {t(one.counted === 'estimated' || isExtractive(one) ? 'in_out_estimated' : 'in_out', { in: formatNumber(one.input_tokens ?? 0), out: formatNumber(one.output_tokens ?? 0) })}
            {' · '}{formatCost(isExtractive(one) ? 0 : one.cost_micros)}
            {one.ms !== undefined && ` · ${formatDuration(one.ms)}`}
          </span>
        </li>
      ))}
    </ul>
  )
}

function ReplyTab({ task }: { task: StepTask }) {
  const said = repliesIn(task.update)
  const shown = activitiesIn(task)
  if (said.length === 0 && shown.length === 0) return <p class="dim">{t('said_nothing')}</p>
  return (
    <>
      {shown.map((one, at) => {
        switch (one.type) {
          case 'thinking':
            return <LabelledText key={at} label={stepName(one.step)} text={one.content} />
          case 'tool_call':
            return <LabelledText key={at} label={`${one.name} · ${t('arguments')}`} text={formatJson(one.arguments)} />
          case 'tool_result':
            return <LabelledText key={at} label={`${one.name} · ${t(one.failed ? 'error' : 'result')}`} text={one.text} />
          case 'sources':
            return <LabelledText key={at} label={t('sources')} text={one.sources.map((source) => `[${source.number}] ${source.title}\n${source.quote}`).join('\n\n')} />
        }
      })}
      {said.map((one, at) => <LabelledText key={`said-${at}`} label={t('reply')} text={one.text} />)}
    </>
  )
}

interface StepPosition {
  thread: string
  run: RunView
  step: number
  node: string
}

/** Prompts are not stored. The server rebuilds them from the state before the step. */
function PromptTab({ thread, run, step, node }: StepPosition) {
  const got = useLoadedValue(async () => {
    const entry = await api.findHistoryEntry(thread, run.id, step, node)
    if (!entry || entry.before === null) return []
    const { asks } = await api.fetchState(thread, entry.before, run.agent, node)
    return Array.isArray(asks) ? asks : []
  }, [thread, run.id, step, node])
  if (got.error !== null) return <ProblemCard error={got.error} />
  if (got.value === null) return <p class="dim">{t('loading')}</p>
  if (got.value.length === 0) return <p class="dim">{t('no_prompt')}</p>
  return (
    <>
      {got.value.map((request, index) => {
        const messages = isJsonObject(request) && Array.isArray(request.messages) ? request.messages : null
        if (!messages) return <LabelledText key={index} label={t('tab_prompt')} text={formatJson(request)} />
        return messages.map((message, at) => (
          <LabelledText key={`${index}.${at}`} label={isJsonObject(message) ? String(message.role ?? '') : ''} text={promptMessageText(message)} />
        ))
      })}
    </>
  )
}

function promptMessageText(message: Json): string {
  if (!isJsonObject(message)) return formatJson(message)
  if (typeof message.content === 'string') return message.content
  if (typeof message.text === 'string') return message.text
  if (!Array.isArray(message.parts)) return formatJson(message)
  return message.parts.map((part) => {
    if (!isJsonObject(part)) return formatJson(part)
    if (part.type === 'text' || part.type === 'reasoning') return String(part.text ?? '')
    if (part.type === 'passage') return `[${String(part.number)}] ${String(part.title)}\n${String(part.text)}`
    return formatJson(part)
  }).join('\n\n')
}

function ChangeTab({ update }: { update: Json }) {
  if (!isJsonObject(update) || Object.keys(update).length === 0) return <p class="dim">{t('changed_nothing')}</p>
  return <>{Object.entries(update).map(([field, value]) => <LabelledText key={field} label={field} text={formatJson(value)} />)}</>
}

function StateTab({ thread, run, step, node }: StepPosition) {
  const got = useLoadedValue(async () => {
    const entry = await api.findHistoryEntry(thread, run.id, step, node)
    if (!entry) return null
    const [after, before] = await Promise.all([
      api.fetchState(thread, entry.at, run.agent),
      entry.before === null ? Promise.resolve({ state: {} as Json }) : api.fetchState(thread, entry.before, run.agent),
    ])
    return { after: after.state, changes: diffStates(before.state, after.state) }
  }, [thread, run.id, step, node])
  if (got.error !== null) return <ProblemCard error={got.error} />
  if (got.isLoading) return <p class="dim">{t('loading')}</p>
  if (!got.value) return <p class="dim">{t('no_state')}</p>
  return (
    <>
      <ul class="diff">{got.value.changes.map((one) => <DiffLine key={one.path} change={one} />)}</ul>
      <LabelledText label={t('state_after')} text={formatJson(got.value.after)} />
    </>
  )
}

function DiffLine({ change }: { change: StateChange }) {
  const short = (value: Json | undefined) => {
    const text = sanitizeText(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))
    return text.length > 300 ? `${text.slice(0, 300)}…` : text
  }
  return (
    <li>
      <code>{sanitizeText(change.path)}</code>
      {change.before !== undefined && <del>{short(change.before)}</del>}
      {change.after !== undefined && <ins>{short(change.after)}</ins>}
    </li>
  )
}

function useLoadedValue<T>(ask: () => Promise<T>, on: unknown[]): { value: T | null; error: unknown; isLoading: boolean } {
  const [got, setGot] = useState<{ value: T | null; error: unknown; isLoading: boolean }>({ value: null, error: null, isLoading: true })
  useEffect(() => {
    let isOld = false
    setGot({ value: null, error: null, isLoading: true })
    ask().then(
      (value) => { if (!isOld) setGot({ value, error: null, isLoading: false }) },
      (error) => { if (!isOld) setGot({ value: null, error, isLoading: false }) },
    )
    return () => { isOld = true }
  }, on)
  return got
}

// One step, opened: what was asked of the model, what came back, what it cost, and what changed.

import { useEffect, useRef, useState } from 'preact/hooks'

import * as api from '../api'
import { clean } from '../clean'
import { diff, type Change } from '../diff'
import { isObject, modelsIn, saidIn, shownIn, type Run } from '../fold'
import { cost, number, t, took, type Key } from '../i18n'
import { isExtractive, loadThreads, threads } from '../lists'
import { go } from '../route'
import type { Json, ModelCall, Task } from '../types'
import { Labelled, pretty, stepName } from './activity'
import { Icon } from './icons'
import type { Row } from './inspector'
import { ProblemCard } from './problem'
import { titleOf } from './sidebar'

type Tab = 'reply' | 'prompt' | 'change' | 'state' | 'raw'

const TABS: [Tab, Key][] = [['reply', 'tab_reply'], ['prompt', 'tab_prompt'], ['change', 'tab_change'], ['state', 'tab_state'], ['raw', 'tab_raw']]

export function StepDetail({ row, run, thread }: { row: Row; run: Run; thread: string }) {
  const [tab, setTab] = useState<Tab>('reply')
  const { task, step } = row
  const models = modelsIn(task)
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
    // What was asked for must be seen: a step that opens below the edge is brought up.
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
      <div class="tabs" role="tablist" aria-label={clean(task.node)} onKeyDown={move}>
        {tabs.map(([name, words]) => (
          <button key={name} type="button" role="tab" id={`tab-${name}`} aria-selected={tab === name} aria-controls="step-body"
            tabIndex={tab === name ? 0 : -1} onClick={() => setTab(name)}>{t(words)}</button>
        ))}
      </div>
      <div class="tab-body" role="tabpanel" id="step-body" aria-labelledby={`tab-${tab}`} tabIndex={0}>
        {tab === 'reply' && <Reply task={task} />}
        {tab === 'prompt' && <Prompt thread={thread} run={run} step={step.step} node={task.node} />}
        {tab === 'change' && <Changed update={task.update} />}
        {tab === 'state' && <StateAfter thread={thread} run={run} step={step.step} node={task.node} />}
        {tab === 'raw' && <Labelled label={t('tab_raw')} text={pretty(task as unknown as Json)} />}
      </div>
    </div>
  )
}

const PURPOSES: Record<string, Key> = {
  answer: 'purpose_answer', route: 'purpose_route', scope: 'purpose_scope', previous_context: 'purpose_previous', plan: 'purpose_plan',
  sufficiency: 'purpose_sufficiency', classify: 'purpose_classify', summarize: 'purpose_summarize', rewrite: 'purpose_rewrite',
}

function purposeName(purpose: string): string {
  const key = PURPOSES[purpose]
  return key ? t(key) : clean(purpose)
}

/** Opens a conversation of its own that goes on from after the step. */
function ForkButton({ thread, run, step, node }: At) {
  const [isAway, setAway] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const [once] = useState(api.newId)
  const fork = async () => {
    setAway(true)
    setError(null)
    try {
      const entry = await api.entryOf(thread, run.id, step, node)
      if (!entry) throw new Error(t('no_state'))
      const source = threads.value.find((one) => one.id === thread)
      const title = t('fork_title', { title: source ? titleOf(source).slice(0, 180) : t('untitled') })
      const made = await api.fork(thread, entry.at, run.agent, title, once)
      void loadThreads()
      go({ view: 'chat', thread: made.id })
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
          <code>{clean(one.name)}</code>
          {isExtractive(one) && <span class="tag warm">{t('not_llm')}</span>}
          {one.purpose && <span class="tag">{purposeName(one.purpose)}</span>}
          <span class="dim">
            {t(one.counted === 'estimated' || isExtractive(one) ? 'in_out_estimated' : 'in_out', { in: number(one.input_tokens ?? 0), out: number(one.output_tokens ?? 0) })}
            {' · '}{cost(isExtractive(one) ? 0 : one.cost_micros)}
            {one.ms !== undefined && ` · ${took(one.ms)}`}
          </span>
        </li>
      ))}
    </ul>
  )
}

function Reply({ task }: { task: Task }) {
  const said = saidIn(task.update)
  const shown = shownIn(task)
  if (said.length === 0 && shown.length === 0) return <p class="dim">{t('said_nothing')}</p>
  return (
    <>
      {shown.map((one, at) => {
        switch (one.type) {
          case 'thinking':
            return <Labelled key={at} label={stepName(one.step)} text={one.content} />
          case 'tool_call':
            return <Labelled key={at} label={`${one.name} · ${t('arguments')}`} text={pretty(one.arguments)} />
          case 'tool_result':
            return <Labelled key={at} label={`${one.name} · ${t(one.failed ? 'error' : 'result')}`} text={one.text} />
          case 'sources':
            return <Labelled key={at} label={t('sources')} text={one.sources.map((source) => `[${source.number}] ${source.title}\n${source.quote}`).join('\n\n')} />
        }
      })}
      {said.map((one, at) => <Labelled key={`said-${at}`} label={t('reply')} text={one.text} />)}
    </>
  )
}

interface At {
  thread: string
  run: Run
  step: number
  node: string
}

/** Prompts are not stored: the server makes them again from the state before the step. */
function Prompt({ thread, run, step, node }: At) {
  const got = useAsked(async () => {
    const entry = await api.entryOf(thread, run.id, step, node)
    if (!entry || entry.before === null) return []
    const { asks } = await api.stateAt(thread, entry.before, run.agent, node)
    return Array.isArray(asks) ? asks : []
  }, [thread, run.id, step, node])
  if (got.error !== null) return <ProblemCard error={got.error} />
  if (got.value === null) return <p class="dim">{t('loading')}</p>
  if (got.value.length === 0) return <p class="dim">{t('no_prompt')}</p>
  return (
    <>
      {got.value.map((request, index) => {
        const messages = isObject(request) && Array.isArray(request.messages) ? request.messages : null
        if (!messages) return <Labelled key={index} label={t('tab_prompt')} text={pretty(request)} />
        return messages.map((message, at) => (
          <Labelled key={`${index}.${at}`} label={isObject(message) ? String(message.role ?? '') : ''} text={messageText(message)} />
        ))
      })}
    </>
  )
}

function messageText(message: Json): string {
  if (!isObject(message)) return pretty(message)
  if (typeof message.content === 'string') return message.content
  if (typeof message.text === 'string') return message.text
  if (!Array.isArray(message.parts)) return pretty(message)
  return message.parts.map((part) => {
    if (!isObject(part)) return pretty(part)
    if (part.type === 'text' || part.type === 'reasoning') return String(part.text ?? '')
    if (part.type === 'passage') return `[${String(part.number)}] ${String(part.title)}\n${String(part.text)}`
    return pretty(part)
  }).join('\n\n')
}

function Changed({ update }: { update: Json }) {
  if (!isObject(update) || Object.keys(update).length === 0) return <p class="dim">{t('changed_nothing')}</p>
  return <>{Object.entries(update).map(([field, value]) => <Labelled key={field} label={field} text={pretty(value)} />)}</>
}

function StateAfter({ thread, run, step, node }: At) {
  const got = useAsked(async () => {
    const entry = await api.entryOf(thread, run.id, step, node)
    if (!entry) return null
    const [after, before] = await Promise.all([
      api.stateAt(thread, entry.at, run.agent),
      entry.before === null ? Promise.resolve({ state: {} as Json }) : api.stateAt(thread, entry.before, run.agent),
    ])
    return { after: after.state, changes: diff(before.state, after.state) }
  }, [thread, run.id, step, node])
  if (got.error !== null) return <ProblemCard error={got.error} />
  if (got.isLoading) return <p class="dim">{t('loading')}</p>
  if (!got.value) return <p class="dim">{t('no_state')}</p>
  return (
    <>
      <ul class="diff">{got.value.changes.map((one) => <DiffLine key={one.path} change={one} />)}</ul>
      <Labelled label={t('state_after')} text={pretty(got.value.after)} />
    </>
  )
}

function DiffLine({ change }: { change: Change }) {
  const short = (value: Json | undefined) => {
    const text = clean(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))
    return text.length > 300 ? `${text.slice(0, 300)}…` : text
  }
  return (
    <li>
      <code>{clean(change.path)}</code>
      {change.before !== undefined && <del>{short(change.before)}</del>}
      {change.after !== undefined && <ins>{short(change.after)}</ins>}
    </li>
  )
}

function useAsked<T>(ask: () => Promise<T>, on: unknown[]): { value: T | null; error: unknown; isLoading: boolean } {
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

// The details of one step: prompt, reply, tokens and cost, state change.

import { useEffect, useRef, useState } from 'preact/hooks'

import * as api from '../api'
import { sanitizeText } from '../sanitize-text'
import { diffStates } from '../state-diff'
import { buildTranscript, isJsonObject, modelCallsIn, repliesIn, activitiesIn, type ModelCall, type RunView } from '../transcript'
import { formatCost, formatNumber, t, formatDuration, type MessageKey } from '../i18n'
import { isExtractive, loadThreads, threads } from '../agents-and-threads'
import { navigate } from '../route'
import { pauseFields } from '../breakpoints'
import { parseJsonObject } from '../json-search'
import { modelList } from '../models'
import { hasModelChoice, instructionsIn, stateWith } from '../rerun-state'
import type { Json, RerankingNote, SearchNote, StepTask } from '../api-types'
import { LabelledText, formatJson, stepName } from './activity'
import { Icon } from './icons'
import type { InspectorRow } from './inspector-rows'
import { JsonTree } from './json-tree'
import { ProblemCard } from './problem-card'
import { threadTitle } from './sidebar'
import { showSource } from './sources'
import { DiffLine } from './state-diff-line'

type StepTab = 'reply' | 'prompt' | 'search' | 'change' | 'state' | 'raw'

const TABS: [StepTab, MessageKey][] = [
  ['reply', 'tab_reply'], ['prompt', 'tab_prompt'], ['search', 'tab_search'], ['change', 'tab_change'], ['state', 'tab_state'], ['raw', 'tab_raw'],
]

export function StepDetail({ row, run, thread }: { row: InspectorRow; run: RunView; thread: string }) {
  const [tab, setTab] = useState<StepTab>('reply')
  const { task, step } = row
  const models = modelCallsIn(task)
  const isRecorded = row.outcome === 'done'
  const hasPrompt = models.length > 0 || task.input_tokens > 0
  const searches = searchesIn(task)
  const tabs = TABS.filter(([name]) => (isRecorded || !['prompt', 'change', 'state'].includes(name))
    && (hasPrompt || name !== 'prompt') && (searches.length > 0 || name !== 'search'))
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
      {isRecorded && step.path === '' && <ForkButtons thread={thread} run={run} step={step.step} node={task.node} />}
      <div class="tabs" role="tablist" aria-label={sanitizeText(task.node)} onKeyDown={move}>
        {tabs.map(([name, words]) => (
          <button key={name} type="button" role="tab" id={`tab-${name}`} aria-selected={tab === name} aria-controls="step-body"
            tabIndex={tab === name ? 0 : -1} onClick={() => setTab(name)}>{t(words)}</button>
        ))}
      </div>
      <div class="tab-body" role="tabpanel" id="step-body" aria-labelledby={`tab-${tab}`} tabIndex={0}>
        {tab === 'reply' && <ReplyTab task={task} partial={isRecorded ? '' : (run.partial[task.node] ?? '')} />}
        {tab === 'prompt' && <PromptTab thread={thread} run={run} step={step.step} node={task.node} models={models} />}
        {tab === 'search' && <SearchTab searches={searches} run={run} />}
        {tab === 'change' && <ChangeTab update={task.update} />}
        {tab === 'state' && <StateTab thread={thread} run={run} step={step.step} node={task.node} />}
        {tab === 'raw' && <LabelledText label={t('tab_raw')} text={formatJson(task as unknown as Json)} />}
      </div>
    </div>
  )
}

const PURPOSE_LABELS: Record<string, MessageKey> = {
  answer: 'purpose_answer', route: 'purpose_route', scope: 'purpose_scope', previous_context: 'purpose_previous', plan: 'purpose_plan',
  sufficiency: 'purpose_sufficiency', classify: 'purpose_classify', summarize: 'purpose_summarize', rewrite: 'purpose_rewrite', rerank: 'purpose_rerank',
}

function purposeName(purpose: string): string {
  const key = PURPOSE_LABELS[purpose]
  return key ? t(key) : sanitizeText(purpose)
}

/** Forks the thread after the step, or before it to run it again, and opens the fork. */
function ForkButtons(position: StepPosition) {
  const fork = useFork(position)
  return (
    <div class="step-acts">
      <button type="button" class="small" disabled={fork.isBusy} title={t('fork_about')} onClick={() => void fork.start('after')}>
        <Icon name="fork" size={15} />{t(fork.isBusy ? 'forking' : 'fork')}
      </button>
      <button type="button" class="small" disabled={fork.isBusy} title={t('rerun_about')} onClick={() => void fork.start('before')}>
        <Icon name="retry" size={15} />{t('rerun_step')}
      </button>
      <RerunWith position={position} fork={fork} />
      {fork.error !== null && <ProblemCard error={fork.error} />}
    </div>
  )
}

/** Runs the step again with another model or other instructions. */
function RerunWith({ position: { thread, run, step, node }, fork }: { position: StepPosition; fork: ReturnType<typeof useFork> }) {
  const [state, setState] = useState<Json | null>(null)
  const [model, setModel] = useState('')
  const [instructions, setInstructions] = useState('')
  const [error, setError] = useState<unknown>(null)
  const options = modelList.value?.options ?? []
  const load = async () => {
    try {
      const entry = await api.findHistoryEntry(thread, run.id, step, node)
      if (!entry) throw new Error(t('no_state'))
      const found = await api.fetchState(thread, entry.before, run.agent)
      setState(found.state)
      setInstructions(instructionsIn(found.state))
    } catch (failed) {
      setError(failed)
    }
  }
  if (options.length === 0) return null
  return (
    <details class="rerun-with" onToggle={(event) => { if (event.currentTarget.open && state === null) void load() }}>
      <summary>{t('rerun_with')}</summary>
      {error !== null && <ProblemCard error={error} />}
      {state !== null && !hasModelChoice(state) && <p class="dim">{t('rerun_no_choice')}</p>}
      {state !== null && hasModelChoice(state) && (
        <form onSubmit={(event) => { event.preventDefault(); void fork.start('before', stateWith(state, model === '' ? null : model, instructions)) }}>
          <label>{t('model')}
            <select value={model} onChange={(event) => setModel(event.currentTarget.value)}>
              <option value="">{t('rerun_agent_model')}</option>
              {options.map((one) => <option key={one.id} value={one.id}>{sanitizeText(one.id)}</option>)}
            </select>
          </label>
          <label>{t('instructions')}<textarea rows={2} maxLength={8000} value={instructions} onInput={(event) => setInstructions(event.currentTarget.value)} /></label>
          <button type="submit" class="small primary" disabled={fork.isBusy}>{t('rerun_step')}</button>
        </form>
      )}
    </details>
  )
}

function useFork({ thread, run, step, node }: StepPosition) {
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  // A request that is sent again must not create a second fork.
  const keys = useRef(new Map<string, string>()).current
  const start = async (place: 'before' | 'after', state?: Json) => {
    setBusy(true)
    setError(null)
    try {
      const entry = await api.findHistoryEntry(thread, run.id, step, node)
      if (!entry) throw new Error(t('no_state'))
      const source = threads.value.find((one) => one.id === thread)
      const title = t('fork_title', { title: source ? threadTitle(source).slice(0, 180) : t('untitled') })
      const request = { at: place === 'after' ? entry.at : entry.before, agent: run.agent, title, ...(state === undefined ? {} : { state }), ...pauseFields(run.agent) }
      const name = JSON.stringify(request)
      const key = keys.get(name) ?? api.randomId()
      keys.set(name, key)
      const made = await api.forkThread(thread, request, key)
      void loadThreads()
      navigate({ view: 'chat', thread: made.id })
    } catch (wrong) {
      setError(wrong)
    }
    setBusy(false)
  }
  return { isBusy, error, start }
}

function ModelRows({ models }: { models: ModelCall[] }) {
  return (
    <ul class="model-calls">
      {models.map((one, at) => (
        <li key={at}>
          <code>{sanitizeText(one.name)}</code>
          {isExtractive(one) && <span class="tag warm">{t('not_llm')}</span>}
          {one.purpose && <span class="tag">{purposeName(one.purpose)}</span>}
          {one.unfinished !== undefined && <span class="tag warm">{one.unfinished === 'stopped' ? t('status_cancelled') : sanitizeText(one.unfinished)}</span>}
          {one.cached === true && <span class="tag">{t('from_cache')}</span>}
          {one.cached !== true && <span class="dim">
            {t(one.counted === 'estimated' || isExtractive(one) ? 'in_out_estimated' : 'in_out', { in: formatNumber(one.input_tokens ?? 0), out: formatNumber(one.output_tokens ?? 0) })}
            {' · '}{formatCost(isExtractive(one) ? 0 : one.cost_micros)}
            {(one.cached_tokens ?? 0) > 0 && ` · ${t('cached_tokens', { n: formatNumber(one.cached_tokens ?? 0) })}`}
            {one.ms !== undefined && ` · ${formatDuration(one.ms)}`}
          </span>}
        </li>
      ))}
    </ul>
  )
}

/** `partial` is what a stopped task had said. */
function ReplyTab({ task, partial }: { task: StepTask; partial: string }) {
  const replies = [...repliesIn(task.update), ...(partial === '' ? [] : [{ text: partial }])]
  const shown = activitiesIn(task)
  if (replies.length === 0 && shown.length === 0) return <p class="dim">{t('said_nothing')}</p>
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
      {replies.map((one, at) => <LabelledText key={`reply-${at}`} label={t('reply')} text={one.text} />)}
    </>
  )
}

interface StepPosition {
  thread: string
  run: RunView
  step: number
  node: string
}

/** Prompts are not stored. The server rebuilds them from the state before the step, and their digest tells whether they were sent. */
function PromptTab({ thread, run, step, node, models }: StepPosition & { models: ModelCall[] }) {
  const sent = new Set(models.flatMap((one) => one.request ?? []))
  const got = useLoadedValue(async () => {
    const entry = await api.findHistoryEntry(thread, run.id, step, node)
    if (!entry || entry.before === null) return { prompts: [], error: undefined }
    const { asks, asks_error: error, digests } = await api.fetchState(thread, entry.before, run.agent, node)
    return { prompts: (asks ?? []).map((request, at) => ({ request, isAsSent: sent.has(digests?.[at] ?? '') })), error }
  }, [thread, run.id, step, node])
  if (got.error !== null) return <ProblemCard error={got.error} />
  if (got.value === null) return <p class="dim">{t('loading')}</p>
  if (got.value.error !== undefined) return <LabelledText label={t('error')} text={got.value.error} />
  if (got.value.prompts.length === 0) return <p class="dim">{t('no_prompt')}</p>
  return (
    <>
      {got.value.prompts.map(({ request, isAsSent }, index) => {
        const note = <p class="dim">{t(isAsSent ? 'prompt_as_sent' : 'prompt_rebuilt')}</p>
        const messages = isJsonObject(request) && Array.isArray(request.messages) ? request.messages : null
        if (!messages) return <section key={index}>{note}<LabelledText label={t('tab_prompt')} text={formatJson(request)} /></section>
        return (
          <section key={index}>
            {note}
            {messages.map((message, at) => (
              <LabelledText key={at} label={isJsonObject(message) ? String(message.role ?? '') : ''} text={promptMessageText(message)} />
            ))}
          </section>
        )
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
  const changed = new Set(got.value.changes.map((one) => one.path))
  return (
    <>
      <ul class="diff">{got.value.changes.map((one) => <DiffLine key={one.path} change={one} />)}</ul>
      <JsonTree label={t('state_after')} value={got.value.after} changed={changed} />
      <StateEditor position={{ thread, run, step, node }} state={got.value.after} />
    </>
  )
}

/** Changes the state after a step and continues from there in a fork. */
function StateEditor({ position, state }: { position: StepPosition; state: Json }) {
  const [text, setText] = useState<string | null>(null)
  const fork = useFork(position)
  if (text === null) return <button type="button" class="small" onClick={() => setText(formatJson(state))}><Icon name="edit" size={15} />{t('edit_state')}</button>
  const parsed = parseJsonObject(text)
  return (
    <form class="state-editor" onSubmit={(event) => { event.preventDefault(); if (parsed) void fork.start('after', parsed) }}>
      <label class="field">
        <span>{t('edit_state_about')}</span>
        <textarea class="mono" rows={16} value={text} spellcheck={false} disabled={fork.isBusy} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      {parsed === undefined && <p class="bad" role="alert">{t('not_json_object')}</p>}
      <div class="row">
        <button type="submit" class="primary" disabled={fork.isBusy || parsed === undefined}>{t(fork.isBusy ? 'forking' : 'continue_fork')}</button>
        <button type="button" onClick={() => setText(null)}>{t('cancel')}</button>
      </div>
      {fork.error !== null && <ProblemCard error={fork.error} />}
    </form>
  )
}

/** The searches recorded in the notes of a task. */
function searchesIn(task: StepTask): SearchNote[] {
  const searches: unknown = task.notes?.searches
  return Array.isArray(searches) ? searches.filter((one): one is SearchNote => isJsonObject(one) && Array.isArray(one.hits)) : []
}

/** The places that the passages had in the search, in their new order, or why they kept it. */
function rerankingText({ by, order, kept }: RerankingNote): string {
  return `${by} · ${kept ? t('search_order_kept', { reason: kept }) : (order ?? []).join(', ')}`
}

/** What a search found, with scores. Passages that the answer cites are marked. */
function SearchTab({ searches, run }: { searches: SearchNote[]; run: RunView }) {
  const cited = new Set(buildTranscript(run).sources.map((source) => source.passage))
  return (
    <>
      {searches.map((search, at) => (
        <section key={at}>
          <LabelledText label={t('search_query')} text={search.query} />
          {search.wordings && search.wordings.length > 0 && <LabelledText label={t('search_wordings')} text={search.wordings.join('\n')} />}
          {search.reranking && <LabelledText label={t('search_reranked')} text={rerankingText(search.reranking)} />}
          {search.hits.length === 0 && <p class="dim">{t('nothing_found')}</p>}
          <ol class="hit-notes">
            {search.hits.map((hit) => (
              <li key={hit.passage}>
                <span class="score" title={t('score')}>{hit.score.toFixed(2)}</span>
                <button type="button" class="link" onClick={() => showSource({ document: hit.document, title: hit.title, quote: '' })}>{sanitizeText(hit.title)}</button>
                {cited.has(hit.passage) && <span class="tag">{t('passage_cited')}</span>}
              </li>
            ))}
          </ol>
        </section>
      ))}
    </>
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

// Reduces the events of a run to its transcript.
//
// Numbered events are the record. Deltas are shown early and discarded once their step is recorded, retried or
// cancelled. A client that received every delta and one that connected late end with the same transcript.

import type { RunContinuation } from './follow-run'
import type { AgentActivity, AnswerSource, CachedReplyNote, DecisionInfo, Json, ModelRequestNote, QuestionInfo, RunEvent, StepTask, UnfinishedRequestNote, UnfinishedTask } from './api-types'

export type RunStatus = 'waiting' | 'running' | 'paused' | 'finished' | 'failed' | 'cancelled'

/** A model call of a task. A reply from the cache has no tokens, cost and time. `unfinished` says why there is no reply. */
export type ModelCall = Pick<ModelRequestNote, 'name'> & Partial<ModelRequestNote> & Partial<Pick<UnfinishedRequestNote, 'unfinished'> & Pick<CachedReplyNote, 'cached'>>

export interface RecordedStep {
  n: number
  at: number
  step: number
  path: string
  tasks: StepTask[]
  next: string[]
}

/** A task that failed or was stopped before its step was recorded. */
export interface StoppedTask {
  n: number
  at: number
  outcome: 'failed' | 'cancelled'
  /** Number of steps recorded before it. */
  afterSteps: number
  task: UnfinishedTask
}

/** The deltas of a node whose step is not recorded yet. An undefined piece is a missed delta. */
export interface LiveReply {
  node: string
  attempt: number
  pieces: (string | AgentActivity | undefined)[]
}

export interface RunView {
  id: string
  thread: string
  agent: string
  status: RunStatus
  /** Number of the last recorded event. */
  lastEventNumber: number
  started: number
  ended: number
  steps: RecordedStep[]
  stoppedTasks: StoppedTask[]
  next: string[]
  questions: QuestionInfo[]
  /** What people were asked, with the answers. */
  decisions: DecisionInfo[]
  liveReplies: LiveReply[]
  failure: { code: string; message: string; en?: string; ko?: string; node?: string } | null
  partial: Record<string, string>
  restarts: number
}

export function newRunView(id: string, thread: string, agent: string): RunView {
  return {
    id, thread, agent, status: 'waiting', lastEventNumber: 0, started: 0, ended: 0, steps: [], stoppedTasks: [], next: [], questions: [],
    decisions: [], liveReplies: [], failure: null, partial: {}, restarts: 0,
  }
}

/** Whether the run does nothing more without a request. */
export function isSettled(status: RunStatus): boolean {
  return status !== 'waiting' && status !== 'running'
}

export function continuation(status: RunStatus): RunContinuation {
  if (!isSettled(status)) return 'continues'
  return status === 'finished' || status === 'cancelled' ? 'ended' : 'stopped'
}

/** Whether a model failed, by the code of the failure. */
export function isModelFailure(code: string): boolean {
  return code.startsWith('model_')
}

/** Thrown when a numbered event is missing before this one. */
export class MissedEventError extends Error {}

/** The run after an event. A repeated event changes nothing. */
export function reduceRunEvent(run: RunView, event: RunEvent): RunView {
  if (event.type === 'delta') return run.status === 'running' || run.status === 'waiting' ? applyDelta(run, event) : run
  if (event.type === 'draining' || event.type === 'error') return run
  // The server does not have the events in between any more.
  if (event.type === 'gone') return { ...run, lastEventNumber: event.next - 1 }
  const n = event.n ?? run.lastEventNumber + 1
  if (n <= run.lastEventNumber) return run
  if (n > run.lastEventNumber + 1) throw new MissedEventError(`event ${n} after ${run.lastEventNumber}`)
  const at = event.at ?? 0
  const next: RunView = { ...run, lastEventNumber: n }
  switch (event.type) {
    case 'started':
      return { ...next, id: event.run, thread: event.thread, agent: event.agent, status: 'running', started: at }
    case 'step': {
      const done = new Set(event.tasks.map((task) => task.node))
      const step = { n, at, step: event.step, path: event.path ?? '', tasks: event.tasks, next: event.next }
      return {
        ...next,
        status: 'running',
        steps: [...run.steps, step],
        next: event.path ? run.next : event.next,
        liveReplies: run.liveReplies.filter((one) => !done.has(one.node)),
      }
    }
    case 'paused':
      return { ...next, status: 'paused', questions: event.questions, liveReplies: [], decisions: addQuestions(run.decisions, event.questions, at) }
    case 'resumed':
      return { ...next, status: 'running', questions: [], liveReplies: [], decisions: addAnswers(run.decisions, event.answers, at) }
    case 'restarted':
      return { ...next, status: 'running', liveReplies: [], failure: null, ended: 0, restarts: run.restarts + 1 }
    case 'finished':
      return { ...next, status: 'finished', ended: at, liveReplies: [], next: [] }
    case 'failed': {
      const { code, message, en, ko, node } = event
      const failure = { code, message, ...(en ? { en } : {}), ...(ko ? { ko } : {}), ...(node ? { node } : {}) }
      const stoppedTasks = [...run.stoppedTasks, ...stopTasks(run, n, at, 'failed', event.unfinished)]
      return { ...next, status: 'failed', ended: at, liveReplies: [], failure, stoppedTasks }
    }
    case 'cancelled': {
      const stoppedTasks = [...run.stoppedTasks, ...stopTasks(run, n, at, 'cancelled', event.unfinished)]
      return { ...next, status: 'cancelled', ended: at, liveReplies: [], partial: event.partial ?? {}, stoppedTasks }
    }
  }
}

function stopTasks(run: RunView, n: number, at: number, outcome: StoppedTask['outcome'], tasks: UnfinishedTask[] = []): StoppedTask[] {
  return tasks.map((task) => ({ n, at, outcome, afterSteps: run.steps.length, task }))
}

/** A question that is still open after others were answered is asked again. */
function addQuestions(decisions: DecisionInfo[], questions: QuestionInfo[], asked: number): DecisionInfo[] {
  const isOpen = (id: string) => decisions.some((one) => one.id === id && one.answered === null)
  return [...decisions, ...questions.filter(({ id }) => !isOpen(id)).map((question) => ({ ...question, asked, answered: null }))]
}

function addAnswers(decisions: DecisionInfo[], answers: Record<string, Json>, answered: number): DecisionInfo[] {
  return decisions.map((one) => (one.answered === null && one.id in answers ? { ...one, answer: answers[one.id] as Json, answered } : one))
}

/** Ids of the tool calls whose answer is not an explicit approval. */
function deniedToolCalls(decisions: DecisionInfo[]): string[] {
  return decisions.flatMap(({ question, answer, answered }) => {
    if (!isJsonObject(question) || question.type !== 'approve_tool' || answered === null) return []
    return isJsonObject(answer) && answer.approve === true ? [] : [String(question.call ?? '')]
  })
}

function applyDelta(run: RunView, event: Extract<RunEvent, { type: 'delta' }>): RunView {
  const old = run.liveReplies.find((one) => one.node === event.node)
  if (old && event.attempt < old.attempt) return run
  // The list grows in place: copying it for every delta would take quadratic time.
  const pieces = !old || event.attempt > old.attempt ? [] : old.pieces
  if (event.restarted !== undefined) {
    // The deltas of this attempt are void. The next attempt starts at index 0.
    const cleared = { node: event.node, attempt: event.attempt, pieces: [] }
    return { ...run, liveReplies: [...run.liveReplies.filter((one) => one !== old), cleared] }
  }
  if (pieces[event.index] !== undefined) return run
  // An absurd index must not allocate an array of that size.
  if (event.index > pieces.length + 1_000_000) return run
  pieces[event.index] = event.text ?? parseActivity(event.data) ?? ''
  const live = { node: event.node, attempt: event.attempt, pieces }
  return { ...run, liveReplies: old ? run.liveReplies.map((one) => (one === old ? live : one)) : [...run.liveReplies, live] }
}

export type TranscriptItem =
  | { kind: 'thinking'; node: string; step: string; content: string; live: boolean }
  | {
      kind: 'tool'; node: string; call: string; name: string; arguments: Json; live: boolean
      result: { text: string; failed: boolean; ms?: number } | null
      /** Whether the user denied the call. */
      isDenied: boolean
    }
  | {
      kind: 'text'; node: string; text: string; id: string | null; live: boolean
      /** The model that wrote the text. Null if it is not known yet, or if the program wrote it. */
      model: ModelCall | null
    }

export interface Transcript {
  items: TranscriptItem[]
  text: string
  sources: AnswerSource[]
  models: ModelCall[]
  /** Whether a model call was cut off of which nothing is recorded. */
  hasUnknownUsage: boolean
}

/** The activities and replies of a run, in order. `known` are ids of messages of earlier turns, which a run may rewrite. */
export function buildTranscript(run: RunView, known: ReadonlySet<string> = new Set()): Transcript {
  const items: TranscriptItem[] = []
  const models: ModelCall[] = []
  let sources: AnswerSource[] = []
  const seenIds = new Set(known)
  const denied = deniedToolCalls(run.decisions)
  const show = (node: string, shown: AgentActivity, live: boolean) => {
    if (shown.type === 'sources') sources = shown.sources
    else addActivity(items, node, shown, live, denied)
  }
  for (const step of run.steps) {
    for (const task of step.tasks) {
      const isHidden = isBehindAnotherAgent(task.update)
      for (const shown of activitiesIn(task)) if (!isHidden || shown.type !== 'sources') show(task.node, shown, false)
      models.push(...modelCallsIn(task))
      if (isHidden) continue
      sources = sourcesIn(task.update) ?? sources
      for (const { id, text } of repliesIn(task.update)) {
        if (id !== null && seenIds.has(id)) continue
        if (id !== null) seenIds.add(id)
        items.push({ kind: 'text', node: task.node, text, id, live: false, model: answeringModel(modelCallsIn(task)) })
      }
    }
  }
  const stopped = new Map<string, ModelCall[]>()
  for (const { task } of run.stoppedTasks) {
    const calls = modelCallsIn(task)
    models.push(...calls)
    stopped.set(task.node, calls)
  }
  let hasUnknownUsage = false
  for (const [node, text] of Object.entries(run.partial)) {
    const calls = stopped.get(node) ?? []
    hasUnknownUsage ||= calls.length === 0
    if (text) items.push({ kind: 'text', node, text, id: null, live: false, model: answeringModel(calls) })
  }
  for (const { node, pieces } of run.liveReplies) {
    let text = ''
    let isHole = false
    for (let at = 0; at < pieces.length; at++) {
      const one = pieces[at]
      if (one === undefined) isHole = true
      else if (typeof one === 'string') {
        text += (isHole ? '…' : '') + one
        isHole = false
      } else show(node, one, true)
    }
    if (text) items.push({ kind: 'text', node, text, id: null, live: true, model: null })
  }
  const text = items.flatMap((item) => (item.kind === 'text' ? [item.text] : [])).join('\n\n')
  return { items, text, sources, models, hasUnknownUsage }
}

function addActivity(items: TranscriptItem[], node: string, shown: Exclude<AgentActivity, { type: 'sources' }>, live: boolean, denied: readonly string[]) {
  const isDenied = shown.type !== 'thinking' && denied.includes(shown.call)
  if (shown.type === 'thinking') {
    items.push({ kind: 'thinking', node, step: shown.step, content: shown.content, live })
    return
  }
  const known = items.findLast((item) => item.kind === 'tool' && item.call === shown.call)
  if (shown.type === 'tool_call') {
    if (known?.kind === 'tool' && known.result === null) known.arguments = shown.arguments
    else {
      const { call, name } = shown
      items.push({ kind: 'tool', node, call, name, arguments: shown.arguments, result: null, live, isDenied })
    }
    return
  }
  const result = { text: shown.text, failed: shown.failed, ...(shown.ms === undefined ? {} : { ms: shown.ms }) }
  if (known?.kind === 'tool') known.result = result
  else items.push({ kind: 'tool', node, call: shown.call, name: shown.name, arguments: null, result, live, isDenied })
}

/** The model call that wrote the words of a task. A call that only decided something is not it. */
function answeringModel(calls: ModelCall[]): ModelCall | null {
  return calls.findLast((call) => call.purpose === 'answer') ?? null
}

/**
 * The model to name beside an answer: the one that wrote its words. While there is no recorded text, the model of the
 * call that was cut off, or `expected` as long as the run goes on.
 */
export function modelOfWords<T extends { name: string }>(run: RunView, { items, models }: Transcript, expected: T | null): ModelCall | T | null {
  const text = items.findLast((item) => item.kind === 'text')
  if (text && !text.live) return text.model
  if (!isSettled(run.status)) return expected
  return models.findLast((call) => call.unfinished !== undefined) ?? null
}

/** The model that a failed run goes on with: the one that failed. */
export function modelOfFailedRun(models: ModelCall[]): string | null {
  return models.findLast((call) => call.unfinished !== undefined)?.name ?? null
}

/** The activities recorded in the notes of a task. */
export function activitiesIn(task: Pick<StepTask, 'notes'>): AgentActivity[] {
  const events = task.notes?.events
  return Array.isArray(events) ? events.flatMap((event) => parseActivity(event) ?? []) : []
}

/** The model calls recorded in the notes of a task. */
export function modelCallsIn(task: { notes?: StepTask['notes'] | UnfinishedTask['notes'] }): ModelCall[] {
  const models: unknown = task.notes?.models
  return Array.isArray(models) ? models.filter((one): one is ModelCall => isJsonObject(one) && typeof one.name === 'string') : []
}

/** Whether a task belongs to a subagent. Its text is not shown. */
function isBehindAnotherAgent(update: Json): boolean {
  return isJsonObject(update) && isJsonObject(update.progress) && update.progress.is_subagent === true
}

/** The assistant messages that a state update adds. */
export function repliesIn(update: Json): { id: string | null; text: string }[] {
  if (!isJsonObject(update)) return []
  return putItems(update.messages).flatMap((message) => {
    if (!isJsonObject(message) || message.role !== 'assistant') return []
    const text = messageText(message)
    // Not `trim`, which also takes away a byte order mark: the server would show such a text.
    return /^\p{White_Space}*$/u.test(text) ? [] : [{ id: typeof message.id === 'string' ? message.id : null, text }]
  })
}

/** The items that a list of changes (`[{"put": …}, {"remove": …}, "clear"]`) puts, or the items of a plain list. */
function putItems(value: Json | undefined): Json[] {
  if (!Array.isArray(value)) return []
  return value.flatMap((one) => (isJsonObject(one) && 'put' in one ? [one.put as Json] : isJsonObject(one) ? [one] : []))
}

function messageText(message: { [key: string]: Json }): string {
  if (typeof message.text === 'string') return message.text
  if (typeof message.content === 'string') return message.content
  const parts = Array.isArray(message.parts) ? message.parts : []
  return parts.map((part) => (isJsonObject(part) && part.type === 'text' ? String(part.text ?? '') : '')).join('')
}

function sourcesIn(update: Json): AnswerSource[] | null {
  if (!isJsonObject(update)) return null
  if (Array.isArray(update.sources) && update.sources.length > 0 && isJsonObject(update.sources[0] ?? null)) {
    return update.sources as never
  }
  if (!isJsonObject(update.citations ?? null)) return null
  const lists = Object.values(update.citations as { [key: string]: Json })
  const all = lists.flatMap((list) => (Array.isArray(list) ? list : []))
  const sources = all.flatMap((one) => (isJsonObject(one) && typeof one.number === 'number' ? [parseSource(one)] : []))
  return sources.length > 0 ? sources : null
}

function parseSource(one: { [key: string]: Json }): AnswerSource {
  return { ...one, quote: String(one.quote ?? one.text ?? '') } as never
}

function parseActivity(data: Json | undefined): AgentActivity | null {
  if (!isJsonObject(data ?? null)) return null
  const { type } = data as { [key: string]: Json }
  return type === 'thinking' || type === 'tool_call' || type === 'tool_result' || type === 'sources'
    ? (data as never)
    : null
}

export function isJsonObject(value: unknown): value is { [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

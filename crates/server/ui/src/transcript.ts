// Reduces the events of a run to its transcript.
//
// Numbered events are the record. Deltas are shown early and discarded once their step is recorded, retried or
// cancelled. A client that received every delta and one that connected late end with the same transcript.

import type { RunContinuation } from './follow-run'
import type { AgentActivity, AnswerSource, Json, ModelRequestNote, QuestionInfo, RunEvent, StepTask } from './api-types'

export type RunStatus = 'waiting' | 'running' | 'paused' | 'finished' | 'failed' | 'cancelled'

/** A model call of a task. A reply from the cache has no tokens, cost and time. */
export type ModelCall = Pick<ModelRequestNote, 'name'> & Partial<ModelRequestNote>

export interface RecordedStep {
  n: number
  at: number
  step: number
  path: string
  tasks: StepTask[]
  next: string[]
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
  next: string[]
  questions: QuestionInfo[]
  answered: Record<string, Json>
  liveReplies: LiveReply[]
  failure: { code: string; message: string; en?: string; ko?: string; node?: string } | null
  /** Ids of the tool calls that the user denied. */
  deniedCalls: readonly string[]
  partial: Record<string, string>
  restarts: number
}

export function newRunView(id: string, thread: string, agent: string): RunView {
  return {
    id, thread, agent, status: 'waiting', lastEventNumber: 0, started: 0, ended: 0, steps: [], next: [], questions: [],
    answered: {}, liveReplies: [], failure: null, deniedCalls: [], partial: {}, restarts: 0,
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

/** Thrown when a numbered event is missing before this one. */
export class MissedEventError extends Error {}

/** The run after an event. A repeated event changes nothing. */
export function reduceRunEvent(run: RunView, event: RunEvent): RunView {
  if (event.type === 'delta') return run.status === 'running' || run.status === 'waiting' ? applyDelta(run, event) : run
  if (event.type === 'draining' || event.type === 'error') return run
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
      return { ...next, status: 'paused', questions: event.questions, liveReplies: [] }
    case 'resumed':
      return {
        ...next, status: 'running', questions: [], liveReplies: [], answered: { ...run.answered, ...event.answers },
        deniedCalls: [...run.deniedCalls, ...deniedToolCalls(run.questions, event.answers)],
      }
    case 'restarted':
      return { ...next, status: 'running', liveReplies: [], failure: null, ended: 0, restarts: run.restarts + 1 }
    case 'finished':
      return { ...next, status: 'finished', ended: at, liveReplies: [], next: [] }
    case 'failed': {
      const { code, message, en, ko, node } = event
      const failure = { code, message, ...(en ? { en } : {}), ...(ko ? { ko } : {}), ...(node ? { node } : {}) }
      return { ...next, status: 'failed', ended: at, liveReplies: [], failure }
    }
    case 'cancelled':
      return { ...next, status: 'cancelled', ended: at, liveReplies: [], partial: event.partial ?? {} }
  }
}

/** The tool calls among these questions whose answer is not an explicit approval. */
function deniedToolCalls(questions: QuestionInfo[], answers: Record<string, Json>): string[] {
  return questions.flatMap(({ id, question }) => {
    if (!isJsonObject(question) || question.type !== 'approve_tool' || !(id in answers)) return []
    const answer = answers[id]
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
  | { kind: 'text'; node: string; text: string; id: string | null; live: boolean }

export interface Transcript {
  items: TranscriptItem[]
  text: string
  sources: AnswerSource[]
  models: ModelCall[]
}

/** The activities and replies of a run, in order. `known` are ids of messages of earlier turns, which a run may rewrite. */
export function buildTranscript(run: RunView, known: ReadonlySet<string> = new Set()): Transcript {
  const items: TranscriptItem[] = []
  const models: ModelCall[] = []
  let sources: AnswerSource[] = []
  const said = new Set(known)
  const show = (node: string, shown: AgentActivity, live: boolean) => {
    if (shown.type === 'sources') sources = shown.sources
    else addActivity(items, node, shown, live, run.deniedCalls)
  }
  for (const step of run.steps) {
    for (const task of step.tasks) {
      for (const shown of activitiesIn(task)) show(task.node, shown, false)
      models.push(...modelCallsIn(task))
      sources = sourcesIn(task.update) ?? sources
      for (const { id, text } of repliesIn(task.update)) {
        if (id !== null && said.has(id)) continue
        if (id !== null) said.add(id)
        items.push({ kind: 'text', node: task.node, text, id, live: false })
      }
    }
  }
  for (const [node, text] of Object.entries(run.partial)) {
    if (text) items.push({ kind: 'text', node, text, id: null, live: false })
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
    if (text) items.push({ kind: 'text', node, text, id: null, live: true })
  }
  const text = items.flatMap((item) => (item.kind === 'text' ? [item.text] : [])).join('\n\n')
  return { items, text, sources, models }
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

/** The activities recorded in the notes of a task. */
export function activitiesIn(task: StepTask): AgentActivity[] {
  const events = task.notes?.events
  return Array.isArray(events) ? events.flatMap((event) => parseActivity(event) ?? []) : []
}

/** The model calls recorded in the notes of a task. */
export function modelCallsIn(task: StepTask): ModelCall[] {
  const models: unknown = task.notes?.models
  return Array.isArray(models) ? models.filter((one): one is ModelCall => isJsonObject(one) && typeof one.name === 'string') : []
}

/** The assistant messages that a state update adds. */
export function repliesIn(update: Json): { id: string | null; text: string }[] {
  if (!isJsonObject(update)) return []
  return putItems(update.messages).flatMap((message) => {
    if (!isJsonObject(message) || message.role !== 'assistant') return []
    const text = messageText(message)
    return text.trim() === '' ? [] : [{ id: typeof message.id === 'string' ? message.id : null, text }]
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

// The open thread: its turns, its active run, and the actions of the user.

import { batch, signal } from '@preact/signals'

import * as api from './api'
import { reduceRunEvent, newRunView, continuation } from './transcript'
import { followRun } from './follow-run'
import { mergeTurns, newTurn, turnsToWatch, buildTurns, type Turn } from './turns'
import type { Json, RunEvent, RunInfo } from './api-types'
import { removePendingMessage, savePendingMessage, loadPendingMessage } from './pending-messages'

export type { Turn } from './turns'

export interface Conversation {
  thread: string | null
  turns: Turn[]
  /** Messages that existed when the thread was opened, with the run of each. */
  known: ReadonlyMap<string, string | null>
  state: 'loading' | 'ready' | 'failed'
  error: unknown
}

const EMPTY: Conversation = { thread: null, turns: [], known: new Map(), state: 'ready', error: null }

export const conversation = signal<Conversation>(EMPTY)

/** Incremented when a run stops, so that lists can be reloaded. */
export const settledRuns = signal(0)

/** Aborts all work for the open thread when another thread is opened. */
let threadAbort = new AbortController()

/** Minimum time between two renders of a streaming answer. */
const FLUSH_MS = 50

export function closeConversation(): void {
  threadAbort.abort()
  threadAbort = new AbortController()
  conversation.value = EMPTY
}

export async function openConversation(thread: string): Promise<void> {
  if (conversation.value.thread === thread && conversation.value.state !== 'failed') return
  threadAbort.abort()
  threadAbort = new AbortController()
  const { signal: left } = threadAbort
  conversation.value = { thread, turns: [], known: new Map(), state: 'loading', error: null }
  try {
    const [messages, runs] = await Promise.all([api.fetchMessages(thread), api.fetchRuns(thread)])
    if (left.aborted) return
    const turns = buildTurns(messages, runs)
    const known = new Map(messages.map((message) => [message.id, message.run]))
    conversation.value = { thread, turns, known, state: 'ready', error: null }
    watchTurns(turns, runs)
    const unsent = loadPendingMessage(thread)
    if (unsent) sendQuestion(thread, newTurn(unsent.text, unsent.at, unsent.agent, null), unsent)
  } catch (error) {
    if (!left.aborted) conversation.value = { thread, turns: [], known: new Map(), state: 'failed', error }
  }
}

function watchTurns(turns: Turn[], runs: RunInfo[]): void {
  turnsToWatch(turns, runs).forEach(({ turn, hasEnded }) => watchTurn(turn, hasEnded))
}

/** Loads turns that another tab or program added to the open thread. */
export async function refreshConversation(): Promise<void> {
  const { thread, state } = conversation.value
  if (thread === null || state !== 'ready') return
  const { signal: left } = threadAbort
  try {
    // Messages first: every message then has its run in the list that is read after it.
    const messages = await api.fetchMessages(thread)
    const runs = await api.fetchRuns(thread)
    if (left.aborted) return
    const { value } = conversation
    const { turns, news } = mergeTurns(value.turns, buildTurns(messages, runs))
    const status = new Map(runs.map((run) => [run.id, run.status]))
    // A run that is paused or failed here may have been resumed elsewhere.
    const moved = value.turns.filter((turn) => {
      const shown = turn.run.peek()?.status
      return (shown === 'paused' || shown === 'failed') && status.get(turn.id.peek() ?? '') !== shown
    })
    if (news.length > 0) {
      conversation.value = { ...value, turns, known: new Map(messages.map((message) => [message.id, message.run])) }
      watchTurns(news, runs)
    }
    moved.forEach((turn) => watchTurn(turn))
  } catch {
    // A background refresh may fail silently: the next action of the user reports the error.
  }
}

/** Follows the events of a turn's run until the run stops. */
export function watchTurn(turn: Turn, isQuiet = false): void {
  const { thread } = conversation.value
  if (thread !== null && turn.id.value !== null) void trackRun(turn, thread, null, isQuiet)
}

/** Sends a question to an agent. Returns null on success, else the error. */
export async function askAgent(agent: string, text: string, entered: (thread: string) => void): Promise<unknown> {
  let { thread } = conversation.value
  if (thread === null) {
    try {
      thread = (await api.createThread(agent)).id
    } catch (error) {
      return error
    }
    threadAbort.abort()
    threadAbort = new AbortController()
    conversation.value = { thread, turns: [], known: new Map(), state: 'ready', error: null }
    entered(thread)
  }
  const pending = { agent, text, once: api.randomId() }
  const turn = newTurn(text, Date.now(), agent, null)
  savePendingMessage(thread, { ...pending, at: turn.at })
  sendQuestion(thread, turn, pending)
  void refreshConversation()
  return null
}

interface PendingQuestion {
  agent: string
  text: string
  once: string
}

/** Aborts the sending of questions that the server has not accepted yet. */
const pendingAborts = new WeakMap<Turn, () => void>()

function sendQuestion(thread: string, turn: Turn, pending: PendingQuestion): void {
  const { value } = conversation
  conversation.value = { ...value, turns: [...value.turns, turn] }
  void trackRun(turn, thread, pending)
}

/** Stops sending a question that the server has not accepted yet, and returns its text. */
export function withdrawQuestion(turn: Turn): string {
  pendingAborts.get(turn)?.()
  const { value } = conversation
  conversation.value = { ...value, turns: value.turns.filter((one) => one !== turn) }
  return turn.question
}

/** The server has accepted the question. A refresh in the meantime may have added its run as a second turn: remove that. */
function questionAccepted(turn: Turn, thread: string, pending: PendingQuestion, run: string | null): void {
  removePendingMessage(thread, pending.once)
  pendingAborts.delete(turn)
  if (run === null) return
  turn.id.value = run
  const { value } = conversation
  const turns = value.turns.filter((one) => one === turn || one.id.peek() !== run)
  if (turns.length < value.turns.length) conversation.value = { ...value, turns }
}

/** Follows a run. With `isQuiet` the turn is rendered only at the end, so that an old answer is not replayed. */
async function trackRun(turn: Turn, thread: string, pending: PendingQuestion | null, isQuiet = false): Promise<void> {
  const own = new AbortController()
  const { signal: left } = own
  const leave = () => own.abort()
  threadAbort.signal.addEventListener('abort', leave)
  if (pending) pendingAborts.set(turn, () => { leave(); removePendingMessage(thread, pending.once) })
  let run = turn.run.peek() ?? newRunView(turn.id.peek() ?? '', thread, turn.agent)
  let timer: ReturnType<typeof setTimeout> | undefined
  const flush = () => {
    clearTimeout(timer)
    timer = undefined
    turn.run.value = run
  }
  turn.error.value = null
  await followRun(
    {
      async open(after, signal) {
        const id = turn.id.peek()
        if (id !== null) return api.openRunEvents(thread, id, after, signal)
        if (pending === null) throw new Error('nothing to follow')
        const { body, run: started } = await api.startRun(thread, pending.agent, pending.text, pending.once, signal)
        questionAccepted(turn, thread, pending, started)
        return body
      },
      applyEvent(event: RunEvent) {
        run = reduceRunEvent(run, event)
        if (event.type === 'started') turn.id.value = run.id
        const next = continuation(run.status)
        if (isQuiet) return next
        // In the replay of an old run, more events may follow a pause or a failure at once. Wait before rendering it.
        if (event.type !== 'delta' && next !== 'stopped') flush()
        else timer ??= setTimeout(flush, FLUSH_MS)
        return next
      },
      lastEventNumber: () => run.lastEventNumber,
      onConnectionChange(connection) {
        batch(() => {
          turn.connection.value = connection
          if (connection.state === 'refused') {
            turn.error.value = connection.error
            if (pending) removePendingMessage(thread, pending.once)
          }
        })
      },
      waitBeforeRetry: waitUntilOnline,
    },
    left,
  )
  threadAbort.signal.removeEventListener('abort', leave)
  flush()
  turn.stopping.value = false
  if (left.aborted) return
  settledRuns.value += 1
  if (run.status === 'finished' || run.status === 'cancelled') await loadStoredAnswer(turn, thread, left)
}

/** Replaces the streamed answer by the stored one, so that it reads the same after a reload. */
async function loadStoredAnswer(turn: Turn, thread: string, left: AbortSignal): Promise<void> {
  try {
    const messages = await api.fetchMessages(thread)
    if (left.aborted) return
    const own = messages.filter((message) => message.run === turn.id.peek())
    const stored = buildTurns(own, [])[0]?.storedAnswer.peek()
    if (stored) turn.storedAnswer.value = stored
  } catch {
    // The streamed answer stays. It has the same content.
  }
}

export async function cancelTurn(turn: Turn): Promise<void> {
  const { thread } = conversation.value
  const id = turn.id.value
  if (thread === null || id === null) return
  turn.stopping.value = true
  try {
    await api.cancelRun(thread, id)
    if (turn.run.peek()?.status === 'paused') watchTurn(turn)
  } catch (error) {
    batch(() => {
      turn.stopping.value = false
      turn.error.value = error
    })
  }
}

/** Retries a failed run from where it stopped. */
export function retryTurn(turn: Turn): Promise<void> {
  return resumeAndTrack(turn, (thread, id) => api.retryRun(thread, id))
}

export function answerQuestions(turn: Turn, answers: Record<string, Json>): Promise<void> {
  return resumeAndTrack(turn, (thread, id) => api.resumeRun(thread, id, answers))
}

/** Resumes a paused or failed run and follows it. */
async function resumeAndTrack(turn: Turn, tell: (thread: string, id: string) => Promise<void>): Promise<void> {
  const { thread } = conversation.value
  const id = turn.id.value
  if (thread === null || id === null) return
  turn.error.value = null
  try {
    await tell(thread, id)
  } catch (error) {
    if (!(await hasRunAdvanced(turn, thread, id))) {
      turn.error.value = error
      return
    }
  }
  const run = turn.run.peek()
  turn.run.value = run && { ...run, status: 'running', failure: null }
  void trackRun(turn, thread, null)
}

/** Whether the run advanced although the request failed: the response was lost, or another client was faster. */
async function hasRunAdvanced(turn: Turn, thread: string, id: string): Promise<boolean> {
  const shown = turn.run.peek()
  const now = await api.fetchRun(thread, id).catch(() => null)
  if (!shown || !now) return false
  const knownIds = new Set(shown.questions.map((question) => question.id))
  return now.status !== shown.status || (now.questions ?? []).some((question) => !knownIds.has(question.id))
}

/** The active turn of the open thread. If several are active, the one that runs, not those queued behind it. */
export function busyTurn(): Turn | null {
  const { turns } = conversation.value
  const isBusy = (turn: Turn) => turn.error.value === null && !['done', 'refused'].includes(turn.connection.value.state)
  const running = turns.find((turn) => turn.run.value?.status === 'running' && isBusy(turn))
  return running ?? turns.slice(-1).find(isBusy) ?? null
}

function waitUntilOnline(ms: number, left: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      removeEventListener('online', end)
      document.removeEventListener('visibilitychange', seen)
      left.removeEventListener('abort', end)
      resolve()
    }
    const seen = () => {
      if (!document.hidden) end()
    }
    const timer = setTimeout(end, ms)
    addEventListener('online', end)
    document.addEventListener('visibilitychange', seen)
    left.addEventListener('abort', end)
  })
}

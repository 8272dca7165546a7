// The open thread: its turns, the run that is under way, and what a person may do with them.

import { batch, signal } from '@preact/signals'

import * as api from './api'
import { reduceRunEvent, newRunView, continuation } from './transcript'
import { followRun } from './follow-run'
import { mergeTurns, newTurn, turnsToWatch, buildTurns, type Turn } from './turns'
import type { Json, RunEvent, RunInfo } from './types'
import { removePendingMessage, savePendingMessage, loadPendingMessage } from './pending-messages'

export type { Turn } from './turns'

export interface Conversation {
  thread: string | null
  turns: Turn[]
  /** Messages that were there when the thread was opened, and the run each belongs to. */
  known: ReadonlyMap<string, string | null>
  state: 'loading' | 'ready' | 'failed'
  error: unknown
}

const EMPTY: Conversation = { thread: null, turns: [], known: new Map(), state: 'ready', error: null }

export const conversation = signal<Conversation>(EMPTY)

/** Told when a run has come to rest, so that lists can be brought up to date. */
export const settledRuns = signal(0)

/** Ends everything that belongs to the thread that was open before. */
let threadAbort = new AbortController()

/** How often what a person sees may change while words arrive. */
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

/** Takes over what was said on the open thread elsewhere: in another tab, or by another program. */
export async function refreshConversation(): Promise<void> {
  const { thread, state } = conversation.value
  if (thread === null || state !== 'ready') return
  const { signal: left } = threadAbort
  try {
    // One after the other: whoever said something has a run in a list that is read later.
    const messages = await api.fetchMessages(thread)
    const runs = await api.fetchRuns(thread)
    if (left.aborted) return
    const { value } = conversation
    const { turns, news } = mergeTurns(value.turns, buildTurns(messages, runs))
    const status = new Map(runs.map((run) => [run.id, run.status]))
    // A run that waited or had failed here may have been gone on with elsewhere.
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
    // What is shown stays as it is; whoever asks next is told what is wrong.
  }
}

/** Reads the events of a turn, from where it is, until its run rests. */
export function watchTurn(turn: Turn, isQuiet = false): void {
  const { thread } = conversation.value
  if (thread !== null && turn.id.value !== null) void trackRun(turn, thread, null, isQuiet)
}

/** Asks. Gives null when it was taken, else what went wrong. */
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
  const asked = { agent, text, once: api.randomId() }
  const turn = newTurn(text, Date.now(), agent, null)
  savePendingMessage(thread, { ...asked, at: turn.at })
  sendQuestion(thread, turn, asked)
  void refreshConversation()
  return null
}

interface PendingQuestion {
  agent: string
  text: string
  once: string
}

/** What ends the sending of a question that the server has not taken yet. */
const pendingAborts = new WeakMap<Turn, () => void>()

function sendQuestion(thread: string, turn: Turn, asked: PendingQuestion): void {
  const { value } = conversation
  conversation.value = { ...value, turns: [...value.turns, turn] }
  void trackRun(turn, thread, asked)
}

/** Sends a question no more that the server has not taken, and gives its words back. */
export function withdrawQuestion(turn: Turn): string {
  pendingAborts.get(turn)?.()
  const { value } = conversation
  conversation.value = { ...value, turns: value.turns.filter((one) => one !== turn) }
  return turn.question
}

/** The server has taken the question. Who heard of its run from elsewhere meanwhile shows it twice. */
function questionAccepted(turn: Turn, thread: string, asked: PendingQuestion, run: string | null): void {
  removePendingMessage(thread, asked.once)
  pendingAborts.delete(turn)
  if (run === null) return
  turn.id.value = run
  const { value } = conversation
  const turns = value.turns.filter((one) => one === turn || one.id.peek() !== run)
  if (turns.length < value.turns.length) conversation.value = { ...value, turns }
}

/** A run that has ended is shown only when all of it was read: nobody wants to see an old answer come word by word. */
async function trackRun(turn: Turn, thread: string, asked: PendingQuestion | null, isQuiet = false): Promise<void> {
  const own = new AbortController()
  const { signal: left } = own
  const leave = () => own.abort()
  threadAbort.signal.addEventListener('abort', leave)
  if (asked) pendingAborts.set(turn, () => { leave(); removePendingMessage(thread, asked.once) })
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
        if (asked === null) throw new Error('nothing to follow')
        const { body, run: started } = await api.startRun(thread, asked.agent, asked.text, asked.once, signal)
        questionAccepted(turn, thread, asked, started)
        return body
      },
      applyEvent(event: RunEvent) {
        run = reduceRunEvent(run, event)
        if (event.type === 'started') turn.id.value = run.id
        const stands = continuation(run.status)
        if (isQuiet) return stands
        // What a run rests at may be followed by more at once, when it is an old one that is read again.
        if (event.type !== 'delta' && stands !== 'rest') flush()
        else timer ??= setTimeout(flush, FLUSH_MS)
        return stands
      },
      lastEventNumber: () => run.lastEventNumber,
      onConnectionChange(connection) {
        batch(() => {
          turn.connection.value = connection
          if (connection.state === 'refused') {
            turn.error.value = connection.error
            if (asked) removePendingMessage(thread, asked.once)
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

/** Takes over what the server keeps of the answer, so that it reads the same after a reload. */
async function loadStoredAnswer(turn: Turn, thread: string, left: AbortSignal): Promise<void> {
  try {
    const messages = await api.fetchMessages(thread)
    if (left.aborted) return
    const own = messages.filter((message) => message.run === turn.id.peek())
    const kept = buildTurns(own, [])[0]?.storedAnswer.peek()
    if (kept) turn.storedAnswer.value = kept
  } catch {
    // The events told the same already.
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

/** Goes on with a failed run where it stopped. */
export function retryTurn(turn: Turn): Promise<void> {
  return resumeAndTrack(turn, (thread, id) => api.retryRun(thread, id))
}

export function answerQuestions(turn: Turn, answers: Record<string, Json>): Promise<void> {
  return resumeAndTrack(turn, (thread, id) => api.resumeRun(thread, id, answers))
}

/** Lets a run that rests go on, and follows it. */
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

/** Whether a run has gone on although nobody here was told so: the reply was lost, or somebody else was quicker. */
async function hasRunAdvanced(turn: Turn, thread: string, id: string): Promise<boolean> {
  const shown = turn.run.peek()
  const now = await api.fetchRun(thread, id).catch(() => null)
  if (!shown || !now) return false
  const asked = new Set(shown.questions.map((question) => question.id))
  return now.status !== shown.status || (now.questions ?? []).some((question) => !asked.has(question.id))
}

/** The turn of the open thread that is under way; of several, the one that the others stand in line behind. */
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

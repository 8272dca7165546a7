// The open thread: its turns, the run that is under way, and what a person may do with them.

import { batch, signal } from '@preact/signals'

import * as api from './api'
import { fold, newRun, standing } from './fold'
import { follow } from './follow'
import { merged, newTurn, toRead, turnsOf, type Turn } from './turns'
import type { Json, RunEvent, RunInfo } from './types'
import { dropUnsent, keepUnsent, unsentOf } from './unsent'

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
export const rested = signal(0)

/** Ends everything that belongs to the thread that was open before. */
let leaving = new AbortController()

/** How often what a person sees may change while words arrive. */
const FLUSH_MS = 50

export function openNone(): void {
  leaving.abort()
  leaving = new AbortController()
  conversation.value = EMPTY
}

export async function open(thread: string): Promise<void> {
  if (conversation.value.thread === thread && conversation.value.state !== 'failed') return
  leaving.abort()
  leaving = new AbortController()
  const { signal: left } = leaving
  conversation.value = { thread, turns: [], known: new Map(), state: 'loading', error: null }
  try {
    const [messages, runs] = await Promise.all([api.messages(thread), api.runs(thread)])
    if (left.aborted) return
    const turns = turnsOf(messages, runs)
    const known = new Map(messages.map((message) => [message.id, message.run]))
    conversation.value = { thread, turns, known, state: 'ready', error: null }
    readOn(turns, runs)
    const unsent = unsentOf(thread)
    if (unsent) send(thread, newTurn(unsent.text, unsent.at, unsent.agent, null), unsent)
  } catch (error) {
    if (!left.aborted) conversation.value = { thread, turns: [], known: new Map(), state: 'failed', error }
  }
}

function readOn(turns: Turn[], runs: RunInfo[]): void {
  toRead(turns, runs).forEach(({ turn, hasEnded }) => watch(turn, hasEnded))
}

/** Takes over what was said on the open thread elsewhere: in another tab, or by another program. */
export async function refresh(): Promise<void> {
  const { thread, state } = conversation.value
  if (thread === null || state !== 'ready') return
  const { signal: left } = leaving
  try {
    // One after the other: whoever said something has a run in a list that is read later.
    const messages = await api.messages(thread)
    const runs = await api.runs(thread)
    if (left.aborted) return
    const { value } = conversation
    const { turns, news } = merged(value.turns, turnsOf(messages, runs))
    const status = new Map(runs.map((run) => [run.id, run.status]))
    // A run that waited or had failed here may have been gone on with elsewhere.
    const moved = value.turns.filter((turn) => {
      const shown = turn.run.peek()?.status
      return (shown === 'paused' || shown === 'failed') && status.get(turn.id.peek() ?? '') !== shown
    })
    if (news.length > 0) {
      conversation.value = { ...value, turns, known: new Map(messages.map((message) => [message.id, message.run])) }
      readOn(news, runs)
    }
    moved.forEach((turn) => watch(turn))
  } catch {
    // What is shown stays as it is; whoever asks next is told what is wrong.
  }
}

/** Reads the events of a turn, from where it is, until its run rests. */
export function watch(turn: Turn, isQuiet = false): void {
  const { thread } = conversation.value
  if (thread !== null && turn.id.value !== null) void track(turn, thread, null, isQuiet)
}

/** Asks. Gives null when it was taken, else what went wrong. */
export async function ask(agent: string, text: string, entered: (thread: string) => void): Promise<unknown> {
  let { thread } = conversation.value
  if (thread === null) {
    try {
      thread = (await api.newThread(agent)).id
    } catch (error) {
      return error
    }
    leaving.abort()
    leaving = new AbortController()
    conversation.value = { thread, turns: [], known: new Map(), state: 'ready', error: null }
    entered(thread)
  }
  const asked = { agent, text, once: api.newId() }
  const turn = newTurn(text, Date.now(), agent, null)
  keepUnsent(thread, { ...asked, at: turn.at })
  send(thread, turn, asked)
  void refresh()
  return null
}

interface Asked {
  agent: string
  text: string
  once: string
}

/** What ends the sending of a question that the server has not taken yet. */
const givingUp = new WeakMap<Turn, () => void>()

function send(thread: string, turn: Turn, asked: Asked): void {
  const { value } = conversation
  conversation.value = { ...value, turns: [...value.turns, turn] }
  void track(turn, thread, asked)
}

/** Sends a question no more that the server has not taken, and gives its words back. */
export function giveUp(turn: Turn): string {
  givingUp.get(turn)?.()
  const { value } = conversation
  conversation.value = { ...value, turns: value.turns.filter((one) => one !== turn) }
  return turn.asked
}

/** The server has taken the question. Who heard of its run from elsewhere meanwhile shows it twice. */
function taken(turn: Turn, thread: string, asked: Asked, run: string | null): void {
  dropUnsent(thread, asked.once)
  givingUp.delete(turn)
  if (run === null) return
  turn.id.value = run
  const { value } = conversation
  const turns = value.turns.filter((one) => one === turn || one.id.peek() !== run)
  if (turns.length < value.turns.length) conversation.value = { ...value, turns }
}

/** A run that has ended is shown only when all of it was read: nobody wants to see an old answer come word by word. */
async function track(turn: Turn, thread: string, asked: Asked | null, isQuiet = false): Promise<void> {
  const own = new AbortController()
  const { signal: left } = own
  const leave = () => own.abort()
  leaving.signal.addEventListener('abort', leave)
  if (asked) givingUp.set(turn, () => { leave(); dropUnsent(thread, asked.once) })
  let run = turn.run.peek() ?? newRun(turn.id.peek() ?? '', thread, turn.agent)
  let timer: ReturnType<typeof setTimeout> | undefined
  const flush = () => {
    clearTimeout(timer)
    timer = undefined
    turn.run.value = run
  }
  turn.error.value = null
  await follow(
    {
      async open(after, signal) {
        const id = turn.id.peek()
        if (id !== null) return api.events(thread, id, after, signal)
        if (asked === null) throw new Error('nothing to follow')
        const { body, run: started } = await api.start(thread, asked.agent, asked.text, asked.once, signal)
        taken(turn, thread, asked, started)
        return body
      },
      take(event: RunEvent) {
        run = fold(run, event)
        if (event.type === 'started') turn.id.value = run.id
        const stands = standing(run.status)
        if (isQuiet) return stands
        // What a run rests at may be followed by more at once, when it is an old one that is read again.
        if (event.type !== 'delta' && stands !== 'rest') flush()
        else timer ??= setTimeout(flush, FLUSH_MS)
        return stands
      },
      last: () => run.last,
      told(connection) {
        batch(() => {
          turn.connection.value = connection
          if (connection.state === 'refused') {
            turn.error.value = connection.error
            if (asked) dropUnsent(thread, asked.once)
          }
        })
      },
      wait: untilOnline,
    },
    left,
  )
  leaving.signal.removeEventListener('abort', leave)
  flush()
  turn.stopping.value = false
  if (left.aborted) return
  rested.value += 1
  if (run.status === 'finished' || run.status === 'cancelled') await settle(turn, thread, left)
}

/** Takes over what the server keeps of the answer, so that it reads the same after a reload. */
async function settle(turn: Turn, thread: string, left: AbortSignal): Promise<void> {
  try {
    const messages = await api.messages(thread)
    if (left.aborted) return
    const own = messages.filter((message) => message.run === turn.id.peek())
    const kept = turnsOf(own, [])[0]?.said.peek()
    if (kept) turn.said.value = kept
  } catch {
    // The events told the same already.
  }
}

export async function stop(turn: Turn): Promise<void> {
  const { thread } = conversation.value
  const id = turn.id.value
  if (thread === null || id === null) return
  turn.stopping.value = true
  try {
    await api.cancel(thread, id)
    if (turn.run.peek()?.status === 'paused') watch(turn)
  } catch (error) {
    batch(() => {
      turn.stopping.value = false
      turn.error.value = error
    })
  }
}

/** Goes on with a failed run where it stopped. */
export function goOn(turn: Turn): Promise<void> {
  return move(turn, (thread, id) => api.goOn(thread, id))
}

export function answer(turn: Turn, answers: Record<string, Json>): Promise<void> {
  return move(turn, (thread, id) => api.resume(thread, id, answers))
}

/** Lets a run that rests go on, and follows it. */
async function move(turn: Turn, tell: (thread: string, id: string) => Promise<void>): Promise<void> {
  const { thread } = conversation.value
  const id = turn.id.value
  if (thread === null || id === null) return
  turn.error.value = null
  try {
    await tell(thread, id)
  } catch (error) {
    if (!(await hasMoved(turn, thread, id))) {
      turn.error.value = error
      return
    }
  }
  const run = turn.run.peek()
  turn.run.value = run && { ...run, status: 'running', failure: null }
  void track(turn, thread, null)
}

/** Whether a run has gone on although nobody here was told so: the reply was lost, or somebody else was quicker. */
async function hasMoved(turn: Turn, thread: string, id: string): Promise<boolean> {
  const shown = turn.run.peek()
  const now = await api.oneRun(thread, id).catch(() => null)
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

function untilOnline(ms: number, left: AbortSignal): Promise<void> {
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

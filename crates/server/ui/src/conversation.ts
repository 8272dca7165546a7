// The open thread: its turns, the run that is under way, and what a person may do with them.

import { batch, signal, type Signal } from '@preact/signals'

import * as api from './api'
import { fold, newRun, standing, type Run } from './fold'
import { follow, type Connection } from './follow'
import type { Json, Message, RunEvent, RunInfo, Source } from './types'
import { dropUnsent, keepUnsent, unsentOf } from './unsent'

/** Question and answer. */
export interface Turn {
  key: string
  asked: string
  at: number
  agent: string
  /** What the server keeps of the answer, once it does. */
  said: Signal<{ text: string; sources: Source[] } | null>
  run: Signal<Run | null>
  /** The id of the run, known before its events are. */
  id: Signal<string | null>
  connection: Signal<Connection>
  stopping: Signal<boolean>
  error: Signal<unknown>
}

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

/** The newest turn may be under way; those that did not end well say so. The rest are read when asked for. */
function readOn(turns: Turn[], runs: RunInfo[]): void {
  const status = new Map(runs.map((run) => [run.id, run.status]))
  turns.forEach((turn, index) => {
    const how = status.get(turn.id.value ?? '')
    if (index === turns.length - 1 || how === 'failed' || how === 'cancelled' || how === 'paused') watch(turn, hasEnded(how))
  })
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
    // A run that waited here may have been answered elsewhere.
    const moved = value.turns.filter((turn) => turn.run.peek()?.status === 'paused' && status.get(turn.id.peek() ?? '') !== 'paused')
    if (news.length > 0) {
      conversation.value = { ...value, turns, known: new Map(messages.map((message) => [message.id, message.run])) }
      readOn(news, runs)
    }
    moved.forEach((turn) => watch(turn))
  } catch {
    // What is shown stays as it is; whoever asks next is told what is wrong.
  }
}

/** The turns that the server knows, as far as they are shown already as they are, and after them those it does not know yet. */
export function merged(shown: Turn[], fresh: Turn[]): { turns: Turn[]; news: Turn[] } {
  const isSame = (one: Turn, other: Turn) => {
    const [id, otherId] = [one.id.peek(), other.id.peek()]
    return id === null ? otherId === null && one.asked === other.asked && one.at === other.at : id === otherId
  }
  // A question that is on its way may have arrived without our knowing.
  const sending = shown.filter((turn) => turn.id.peek() === null && !['done', 'refused'].includes(turn.connection.peek().state))
  const isOurs = (turn: Turn) => sending.some((one) => turn.asked === '' || turn.asked === one.asked)
  const news = fresh.filter((turn) => !shown.some((one) => isSame(one, turn)) && !isOurs(turn))
  const known = fresh.flatMap((turn) => shown.find((one) => isSame(one, turn)) ?? (news.includes(turn) ? turn : []))
  return { turns: [...known, ...shown.filter((turn) => !known.includes(turn))], news }
}

function newTurn(asked: string, at: number, agent: string, id: string | null): Turn {
  return {
    key: id ?? api.newId(),
    asked, at, agent,
    said: signal(null),
    run: signal(null),
    id: signal(id),
    connection: signal<Connection>({ state: 'done' }),
    stopping: signal(false),
    error: signal<unknown>(null),
  }
}

/** The most runs that a list gives. */
const MOST_RUNS = 50

/**
 * Messages and runs as turns, oldest first. A fork holds what was said before it, by runs of the thread it came from:
 * those have no events here, and a question among them that was not answered yet is answered by the fork's own first run.
 */
export function turnsOf(messages: Message[], runs: RunInfo[]): Turn[] {
  const begun = (run: RunInfo) => run.created ?? run.started ?? 0
  const oldestFirst = [...runs].sort((left, right) => begun(left) - begun(right))
  const agents = new Map(runs.map((run) => [run.id, run.agent]))
  const isForeign = (run: string | null) => run !== null && !agents.has(run) && runs.length < MOST_RUNS
  const turns: Turn[] = []
  const byRun = new Map<string, Turn>()
  const add = (asked: string, at: number, run: string | null) => {
    const agent = agents.get(run ?? '') ?? oldestFirst[0]?.agent ?? ''
    const turn = newTurn(asked, at, agent, isForeign(run) ? null : run)
    turns.push(turn)
    if (run !== null) byRun.set(run, turn)
    return turn
  }
  const forRun = (run: string): Turn | null => {
    const last = turns.at(-1)
    if (!last || last.asked === '' || last.id.value !== null || last.said.value !== null || isForeign(run)) return null
    last.id.value = run
    byRun.set(run, last)
    return last
  }
  for (const message of messages) {
    let turn = message.run === null ? turns.at(-1) : byRun.get(message.run)
    if (message.role === 'user' && (!turn || message.run === null || turn.asked !== '')) {
      // A client that keeps the conversation itself brings all of it with a question: the last one is the run's.
      if (turn && message.run !== null && turn.id.value === message.run) turn.id.value = null
      turn = add(message.text, message.at, message.run)
    } else if (message.role === 'assistant' && message.text.trim() !== '') {
      turn ??= (message.run === null ? null : forRun(message.run)) ?? add('', message.at, message.run)
      const before = turn.said.value
      turn.said.value = {
        text: before ? `${before.text}\n\n${message.text}` : message.text,
        sources: message.sources && message.sources.length > 0 ? message.sources : (before?.sources ?? []),
      }
    }
  }
  for (const run of oldestFirst) {
    if (!byRun.has(run.id) && !forRun(run.id)) add('', begun(run), run.id)
  }
  return turns
}

/** Reads the events of a turn, from where it is, until its run rests. */
export function watch(turn: Turn, isQuiet = false): void {
  const { thread } = conversation.value
  if (thread !== null && turn.id.value !== null) void track(turn, thread, null, isQuiet)
}

function hasEnded(status: string | undefined): boolean {
  return status === 'finished' || status === 'failed' || status === 'cancelled'
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
export async function goOn(turn: Turn): Promise<void> {
  const { thread } = conversation.value
  const id = turn.id.value
  if (thread === null || id === null) return
  try {
    await api.goOn(thread, id)
    turn.run.value = turn.run.peek() && { ...(turn.run.peek() as Run), status: 'running', failure: null }
    void track(turn, thread, null)
  } catch (error) {
    turn.error.value = error
  }
}

export async function answer(turn: Turn, answers: Record<string, Json>): Promise<void> {
  const { thread } = conversation.value
  const id = turn.id.value
  if (thread === null || id === null) return
  turn.error.value = null
  try {
    await api.resume(thread, id, answers)
  } catch (error) {
    turn.error.value = error
  }
  // Also after a refusal: somebody else may have answered.
  const run = turn.run.peek()
  if (run && turn.error.peek() === null) {
    turn.run.value = { ...run, status: 'running' }
    void track(turn, thread, null)
  }
}

/** Whether a run of the open thread is under way. */
export function busyTurn(): Turn | null {
  const turn = conversation.value.turns.at(-1)
  if (!turn || turn.error.value !== null) return null
  const { state } = turn.connection.value
  return state !== 'done' && state !== 'refused' ? turn : null
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

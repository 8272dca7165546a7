// The turns of a thread: what was asked and what came of it, made of what the server keeps.

import { signal, type Signal } from '@preact/signals'

import * as api from './api'
import type { RunView } from './transcript'
import type { Connection } from './follow-run'
import type { ThreadMessage, RunInfo, Source } from './types'

/** Question and answer. */
export interface Turn {
  key: string
  question: string
  at: number
  agent: string
  /** What the server keeps of the answer, once it does. */
  storedAnswer: Signal<{ text: string; sources: Source[] } | null>
  run: Signal<RunView | null>
  /** The id of the run, known before its events are. */
  id: Signal<string | null>
  connection: Signal<Connection>
  stopping: Signal<boolean>
  error: Signal<unknown>
}

export function newTurn(asked: string, at: number, agent: string, id: string | null): Turn {
  return {
    key: id ?? api.randomId(),
    question: asked, at, agent,
    storedAnswer: signal(null),
    run: signal(null),
    id: signal(id),
    connection: signal<Connection>({ state: 'done' }),
    stopping: signal(false),
    error: signal<unknown>(null),
  }
}

/** The most runs that a list gives. */
const MAX_LISTED_RUNS = 50

/**
 * Messages and runs as turns, oldest first. A fork holds what was said before it, by runs of the thread it came from:
 * those have no events here, and a question among them that was not answered yet is answered by the fork's own first run.
 */
export function buildTurns(messages: ThreadMessage[], runs: RunInfo[]): Turn[] {
  const begun = (run: RunInfo) => run.created ?? run.started ?? 0
  const oldestFirst = [...runs].sort((left, right) => begun(left) - begun(right))
  const agents = new Map(runs.map((run) => [run.id, run.agent]))
  const isForeign = (run: string | null) => run !== null && !agents.has(run) && runs.length < MAX_LISTED_RUNS
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
    if (!last || last.question === '' || last.id.value !== null || last.storedAnswer.value !== null || isForeign(run)) return null
    last.id.value = run
    byRun.set(run, last)
    return last
  }
  for (const message of messages) {
    let turn = message.run === null ? turns.at(-1) : byRun.get(message.run)
    if (message.role === 'user' && (!turn || message.run === null || turn.question !== '')) {
      // A client that keeps the conversation itself brings all of it with a question: the last one is the run's.
      if (turn && message.run !== null && turn.id.value === message.run) turn.id.value = null
      turn = add(message.text, message.at, message.run)
    } else if (message.role === 'assistant' && message.text.trim() !== '') {
      turn ??= (message.run === null ? null : forRun(message.run)) ?? add('', message.at, message.run)
      const before = turn.storedAnswer.value
      turn.storedAnswer.value = {
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

/** The turns that the server knows, as far as they are shown already as they are, and after them those it does not know yet. */
export function mergeTurns(shown: Turn[], fresh: Turn[]): { turns: Turn[]; news: Turn[] } {
  const isSame = (one: Turn, other: Turn) => {
    const [id, otherId] = [one.id.peek(), other.id.peek()]
    return id === null ? otherId === null && one.question === other.question && one.at === other.at : id === otherId
  }
  // A question that is on its way may have arrived without our knowing.
  const sending = shown.filter((turn) => turn.id.peek() === null && !['done', 'refused'].includes(turn.connection.peek().state))
  const isOurs = (turn: Turn) => sending.some((one) => turn.question === '' || turn.question === one.question)
  const news = fresh.filter((turn) => !shown.some((one) => isSame(one, turn)) && !isOurs(turn))
  const known = fresh.flatMap((turn) => shown.find((one) => isSame(one, turn)) ?? (news.includes(turn) ? turn : []))
  return { turns: [...known, ...shown.filter((turn) => !known.includes(turn))], news }
}

/**
 * The turns whose events are read without being asked for: the newest, those that are under way, in line or wait for a
 * person, wherever they stand, and those that did not end well and say so.
 */
export function turnsToWatch(turns: Turn[], runs: RunInfo[]): { turn: Turn; hasEnded: boolean }[] {
  const status = new Map(runs.map((run) => [run.id, run.status]))
  return turns.flatMap((turn, index) => {
    const how = status.get(turn.id.peek() ?? '')
    const isRead = index === turns.length - 1 || (how !== undefined && how !== 'finished')
    return isRead ? [{ turn, hasEnded: how === 'finished' || how === 'failed' || how === 'cancelled' }] : []
  })
}

// The turns of a thread, built from its stored messages and runs.

import { signal, type Signal } from '@preact/signals'

import * as api from './api'
import type { RunView } from './transcript'
import type { Connection } from './follow-run'
import type { MessageKey } from './i18n'
import { imagesOfParts } from './images'
import type { AnswerSource, DecisionInfo, MessageInfo, RunInfo } from './api-types'

export interface StoredAnswer {
  text: string
  sources: AnswerSource[]
  /** The model that wrote the last message. Null if the program did. */
  model: string | null
}

/** A question and its answer. */
export interface Turn {
  key: string
  /** What was asked. Empty while it is not known: the server tells the question of a run that waits only when it starts. */
  readonly question: string
  /** Images that belong to the question, as data URLs. */
  readonly images: string[]
  asked: Signal<Asked>
  at: number
  agent: string
  /** The log entry of the question, once it is known. */
  seq: number | null
  /** The questions of the run and their answers, as stored by the server. */
  storedDecisions: Signal<DecisionInfo[]>
  /** Whether the question starts a branch. */
  isBranch: boolean
  /** The answer as stored by the server, once it is stored. */
  storedAnswer: Signal<StoredAnswer | null>
  run: Signal<RunView | null>
  /** The id of the run, known before its events are read. */
  id: Signal<string | null>
  connection: Signal<Connection>
  stopping: Signal<boolean>
  error: Signal<unknown>
  /** Why the turn changed although the user did not do it here. */
  notice: Signal<MessageKey | null>
}

/** The question of a turn. */
interface Asked {
  question: string
  images: string[]
}

export function newTurn(question: string, at: number, agent: string, id: string | null, images: string[] = [], isBranch = false): Turn {
  const asked = signal<Asked>({ question, images })
  return {
    key: id ?? api.randomId(),
    asked,
    get question() { return asked.value.question },
    get images() { return asked.value.images },
    at, agent, isBranch,
    seq: null,
    storedDecisions: signal<DecisionInfo[]>([]),
    storedAnswer: signal(null),
    run: signal(null),
    id: signal(id),
    connection: signal<Connection>({ state: 'done' }),
    stopping: signal(false),
    error: signal<unknown>(null),
    notice: signal<MessageKey | null>(null),
  }
}

/**
 * Builds the turns of a thread, oldest first. A fork contains messages of runs of its source thread. Those runs have no
 * events here. An unanswered question among those messages is answered by the first run of the fork.
 */
export function buildTurns(messages: MessageInfo[], runs: RunInfo[], decisions: DecisionInfo[] = []): Turn[] {
  const oldestFirst = [...runs].sort((left, right) => left.created - right.created)
  const agents = new Map(runs.map((run) => [run.id, run.agent]))
  const isForeign = (run: string | null) => run !== null && !agents.has(run) && runs.length < api.MAX_LISTED_RUNS
  const turns: Turn[] = []
  const byRun = new Map<string, Turn>()
  const add = (question: string, at: number, run: string | null) => {
    const agent = agents.get(run ?? '') ?? oldestFirst[0]?.agent ?? ''
    const turn = newTurn(question, at, agent, isForeign(run) ? null : run)
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
      // A client that keeps the conversation itself sends all of it with each run. Only the last question is the run's.
      if (turn && message.run !== null && turn.id.value === message.run) turn.id.value = null
      turn = add(message.text, message.at, message.run)
      turn.seq = message.seq
      turn.asked.value = { question: message.text, images: imagesOfParts(message.parts ?? []) }
    } else if (message.role === 'assistant' && message.text.trim() !== '') {
      turn ??= (message.run === null ? null : forRun(message.run)) ?? add('', message.at, message.run)
      const before = turn.storedAnswer.value
      turn.storedAnswer.value = {
        text: before ? `${before.text}\n\n${message.text}` : message.text,
        sources: message.sources.length > 0 ? message.sources : (before?.sources ?? []),
        model: message.model ?? null,
      }
    }
  }
  for (const run of oldestFirst) {
    if (!byRun.has(run.id) && !forRun(run.id)) add('', run.created, run.id)
  }
  for (const [run, turn] of byRun) turn.storedDecisions.value = decisions.filter((one) => one.run === run)
  return turns
}

/** Takes over what the server tells of a shown turn by now: the question of a run that was in line when the turn was made. */
function learnQuestion(shown: Turn, fresh: Turn): void {
  if (fresh.asked.peek().question === '') return
  if (shown.asked.peek().question === '') shown.asked.value = fresh.asked.peek()
  shown.seq ??= fresh.seq
}

/** Merges reloaded turns into the shown ones. Shown turns are kept; turns the server does not know yet come last. */
export function mergeTurns(shown: Turn[], fresh: Turn[]): { turns: Turn[]; news: Turn[] } {
  const isSame = (one: Turn, other: Turn) => {
    const [id, otherId] = [one.id.peek(), other.id.peek()]
    return id === null ? otherId === null && one.question === other.question && one.at === other.at : id === otherId
  }
  // A question that is being sent may have arrived already.
  const sending = shown.filter((turn) => turn.id.peek() === null && !['done', 'refused'].includes(turn.connection.peek().state))
  const isOurs = (turn: Turn) => sending.some((one) => turn.question === '' || turn.question === one.question)
  const news = fresh.filter((turn) => !shown.some((one) => isSame(one, turn)) && !isOurs(turn))
  const known = fresh.flatMap((turn) => shown.find((one) => isSame(one, turn)) ?? (news.includes(turn) ? turn : []))
  for (const turn of fresh) {
    const same = shown.find((one) => isSame(one, turn))
    if (same) learnQuestion(same, turn)
  }
  return { turns: [...known, ...shown.filter((turn) => !known.includes(turn))], news }
}

/**
 * The turns whose events are loaded at once: the newest one, and all whose run is active, queued, paused, failed or
 * cancelled.
 */
export function turnsToWatch(turns: Turn[], runs: RunInfo[]): { turn: Turn; hasEnded: boolean }[] {
  const status = new Map(runs.map((run) => [run.id, run.status]))
  return turns.flatMap((turn, index) => {
    const runStatus = status.get(turn.id.peek() ?? '')
    const isRead = index === turns.length - 1 || (runStatus !== undefined && runStatus !== 'finished')
    return isRead ? [{ turn, hasEnded: runStatus === 'finished' || runStatus === 'failed' || runStatus === 'cancelled' }] : []
  })
}

// The open thread: its turns, its active run, and the actions of the user.

import { batch, computed, signal } from '@preact/signals'

import * as api from './api'
import { isSettled, reduceRunEvent, newRunView, continuation, type RunView } from './transcript'
import { followRun, RefusedError } from './follow-run'
import { mergeTurns, newTurn, turnsToWatch, buildTurns, type Turn } from './turns'
import { branchTip, runsOnBranch } from './branches'
import { pauseFields } from './breakpoints'
import { t, type MessageKey } from './i18n'
import { parseJsonObject } from './json-search'
import type { FeedbackInfo, Json, MessageList, RunEvent, RunInfo } from './api-types'
import { loadQueuedQuestion, removeQueuedQuestion, saveQueuedQuestion, removePendingMessage, savePendingMessage, loadPendingMessage } from './pending-messages'
import { loadTabSetting, saveTabSetting } from './settings'

export type { Turn } from './turns'

export interface Conversation {
  thread: string | null
  turns: Turn[]
  /** Messages that existed when the thread was opened, with the run of each. */
  known: ReadonlyMap<string, string | null>
  /** The runs of all branches. */
  runs: RunInfo[]
  /** The last log entry of the branch shown. Null for the newest branch. */
  tip: number | null
  /** `deleted`: it was deleted elsewhere while it was open. Its turns stay in view. */
  state: 'loading' | 'ready' | 'failed' | 'deleted'
  error: unknown
  /** What the user thinks of the answers, by run. */
  feedback: ReadonlyMap<string, Pick<FeedbackInfo, 'rating' | 'note'>>
}

const EMPTY: Conversation = { thread: null, turns: [], known: new Map(), runs: [], tip: null, state: 'ready', error: null, feedback: new Map() }

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
  conversation.value = { ...EMPTY, thread, state: 'loading' }
  try {
    const version = loadShownVersion(thread)
    const loadingRuns = api.fetchRuns(thread)
    const tip = version === null ? null : branchTip(await loadingRuns, version)
    const [list, runs] = await Promise.all([api.fetchMessages(thread, tip), loadingRuns])
    if (left.aborted) return
    const shown = runsOnBranch(runs, tip)
    const turns = fillQueuedQuestions(buildTurns(list.messages, shown, list.decisions))
    runs.forEach((run) => { if (run.status !== 'queued') removeQueuedQuestion(run.id) })
    conversation.value = { ...EMPTY, thread, turns, known: runsByMessage(list), runs, tip, feedback: new Map((list.feedback ?? []).map((one) => [one.run, one])) }
    watchTurns(turns, shown)
    const unsent = loadPendingMessage(thread)
    if (unsent) void sendQuestion(thread, newTurn(unsent.text, unsent.at, unsent.agent, null, unsent.images), unsent)
  } catch (error) {
    if (!left.aborted) conversation.value = { ...EMPTY, thread, state: 'failed', error }
  }
}

/** Adds the questions of runs that are in line, which the server does not tell, as far as they were asked in this browser. */
function fillQueuedQuestions(turns: Turn[]): Turn[] {
  for (const turn of turns) {
    const id = turn.id.peek()
    const question = id !== null && turn.question === '' ? loadQueuedQuestion(id) : ''
    if (question !== '') turn.asked.value = { ...turn.asked.peek(), question }
  }
  return turns
}

const versionSetting = (thread: string) => `version.${thread}`
/** The run on the branch that was shown before a reload. Null for the newest branch. */
const loadShownVersion = (thread: string) => loadTabSetting(versionSetting(thread))

function runsByMessage({ messages }: MessageList): Map<string, string | null> {
  return new Map(messages.map((message) => [message.id, message.run]))
}

export function setFeedback(run: string, given: Pick<FeedbackInfo, 'rating' | 'note'> | null): void {
  const feedback = new Map(conversation.value.feedback)
  if (given === null) feedback.delete(run)
  else feedback.set(run, given)
  conversation.value = { ...conversation.value, feedback }
}

/** The question of a run, as far as it is loaded. */
export function questionOfRun(run: string): string {
  return conversation.value.turns.find((turn) => turn.id.value === run)?.question ?? ''
}

/** Counts how often another branch was opened or started here. */
let branchChanges = 0

/** Shows the branch with another version of a turn. */
export async function showVersion(run: string): Promise<void> {
  const { thread, runs } = conversation.value
  if (thread === null) return
  const { signal: left } = threadAbort
  const tip = branchTip(runs, run)
  try {
    const list = await api.fetchMessages(thread, tip)
    if (left.aborted) return
    const shown = runsOnBranch(conversation.value.runs, tip)
    const { turns: before } = conversation.value
    const turns = buildTurns(list.messages, shown, list.decisions)
      .map((turn) => before.find((one) => one.id.peek() !== null && one.id.peek() === turn.id.peek()) ?? turn)
    branchChanges += 1
    conversation.value = { ...conversation.value, turns, known: runsByMessage(list), tip }
    saveTabSetting(versionSetting(thread), tip === null ? null : run)
    watchTurns(turns.filter((turn) => !before.includes(turn)), shown)
  } catch (error) {
    const turn = conversation.value.turns.find((one) => one.id.peek() === run) ?? conversation.value.turns.at(-1)
    if (turn) turn.error.value = error
  }
}

/** Loads the runs of all branches again, so that the versions of turns can be counted. */
async function reloadRuns(thread: string): Promise<void> {
  const runs = await api.fetchRuns(thread).catch(() => null)
  if (runs && conversation.value.thread === thread) conversation.value = { ...conversation.value, runs }
}

/** The log entry before a question. A version of the question starts there. */
export async function entryBefore(turn: Turn): Promise<number | null> {
  const { thread } = conversation.value
  if (thread === null) return null
  const id = turn.id.peek()
  const run = conversation.value.runs.find((one) => one.id === id) ?? (id === null ? undefined : await api.fetchRun(thread, id))
  if (typeof run?.from === 'number') return run.from
  return turn.seq === null ? null : api.fetchParentEntry(thread, turn.seq)
}

function watchTurns(turns: Turn[], runs: RunInfo[]): void {
  turnsToWatch(turns, runs).forEach(({ turn, hasEnded }) => watchTurn(turn, hasEnded))
}

/** Loads turns that another tab or program added to the open thread. */
export async function refreshConversation(): Promise<void> {
  const { thread, state, tip } = conversation.value
  if (thread === null || state !== 'ready' || isStartingBranch()) return
  const { signal: left } = threadAbort
  const before = branchChanges
  try {
    // Messages first: every message then has its run in the list that is read after it.
    const list = await api.fetchMessages(thread, tip)
    const allRuns = await api.fetchRuns(thread)
    // Meanwhile another branch may have been opened or started: the messages are those of the branch before.
    if (left.aborted || branchChanges !== before) return
    const runs = runsOnBranch(allRuns, tip)
    const { value } = conversation
    const kept = value.turns.filter((turn) => isOnBranch(turn, allRuns, runs))
    const { turns, news } = mergeTurns(kept, fillQueuedQuestions(buildTurns(list.messages, runs, list.decisions)))
    const status = new Map(runs.map((run) => [run.id, run.status]))
    // A run that is paused or failed here may have been resumed elsewhere. One that could not be followed may be followed now.
    const moved = turns.filter((turn) => {
      const shown = turn.run.peek()?.status
      const isStuck = turn.id.peek() !== null && turn.connection.peek().state === 'refused'
      return isStuck || ((shown === 'paused' || shown === 'failed') && status.get(turn.id.peek() ?? '') !== shown)
    })
    const isChanged = news.length > 0 || turns.length !== value.turns.length || allRuns.some((run) => !value.runs.some((one) => one.id === run.id && one.status === run.status))
    if (isChanged) {
      conversation.value = { ...value, turns, known: runsByMessage(list), runs: allRuns }
      watchTurns(news, runs)
    }
    moved.forEach((turn) => watchTurn(turn))
  } catch (error) {
    // A background refresh may fail silently: the next action of the user reports the error.
    if (!left.aborted && api.isMissing(error)) markDeleted(thread)
  }
}

/** Whether a turn is still on the branch that is shown. Elsewhere another version of it may have been asked. */
function isOnBranch(turn: Turn, all: RunInfo[], onBranch: RunInfo[]): boolean {
  const id = turn.id.peek()
  return id === null || onBranch.some((run) => run.id === id) || !all.some((run) => run.id === id)
}

/** The thread does not exist any more. */
export function markDeleted(thread: string): void {
  const { value } = conversation
  if (value.thread !== thread || value.state === 'deleted') return
  conversation.value = { ...value, state: 'deleted' }
  settledRuns.value += 1
}

/** Follows the events of a turn's run until the run stops. */
export function watchTurn(turn: Turn, isQuiet = false): void {
  const { thread } = conversation.value
  if (thread !== null && turn.id.value !== null) void trackRun(turn, thread, null, isQuiet)
}

/** Whether a question that starts a branch has not reached the server yet. */
function isStartingBranch(): boolean {
  return conversation.value.turns.some((turn) => turn.isBranch && turn.id.peek() === null && turn.connection.peek().state !== 'refused')
}

/** Asks a question again, or another one in its place, on a branch of its own. Returns null on success, else the error. */
export async function askInsteadOf(turn: Turn, agent: string, text: string): Promise<unknown> {
  const { thread } = conversation.value
  if (thread === null) return null
  try {
    const from = await entryBefore(turn)
    if (from === null) return new Error(t('no_state'))
    const { value } = conversation
    const place = value.turns.indexOf(turn)
    if (place === -1) return null
    // What came after the question is left on the other branch.
    branchChanges += 1
    saveTabSetting(versionSetting(thread), null)
    conversation.value = { ...value, turns: value.turns.slice(0, place), tip: null }
    const pending: PendingQuestion = { agent, text, once: api.randomId(), from, if_busy: 'interrupt', ...imageFields(turn.images), ...pauseFields(agent) }
    const asked = newTurn(text, Date.now(), agent, null, turn.images, true)
    replacements.add(asked)
    savePendingMessage(thread, { ...pending, at: asked.at })
    void sendQuestion(thread, asked, pending).then(() => {
      // A refused question has no version: what was shown before comes back, and after it what was written anew.
      replacements.delete(asked)
      if (!isRefused(asked) || conversation.value.thread !== thread) return
      branchChanges += 1
      const isAnew = text === turn.question
      if (isAnew) removePendingMessage(thread, pending.once)
      conversation.value = { ...conversation.value, turns: isAnew ? value.turns : [...value.turns, asked], tip: value.tip }
      if (isAnew) turn.error.value = asked.error.peek()
    })
    return null
  } catch (error) {
    return error
  }
}

/** Sends a question to an agent. Returns null on success, else the error. */
export async function askAgent(agent: string, text: string, isInput: boolean, settings: object, images: string[], entered: (thread: string) => void): Promise<unknown> {
  let { thread } = conversation.value
  const { tip } = conversation.value
  if (thread === null) {
    try {
      thread = (await api.createThread(agent, settings)).id
      madeToAsk = { thread, settings }
    } catch (error) {
      return error
    }
    threadAbort.abort()
    threadAbort = new AbortController()
    conversation.value = { ...EMPTY, thread }
    entered(thread)
  }
  // A question on an older branch goes on from there. It must not end what runs or waits on the newest one.
  const pending: PendingQuestion = { agent, text, once: api.randomId(), ...(tip === null ? { if_busy: 'enqueue' } : { from: tip, if_busy: 'reject' }), ...(isInput ? { isInput } : {}), ...imageFields(images), ...pauseFields(agent) }
  const turn = newTurn(text, Date.now(), agent, null, images, tip !== null)
  if (tip !== null) {
    branchChanges += 1
    saveTabSetting(versionSetting(thread), null)
    conversation.value = { ...conversation.value, tip: null }
  }
  savePendingMessage(thread, { ...pending, at: turn.at })
  void sendQuestion(thread, turn, pending)
  void refreshConversation()
  return null
}

interface PendingQuestion {
  agent: string
  text: string
  once: string
  from?: number | undefined
  if_busy?: 'enqueue' | 'interrupt' | 'reject'
  pause_before?: string[]
  pause_after?: string[]
  isInput?: boolean
  images?: string[]
}

const imageFields = (images: string[]) => (images.length === 0 ? {} : { images })

/** The requests of questions that were sent here. */
const sentQuestions = new WeakMap<Turn, PendingQuestion>()

/** Aborts the sending of questions that the server has not accepted yet. */
const pendingAborts = new WeakMap<Turn, () => void>()

function sendQuestion(thread: string, turn: Turn, pending: PendingQuestion): Promise<void> {
  const { value } = conversation
  sentQuestions.set(turn, pending)
  conversation.value = { ...value, turns: [...value.turns, turn] }
  return trackRun(turn, thread, pending)
}

/** The thread that was made for a question which the server has not accepted yet, and its settings. */
let madeToAsk: { thread: string; settings: object } | null = null

/** Whether the server refused the question of a turn. */
const isRefused = (turn: Turn) => turn.id.value === null && turn.connection.value.state === 'refused'

/** The newest question that the server refused. It waits to be written again or sent again. */
export const refusedTurn = computed<Turn | null>(() => conversation.value.turns.findLast((turn) => isRefused(turn) && !replacements.has(turn)) ?? null)

/** Questions that took the place of a turn which comes back if they are refused. */
const replacements = new WeakSet<Turn>()

/**
 * Takes back a question that the server refused. A thread that was made for it is deleted; its settings are returned then.
 */
export function takeBackQuestion(turn: Turn): { text: string; images: string[]; error: unknown; settings: object | null } {
  const { thread } = conversation.value
  const error = turn.error.peek()
  const { images } = turn
  const text = withdrawQuestion(turn)
  const isEmpty = thread !== null && madeToAsk?.thread === thread && conversation.value.turns.length === 0
  const settings = isEmpty && madeToAsk ? madeToAsk.settings : null
  if (isEmpty) {
    madeToAsk = null
    // If it cannot be deleted, an empty thread is left behind. What matters is the question.
    void api.deleteThread(thread).catch(() => undefined).finally(() => { settledRuns.value += 1 })
  }
  return { text, images, error, settings }
}

/** Sends a refused question again. */
export function sendAgain(turn: Turn): void {
  const { thread } = conversation.value
  const pending = sentQuestions.get(turn)
  if (thread === null || !pending) return
  withdrawQuestion(turn)
  const again = { ...pending, once: api.randomId(), at: Date.now() }
  savePendingMessage(thread, again)
  void sendQuestion(thread, newTurn(again.text, again.at, again.agent, null, again.images, turn.isBranch), again)
}

/** Stops sending a question that the server has not accepted yet, and returns its text. */
export function withdrawQuestion(turn: Turn): string {
  pendingAborts.get(turn)?.()
  removeTurn(turn)
  return turn.question
}

function removeTurn(turn: Turn): void {
  const { value } = conversation
  conversation.value = { ...value, turns: value.turns.filter((one) => one !== turn) }
}

/** The server has accepted the question. A refresh in the meantime may have added its run as a second turn: remove that. */
function questionAccepted(turn: Turn, thread: string, pending: PendingQuestion, run: string | null): void {
  removePendingMessage(thread, pending.once)
  pendingAborts.delete(turn)
  if (madeToAsk?.thread === thread) madeToAsk = null
  if (run === null) return
  turn.id.value = run
  if (isBehindAnother(turn)) saveQueuedQuestion(run, turn.question, turn.at)
  void reloadRuns(thread)
  const { value } = conversation
  const turns = value.turns.filter((one) => one === turn || one.id.peek() !== run)
  if (turns.length < value.turns.length) conversation.value = { ...value, turns }
}

/** Reads the events of a run that has stopped. */
export async function loadRunView(thread: string, id: string, agent: string, signal: AbortSignal): Promise<RunView> {
  let run = newRunView(id, thread, agent)
  let problem: unknown = null
  await followRun({
    open: (after, own) => api.openRunEvents(thread, id, after, own),
    applyEvent(event) {
      run = reduceRunEvent(run, event)
      return continuation(run.status)
    },
    lastEventNumber: () => run.lastEventNumber,
    onConnectionChange(connection) { if (connection.state === 'refused') problem = connection.error },
    waitBeforeRetry: waitUntilOnline,
  }, signal)
  if (problem !== null) throw problem
  return run
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
        if (madeToAsk?.thread !== thread) await requireThread(thread, signal)
        const { agent, text, from, if_busy, pause_before, pause_after } = pending
        const asked = pending.isInput ? { input: parseJsonObject(text) ?? {} } : { message: text, ...imageFields(pending.images ?? []) }
        const request = { agent, ...asked, from, if_busy, pause_before, pause_after }
        const { body, run: started } = await api.startRun(thread, request, pending.once, signal)
        questionAccepted(turn, thread, pending, started)
        return body
      },
      applyEvent(event: RunEvent) {
        run = reduceRunEvent(run, event)
        if (event.type === 'started') {
          turn.id.value = run.id
          // A question that was in line is told from now on.
          if (turn.question === '') void refreshConversation()
        }
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
          if (connection.state === 'refused') turn.error.value = pending && isTooLong(connection.error) ? new TooLongError() : connection.error
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
  if (isRefused(turn)) return
  if (isSettled(run.status) && turn.id.peek() !== null) removeQueuedQuestion(run.id)
  settledRuns.value += 1
  void reloadRuns(thread)
  if (run.status === 'finished' || run.status === 'cancelled') await loadStoredAnswer(turn, thread, left)
}

/** Asking in a thread that does not exist would make it anew. It was deleted elsewhere, so nothing is asked. */
async function requireThread(thread: string, signal: AbortSignal): Promise<void> {
  try {
    await api.requireThread(thread, signal)
  } catch (error) {
    if (error instanceof RefusedError && api.isMissing(error.problem)) markDeleted(thread)
    throw error
  }
}

/** A question that the server does not take because of its length. */
export class TooLongError extends Error {}

const isTooLong = (error: unknown) => error instanceof api.ApiProblem && error.status === 413

/** Replaces the streamed answer by the stored one, so that it reads the same after a reload. */
async function loadStoredAnswer(turn: Turn, thread: string, left: AbortSignal): Promise<void> {
  try {
    const { messages } = await api.fetchMessages(thread, conversation.value.tip)
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
    const ended = await api.cancelRun(thread, id)
    // A question that was still in line leaves nothing behind.
    if (ended.status === 'cancelled' && ended.first === null) return removeTurn(turn)
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
  return resumeAndTrack(turn, (thread, id) => api.retryRun(thread, id), 'retried_elsewhere')
}

export function answerQuestions(turn: Turn, answers: Record<string, Json>): Promise<void> {
  return resumeAndTrack(turn, (thread, id) => api.resumeRun(thread, id, answers), 'answered_elsewhere')
}

/** Resumes a paused or failed run and follows it. `elsewhere` says that another client was faster. */
async function resumeAndTrack(turn: Turn, tell: (thread: string, id: string) => Promise<void>, elsewhere: MessageKey): Promise<void> {
  const { thread } = conversation.value
  const id = turn.id.value
  if (thread === null || id === null) return
  turn.error.value = null
  turn.notice.value = null
  try {
    await tell(thread, id)
  } catch (error) {
    if (!(await hasRunAdvanced(turn, thread, id))) {
      turn.error.value = error
      return
    }
    if (api.isConflict(error)) turn.notice.value = elsewhere
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

/** Whether an earlier turn is still running or paused, so that this one waits for it. */
export function isBehindAnother(turn: Turn): boolean {
  const { turns } = conversation.value
  return turns.slice(0, turns.indexOf(turn)).some((one) => ['running', 'paused', 'waiting'].includes(one.run.value?.status ?? ''))
}

// Computed, so that who shows these is rendered when another turn is meant, and not with every word of an answer.

/** The active turn of the open thread. If several are active, the one that runs, not those queued behind it. */
export const busyTurn = computed<Turn | null>(() => {
  const { turns } = conversation.value
  const isBusy = (turn: Turn) => turn.error.value === null && !['done', 'refused'].includes(turn.connection.value.state)
  const running = turns.find((turn) => turn.run.value?.status === 'running' && isBusy(turn))
  return running ?? turns.slice(-1).find(isBusy) ?? null
})

/** The newest turn that waits for a person. */
export const pausedTurn = computed<Turn | null>(() => conversation.value.turns.findLast((turn) => turn.run.value?.status === 'paused') ?? null)

/** Whether a question is on its way to the server. */
export const isSending = computed(() => conversation.value.turns.some((turn) => turn.id.value === null && !['done', 'refused'].includes(turn.connection.value.state)))

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

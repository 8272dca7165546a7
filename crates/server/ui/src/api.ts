// Client for the HTTP API of the server that served this page. No other host is contacted.

import { signal } from '@preact/signals'

import { RefusedError } from './follow-run'
import { isServerReachable } from './server-status'
import * as client from './api-client'
import type { ApiCall } from './api-client'
import type {
  AddedDocument, FeedbackRating, ForkThreadBody, Json, MakeThreadBody, Problem, RunStatus, StartRun, ThreadHistory, UpdateDocumentBody, UpdateThreadBody,
} from './api-types'

const API_KEY_STORAGE = 'doran.key'

/** The API key of this server. It is kept for the session of the tab, so that a reload does not ask for it again. */
let apiKey = loadApiKey()

function loadApiKey(): string | null {
  try {
    return sessionStorage.getItem(API_KEY_STORAGE)
  } catch {
    return null
  }
}

/** How often a key was entered or taken away. What was read with the key before may belong to another tenant. */
export const apiKeyChanges = signal(0)

/** Whether the server has rejected a request for lack of a valid API key. */
export const needsApiKey = signal(false)

export function setApiKey(given: string): void {
  apiKey = given.trim() === '' ? null : given.trim()
  needsApiKey.value = false
  try {
    if (apiKey === null) sessionStorage.removeItem(API_KEY_STORAGE)
    else sessionStorage.setItem(API_KEY_STORAGE, apiKey)
  } catch {
    // Storage may be disabled. The key is then kept until the page is closed.
  }
  apiKeyChanges.value += 1
}

export function hasApiKey(): boolean {
  return apiKey !== null
}

/** Takes a key into use if the server accepts it. An empty one is taken out of use. */
export async function tryApiKey(given: string): Promise<boolean> {
  const key = given.trim()
  if (key !== '') {
    const call = client.listThreadsCall({ limit: 1 })
    const response = await fetch(call.path, { method: call.method, headers: { authorization: `Bearer ${key}` }, credentials: 'same-origin' }).catch(() => null)
    await response?.body?.cancel().catch(() => undefined)
    if (response === null) throw UNREACHABLE
    if (response.status === 401) return false
  }
  setApiKey(key)
  return true
}

/** An error response of the server (`application/problem+json`), or a failure to reach the server. */
export class ApiProblem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly en: string,
    readonly ko: string,
    /** Details of this occurrence. */
    readonly detail: { en: string; ko: string } | null,
  ) {
    super(detail?.en ?? en)
  }
}

const UNREACHABLE = new ApiProblem(0, 'unreachable', 'the server cannot be reached', '서버에 연결할 수 없습니다', null)

/** Sends a request. A response that is not a success is thrown. */
export async function fetchChecked(call: ApiCall, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers({ ...call.headers, ...options.headers })
  if (apiKey !== null) headers.set('authorization', `Bearer ${apiKey}`)
  let body: string | null = null
  if (call.json !== undefined) {
    headers.set('content-type', 'application/json')
    body = JSON.stringify(call.json)
  }
  let response: Response
  try {
    response = await fetch(call.path, { ...options, method: call.method, headers, body, credentials: 'same-origin' })
  } catch (error) {
    if (options.signal?.aborted) throw error
    isServerReachable.value = false
    throw UNREACHABLE
  }
  isServerReachable.value = true
  if (response.ok) return response
  if (response.status === 401) needsApiKey.value = true
  throw await problemOfResponse(response)
}

async function problemOfResponse(response: Response): Promise<ApiProblem> {
  return parseProblem(response.status, await response.text().catch(() => ''))
}

/** Parses the body of an error response. */
export function parseProblem(status: number, body: string): ApiProblem {
  try {
    const { code, title, title_ko, detail, detail_ko } = JSON.parse(body) as Partial<Problem>
    const en = typeof title === 'string' ? title : `HTTP ${status}`
    const ko = typeof title_ko === 'string' ? title_ko : en
    const why = typeof detail === 'string' ? { en: detail, ko: typeof detail_ko === 'string' ? detail_ko : detail } : null
    return new ApiProblem(status, String(code ?? status), en, ko, why)
  } catch {
    return new ApiProblem(status, `http_${status}`, `the server answered ${status}`, `서버가 ${status}로 답했습니다`, null)
  }
}

/** Whether the same request may succeed later. */
export function isRetryable(error: unknown): boolean {
  return !(error instanceof ApiProblem) || error.status === 0 || error.status === 408 || error.status === 429
    || error.status >= 500
}

export async function fetchJson<T>(call: client.JsonCall<T>): Promise<T> {
  const response = await fetchChecked(call)
  try {
    return (await response.json()) as T
  } catch {
    throw parseProblem(response.status, '')
  }
}

export async function sendCommand(call: ApiCall, options: RequestInit = {}): Promise<void> {
  const response = await fetchChecked(call, options)
  await response.body?.cancel().catch(() => undefined)
}

export const fetchAgents = () => fetchJson(client.listAgentsCall()).then((got) => got.agents)
export const fetchGraphSvg = (agent: string) =>
  fetchChecked(client.agentGraphCall({ agent, format: 'svg' })).then((response) => response.text())

/** Threads requested per page. */
export const THREADS_PER_PAGE = 40
export const fetchThreads = (q: string, cursor?: string) => fetchJson(client.listThreadsCall({ q, limit: THREADS_PER_PAGE, cursor }))
export const createThread = (agent: string, settings: MakeThreadBody) => fetchJson(client.makeThreadCall({}, { agent, ...settings }))

/** Forks a thread and runs what is due. Requests with the same idempotency key create one fork. */
export const forkThread = (thread: string, request: ForkThreadBody, idempotencyKey: string) =>
  fetchJson(client.forkThreadCall({ thread, idempotencyKey }, { ...request, go_on: true }))
/** The runs of all threads, newest first. */
export const fetchAllRuns = (filter: { agent?: string; status?: string; before?: string; limit?: number }) =>
  fetchJson(client.listAllRunsCall({ ...filter, status: filter.status as RunStatus | undefined }))
export const renameThread = (thread: string, title: string) => sendCommand(client.updateThreadCall({ thread }, { title }))
/** Changes the settings of a chat. */
export const updateThread = (thread: string, change: UpdateThreadBody) => fetchJson(client.updateThreadCall({ thread }, change))
/** Rates the answer of a run; null takes the rating back. */
export const putFeedback = (thread: string, run: string, rating: FeedbackRating | null, note: string) =>
  sendCommand(client.putFeedbackCall({ thread, run }, { rating, note }))
export const fetchPinnedThreads = () => fetchJson(client.listThreadsCall({ pinned: true, limit: 200 })).then((got) => got.threads)
/** Sent when the page is closed: nobody waits for the response. */
export const deleteThreadOnLeave = (thread: string) => void sendCommand(client.deleteThreadCall({ thread }), { keepalive: true }).catch(() => undefined)
export const deleteThread = (thread: string) => sendCommand(client.deleteThreadCall({ thread }))
/** The messages of the branch that leads to the log entry `at`, or to the newest entry. */
export const fetchMessages = (thread: string, at?: number | null) => fetchJson(client.listMessagesCall({ thread, at: at ?? undefined }))
export const fetchRun = (thread: string, run: string) => fetchJson(client.getRunCall({ thread, run }))
/** The server lists at most this many runs. */
export const MAX_LISTED_RUNS = 200
export const fetchRuns = (thread: string) => fetchJson(client.listRunsCall({ thread, limit: MAX_LISTED_RUNS })).then((got) => got.runs)
export const fetchWaitingQuestions = () => fetchJson(client.listApprovalsCall()).then((got) => got.questions)

/** The entry that a log entry follows. */
export async function fetchParentEntry(thread: string, seq: number): Promise<number | null> {
  const { steps } = await fetchJson(client.listHistoryCall({ thread, after: seq - 1, limit: 1 }))
  return steps[0]?.seq === seq ? steps[0].parent : null
}

/** Finds the log entry of a step and the entry before it. */
export async function findHistoryEntry(thread: string, run: string, step: number, node: string): Promise<{ at: number; before: number } | null> {
  let after: number | undefined
  for (let page = 0; page < 100; page++) {
    const got: ThreadHistory = await fetchJson(client.listHistoryCall({ thread, after }))
    for (const entry of got.steps) {
      if (entry.run === run && entry.step === step && entry.nodes?.includes(node)) {
        return { at: entry.seq, before: entry.parent }
      }
    }
    if (got.next === null) return null
    after = got.next
  }
  return null
}

/** The state after a log entry. With `explain`, also the requests that node would send to models. */
export const fetchState = (thread: string, at: number | undefined, agent: string, explain?: string) => fetchJson(client.getStateCall({ thread, at, agent, explain }))
/** Replaces the state of a thread. A paused run continues with it. */
export const putState = (thread: string, agent: string, state: Json) => fetchJson(client.putStateCall({ thread }, { agent, state }))
export const resumeRun = (thread: string, run: string, answers: Record<string, Json>) => sendCommand(client.resumeRunCall({ thread, run }, { answers }))
export const retryRun = (thread: string, run: string) => sendCommand(client.retryRunCall({ thread, run }))
export const cancelRun = (thread: string, run: string) => fetchJson(client.cancelRunCall({ thread, run }))

/** The documents of the library, or those that are attached to a thread. */
export const fetchDocuments = (thread?: string) => fetchJson(client.listDocumentsCall({ thread }))
/** The text of a document of the library, or of one that is attached to a thread. */
export const fetchDocumentText = (document: string, thread?: string) => fetchJson(client.documentTextCall({ document, thread }))
export const fetchDocumentFile = (document: string, thread?: string) => fetchChecked(client.originalFileCall({ document, thread })).then((response) => response.blob())
export const deleteDocument = (document: string, thread?: string) => sendCommand(client.deleteDocumentCall({ document, thread }))
export const updateDocument = (document: string, change: UpdateDocumentBody) => sendCommand(client.updateDocumentCall({ document }, change))
export const changeDocument = (document: string, change: 'pause' | 'resume' | 'cancel' | 'retry') => sendCommand(client.changeDocumentCall({ document, change }))
export const searchDocuments = (q: string, limit = 8) => fetchJson(client.searchCall({ q, limit })).then((got) => got.hits)

/** The facts that agents remember, newest first. The server returns all of them at once. */
export const fetchFacts = () => fetchJson(client.listMemoryCall()).then((got) => got.facts)
export const forgetFact = (fact: string) => sendCommand(client.forgetFactCall({ fact }))

export const fetchModels = () => fetchJson(client.listModelsCall())
/** Model servers on the machine of the server, and providers. */
export const fetchModelOffers = () => fetchJson(client.listModelOffersCall())
export const fetchProviderModels = (provider: string) => fetchJson(client.listProviderModelsCall({ provider })).then((got) => got.models)
export const testModel = (model: string) => fetchJson(client.testModelCall({ model }))
export const addModel = (model: string) => fetchJson(client.addModelCall({ model }))
export const removeModel = (model: string) => sendCommand(client.removeModelCall({ model }))
export const chooseDefaultModel = (model: string) => fetchJson(client.chooseDefaultModelCall({ model }))
/** Stores the key of a model provider on the server. No response contains it. */
export const storeModelKey = (provider: string, key: string) => sendCommand(client.storeModelKeyCall({ provider }, { key }))
export const deleteModelKey = (provider: string) => sendCommand(client.deleteModelKeyCall({ provider }))

/** The usage of the last days, in groups. `utcOffset` is in minutes. */
export const fetchUsageOfDays = (days: number, utcOffset: number) => fetchJson(client.getUsageCall({ days, utcOffset }))
export const fetchUsage = (thread?: string) => fetchJson(client.getUsageCall({ thread }))

/** Uploads a file and reports progress. */
export function uploadDocument(file: Blob, about: { name: string; kind?: string | undefined; collection?: string; thread?: string }, sent: (share: number) => void): { done: Promise<AddedDocument>; stop: () => void } {
  // `fetch` does not report upload progress.
  const sending = new XMLHttpRequest()
  const done = new Promise<AddedDocument>((resolve, reject) => {
    const { method, path } = client.addDocumentCall(about)
    sending.open(method, path)
    if (apiKey !== null) sending.setRequestHeader('authorization', `Bearer ${apiKey}`)
    sending.setRequestHeader('content-type', 'application/octet-stream')
    sending.upload.onprogress = (event) => {
      if (event.lengthComputable && event.total > 0) sent(event.loaded / event.total)
    }
    sending.onload = () => {
      if (sending.status === 401) needsApiKey.value = true
      if (sending.status < 200 || sending.status >= 300) reject(parseProblem(sending.status, sending.responseText))
      else {
        try {
          resolve(JSON.parse(sending.responseText) as AddedDocument)
        } catch {
          reject(parseProblem(sending.status, ''))
        }
      }
    }
    sending.onerror = () => reject(UNREACHABLE)
    sending.onabort = () => reject(new DOMException('stopped', 'AbortError'))
    sending.send(file)
  })
  return { done, stop: () => sending.abort() }
}

export const fetchThread = (thread: string) => fetchJson(client.getThreadCall({ thread }))

/** Whether an error says that what was asked for does not exist. */
export const isMissing = (error: unknown) => error instanceof ApiProblem && error.status === 404

/** Whether an error says that the request does not fit the state of things: another client may have been faster. */
export const isConflict = (error: unknown) => error instanceof ApiProblem && error.status === 409

/** Throws `RefusedError` if a thread does not exist. Starting a run there would make it anew, without what was in it. */
export async function requireThread(thread: string, signal: AbortSignal): Promise<void> {
  const response = await throwRefusedIfPermanent(() => fetchChecked(client.getThreadCall({ thread }), { signal }))
  await response.body?.cancel().catch(() => undefined)
}

/** Starts a run. Requests with the same idempotency key start one run. */
export async function startRun(thread: string, request: StartRun, idempotencyKey: string, signal: AbortSignal) {
  const headers = { accept: 'text/event-stream' }
  const response = await throwRefusedIfPermanent(() => fetchChecked(client.startRunCall({ thread, idempotencyKey }, request), { headers, signal }))
  const place = /\/runs\/([^/]+)\/events/.exec(response.headers.get('location') ?? '')
  return { body: bodyStream(response), run: place?.[1] ? decodeURIComponent(place[1]) : null }
}

/** Opens the event stream of a run after the event number `after`. */
export async function openRunEvents(thread: string, run: string, after: number, signal: AbortSignal) {
  const headers = { accept: 'text/event-stream' }
  const call = client.runEventsCall({ thread, run, lastEventId: after })
  return bodyStream(await throwRefusedIfPermanent(() => fetchChecked(call, { headers, signal, cache: 'no-store' })))
}

async function throwRefusedIfPermanent(ask: () => Promise<Response>): Promise<Response> {
  try {
    return await ask()
  } catch (error) {
    if (error instanceof ApiProblem && !isRetryable(error)) throw new RefusedError(error)
    throw error
  }
}

function bodyStream(response: Response): ReadableStream<Uint8Array> {
  if (!response.body) throw UNREACHABLE
  return response.body
}

/** A random id. `crypto.randomUUID` is missing on pages that are not served from localhost or over HTTPS. */
export function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

// Client for the HTTP API of the server that served this page. No other host is contacted.

import { signal } from '@preact/signals'

import { RefusedError } from './follow-run'
import { isServerReachable } from './server-status'
import type {
  AddedDocument, AgentList, DocumentList, DocumentText, FeedbackRating, Json, MessageList, ModelList, ModelOffers, ModelTest, Problem, ProviderModelList, RunDetail, RunList, RunPage,
  SearchHitList, ThreadHistory, ThreadInfo, ThreadList, ThreadStateInfo, UsageInfo, WaitingQuestionList,
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
}

export function hasApiKey(): boolean {
  return apiKey !== null
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

export async function fetchChecked(path: string, options: RequestInit & { json?: unknown } = {}): Promise<Response> {
  const headers = new Headers(options.headers)
  if (apiKey !== null) headers.set('authorization', `Bearer ${apiKey}`)
  let body = options.body
  if (options.json !== undefined) {
    headers.set('content-type', 'application/json')
    body = JSON.stringify(options.json)
  }
  let response: Response
  try {
    response = await fetch(path, { ...options, headers, body: body ?? null, credentials: 'same-origin' })
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

async function fetchJson<T>(path: string, options: RequestInit & { json?: unknown } = {}): Promise<T> {
  const response = await fetchChecked(path, options)
  try {
    return (await response.json()) as T
  } catch {
    throw parseProblem(response.status, '')
  }
}

async function sendCommand(path: string, options: RequestInit & { json?: unknown }): Promise<void> {
  const response = await fetchChecked(path, options)
  await response.body?.cancel().catch(() => undefined)
}

function queryString(values: Record<string, string | number | undefined>): string {
  const pairs = Object.entries(values).filter(([, value]) => value !== undefined && value !== '')
  return pairs.length === 0 ? '' : `?${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]))}`
}

const encodePathPart = encodeURIComponent
const threadPath = (id: string) => `/api/threads/${encodePathPart(id)}`
const runPath = (id: string, of: string) => `${threadPath(id)}/runs/${encodePathPart(of)}`
const documentPath = (id: string) => `/api/documents/${encodePathPart(id)}`

export const fetchAgents = () => fetchJson<AgentList>('/api/agents').then((got) => got.agents)
export const fetchGraphSvg = (agent: string) =>
  fetchChecked(`/api/agents/${encodePathPart(agent)}/graph?format=svg`).then((response) => response.text())

/** Threads requested per page. */
export const THREADS_PER_PAGE = 40
export const fetchThreads = (q: string, cursor?: number) =>
  fetchJson<ThreadList>(`/api/threads${queryString({ q, limit: THREADS_PER_PAGE, cursor })}`)
export const createThread = (agent: string, settings: object) => fetchJson<ThreadInfo>('/api/threads', { method: 'POST', json: { agent, ...settings } })
export interface ForkRequest {
  /** The log entry to continue from. */
  at: number
  agent: string
  title: string
  /** Replaces the state. */
  state?: Json
  pause_before?: string[]
  pause_after?: string[]
}

/** Forks a thread and runs what is due. Requests with the same idempotency key create one fork. */
export const forkThread = (id: string, request: ForkRequest, idempotencyKey: string) =>
  fetchJson<ThreadInfo>(`${threadPath(id)}/fork`, { method: 'POST', json: { ...request, go_on: true }, headers: { 'idempotency-key': idempotencyKey } })
/** The runs of all threads, newest first. */
export const fetchAllRuns = (filter: { agent?: string; status?: string; before?: string; limit?: number }) =>
  fetchJson<RunPage>(`/api/runs${queryString({ ...filter })}`)
export const renameThread = (id: string, title: string) => sendCommand(threadPath(id), { method: 'PATCH', json: { title } })
/** Changes the settings of a chat. */
export const updateThread = (id: string, change: object) => fetchJson<ThreadInfo>(threadPath(id), { method: 'PATCH', json: change })
/** Rates the answer of a run; null takes the rating back. */
export const putFeedback = (id: string, of: string, rating: FeedbackRating | null, note: string) =>
  sendCommand(`${runPath(id, of)}/feedback`, { method: 'PUT', json: { rating, note } })
export const fetchPinnedThreads = () => fetchJson<ThreadList>(`/api/threads${queryString({ pinned: 'true', limit: 200 })}`).then((got) => got.threads)
/** Sent when the page is closed: nobody waits for the response. */
export const deleteThreadOnLeave = (id: string) => void sendCommand(threadPath(id), { method: 'DELETE', keepalive: true }).catch(() => undefined)
export const deleteThread = (id: string) => sendCommand(threadPath(id), { method: 'DELETE' })
/** The messages of the branch that leads to the log entry `at`, or to the newest entry. */
export const fetchMessages = (id: string, at?: number | null) => fetchJson<MessageList>(`${threadPath(id)}/messages${queryString({ at: at ?? undefined })}`)
export const fetchRun = (id: string, of: string) => fetchJson<RunDetail>(runPath(id, of))
/** The server lists at most this many runs. */
export const MAX_LISTED_RUNS = 200
export const fetchRuns = (id: string) => fetchJson<RunList>(`${threadPath(id)}/runs${queryString({ limit: MAX_LISTED_RUNS })}`).then((got) => got.runs)
export const fetchWaitingQuestions = () => fetchJson<WaitingQuestionList>('/api/approvals').then((got) => got.questions)

/** The entry that a log entry follows. */
export async function fetchParentEntry(id: string, seq: number): Promise<number | null> {
  const { steps } = await fetchJson<ThreadHistory>(`${threadPath(id)}/history${queryString({ after: seq - 1, limit: 1 })}`)
  return steps[0]?.seq === seq ? steps[0].parent : null
}

/** Finds the log entry of a step and the entry before it. */
export async function findHistoryEntry(id: string, of: string, step: number, node: string): Promise<{ at: number; before: number } | null> {
  let after: number | undefined
  for (let page = 0; page < 100; page++) {
    const got: ThreadHistory = await fetchJson(`${threadPath(id)}/history${queryString({ after })}`)
    for (const entry of got.steps) {
      if (entry.run === of && entry.step === step && entry.nodes?.includes(node)) {
        return { at: entry.seq, before: entry.parent }
      }
    }
    if (got.next === null) return null
    after = got.next
  }
  return null
}

/** The state after a log entry. With `explain`, also the requests that node would send to models. */
export const fetchState = (id: string, at: number | undefined, agent: string, explain?: string) =>
  fetchJson<ThreadStateInfo>(`${threadPath(id)}/state${queryString({ at, agent, explain })}`)
export const resumeRun = (id: string, of: string, answers: Record<string, Json>) =>
  sendCommand(`${runPath(id, of)}/resume`, { method: 'POST', json: { answers } })
export const retryRun = (id: string, of: string) => sendCommand(`${runPath(id, of)}/retry`, { method: 'POST', json: {} })
export const cancelRun = (id: string, of: string) => fetchJson<RunDetail>(`${runPath(id, of)}/cancel`, { method: 'POST', json: {} })

/** The documents of the library, or those that are attached to a thread. */
export const fetchDocuments = (thread?: string) => fetchJson<DocumentList>(`/api/documents${queryString({ thread })}`)
/** The text of a document of the library, or of one that is attached to a thread. */
export const fetchDocumentText = (id: string, thread?: string) => fetchJson<DocumentText>(`${documentPath(id)}/text${queryString({ thread })}`)
export const fetchDocumentFile = (id: string, thread?: string) => fetchChecked(`${documentPath(id)}/file${queryString({ thread })}`).then((response) => response.blob())
export const deleteDocument = (id: string, thread?: string) => sendCommand(`${documentPath(id)}${queryString({ thread })}`, { method: 'DELETE' })
export const updateDocument = (id: string, change: { kind?: string; collection?: string }) => sendCommand(documentPath(id), { method: 'PATCH', json: change })
export const changeDocument = (id: string, what: 'pause' | 'resume' | 'cancel' | 'retry') =>
  sendCommand(`${documentPath(id)}/${what}`, { method: 'POST', json: {} })
export const searchDocuments = (q: string, limit = 8) => fetchJson<SearchHitList>(`/api/search${queryString({ q, limit })}`).then((got) => got.hits)

export const fetchModels = () => fetchJson<ModelList>('/api/models')
/** Model servers on the machine of the server, and providers. */
export const fetchModelOffers = () => fetchJson<ModelOffers>('/api/models/offers')
export const fetchProviderModels = (provider: string) =>
  fetchJson<ProviderModelList>(`/api/models/providers/${encodePathPart(provider)}`).then((got) => got.models)
export const testModel = (model: string) => fetchJson<ModelTest>('/api/models/test', { method: 'PUT', json: { model } })
export const addModel = (model: string) => fetchJson<ModelList>(`/api/models/${encodePathPart(model)}`, { method: 'PUT' })
export const removeModel = (model: string) => sendCommand(`/api/models/${encodePathPart(model)}`, { method: 'DELETE' })
export const chooseDefaultModel = (model: string) => fetchJson<ModelList>('/api/models/default', { method: 'PUT', json: { model } })
/** Stores the key of a model provider on the server. No response contains it. */
export const storeModelKey = (provider: string, key: string) => sendCommand(`/api/models/keys/${encodePathPart(provider)}`, { method: 'PUT', json: { key } })
export const deleteModelKey = (provider: string) => sendCommand(`/api/models/keys/${encodePathPart(provider)}`, { method: 'DELETE' })

/** The usage of the last days, in groups. `utcOffset` is in minutes. */
export const fetchUsageOfDays = (days: number, utcOffset: number) => fetchJson<UsageInfo>(`/api/usage${queryString({ days, utc_offset: utcOffset })}`)
export const fetchUsage = (of?: string) => fetchJson<UsageInfo>(`/api/usage${queryString({ thread: of })}`)

/** Uploads a file and reports progress. */
export function uploadDocument(file: Blob, about: { name: string; kind: string; collection?: string; thread?: string }, sent: (share: number) => void): { done: Promise<AddedDocument>; stop: () => void } {
  // `fetch` does not report upload progress.
  const sending = new XMLHttpRequest()
  const done = new Promise<AddedDocument>((resolve, reject) => {
    sending.open('POST', `/api/documents${queryString(about)}`)
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

/** What is asked, and where. */
export interface RunRequest {
  agent: string
  message?: string
  /** The input of a graph that is not a chat, instead of a message. */
  input?: Json
  /** The log entry that the message follows, if it starts a branch. */
  from?: number | undefined
  /** What happens if another run is active. */
  if_busy?: 'enqueue' | 'interrupt' | 'reject' | undefined
  /** Nodes before and after which the run pauses. */
  pause_before?: string[] | undefined
  pause_after?: string[] | undefined
}

/** Starts a run. Requests with the same idempotency key start one run. */
export async function startRun(of: string, request: RunRequest, idempotencyKey: string, signal: AbortSignal) {
  const response = await throwRefusedIfPermanent(() =>
    fetchChecked(`${threadPath(of)}/runs`, {
      method: 'POST',
      json: request,
      headers: { accept: 'text/event-stream', 'idempotency-key': idempotencyKey },
      signal,
    }),
  )
  const place = /\/runs\/([^/]+)\/events/.exec(response.headers.get('location') ?? '')
  return { body: bodyStream(response), run: place?.[1] ? decodeURIComponent(place[1]) : null }
}

/** Opens the event stream of a run after the event number `after`. */
export async function openRunEvents(of: string, id: string, after: number, signal: AbortSignal) {
  const headers = { accept: 'text/event-stream', 'last-event-id': String(after) }
  return bodyStream(await throwRefusedIfPermanent(() => fetchChecked(`${runPath(of, id)}/events`, { headers, signal, cache: 'no-store' })))
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

// Client for the HTTP API of the server that served this page. No other host is contacted.

import { signal } from '@preact/signals'

import { RefusedError } from './follow-run'
import { isServerReachable } from './server-status'
import type {
  AddedDocument, AgentList, DocumentList, DocumentText, Json, MessageList, ModelInfo, ModelList, Problem, RunDetail, RunList,
  SearchHitList, ThreadHistory, ThreadInfo, ThreadList, ThreadStateInfo, UsageInfo,
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
export const createThread = (agent: string) => fetchJson<ThreadInfo>('/api/threads', { method: 'POST', json: { agent } })
/** Forks a thread after the log entry `at`. Requests with the same idempotency key create one fork. */
export const forkThread = (id: string, at: number, agent: string, title: string, idempotencyKey: string) =>
  fetchJson<ThreadInfo>(`${threadPath(id)}/fork`, { method: 'POST', json: { at, agent, title, go_on: true }, headers: { 'idempotency-key': idempotencyKey } })
export const renameThread = (id: string, title: string) => sendCommand(threadPath(id), { method: 'PATCH', json: { title } })
export const deleteThread = (id: string) => sendCommand(threadPath(id), { method: 'DELETE' })
export const fetchMessages = (id: string) => fetchJson<MessageList>(`${threadPath(id)}/messages`).then((got) => got.messages)
export const fetchRun = (id: string, of: string) => fetchJson<RunDetail>(runPath(id, of))
export const fetchRuns = (id: string) => fetchJson<RunList>(`${threadPath(id)}/runs`).then((got) => got.runs)

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
export const fetchState = (id: string, at: number, agent: string, explain?: string) =>
  fetchJson<ThreadStateInfo>(`${threadPath(id)}/state${queryString({ at, agent, explain })}`)
export const resumeRun = (id: string, of: string, answers: Record<string, Json>) =>
  sendCommand(`${runPath(id, of)}/resume`, { method: 'POST', json: { answers } })
export const retryRun = (id: string, of: string) => sendCommand(`${runPath(id, of)}/retry`, { method: 'POST', json: {} })
export const cancelRun = (id: string, of: string) => sendCommand(`${runPath(id, of)}/cancel`, { method: 'POST', json: {} })

export const fetchDocuments = () => fetchJson<DocumentList>('/api/documents')
export const fetchDocumentText = (id: string) => fetchJson<DocumentText>(`${documentPath(id)}/text`)
export const deleteDocument = (id: string) => sendCommand(documentPath(id), { method: 'DELETE' })
export const changeDocument = (id: string, what: 'pause' | 'resume' | 'cancel' | 'retry') =>
  sendCommand(`${documentPath(id)}/${what}`, { method: 'POST', json: {} })
export const searchDocuments = (q: string, limit = 8) => fetchJson<SearchHitList>(`/api/search${queryString({ q, limit })}`).then((got) => got.hits)

/** The models in use, each once. The model of the first agent comes first. */
export async function fetchModels(): Promise<ModelInfo[]> {
  const { active } = await fetchJson<ModelList>('/api/models')
  return [...new Map(active.map(({ model }) => [model.name, model])).values()]
}

export const fetchUsage = (of?: string) => fetchJson<UsageInfo>(`/api/usage${queryString({ thread: of })}`)

/** Uploads a file and reports progress. */
export function uploadDocument(file: Blob, name: string, kind: string, sent: (share: number) => void): { done: Promise<AddedDocument>; stop: () => void } {
  // `fetch` does not report upload progress.
  const sending = new XMLHttpRequest()
  const done = new Promise<AddedDocument>((resolve, reject) => {
    sending.open('POST', `/api/documents${queryString({ name, kind })}`)
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

/** Starts a run. Requests with the same idempotency key start one run. */
export async function startRun(of: string, agent: string, message: string, idempotencyKey: string, signal: AbortSignal) {
  const response = await throwRefusedIfPermanent(() =>
    fetchChecked(`${threadPath(of)}/runs`, {
      method: 'POST',
      json: { agent, message },
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

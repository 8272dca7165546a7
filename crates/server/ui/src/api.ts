// Talks to the server this page came from, and to nobody else.

import { signal } from '@preact/signals'

import { Refused } from './follow'
import type {
  Agent, Document, Hit, Json, Message, Models, RunInfo, Thread, Usage,
} from './types'

/** The key of this visit. It is kept in memory alone: closing the page forgets it. */
let key: string | null = null

/** Whether the server wants a key it was not given. */
export const needsKey = signal(false)

export function useKey(given: string): void {
  key = given.trim() === '' ? null : given.trim()
  needsKey.value = false
}

export function hasKey(): boolean {
  return key !== null
}

/** What the server says went wrong (`application/problem+json`), or what went wrong on the way to it. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly en: string,
    readonly ko: string,
    /** What is special this time. */
    readonly detail: { en: string; ko: string } | null,
  ) {
    super(detail?.en ?? en)
  }
}

const UNREACHABLE = new Problem(0, 'unreachable', 'the server cannot be reached', '서버에 연결할 수 없습니다', null)

export async function request(path: string, options: RequestInit & { json?: unknown } = {}): Promise<Response> {
  const headers = new Headers(options.headers)
  if (key !== null) headers.set('authorization', `Bearer ${key}`)
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
    throw UNREACHABLE
  }
  if (response.ok) return response
  if (response.status === 401) needsKey.value = true
  throw await problem(response)
}

async function problem(response: Response): Promise<Problem> {
  return asProblem(response.status, await response.text().catch(() => ''))
}

/** Makes a problem of a body that should say what went wrong. */
export function asProblem(status: number, body: string): Problem {
  try {
    const { code, title, title_ko, detail, detail_ko } = JSON.parse(body) as Record<string, unknown>
    const en = typeof title === 'string' ? title : `HTTP ${status}`
    const ko = typeof title_ko === 'string' ? title_ko : en
    const why = typeof detail === 'string' ? { en: detail, ko: typeof detail_ko === 'string' ? detail_ko : detail } : null
    return new Problem(status, String(code ?? status), en, ko, why)
  } catch {
    return new Problem(status, `http_${status}`, `the server answered ${status}`, `서버가 ${status}로 답했습니다`, null)
  }
}

/** Whether asking again may help. */
export function isPassing(error: unknown): boolean {
  return !(error instanceof Problem) || error.status === 0 || error.status === 408 || error.status === 429
    || error.status >= 500
}

async function read<T>(path: string, options: RequestInit & { json?: unknown } = {}): Promise<T> {
  const response = await request(path, options)
  try {
    return (await response.json()) as T
  } catch {
    throw asProblem(response.status, '')
  }
}

async function tell(path: string, options: RequestInit & { json?: unknown }): Promise<void> {
  const response = await request(path, options)
  await response.body?.cancel().catch(() => undefined)
}

function query(values: Record<string, string | number | undefined>): string {
  const pairs = Object.entries(values).filter(([, value]) => value !== undefined && value !== '')
  return pairs.length === 0 ? '' : `?${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]))}`
}

const part = encodeURIComponent
const thread = (id: string) => `/api/threads/${part(id)}`
const run = (id: string, of: string) => `${thread(id)}/runs/${part(of)}`
const document = (id: string) => `/api/documents/${part(id)}`

export const agents = () => read<Agent[] | { agents: Agent[] }>('/api/agents').then((got) => (Array.isArray(got) ? got : got.agents))
export const graph = (agent: string) =>
  request(`/api/agents/${part(agent)}/graph?format=svg`).then((response) => response.text())

/** Threads that are asked for at a time. */
export const PAGE = 40
export const threads = (q: string, cursor?: number) =>
  read<{ threads: Thread[]; next: number | null }>(`/api/threads${query({ q, limit: PAGE, cursor })}`)
export const newThread = (agent: string) => read<Thread>('/api/threads', { method: 'POST', json: { agent } })
export const oneThread = (id: string) => read<Thread>(thread(id))
/** A thread that goes on from after an entry of another. The same `once` never makes two. */
export const fork = (id: string, at: number, agent: string, title: string, once: string) =>
  read<Thread>(`${thread(id)}/fork`, { method: 'POST', json: { at, agent, title, go_on: true }, headers: { 'idempotency-key': once } })
export const rename = (id: string, title: string) => tell(thread(id), { method: 'PATCH', json: { title } })
export const forget = (id: string) => tell(thread(id), { method: 'DELETE' })
export const messages = (id: string) => read<{ messages: Message[] }>(`${thread(id)}/messages`).then((got) => got.messages)
export const oneRun = (id: string, of: string) => read<RunInfo>(run(id, of))
export const runs = (id: string) => read<{ runs: RunInfo[] }>(`${thread(id)}/runs`).then((got) => got.runs)

interface Entry {
  seq: number
  parent?: number
  run: string | null
  step?: number
  nodes?: string[]
}

/** Where a step stands in the log of its thread, and what stands before it. */
export async function entryOf(id: string, of: string, step: number, node: string): Promise<{ at: number; before: number | null } | null> {
  let after: number | undefined
  let earlier: number | null = null
  for (let page = 0; page < 100; page++) {
    const got: { steps: Entry[]; next?: number | null } = await read(`${thread(id)}/history${query({ after })}`)
    for (const entry of got.steps) {
      if (entry.run === of && entry.step === step && entry.nodes?.includes(node)) {
        return { at: entry.seq, before: entry.parent ?? earlier }
      }
      earlier = entry.seq
    }
    if (got.next === null || got.next === undefined) return null
    after = got.next
  }
  return null
}

/** The state after an entry; with `explain`, also what that node asks models in it. */
export const stateAt = (id: string, at: number, agent: string, explain?: string) =>
  read<{ state: Json; asks?: Json }>(`${thread(id)}/state${query({ at, agent, explain })}`)
export const resume = (id: string, of: string, answers: Record<string, Json>) =>
  tell(`${run(id, of)}/resume`, { method: 'POST', json: { answers } })
export const goOn = (id: string, of: string) => tell(`${run(id, of)}/retry`, { method: 'POST', json: {} })
export const cancel = (id: string, of: string) => tell(`${run(id, of)}/cancel`, { method: 'POST', json: {} })

export const documents = () => read<{ documents: Document[]; samples?: number }>('/api/documents')
export const documentText = (id: string) => read<{ text: string; title?: string; pages?: Json }>(`${document(id)}/text`)
export const deleteDocument = (id: string) => tell(document(id), { method: 'DELETE' })
export const tellDocument = (id: string, what: 'pause' | 'resume' | 'cancel' | 'retry') =>
  tell(`${document(id)}/${what}`, { method: 'POST', json: {} })
export const search = (q: string, limit = 8) => read<{ hits: Hit[] }>(`/api/search${query({ q, limit })}`).then((got) => got.hits)

interface Active {
  agent: string
  model: { name: string; kind: string; ko?: string; en?: string }
}

/** Models that can answer and the ones that do. A server may name them by agent. */
export async function models(): Promise<Models> {
  const got = await read<Partial<Omit<Models, 'active'>> & { active: Models['active'] | Active[] }>('/api/models')
  if (!Array.isArray(got.active)) return { active: got.active, models: got.models ?? [] }
  const used = new Map(got.active.map(({ model }) => [model.name, model]))
  const list = [...used.values()].map(({ name, ...more }) => ({ id: name, available: true, ...more }))
  return { active: { main: got.active[0]?.model.name ?? '' }, models: got.models ?? list }
}

export const usage = (of?: string) => read<Usage>(`/api/usage${query({ thread: of })}`)

/** Sends a file and tells how much of it has left. */
export function upload(file: Blob, name: string, kind: string, sent: (share: number) => void): { done: Promise<Document>; stop: () => void } {
  // `fetch` does not tell how much of a body was sent.
  const sending = new XMLHttpRequest()
  const done = new Promise<Document>((resolve, reject) => {
    sending.open('POST', `/api/documents${query({ name, kind })}`)
    if (key !== null) sending.setRequestHeader('authorization', `Bearer ${key}`)
    sending.setRequestHeader('content-type', 'application/octet-stream')
    sending.upload.onprogress = (event) => {
      if (event.lengthComputable && event.total > 0) sent(event.loaded / event.total)
    }
    sending.onload = () => {
      if (sending.status === 401) needsKey.value = true
      if (sending.status < 200 || sending.status >= 300) reject(asProblem(sending.status, sending.responseText))
      else {
        try {
          resolve(JSON.parse(sending.responseText) as Document)
        } catch {
          reject(asProblem(sending.status, ''))
        }
      }
    }
    sending.onerror = () => reject(UNREACHABLE)
    sending.onabort = () => reject(new DOMException('stopped', 'AbortError'))
    sending.send(file)
  })
  return { done, stop: () => sending.abort() }
}

/** Starts a run. The same `once` never starts two. */
export async function start(of: string, agent: string, message: string, once: string, signal: AbortSignal) {
  const response = await refusing(() =>
    request(`${thread(of)}/runs`, {
      method: 'POST',
      json: { agent, message },
      headers: { accept: 'text/event-stream', 'idempotency-key': once },
      signal,
    }),
  )
  const place = /\/runs\/([^/]+)\/events/.exec(response.headers.get('location') ?? '')
  return { body: bodyOf(response), run: place?.[1] ? decodeURIComponent(place[1]) : null }
}

/** The events of a run after a number. */
export async function events(of: string, id: string, after: number, signal: AbortSignal) {
  const headers = { accept: 'text/event-stream', 'last-event-id': String(after) }
  return bodyOf(await refusing(() => request(`${run(of, id)}/events`, { headers, signal, cache: 'no-store' })))
}

async function refusing(ask: () => Promise<Response>): Promise<Response> {
  try {
    return await ask()
  } catch (error) {
    if (error instanceof Problem && !isPassing(error)) throw new Refused(error)
    throw error
  }
}

function bodyOf(response: Response): ReadableStream<Uint8Array> {
  if (!response.body) throw UNREACHABLE
  return response.body
}

/** A name nobody else uses. Pages that are not on this machine have no `randomUUID`. */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

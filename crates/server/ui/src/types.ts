// Types of the HTTP API.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

export interface ModelInfo {
  name: string
  kind: string
  ko?: string
  en?: string
}

export interface Agent {
  id: string
  ko: string
  en: string
  /** A short name, if the agent has one. */
  title?: { ko: string; en: string }
  starters?: { ko: string[]; en: string[] }
  model?: ModelInfo
}

export interface Thread {
  /** The run that is active or paused. */
  active?: string | null
  id: string
  title: string | null
  agent: string | null
  created: number
  updated: number
}

/** A source and the number it is shown with. */
export type NumberedSource = Source & { shown: number }

export interface Source {
  number: number
  document: string
  title: string
  kind?: string
  article?: string | null
  clause?: string | null
  page?: number | null
  passage?: string
  version?: string
  quote: string
  start?: number
  end?: number
}

export interface ThreadMessage {
  id: string
  role: 'user' | 'assistant' | 'tool' | 'system'
  text: string
  sources?: Source[]
  run: string | null
  at: number
}

export interface RunInfo {
  id: string
  agent: string
  status: string
  created?: number
  started: number | null
  ended: number | null
  /** The open questions of a paused run. Absent in lists of runs. */
  questions?: QuestionInfo[]
}

export interface QuestionInfo {
  id: string
  /** The run that asks the question. */
  run?: string
  node: string
  kind: 'ask' | 'breakpoint' | 'effect_unknown'
  question: Json
  problem?: string
}

export interface StepTask {
  node: string
  ms: number
  attempts: number
  input_tokens: number
  output_tokens: number
  update: Json
  notes?: Record<string, Json>
}

interface EventPosition {
  n?: number
  at?: number
}

export type RunEvent = EventPosition &
  (
    | { type: 'started'; agent: string; thread: string; run: string }
    | { type: 'step'; step: number; path?: string; tasks: StepTask[]; next: string[] }
    | { type: 'paused'; questions: QuestionInfo[] }
    | { type: 'resumed'; answers: Record<string, Json> }
    | { type: 'restarted'; why: string }
    | { type: 'finished' }
    | { type: 'failed'; code: string; message: string; en?: string; ko?: string; node?: string }
    | { type: 'cancelled'; partial?: Record<string, string> }
    | { type: 'delta'; node: string; attempt: number; index: number; text?: string; data?: Json; restarted?: string }
    | { type: 'gone'; after: number; next: number }
    | { type: 'draining' }
    | { type: 'error'; problem: Json }
  )

/** What an agent shows besides its answer. */
export type AgentActivity =
  | { type: 'thinking'; step: string; content: string }
  | { type: 'tool_call'; call: string; name: string; arguments: Json }
  | { type: 'tool_result'; call: string; name: string; text: string; failed: boolean; ms?: number }
  | { type: 'sources'; sources: Source[] }

export interface ModelCall {
  name: string
  kind: string
  purpose?: string
  finish?: string
  input_tokens?: number
  output_tokens?: number
  cached_tokens?: number
  cost_micros?: number
  counted?: 'reported' | 'estimated'
  ms?: number
}

export type DocumentStatus = 'queued' | 'reading' | 'indexing' | 'ready' | 'failed' | 'paused' | 'cancelled'

export interface UploadedDocument {
  id: string
  name: string
  title?: string
  collection?: string
  kind?: string | { standard: string }
  status: DocumentStatus
  progress?: number | { done: number; total: number } | null
  reason?: string | null
  ko?: string | null
  en?: string | null
  passages?: number | null
  pages?: number | null
  bytes?: number | null
  version?: string | null
  /** Time of the last change: `at` in milliseconds, `changed_at` in seconds since 1970. */
  at?: number | null
  changed_at?: number | null
  /** Set in the response to an upload that replaced a document with the same name. */
  replaced?: boolean
}

export interface SearchHit {
  passage: string
  document: string
  title: string
  text: string
  page?: number | null
  article?: string | null
  start?: number
  end?: number
  score: number
  /** The matched query terms and their byte ranges in the text. */
  why?: { term: string; ranges: { start: number; end: number }[] }[]
}

export interface Usage {
  input_tokens: number
  output_tokens: number
  cost_micros: number | null
  /** Only for the usage of one thread. */
  by_model?: { name: string; calls: number; input_tokens: number; output_tokens: number; cost_micros: number | null }[]
}

export interface ModelChoice {
  id: string
  kind: string
  ko?: string
  en?: string
  available: boolean
  why?: string | null
}

export interface AvailableModels {
  active: { main: string; small?: string }
  models: ModelChoice[]
}

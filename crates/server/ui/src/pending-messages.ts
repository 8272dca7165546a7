// Messages that the server has not accepted yet. They are stored in the browser, so that closing the page does not lose
// them. Their idempotency key prevents that one is sent twice.

const PREFIX = 'doran.unsent.'

export interface PendingMessage {
  agent: string
  text: string
  /** The idempotency key. Stored under this name in browsers. */
  once: string
  at: number
  /** The log entry that the message follows, if it starts a branch. */
  from?: number | undefined
  /** What happens if another run is active. */
  if_busy?: 'enqueue' | 'interrupt' | 'reject'
  /** Nodes before and after which the run pauses. */
  pause_before?: string[]
  pause_after?: string[]
  /** Whether the text is the input of a graph, as JSON, and not a message. */
  isInput?: boolean
  /** Images that belong to the message, as data URLs. */
  images?: string[]
}

/** The server keeps idempotency keys for a day. An older message might be answered a second time. */
const MAX_PENDING_AGE_MS = 20 * 60 * 60 * 1000

export function savePendingMessage(thread: string, unsent: PendingMessage, store: Storage | null = safeLocalStorage()): void {
  try {
    store?.setItem(PREFIX + thread, JSON.stringify(unsent))
  } catch {
    // Storage may be disabled. The message is then kept until the page is closed.
  }
}

/** Removes a message that was accepted, refused or withdrawn. */
export function removePendingMessage(thread: string, once: string, store: Storage | null = safeLocalStorage()): void {
  if (loadPendingMessage(thread, store)?.once === once) store?.removeItem(PREFIX + thread)
}

export function loadPendingMessage(thread: string, store: Storage | null = safeLocalStorage(), now = Date.now()): PendingMessage | null {
  try {
    const { agent, text, once, at, from, if_busy, pause_before, pause_after, isInput, images } = JSON.parse(store?.getItem(PREFIX + thread) ?? 'null') as Record<string, unknown>
    if (typeof agent !== 'string' || typeof text !== 'string' || typeof once !== 'string' || typeof at !== 'number') return null
    const more = {
      ...(typeof from === 'number' ? { from } : {}),
      ...(if_busy === 'enqueue' || if_busy === 'interrupt' || if_busy === 'reject' ? { if_busy } as const : {}),
      ...(Array.isArray(pause_before) ? { pause_before: pause_before.map(String) } : {}),
      ...(Array.isArray(pause_after) ? { pause_after: pause_after.map(String) } : {}),
      ...(isInput === true ? { isInput } : {}),
      ...(Array.isArray(images) ? { images: images.map(String) } : {}),
    }
    return now - at < MAX_PENDING_AGE_MS ? { agent, text, once, at, ...more } : null
  } catch {
    return null
  }
}

const QUEUED_PREFIX = 'doran.queued.'

/** What was asked with a run that waits for another one. The server tells it only when the run starts; another tab shows it before. */
export function saveQueuedQuestion(run: string, text: string, at: number, store: Storage | null = safeLocalStorage()): void {
  try {
    store?.setItem(QUEUED_PREFIX + run, JSON.stringify({ text, at }))
  } catch {
    // Storage may be disabled. The question is then shown when its run starts.
  }
}

export function loadQueuedQuestion(run: string, store: Storage | null = safeLocalStorage()): string {
  try {
    const { text } = JSON.parse(store?.getItem(QUEUED_PREFIX + run) ?? 'null') as Record<string, unknown>
    return typeof text === 'string' ? text : ''
  } catch {
    return ''
  }
}

export function removeQueuedQuestion(run: string, store: Storage | null = safeLocalStorage()): void {
  store?.removeItem(QUEUED_PREFIX + run)
}

const DRAFT_PREFIX = 'doran.draft.'

/** The unsent draft of a thread in this tab, from before a reload. The draft of a new thread has no id. */
export function loadDraft(thread: string | null): string {
  try {
    return sessionStorage.getItem(DRAFT_PREFIX + (thread ?? '')) ?? ''
  } catch {
    return ''
  }
}

export function saveDraft(thread: string | null, text: string): void {
  try {
    if (text === '') sessionStorage.removeItem(DRAFT_PREFIX + (thread ?? ''))
    else sessionStorage.setItem(DRAFT_PREFIX + (thread ?? ''), text)
  } catch {
    // Storage may be disabled. The draft is then kept until another thread is opened.
  }
}

function safeLocalStorage(): Storage | null {
  try {
    return localStorage
  } catch {
    return null
  }
}

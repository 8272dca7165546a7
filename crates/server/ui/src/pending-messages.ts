// Questions that the server has not taken yet. They are kept in the browser until it has, so that closing the page loses
// none; the key they are sent under makes sure that none is asked twice.

const PREFIX = 'doran.unsent.'

export interface PendingMessage {
  agent: string
  text: string
  once: string
  at: number
}

/** A server remembers keys for a day. What is older may have been answered and forgotten. */
const MAX_PENDING_AGE_MS = 20 * 60 * 60 * 1000

export function savePendingMessage(thread: string, unsent: PendingMessage, store: Storage | null = safeLocalStorage()): void {
  try {
    store?.setItem(PREFIX + thread, JSON.stringify(unsent))
  } catch {
    // A browser may forbid it; then the question lasts as long as the page.
  }
}

/** Forgets a question that was taken, refused or given up. */
export function removePendingMessage(thread: string, once: string, store: Storage | null = safeLocalStorage()): void {
  if (loadPendingMessage(thread, store)?.once === once) store?.removeItem(PREFIX + thread)
}

export function loadPendingMessage(thread: string, store: Storage | null = safeLocalStorage(), now = Date.now()): PendingMessage | null {
  try {
    const { agent, text, once, at } = JSON.parse(store?.getItem(PREFIX + thread) ?? 'null') as Record<string, unknown>
    if (typeof agent !== 'string' || typeof text !== 'string' || typeof once !== 'string' || typeof at !== 'number') return null
    return now - at < MAX_PENDING_AGE_MS ? { agent, text, once, at } : null
  } catch {
    return null
  }
}

const DRAFT = 'doran.draft'

/** What was being written in this tab before a reload. */
export function loadDraft(): string {
  try {
    return sessionStorage.getItem(DRAFT) ?? ''
  } catch {
    return ''
  }
}

export function saveDraft(text: string): void {
  try {
    sessionStorage.setItem(DRAFT, text)
  } catch {
    // As above.
  }
}

function safeLocalStorage(): Storage | null {
  try {
    return localStorage
  } catch {
    return null
  }
}

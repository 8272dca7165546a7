// Questions that the server has not taken yet. They are kept in the browser until it has, so that closing the page loses
// none; the key they are sent under makes sure that none is asked twice.

const PREFIX = 'doran.unsent.'

export interface Unsent {
  agent: string
  text: string
  once: string
  at: number
}

/** A server remembers keys for a day. What is older may have been answered and forgotten. */
const OLDEST_MS = 20 * 60 * 60 * 1000

export function keepUnsent(thread: string, unsent: Unsent, store: Storage | null = home()): void {
  try {
    store?.setItem(PREFIX + thread, JSON.stringify(unsent))
  } catch {
    // A browser may forbid it; then the question lasts as long as the page.
  }
}

/** Forgets a question that was taken, refused or given up. */
export function dropUnsent(thread: string, once: string, store: Storage | null = home()): void {
  if (unsentOf(thread, store)?.once === once) store?.removeItem(PREFIX + thread)
}

export function unsentOf(thread: string, store: Storage | null = home(), now = Date.now()): Unsent | null {
  try {
    const { agent, text, once, at } = JSON.parse(store?.getItem(PREFIX + thread) ?? 'null') as Record<string, unknown>
    if (typeof agent !== 'string' || typeof text !== 'string' || typeof once !== 'string' || typeof at !== 'number') return null
    return now - at < OLDEST_MS ? { agent, text, once, at } : null
  } catch {
    return null
  }
}

const DRAFT = 'doran.draft'

/** What was being written in this tab before a reload. */
export function recallDraft(): string {
  try {
    return sessionStorage.getItem(DRAFT) ?? ''
  } catch {
    return ''
  }
}

export function keepDraft(text: string): void {
  try {
    sessionStorage.setItem(DRAFT, text)
  } catch {
    // As above.
  }
}

function home(): Storage | null {
  try {
    return localStorage
  } catch {
    return null
  }
}

// Threads that were deleted a moment ago. The server deletes them when the time to undo it is over.

import { effect, signal } from '@preact/signals'

import * as api from './api'

/** How long a deletion can be undone. */
const UNDO_MS = 8000

interface Deletion {
  thread: string
  title: string
}

/** Threads that are hidden and not deleted yet, oldest first. */
export const pendingDeletions = signal<Deletion[]>([])
/** The last deletion that failed. */
export const deletionError = signal<unknown>(null)

const timers = new Map<string, ReturnType<typeof setTimeout>>()

export function deleteLater(thread: string, title: string): void {
  if (timers.has(thread)) return
  pendingDeletions.value = [...pendingDeletions.value, { thread, title }]
  timers.set(thread, setTimeout(() => void deleteNow(thread), UNDO_MS))
}

export function undoDeletion(thread: string): void {
  clearTimeout(timers.get(thread))
  timers.delete(thread)
  pendingDeletions.value = pendingDeletions.value.filter((one) => one.thread !== thread)
}

async function deleteNow(thread: string): Promise<void> {
  try {
    await api.deleteThread(thread)
    deletionError.value = null
  } catch (error) {
    deletionError.value = error
  }
  undoDeletion(thread)
}

/** A page that is closed cannot undo any more. */
export function deleteOnLeave(): void {
  addEventListener('pagehide', () => {
    for (const { thread } of pendingDeletions.peek()) api.deleteThreadOnLeave(thread)
  })
  effect(() => { if (pendingDeletions.value.length === 0) timers.clear() })
}

// The open questions of all threads.

import { effect, signal } from '@preact/signals'

import * as api from './api'
import { settledRuns } from './conversation'
import type { WaitingQuestion } from './api-types'

export const waitingQuestions = signal<WaitingQuestion[]>([])
export const inboxError = signal<unknown>(null)

const POLL_MS = 15_000

export async function loadInbox(): Promise<void> {
  try {
    waitingQuestions.value = await api.fetchWaitingQuestions()
    inboxError.value = null
  } catch (error) {
    inboxError.value = error
  }
}

/** Loads the questions now and then, and whenever a run of this page stops. */
export function watchInbox(): void {
  effect(() => {
    settledRuns.value
    void loadInbox()
  })
  setInterval(() => { if (!document.hidden) void loadInbox() }, POLL_MS)
}

// Notices what other tabs and programs do to the open thread.

import * as api from './api'
import { conversation, markDeleted, refreshConversation, settledRuns } from './conversation'

/** The count of keys when the last one was refused. It is not asked for again and again. */
let keyWithoutAccess: number | null = null

/** When the open thread last changed, as far as it is known here. */
let seenChange: string | null = null

/** Looks whether another tab or program changed the open thread, and loads it again if so. */
export async function lookForChanges(): Promise<void> {
  const { thread, state } = conversation.value
  if (thread === null || state !== 'ready' || keyWithoutAccess === api.apiKeyChanges.peek()) return
  try {
    const { updated, active } = await api.fetchThread(thread)
    const change = [thread, updated, active].join()
    if (change === seenChange) return
    const isFirst = seenChange?.startsWith(thread) !== true
    seenChange = change
    await refreshConversation()
    if (!isFirst) settledRuns.value += 1
  } catch (error) {
    if (error instanceof api.ApiProblem && error.status === 401) keyWithoutAccess = api.apiKeyChanges.peek()
    if (api.isMissing(error)) markDeleted(thread)
  }
}

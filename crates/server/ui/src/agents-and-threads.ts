// The lists around the conversation: agents and threads.

import { computed, effect, signal } from '@preact/signals'

import * as api from './api'
import { settledRuns } from './conversation'
import { loadSetting, saveSetting } from './settings'
import type { AgentInfo, ThreadInfo } from './api-types'

export const agents = signal<AgentInfo[]>([])
export const agentsError = signal<unknown>(null)
export const selectedAgent = signal<string>(loadSetting('agent') ?? '')

export const threads = signal<ThreadInfo[]>([])
/** Threads that are pinned, wherever they are in the list. */
export const pinnedThreads = signal<ThreadInfo[]>([])
export const nextThreadsCursor = signal<string | null>(null)
export const threadsError = signal<unknown>(null)
export const threadQuery = signal('')
/** Whether a thread search is still reading older pages. */
export const isSearchingThreads = signal(false)

/** The agents of menus. A hidden one is in them only in a chat that it was asked in. */
export const menuAgents = computed(() => agents.value.filter((one) => one.hidden !== true || one.id === selectedAgent.value))

export function findAgent(id: string): AgentInfo | undefined {
  return agents.value.find((one) => one.id === id)
}

/** Whether the agent takes messages. Any other graph takes an input and is shown as state and steps. */
export function isChatAgent(id: string): boolean {
  const agent = findAgent(id) as (AgentInfo & { chat?: boolean }) | undefined
  return agent?.chat !== false
}

/** Chooses an agent of the menus for a new chat, if the last one was hidden. */
export function leaveHiddenAgent(): void {
  if (findAgent(selectedAgent.value)?.hidden === true) chooseAgent(agents.value.find((one) => one.hidden !== true)?.id ?? selectedAgent.value)
}

export function chooseAgent(id: string): void {
  selectedAgent.value = id
  saveSetting('agent', id)
}

export async function loadAgents(): Promise<void> {
  try {
    agents.value = await api.fetchAgents()
    agentsError.value = null
    if (!findAgent(selectedAgent.value)) selectedAgent.value = menuAgents.value[0]?.id ?? ''
  } catch (error) {
    agentsError.value = error
  }
}

export async function loadPinnedThreads(): Promise<void> {
  pinnedThreads.value = await api.fetchPinnedThreads().catch(() => pinnedThreads.peek())
}

let requestNumber = 0

/** Reloads the thread list, or with `more` loads the next page. */
export async function loadThreads(more = false): Promise<void> {
  const mine = ++requestNumber
  const q = threadQuery.value
  const before = more ? threads.value : []
  let cursor = more ? nextThreadsCursor.value : null
  let found: ThreadInfo[] = []
  try {
    do {
      const got = await api.fetchThreads(q, cursor ?? undefined)
      if (mine !== requestNumber) return
      found = [...found, ...got.threads]
      cursor = got.next
      threads.value = [...before, ...found]
      nextThreadsCursor.value = cursor
      threadsError.value = null
      // The server searches a limited number of threads per request, so a page may be empty although more follow.
      isSearchingThreads.value = q !== '' && cursor !== null && found.length < api.THREADS_PER_PAGE
    } while (isSearchingThreads.value)
  } catch (error) {
    if (mine !== requestNumber) return
    threadsError.value = error
    isSearchingThreads.value = false
  }
}

export function refreshListsAfterRuns(): void {
  let seen = settledRuns.peek()
  effect(() => {
    if (settledRuns.value !== seen) {
      seen = settledRuns.value
      void loadThreads()
      void loadPinnedThreads()
    }
  })
}

/** Whether a model only quotes documents and generates no text. */
export function isExtractive(model: { name: string; kind?: string }): boolean {
  return model.kind === 'extractive' || model.name.startsWith('offline-extractive')
}

// What stands around the conversation: agents, threads, the model.

import { effect, signal } from '@preact/signals'

import * as api from './api'
import { rested } from './conversation'
import { recall, remember } from './settings'
import type { Agent, Models, Thread } from './types'

export const agents = signal<Agent[]>([])
export const agentsError = signal<unknown>(null)
export const agent = signal<string>(recall('agent') ?? '')
export const models = signal<Models | null>(null)

export const threads = signal<Thread[]>([])
export const threadsNext = signal<number | null>(null)
export const threadsError = signal<unknown>(null)
export const searched = signal('')
/** Whether a search still goes through older threads. */
export const isLooking = signal(false)

export function agentOf(id: string): Agent | undefined {
  return agents.value.find((one) => one.id === id)
}

export function chooseAgent(id: string): void {
  agent.value = id
  remember('agent', id)
}

export async function loadAgents(): Promise<void> {
  try {
    agents.value = await api.agents()
    agentsError.value = null
    if (!agentOf(agent.value)) agent.value = agents.value[0]?.id ?? ''
  } catch (error) {
    agentsError.value = error
  }
  models.value = await api.models().catch(() => null)
}

let asked = 0

/** Brings the list up to date, or goes on where it ended. */
export async function loadThreads(more = false): Promise<void> {
  const mine = ++asked
  const q = searched.value
  const before = more ? threads.value : []
  let cursor = more ? threadsNext.value : null
  let found: Thread[] = []
  try {
    do {
      const got = await api.threads(q, cursor ?? undefined)
      if (mine !== asked) return
      found = [...found, ...got.threads]
      cursor = got.next ?? null
      threads.value = [...before, ...found]
      threadsNext.value = cursor
      threadsError.value = null
      // A search looks through so many at a time, and may find nothing for a while.
      isLooking.value = q !== '' && cursor !== null && found.length < api.PAGE
    } while (isLooking.value)
  } catch (error) {
    if (mine !== asked) return
    threadsError.value = error
    isLooking.value = false
  }
}

export function keepListsFresh(): void {
  let seen = rested.peek()
  effect(() => {
    if (rested.value !== seen) {
      seen = rested.value
      void loadThreads()
    }
  })
}

/** The model as the agent names it, else the one in use. */
export function modelOf(id: string): { name: string; kind: string; ko?: string; en?: string } | null {
  const own = agentOf(id)?.model
  if (own) return own
  const main = models.value?.active.main
  if (!main) return null
  const found = models.value?.models.find((one) => one.id === main)
  return found
    ? { name: found.id, kind: found.kind, ...(found.ko ? { ko: found.ko } : {}), ...(found.en ? { en: found.en } : {}) }
    : { name: main, kind: 'unknown' }
}

/** Whether a model only quotes and writes nothing of its own. */
export function isExtractive(model: { name: string; kind: string }): boolean {
  return model.kind === 'extractive' || model.name.startsWith('offline-extractive')
}

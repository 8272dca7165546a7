// The models of the server: which one answers, which a chat can choose, and the settings of the open chat.

import { signal } from '@preact/signals'

import * as api from './api'
import { agents, loadAgents, findAgent, threads } from './agents-and-threads'
import type { ModelInfo, ModelList, ThreadInfo } from './api-types'

export const modelList = signal<ModelList | null>(null)

export async function loadModels(): Promise<void> {
  modelList.value = await api.fetchModels().catch(() => null)
}

/** Loads everything that names a model again, after one was chosen or removed. */
export async function reloadModels(): Promise<void> {
  await Promise.all([loadModels(), loadAgents()])
}

/** The settings of a chat. */
export interface ChatSettings {
  model: string | null
  temperature: number | null
  instructions: string
}

export const DEFAULT_CHAT_SETTINGS: ChatSettings = { model: null, temperature: null, instructions: '' }

/** The settings of the chat that has no thread yet. */
export const newChatSettings = signal<ChatSettings>(DEFAULT_CHAT_SETTINGS)

export function settingsOfChat(thread: string | null): ChatSettings {
  if (thread === null) return newChatSettings.value
  const { model, temperature, instructions } = threads.value.find((one) => one.id === thread) ?? {}
  return { model: model ?? null, temperature: temperature ?? null, instructions: instructions ?? '' }
}

export function hasOwnSettings({ temperature, instructions }: ChatSettings): boolean {
  return temperature !== null || instructions !== ''
}

/** The settings that differ from the default, for the request that creates a thread. */
export function settingsForNewThread({ model, temperature, instructions }: ChatSettings): object {
  return { ...(model === null ? {} : { model }), ...(temperature === null ? {} : { temperature }), ...(instructions === '' ? {} : { instructions }) }
}

/** Changes the settings of a chat. They hold for the questions that follow. */
export async function changeChatSettings(thread: string | null, change: Partial<ChatSettings>): Promise<void> {
  if (thread === null) {
    newChatSettings.value = { ...newChatSettings.value, ...change }
    return
  }
  const changed: ThreadInfo = await api.updateThread(thread, change)
  const known = threads.value.some((one) => one.id === thread)
  threads.value = known ? threads.value.map((one) => (one.id === thread ? changed : one)) : [changed, ...threads.value]
}

/** The model that answers the next question of a chat. */
export function modelOfChat(agent: string, thread: string | null): ModelInfo | null {
  const chosen = settingsOfChat(thread).model
  const option = chosen === null ? undefined : modelList.value?.options.find((one) => one.id === chosen)
  return option?.model ?? findAgent(agent)?.model ?? agents.value[0]?.model ?? null
}

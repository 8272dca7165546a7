// Changes the state before a step, so that the step runs again with another model or other instructions.

import type { Json } from './api-types'

/** The id of the message that holds the instructions of a chat. */
const INSTRUCTIONS_ID = 'system-chat'

type JsonObject = { [key: string]: Json }

const isObject = (value: Json | undefined): value is JsonObject => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Whether the state belongs to an agent whose model can be chosen. */
export function hasModelChoice(state: Json): boolean {
  return isObject(state) && isObject(state.progress)
}

/** The instructions in a state. */
export function instructionsIn(state: Json): string {
  if (!isObject(state) || !Array.isArray(state.messages)) return ''
  const message = state.messages.find((one) => isObject(one) && one.id === INSTRUCTIONS_ID)
  const parts = isObject(message) && Array.isArray(message.parts) ? message.parts : []
  return parts.map((part) => (isObject(part) && typeof part.text === 'string' ? part.text : '')).join('')
}

/** The state with this model and these instructions. Null is the model of the agent. */
export function stateWith(state: Json, model: string | null, instructions: string): Json {
  if (!isObject(state)) return state
  const progress = isObject(state.progress) ? state.progress : {}
  const { model: _, ...chosen } = isObject(progress.chosen) ? progress.chosen : {}
  const messages = Array.isArray(state.messages) ? state.messages : []
  const others = messages.filter((one) => !(isObject(one) && one.id === INSTRUCTIONS_ID))
  const instructionMessages: Json[] = instructions.trim() === '' ? [] : [{ id: INSTRUCTIONS_ID, role: 'user', parts: [{ type: 'text', text: instructions.trim(), origin: 'user' }] }]
  return { ...state, messages: [...instructionMessages, ...others], progress: { ...progress, chosen: { ...chosen, ...(model === null ? {} : { model }) } } }
}

import { expect, test } from 'vitest'

import { hasModelChoice, instructionsIn, stateWith } from '../src/rerun-state'

const question = { id: 'q', role: 'user', parts: [{ type: 'text', text: '?', origin: 'user' }] }

test('a state gets another model and other instructions, and keeps the rest', () => {
  const state = { messages: [question], progress: { path: ['router'], chosen: { temperature: 0.5 } }, context: null }
  const changed = stateWith(state, 'ollama:x', ' 짧게 ')
  expect(instructionsIn(changed)).toBe('짧게')
  expect(changed).toMatchObject({ context: null, progress: { path: ['router'], chosen: { temperature: 0.5, model: 'ollama:x' } } })
  const back = stateWith(changed, null, '')
  expect(back).toEqual({ ...state, progress: { ...state.progress, chosen: { temperature: 0.5 } } })
})

test('a state of another graph has no choice', () => {
  expect(hasModelChoice({ count: 1 })).toBe(false)
  expect(hasModelChoice([1])).toBe(false)
  expect(hasModelChoice({ progress: {} })).toBe(true)
})

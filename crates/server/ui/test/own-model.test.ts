// A model that is written by hand.

import { expect, test } from 'vitest'

import { parseOwnModel } from '../src/own-model'

test('an address is understood, with and without the form of an id', () => {
  const id = 'openai-compatible:http://127.0.0.1:9000/v1#qwen'
  const written: [string, string][] = [
    ['http://127.0.0.1:9000/v1', 'qwen'], ['http://127.0.0.1:9000', 'qwen'], [' http://127.0.0.1:9000/v1/ ', ' qwen '], ['127.0.0.1:9000/v1', 'qwen'],
    ['http://127.0.0.1:9000/v1#qwen', ''], ['openai-compatible:http://127.0.0.1:9000/v1#qwen', 'other'], ['openai-compatible:http://127.0.0.1:9000/v1', 'qwen'],
    ['http://127.0.0.1:9000/v1/chat/completions', 'qwen'],
  ]
  for (const [text, name] of written) expect(parseOwnModel(text, name).id, text).toBe(id)
  expect(parseOwnModel('https://llm.example.com/api/v3', 'a/b').id).toBe('openai-compatible:https://llm.example.com/api/v3#a/b')
})

test('what is missing is known', () => {
  expect(parseOwnModel('http://127.0.0.1:9000/v1', '')).toEqual({ id: '', isServer: true, needsName: true })
  expect(parseOwnModel('http://127.0.0.1:9000/v1#m', '')).toMatchObject({ isServer: true, needsName: false })
  expect(parseOwnModel('', '')).toEqual({ id: '', isServer: false, needsName: false })
})

test('the id of another provider stays as it is', () => {
  for (const id of ['ollama:qwen3:8b', 'openai:gpt-5', 'openrouter:a/b:free']) expect(parseOwnModel(id, 'x')).toEqual({ id, isServer: false, needsName: false })
})

// Search in states, commands for the terminal, and addresses of runs.

import { expect, test } from 'vitest'

import { curlCommand } from '../src/curl-command'
import { matchingPaths, parseJsonObject } from '../src/json-search'
import { inspectorLinkFromQuery, inspectorQuery } from '../src/route'

test('a search shows what matches, with all that is above and below it', () => {
  const state = { messages: [{ role: 'user', text: '연차' }, { role: 'assistant', text: 'Leave' }], route: 'rag', count: 15 }
  expect([...matchingPaths(state, 'LEAVE')].sort()).toEqual(['', 'messages', 'messages[1]', 'messages[1].text'])
  expect([...matchingPaths(state, '15')].sort()).toEqual(['', 'count'])
  expect(matchingPaths(state, 'messages').has('messages[0].role')).toBe(true)
  expect(matchingPaths(state, 'nothing').size).toBe(0)
})

test('only the JSON of an object is an object', () => {
  expect(parseJsonObject('{"a": 1}')).toEqual({ a: 1 })
  for (const text of ['', '[1]', '1', 'null', '{"a": 1']) expect(parseJsonObject(text), text).toBe(undefined)
})

test('a question becomes a command whose quotes hold', () => {
  const command = curlCommand('http://localhost:1', 'a b', { agent: 'assistant', message: "it's \"x\"\n$HOME" }, false)
  expect(command).toContain(`-d '{"agent":"assistant","message":"it'\\''s \\"x\\"\\n$HOME"}'`)
  expect(command).not.toContain('authorization')
  expect(curlCommand('http://localhost:1', 't', { agent: 'a', input: {} }, true)).toContain('$DORAN_API_KEY')
})

test('the address of a run and a step leads back to them', () => {
  for (const link of [{ run: 'r 1&', row: null }, { run: 'r', row: '4.0' }]) expect(inspectorLinkFromQuery(inspectorQuery(link))).toEqual(link)
  expect(inspectorLinkFromQuery('')).toBe(null)
})

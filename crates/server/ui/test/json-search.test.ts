// Search in states, commands for the terminal, and addresses of runs.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { expect, test } from 'vitest'

import { curlCommand, curlCommandWithSettings } from '../src/curl-command'
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

test.skipIf(process.platform === 'win32')('a question of a chat with settings is asked in a thread with these settings', () => {
  const command = curlCommandWithSettings('http://localhost:1', { model: 'vendor:m', instructions: "it's short" }, { agent: 'assistant', message: 'q' }, true)
  const folder = mkdtempSync(join(tmpdir(), 'curl-'))
  // A `curl` that answers as the server, and writes down what it was called with.
  writeFileSync(join(folder, 'curl'), `#!/bin/sh\nprintf '%s\\n' "$@" >> ${folder}/calls\necho '{"id":"t-1","title":""}'\n`, { mode: 0o755 })
  execFileSync('sh', ['-c', command], { env: { PATH: `${folder}:${process.env.PATH}`, DORAN_API_KEY: 'k' } })
  const calls = readFileSync(join(folder, 'calls'), 'utf8').split('\n')
  rmSync(folder, { recursive: true })
  expect(calls).toContain('http://localhost:1/api/threads')
  expect(calls).toContain(JSON.stringify({ agent: 'assistant', model: 'vendor:m', instructions: "it's short" }))
  expect(calls).toContain('http://localhost:1/api/threads/t-1/runs')
  expect(calls.filter((one) => one === 'authorization: Bearer k')).toHaveLength(2)
})

test('the address of a run and a step leads back to them', () => {
  for (const link of [{ run: 'r 1&', row: null }, { run: 'r', row: '4.0' }]) expect(inspectorLinkFromQuery(inspectorQuery(link))).toEqual(link)
  expect(inspectorLinkFromQuery('')).toBe(null)
})

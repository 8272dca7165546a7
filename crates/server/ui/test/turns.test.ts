// Turns from messages and runs, also of a forked thread.

import { expect, test } from 'vitest'

import { mergeTurns, turnsToWatch, buildTurns } from '../src/turns'
import type { MessageInfo, RunInfo } from '../src/api-types'

const message = (role: string, text: string, run: string): MessageInfo => ({ id: `${run}-${role}`, role, text, run, at: 1, sources: [] }) as never
const run = (id: string): RunInfo => ({ id, agent: 'assistant', status: 'finished', created: 1 }) as never
const turnsAsRows = (messages: MessageInfo[], runs: RunInfo[]) =>
  buildTurns(messages, runs).map((turn) => [turn.question, turn.storedAnswer.value?.text ?? null, turn.id.value])

test('a question and its answer are one turn', () => {
  const messages = [message('user', '물음', 'r1'), message('assistant', '답', 'r1'), message('user', '또', 'r2')]
  expect(turnsAsRows(messages, [run('r2'), run('r1')])).toEqual([['물음', '답', 'r1'], ['또', null, 'r2']])
  expect(turnsAsRows([], [run('r1')])).toEqual([['', null, 'r1']])
})

test('what a fork holds of its source has no events here', () => {
  const messages = [message('user', '물음', 'theirs'), message('assistant', '답', 'theirs')]
  expect(turnsAsRows(messages, [])).toEqual([['물음', '답', null]])
  expect(turnsAsRows([...messages, message('user', '또', 'own')], [run('own')])).toEqual([['물음', '답', null], ['또', null, 'own']])
})

test('a question that a fork took along is answered by its own run', () => {
  const messages = [message('user', '물음', 'theirs')]
  expect(turnsAsRows(messages, [run('own')])).toEqual([['물음', null, 'own']])
  expect(turnsAsRows([...messages, message('assistant', '새 답', 'own')], [run('own')])).toEqual([['물음', '새 답', 'own']])
})

test('of what a client brings with its question only the last is answered by the run', () => {
  const brought = [message('user', '하나', 'r'), message('assistant', '1', 'r'), message('user', '둘', 'r'), message('assistant', '2', 'r')]
  expect(turnsAsRows(brought, [run('r')])).toEqual([['하나', '1', null], ['둘', '2', 'r']])
})

test('turns of another tab come in between, and those that are shown stay as they are', () => {
  const shown = buildTurns([message('user', '하나', 'r1')], [run('r1')])
  const [waiting] = buildTurns([message('user', '넷', '')], [])
  if (!shown[0] || !waiting) throw new Error('no turns')
  waiting.id.value = null
  waiting.at = 99
  const fresh = buildTurns([message('user', '하나', 'r1'), message('user', '셋', 'r2')], [run('r1'), run('r2')])
  const { turns, news } = mergeTurns([...shown, waiting], fresh)
  expect(turns.map((turn) => turn.question)).toEqual(['하나', '셋', '넷'])
  expect(turns[0]).toBe(shown[0])
  expect(turns[2]).toBe(waiting)
  expect(news.map((turn) => turn.question)).toEqual(['셋'])
  expect(mergeTurns(turns, fresh)).toEqual({ turns, news: [] })
  waiting.connection.value = { state: 'lost', tries: 1 }
  const arrived = buildTurns([message('user', '하나', 'r1'), message('user', '넷', 'r3')], [run('r1'), run('r3')])
  expect(mergeTurns([...shown, waiting], arrived).turns).toEqual([shown[0], waiting])
})

test('whatever is under way, in line or waits is read on, wherever it stands', () => {
  const asked = ['r1', 'r2', 'r3', 'r4', 'r5'].map((id) => message('user', id, id))
  const how = { r1: 'finished', r2: 'failed', r3: 'running', r4: 'queued', r5: 'queued' }
  const runs = Object.entries(how).map(([id, status], at): RunInfo => ({ ...run(id), status, created: at }) as never)
  const read = (statuses: RunInfo[]) => turnsToWatch(buildTurns(asked, statuses), statuses).map(({ turn, hasEnded }) => [turn.id.value, hasEnded])
  expect(read(runs)).toEqual([['r2', true], ['r3', false], ['r4', false], ['r5', false]])
  expect(read(runs.map((one) => ({ ...one, status: 'finished' }) as never))).toEqual([['r5', true]])
  expect(read(runs.map((one) => ({ ...one, status: 'paused' }) as never)).every(([, ended]) => ended === false)).toBe(true)
})

test('a turn that was in line gets its question when its run starts', () => {
  const shown = buildTurns([message('user', '하나', 'r1')], [run('r1'), run('r2')])
  expect(shown.map((turn) => turn.question)).toEqual(['하나', ''])
  const fresh = buildTurns([message('user', '하나', 'r1'), message('user', '둘', 'r2')], [run('r1'), run('r2')])
  const { turns, news } = mergeTurns(shown, fresh)
  expect(turns.map((turn) => turn.question)).toEqual(['하나', '둘'])
  expect(turns[1]).toBe(shown[1])
  expect(news).toEqual([])
  // What is known is not taken back.
  mergeTurns(shown, buildTurns([], [run('r1'), run('r2')]))
  expect(shown.map((turn) => turn.question)).toEqual(['하나', '둘'])
})

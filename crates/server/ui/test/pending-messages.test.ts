// Messages that the server has not accepted yet.

import { expect, test } from 'vitest'

import { loadQueuedQuestion, removePendingMessage, removeQueuedQuestion, saveQueuedQuestion, savePendingMessage, loadPendingMessage } from '../src/pending-messages'

function fakeStorage(): Storage {
  const kept = new Map<string, string>()
  return {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => void kept.set(name, value),
    removeItem: (name: string) => void kept.delete(name),
  } as never
}

const asked = { agent: 'assistant', text: '둘째 질문', once: 'k1', at: 1000 }

test('a question is kept for its thread until it is taken', () => {
  const home = fakeStorage()
  savePendingMessage('t', asked, home)
  expect(loadPendingMessage('other', home, 2000)).toBeNull()
  expect(loadPendingMessage('t', home, 2000)).toEqual(asked)
  removePendingMessage('t', 'another key', home)
  savePendingMessage('t', { ...asked, at: Date.now() }, home)
  removePendingMessage('t', 'another key', home)
  expect(loadPendingMessage('t', home)?.once).toBe('k1')
  removePendingMessage('t', 'k1', home)
  expect(loadPendingMessage('t', home)).toBeNull()
})

test('what is older than a server remembers its key for is not asked again', () => {
  const home = fakeStorage()
  savePendingMessage('t', asked, home)
  expect(loadPendingMessage('t', home, 1000 + 24 * 60 * 60 * 1000)).toBeNull()
})

test('nothing strange in the store is taken for a question', () => {
  const home = fakeStorage()
  for (const strange of ['', 'null', '{', '[]', '{"text":1}']) {
    home.setItem('doran.unsent.t', strange)
    expect(loadPendingMessage('t', home, 2000)).toBeNull()
  }
  expect(loadPendingMessage('t', null)).toBeNull()
})

test('what waits in line is kept until its run starts', () => {
  const home = fakeStorage()
  saveQueuedQuestion('r1', '둘째 질문', 1000, home)
  expect([loadQueuedQuestion('r1', home), loadQueuedQuestion('r2', home), loadQueuedQuestion('r1', null)]).toEqual(['둘째 질문', '', ''])
  removeQueuedQuestion('r1', home)
  expect(loadQueuedQuestion('r1', home)).toBe('')
  home.setItem('doran.queued.r3', '{')
  expect(loadQueuedQuestion('r3', home)).toBe('')
})

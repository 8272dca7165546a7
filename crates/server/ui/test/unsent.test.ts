// Questions that the server has not taken yet.

import { expect, test } from 'vitest'

import { dropUnsent, keepUnsent, unsentOf } from '../src/unsent'

function store(): Storage {
  const kept = new Map<string, string>()
  return {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => void kept.set(name, value),
    removeItem: (name: string) => void kept.delete(name),
  } as never
}

const asked = { agent: 'assistant', text: '둘째 질문', once: 'k1', at: 1000 }

test('a question is kept for its thread until it is taken', () => {
  const home = store()
  keepUnsent('t', asked, home)
  expect(unsentOf('other', home, 2000)).toBeNull()
  expect(unsentOf('t', home, 2000)).toEqual(asked)
  dropUnsent('t', 'another key', home)
  keepUnsent('t', { ...asked, at: Date.now() }, home)
  dropUnsent('t', 'another key', home)
  expect(unsentOf('t', home)?.once).toBe('k1')
  dropUnsent('t', 'k1', home)
  expect(unsentOf('t', home)).toBeNull()
})

test('what is older than a server remembers its key for is not asked again', () => {
  const home = store()
  keepUnsent('t', asked, home)
  expect(unsentOf('t', home, 1000 + 24 * 60 * 60 * 1000)).toBeNull()
})

test('nothing strange in the store is taken for a question', () => {
  const home = store()
  for (const strange of ['', 'null', '{', '[]', '{"text":1}']) {
    home.setItem('doran.unsent.t', strange)
    expect(unsentOf('t', home, 2000)).toBeNull()
  }
  expect(unsentOf('t', null)).toBeNull()
})

// Byte offsets, quotes, state diffs and routes.

import { expect, test } from 'vitest'

import { diffStates } from '../src/state-diff'
import { pathFromRoute, routeFromPath } from '../src/route'
import { articleLabel, highlightTerms, findQuote, utf16IndexOfByte } from '../src/quotes-and-citations'

const bytes = (text: string) => new TextEncoder().encode(text).length

test('every byte offset at a character is its place', () => {
  const text = 'a가😀é나'
  for (const at of [0, 1, 2, 4, 5, 6]) expect(utf16IndexOfByte(text, bytes(text.slice(0, at)))).toBe(at)
  expect(utf16IndexOfByte(text, 9999)).toBe(text.length)
})

test('a quote is found at its place, elsewhere only if it is nowhere else, and never guessed', () => {
  const text = '제1조 같은 말.\n제2조 같은 말.'
  const second = text.lastIndexOf('같은 말')
  const start = bytes(text.slice(0, second))
  expect(findQuote(text, '같은 말', start, start + bytes('같은 말'))).toEqual({ from: second, to: second + 4 })
  expect(findQuote(text, '제2조', 0, 3)).toEqual({ from: text.indexOf('제2조'), to: text.indexOf('제2조') + 3 })
  expect(findQuote(text, '없는 말', 0, 5)).toBe(null)
})

test('the words that were looked for are marked, whatever signs they hold', () => {
  expect(highlightTerms('육아휴직은 1년(이내)', ['육아휴직', '(이내)', '.*'])).toEqual([
    { text: '육아휴직', isHit: true }, { text: '은 1년', isHit: false }, { text: '(이내)', isHit: true },
  ])
  expect(highlightTerms('abc', [])).toEqual([{ text: 'abc', isHit: false }])
})

test('what changed between two states is named by its place', () => {
  expect(diffStates({ a: 1, m: [{ t: 'x' }] }, { a: 2, m: [{ t: 'x' }, { t: 'y' }], b: null })).toEqual([
    { path: 'a', before: 1, after: 2 }, { path: 'm[1]', before: undefined, after: { t: 'y' } }, { path: 'b', before: undefined, after: null },
  ])
  expect(diffStates({ a: [1, 2] }, { a: [1, 2] })).toEqual([])
})

test('an address leads back to where it was made', () => {
  for (const thread of ['a', '가 나', 'x/y', '..', '%']) {
    expect(routeFromPath(pathFromRoute({ view: 'chat', thread }))).toEqual({ view: 'chat', thread })
  }
  expect(routeFromPath('/t/%E0%A4')).toEqual({ view: 'chat', thread: null })
  expect(routeFromPath('/documents')).toEqual({ view: 'documents' })
})

test('parts of a compound that touch are marked as one', () => {
  expect(highlightTerms('육아휴직 급여', ['육아', '휴직'])).toEqual([{ text: '육아휴직', isHit: true }, { text: ' 급여', isHit: false }])
})

test('articles are counted in the language of their document', () => {
  expect(articleLabel('Services Agreement › 제2조(Fees)')).toBe('Services Agreement › Article 2 (Fees)')
  expect(articleLabel('제2조의3', 'Services Agreement')).toBe('Article 2-3')
  expect(articleLabel('용역계약서 › 제5조(계약 금액)')).toBe('용역계약서 › 제5조(계약 금액)')
  expect(articleLabel('제5조', '용역계약서')).toBe('제5조')
})

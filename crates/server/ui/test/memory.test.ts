// The memory: the search in its facts, its address and the time of a fact.

import { expect, test } from 'vitest'

import { formatDateTime, language } from '../src/i18n'
import { findFacts } from '../src/memory'
import { pathFromRoute, routeFromPath } from '../src/route'

const facts = ['내 사번은 20231234', 'My desk is on Floor 7', '회의실 비번은 4821\n주말에는 닫힘', '집 주소는 세종대로'].map((text, at) => ({ id: `44566381258${at}`, text, at }))
const found = (query: string) => findFacts(facts, query).map((one) => facts.indexOf(one))

test('facts are found by all words of a query, in any order and writing', () => {
  expect(found('')).toEqual([0, 1, 2, 3])
  expect(found('  ')).toEqual([0, 1, 2, 3])
  expect(found('floor DESK')).toEqual([1])
  expect(found('비번 주말')).toEqual([2])
  expect(found('비번 desk')).toEqual([])
  expect(found('비번'.normalize('NFD'))).toEqual([2])
  expect(found('445663812583')).toEqual([3])
})

test('a fact stays found while a Korean word is typed', () => {
  // What an input method gives for 비번, letter by letter.
  for (const typed of ['ㅂ', '비', '빕', '비버', '비번']) expect(found(typed), typed).toContain(2)
  for (const typed of ['집', '집 ㅈ', '집 주', '집 줏']) expect(found(typed), typed).toEqual([3])
  expect(found('값')).toEqual([])
})

test('the memory is a part of the documents page', () => {
  expect(pathFromRoute({ view: 'memory' })).toBe('/documents#memory')
  expect(routeFromPath('/documents', '#memory')).toEqual({ view: 'memory' })
  expect(routeFromPath('/documents', '#other')).toEqual({ view: 'documents' })
  expect(routeFromPath('/inbox', '#memory')).toEqual({ view: 'inbox' })
})

test('a time of an earlier year says the year', () => {
  const thisYear = new Date().getFullYear()
  for (const chosen of ['ko', 'en'] as const) {
    language.value = chosen
    expect(formatDateTime(new Date(thisYear - 1, 2, 4).getTime())).toContain(String(thisYear - 1))
    expect(formatDateTime(Date.now())).not.toContain(String(thisYear))
  }
})

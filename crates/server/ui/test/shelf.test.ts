// Which proposed questions can be answered by what is there.

import { expect, test } from 'vitest'

import about from '../src/samples.json'
import { askable } from '../src/shelf'
import type { Document } from '../src/types'

const doc = (status: string, collection = ''): Document => ({ id: status, name: 'a.md', status, collection }) as never
const [leave] = about.ko

test('a question about the samples is proposed only while they are searched', () => {
  const starters = ['123 * 456 계산해줘', String(leave)]
  expect(askable(starters, null)).toEqual(starters)
  expect(askable(starters, [])).toEqual(starters)
  expect(askable(starters, [doc('reading'), doc('failed')])).toEqual(starters)
  expect(askable(starters, [doc('ready')])).toEqual(['123 * 456 계산해줘'])
  expect(askable(starters, [doc('ready'), doc('ready', 'samples')])).toEqual(starters)
})

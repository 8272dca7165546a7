// Suggested questions depend on which documents are searched.

import { expect, test } from 'vitest'

import about from '../src/sample-questions.json'
import { answerableStarters } from '../src/documents'
import type { DocumentInfo } from '../src/api-types'

const doc = (status: string, collection = ''): DocumentInfo => ({ id: status, name: 'a.md', status, collection }) as never
const [leave] = about.ko

test('a question about the samples is proposed only while they are searched', () => {
  const starters = ['123 * 456 계산해줘', String(leave)]
  expect(answerableStarters(starters, null)).toEqual(starters)
  expect(answerableStarters(starters, [])).toEqual(starters)
  expect(answerableStarters(starters, [doc('reading'), doc('failed')])).toEqual(starters)
  expect(answerableStarters(starters, [doc('ready')])).toEqual(['123 * 456 계산해줘'])
  expect(answerableStarters(starters, [doc('ready'), doc('ready', 'samples')])).toEqual(starters)
})

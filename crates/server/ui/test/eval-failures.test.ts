// What did not hold in a case, in words.

import { expect, test } from 'vitest'

import { failureWords } from '../src/eval-failures'
import { orderedReports } from '../src/evals'
import { language } from '../src/i18n'

test('a failure is said in words, not in the names of fields', () => {
  language.value = 'ko'
  const words = (what: string, expected: string, was: string) => {
    const { label, expected: wanted, was: seen } = failureWords({ what, expected, was })
    return `${label}: ${[wanted, seen].filter((one) => one !== null).join(' → ')}`
  }
  expect(words('sources', '[취업규칙]', '[]')).toBe('인용한 출처: 취업규칙 → 없음')
  expect(words('tools', '[]', '[calculator, search]')).toBe('사용한 도구: 없음 → calculator, search')
  expect(words('contains', '5일', '답의 글')).toBe('답에 없는 말: 5일')
  expect(words('error', '-', 'model_truncated')).toBe('오류: 답이 중간에 끊김')
  expect(words('error', 'model_empty', '-')).toBe('오류: 모델이 빈 답을 보냄 → 없음')
  expect(words('error', '-', 'node_failed')).toBe('오류: node_failed')
  expect(words('asks', '-', 'send_mail')).toBe('승인을 요청한 도구: 없음 → send_mail')
})

test('columns have the order in which models and instructions are chosen', () => {
  const report = (model: string | undefined, instructions: string | undefined, ended_at: number) => ({ model: model ?? 'own', ended_at, cases: [], changes: [], variant: { ...(model ? { model } : {}), ...(instructions ? { instructions } : {}) } })
  const newestFirst = [report('b', undefined, 5), report(undefined, 'x', 4), report('a', undefined, 3), report('gone', undefined, 2), report(undefined, undefined, 1)]
  expect(orderedReports(newestFirst, ['own', 'a', 'b']).map(({ variant }) => [variant.model, variant.instructions])).toEqual([
    [undefined, undefined], [undefined, 'x'], ['a', undefined], ['b', undefined], ['gone', undefined],
  ])
})

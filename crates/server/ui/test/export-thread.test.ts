// Exported conversations.

import { expect, test } from 'vitest'

import { answerWithSources, exportFileName, threadAsMarkdown } from '../src/export-thread'
import type { AnswerSource, MessageInfo } from '../src/api-types'

const LABELS = { user: '나', agent: '도우미', sources: '출처' }

test('words are copied as they are, with their sources', () => {
  const answer = '- [ ] 할 일\n\n```\n<b>&amp;</b>\n```\n  [1]'
  const message = (role: MessageInfo['role'], text: string, at: number, sources: AnswerSource[] = []): MessageInfo =>
    ({ id: String(at), role, text, parts: [], sources, model: null, run: 'r', seq: at, at })
  const source: AnswerSource = {
    number: 1, document: 'd', title: '규칙', kind: 'general', article: '제3조', clause: null, page: null, passage: '', version: '',
    quote: '휴가는\n15일', start: 0, end: 0,
  }
  const messages = [message('user', ' 휴가는?\n', 0), message('tool', 'hidden', 1), message('assistant', answer, 2, [source])]
  const text = threadAsMarkdown('제목\n둘', messages, LABELS)
  expect(text).toBe(
    `# 제목 둘\n\n**나** · 1970-01-01T00:00:00.000Z\n\n 휴가는?\n\n\n**도우미** · 1970-01-01T00:00:00.002Z\n\n${answer}\n\n출처:\n\n- [1] 규칙 제3조: “휴가는 15일”\n`,
  )
})

test('any title gives a file name', () => {
  expect(exportFileName('a/b\\c:d*e?f"g<h>i|j', 'md')).toBe('a b c d e f g h i j.md')
  expect(exportFileName('..', 'json')).toBe('conversation.json')
  expect(exportFileName('\u0000\n', 'md')).toBe('conversation.md')
  expect(exportFileName('연차 계산', 'md')).toBe('연차 계산.md')
  expect(exportFileName('가'.repeat(300), 'md').length).toBeLessThan(90)
})

test('a file says what it leaves out', () => {
  expect(threadAsMarkdown('제목', [], LABELS, '다른 버전 2개는 이 파일에 없습니다.')).toBe('# 제목\n\n> 다른 버전 2개는 이 파일에 없습니다.\n')
})

test('a copied answer names the sources behind its numbers', () => {
  const source = { number: 7, shown: 1, title: '휴가 규정', article: '제3조', clause: null } as never
  expect(answerWithSources('15일입니다 [1].', [source], '출처')).toBe('15일입니다 [1].\n\n출처:\n[1] 휴가 규정 제3조')
  expect(answerWithSources('모릅니다.', [], '출처')).toBe('모릅니다.')
})

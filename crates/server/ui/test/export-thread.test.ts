// Exported conversations.

import { expect, test } from 'vitest'

import { exportFileName, threadAsMarkdown } from '../src/export-thread'
import type { ThreadMessage } from '../src/types'

const LABELS = { user: '나', agent: '도우미', sources: '출처' }

test('words are copied as they are, with their sources', () => {
  const answer = '- [ ] 할 일\n\n```\n<b>&amp;</b>\n```\n  [1]'
  const messages: ThreadMessage[] = [
    { id: 'a', role: 'user', text: ' 휴가는?\n', run: 'r', at: 0 },
    { id: 'b', role: 'tool', text: 'hidden', run: 'r', at: 1 },
    { id: 'c', role: 'assistant', text: answer, run: 'r', at: 2, sources: [{ number: 1, document: 'd', title: '규칙', article: '제3조', quote: '휴가는\n15일' }] },
  ]
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

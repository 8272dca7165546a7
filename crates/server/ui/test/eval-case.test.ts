import { expect, test } from 'vitest'

import { evalCaseToml } from '../src/eval-case'

test('a case holds what was asked and what the run did', () => {
  const text = evalCaseToml({ id: 'a1', agent: 'assistant', before: ['안녕'], ask: '"연차"는\n며칠?', expect: { tools: ['calculator'], sources: ['휴가 규정'], route: 'rag' } })
  expect(text).toBe(`[[case]]
id = "a1"
agent = "assistant"
before = ["안녕"]
ask = "\\"연차\\"는\\n며칠?"
expect = { tools = ["calculator"], sources = ["휴가 규정"] }
`)
})

test('words cannot end their string', () => {
  const text = evalCaseToml({ id: 'x', agent: 'a', before: [], ask: '"\n[[case]]\u007f\u0000', expect: { tools: [] } })
  expect(text.split('\n').filter((line) => line.startsWith('[[case]]'))).toHaveLength(1)
  expect(text).toContain('\\u007f\\u0000')
})

// Citation marks. The cases are those of the server.

import { expect, test } from 'vitest'

import { citedNumbers, findCitationMarks, renumberCitations } from '../src/citation-marks'

const marks = (text: string) => findCitationMarks(text).map(({ from, to }) => text.slice(from, to))

test('a list of numbers in brackets is a mark, but not in code, in links and as an index', () => {
  for (const [text, found] of [
    ['15일입니다. [1]', ['[1]']],
    ['연차는 15일이고 [1], 병가는[2] 60일입니다. [12]', ['[1]', '[2]', '[12]']],
    ['`a[1]`은 둘째입니다. [1]', ['[1]']],
    ['```\nx[0] = 1\n``` [1]', ['[1]']],
    ['see [1](https://doran.dev) and [note] [1234]', []],
    ['an open ` does not hide [1]', ['[1]']],
    ['둘 다 그렇습니다. [1, 3][2,12] [1, x] [ 4 ]', ['[1, 3]', '[2,12]']],
    ['m[4][1] = a[1]', []],
    ['f(x)[1] \\[1]', []],
    ['~~~\n[1]\n~~~\n끝 [1]', ['[1]']],
    ['```\n[1]\n``\n[1]\n````\n끝 [1]', ['[1]']],
    ['``a ` [1]`` 끝 [1]', ['[1]']],
    ['`여러\n줄 [1]` 끝 [1]', ['[1]']],
    ['` 끝\n\n둘째 [1] `', ['[1]']],
    [`[${'1,'.repeat(10)}1]`, []],
  ] as [string, string[]][]) expect(marks(text), text).toEqual(found)
})

test('sources are counted from 1 in the order of their first mention, and only those that are named', () => {
  const text = '가 [7], 나[3, 7] 다 [9] [7, 9] [3](https://example.org) a[가] [] m[7][3] `[7]` - [ ] [    ]년 [2'
  const order = citedNumbers(text, [1, 2, 3, 7])
  expect(order).toEqual([7, 3])
  expect(renumberCitations(text, order)).toBe('가 [1], 나[2, 1] 다 [9] [7, 9] [3](https://example.org) a[가] [] m[7][3] `[7]` - [ ] [    ]년 [2')
  expect(citedNumbers('이름이 없는 답', [1, 2])).toEqual([])
  // While an answer streams, a number that was shown does not change.
  for (let at = 0; at < text.length; at++) {
    const early = citedNumbers(text.slice(0, at), [1, 2, 3, 7], false)
    expect(order.slice(0, early.length)).toEqual(early)
  }
})

test('no character changes that is not a number of a mark', () => {
  const pieces = ['[', ']', '[ ]', '[x]', '- [ ] ', '[    ]년', 'm[4][1]', '[9]', '[12, 9]', '[1](#)', '(', ')', '`', '``', '```\n', '```', '~~~\n', '\n', '\n\n',
    ' ', '    ', '\t', '\r\n', '\u0000', '\u001b[31m', '\u200b', '제5조', '가', 'word', '1', ',', '**', '_', '\\[', '|a|b|\n', '# ', '> ', '🙂', '$x_1[2]$']
  let seed = 12345
  const random = (limit: number) => {
    seed = (seed * 1103515245 + 12345) & 0x7fffffff
    return (seed >> 8) % limit
  }
  for (let round = 0; round < 10_000; round++) {
    const text = Array.from({ length: random(40) }, () => pieces[random(pieces.length)]).join('')
    expect(citedNumbers(text, [2, 3, 4])).toEqual([])
    expect(renumberCitations(text, [3, 2, 4])).toBe(text)
  }
})

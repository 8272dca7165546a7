// The words that an answer quotes, and their highlight in a document.

import { expect, test } from 'vitest'

import { MARK_END, MARK_START, markedPart } from '../src/marked-document'
import { parseMarkdown, type Block } from '../src/markdown/blocks'
import type { Inline } from '../src/markdown/inline'
import { quotedRanges } from '../src/quoted-words'

const PASSAGE = '제32조(육아휴직)\n① 회사는 육아휴직을 허용한다. ② 육아휴직은 자녀 1명당\n1년 이내로 한다. ③ 급여는 따로 정한다.'
const quoted = (answer: string, source = 1) => quotedRanges(answer, source, PASSAGE).map(({ from, to }) => PASSAGE.slice(from, to))

test('only the words that the answer repeats are a quote', () => {
  expect(quoted('육아휴직은 자녀 1명당 1년 이내로 한다. [1]')).toEqual(['육아휴직은 자녀 1명당\n1년 이내로 한다.'])
  expect(quoted('규정은 이렇습니다.\n\n> 회사는 육아휴직을 허용한다. [2][1]')).toEqual(['회사는 육아휴직을 허용한다.'])
  expect(quoted('회사는 육아휴직을 허용한다. [1] 급여는 따로 정한다 [1]')).toEqual(['회사는 육아휴직을 허용한다.', '급여는 따로 정한다'])
  expect(quoted('문서에 이렇게 적혀 있습니다: "② 육아휴직은 자녀 1명당 1년 이내로 한다." [1]')).toEqual(['② 육아휴직은 자녀 1명당\n1년 이내로 한다.'])
  expect(quoted('규정은 “급여는 따로 정한다”고 합니다. [1]')).toEqual(['급여는 따로 정한다'])
  expect(quoted('최대 1년입니다. [1]')).toEqual([])
  expect(quoted('회사는 육아휴직을 허용한다. [2]')).toEqual([])
  expect(quoted('급여는 따로 정한다. [2] 최대 1년입니다. [1]')).toEqual([])
})

/** The text of a tree, with its marks. */
function plain(list: (Block | Inline)[]): string {
  return list.map((one): string => {
    if ('v' in one) return one.v
    if (one.t === 'list') return one.items.map((item) => plain(item.c)).join('|')
    if (one.t === 'table') return [one.head, ...one.rows].map((row) => row.map(plain).join('|')).join('/')
    return 'c' in one ? plain(one.c) : one.t === 'br' ? '\n' : ''
  }).join('\n')
}

function check(text: string, quote: string, expected: string, types: string) {
  const from = text.indexOf(quote)
  const part = markedPart(text, [{ from, to: from + quote.length }], 10_000)
  const blocks = parseMarkdown(part.text)
  expect(plain(blocks).replaceAll(MARK_START, '«').replaceAll(MARK_END, '»')).toBe(expected)
  expect(blocks.map((block) => block.t).join(' ')).toBe(types)
}

test('a highlight leaves headings, lists, tables and code as they are', () => {
  check('# 휴가 규정\n\n본문', '# 휴가 규정', '«휴가 규정»\n본문', 'h p')
  check('- 하나\n- 둘', '- 하나\n- 둘', '«하나|둘»', 'list')
  check('2. 둘\n3. 셋', '3. 셋', '둘|«셋»', 'list')
  check('| 모델 | 값 |\n|---|---|\n| A-100 | 3 |\n| A-200 | 5 |', '| A-200 | 5 |', '모델|값/A-100|3/«A-200|5»', 'table')
  check('| 모델 | 값 |\n|---|---|\n| A-100 | 3 |', '|---|---|\n| A-100 | 3 |', '모델|값/«A-100|3»', 'table')
  check('앞\n\n```\ncode\n```\n\n뒤', '```\ncode\n```', '앞\n«code»\n뒤', 'p code p')
  check('첫 문단은\n\n둘째 문단까지', '문단은\n\n둘째', '첫 «문단은\n둘째» 문단까지', 'p p')
})

test('a long document is cut between blocks', () => {
  const text = Array.from({ length: 200 }, (_, n) => `문단 ${n}은 이렇습니다.`).join('\n\n')
  const from = text.indexOf('문단 100은')
  const part = markedPart(text, [{ from, to: from + 6 }], 200)
  expect([part.hasBefore, part.hasAfter]).toEqual([true, true])
  expect(part.text.startsWith('문단 ') && part.text.endsWith('이렇습니다.')).toBe(true)
  expect(markedPart('짧음', [], 200)).toEqual({ text: '짧음', hasBefore: false, hasAfter: false })
  expect(markedPart('a\ue000b', [], 200).text).toBe('a\ufffdb')
})

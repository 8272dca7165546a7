import { describe, expect, test } from 'vitest'

import { parseProblem } from '../src/api'

describe('what went wrong', () => {
  test('is read in both languages, with what is special this time', () => {
    const body = { status: 400, code: 'bad_input', title: 'a value does not fit', title_ko: '값이 맞지 않습니다' }
    const plain = parseProblem(400, JSON.stringify(body))
    expect([plain.code, plain.en, plain.ko, plain.detail]).toEqual(['bad_input', body.title, body.title_ko, null])
    const why = { detail: '`message` is empty', detail_ko: '`message`가 비어 있습니다' }
    const special = parseProblem(400, JSON.stringify({ ...body, ...why }))
    expect(special.detail).toEqual({ en: why.detail, ko: why.detail_ko })
    expect(parseProblem(400, JSON.stringify({ ...body, detail: 'old' })).detail).toEqual({ en: 'old', ko: 'old' })
  })

  test('has words even when the answer is none of ours', () => {
    const strange = parseProblem(502, '<html>')
    expect([strange.code, strange.ko]).toEqual(['http_502', '서버가 502로 답했습니다'])
  })
})

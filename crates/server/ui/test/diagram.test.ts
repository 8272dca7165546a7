import { expect, test } from 'vitest'

import { drawDiagram } from '../src/diagram/diagram'
import { parseFlowchart } from '../src/diagram/flowchart'
import { layoutFlowchart } from '../src/diagram/flowchart-layout'
import { parseSequence } from '../src/diagram/sequence'

test('a flowchart is read with its shapes, labels and lines', () => {
  const chart = parseFlowchart(`flowchart LR
    A[요청] --> B{"승인 [예]?"}
    B -->|예| C((끝)) & D[(기록)]
    B -- 아니오 --> E([거절])
    E -.-> A; D ==> C %% note
    A --- E
    style A fill:#f9f
    click A "javascript:alert(1)"`)
  expect(chart?.direction).toBe('LR')
  expect(chart?.nodes.map(({ id, label, shape }) => [id, label, shape])).toEqual([
    ['A', '요청', 'box'], ['B', '승인 [예]?', 'diamond'], ['C', '끝', 'circle'], ['D', '기록', 'database'], ['E', '거절', 'stadium'],
  ])
  expect(chart?.edges.map(({ from, to, label, line, hasArrow }) => [from, to, label, line, hasArrow])).toEqual([
    ['A', 'B', '', 'solid', true], ['B', 'C', '예', 'solid', true], ['B', 'D', '예', 'solid', true], ['B', 'E', '아니오', 'solid', true],
    ['E', 'A', '', 'dotted', true], ['D', 'C', '', 'thick', true], ['A', 'E', '', 'solid', false],
  ])
})

test('what is not understood is not drawn by half', () => {
  for (const source of ['', 'flowchart LR', 'graph TD\nsubgraph x\nA-->B\nend', 'pie\n"a": 1', 'graph TD\nA--', 'graph TD\nA-->B C', 'gantt\ntitle x']) {
    expect(parseFlowchart(source), source).toBeNull()
    expect(parseSequence(source), source).toBeNull()
  }
  expect(parseFlowchart(`graph TD\n${Array.from({ length: 500 }, (_, at) => `a${at}-->b${at}`).join('\n')}`)).toBeNull()
})

test('nodes do not overlap, edges end at borders, and circles end', () => {
  const edges = Array.from({ length: 30 }, (_, at) => `n${at}-->n${(at * 7 + 3) % 30}\nn${at}-->n${(at + 1) % 30}`).join('\n')
  const chart = parseFlowchart(`graph TD\n${edges}\nn1-->n1`)
  expect(chart).not.toBeNull()
  if (!chart) return
  const { nodes, edges: placed, width, height } = layoutFlowchart(chart)
  for (const [at, a] of nodes.entries()) {
    expect(a.x - a.width / 2).toBeGreaterThanOrEqual(0)
    expect(a.x + a.width / 2).toBeLessThanOrEqual(width)
    expect(a.y + a.height / 2).toBeLessThanOrEqual(height)
    for (const b of nodes.slice(at + 1)) {
      const isApart = Math.abs(a.x - b.x) >= (a.width + b.width) / 2 - 0.01 || Math.abs(a.y - b.y) >= (a.height + b.height) / 2 - 0.01
      expect(isApart, `${a.id} ${b.id}`).toBe(true)
    }
  }
  expect(placed.every((edge) => edge.points.length >= 2 && edge.points.every(({ x, y }) => Number.isFinite(x) && Number.isFinite(y)))).toBe(true)
})

test('a sequence is read with its participants, notes and blocks', () => {
  const chart = parseSequence(`sequenceDiagram
    autonumber
    participant U as 사용자
    actor S
    U->>+S: 로그인
    S-->>-U: 토큰
    Note over U,S: 암호화
    alt 성공
      U->>U: 저장
    else 실패
      S-xU: 오류: 401
    end`)
  expect(chart?.participants).toEqual(['사용자', 'S'])
  expect(chart?.isNumbered).toBe(true)
  expect(chart?.items.map((item) => item.t)).toEqual(['message', 'message', 'note', 'begin', 'message', 'else', 'message', 'end'])
  expect(chart?.items[6]).toMatchObject({ from: 1, to: 0, text: '오류: 401', head: 'cross' })
  expect(parseSequence('sequenceDiagram\nloop x\nA->>B: y')).toBeNull()
})

test('a long line without a match ends at once', () => {
  for (const source of [`graph TD\nA${'['.repeat(7000)}`, `graph TD\nA-- ${'- '.repeat(3500)}`, `sequenceDiagram\n${'A->'.repeat(2500)}`, `graph TD\n${'A&'.repeat(3500)}`]) {
    parseFlowchart(source)
    parseSequence(source)
  }
})

test('what is drawn are shapes and texts, whatever the source says', () => {
  const hostile = '<img src=x onerror=alert(1)>'
  for (const source of [`graph TD\nA["${hostile}"] -->|"${hostile}"| B`, `sequenceDiagram\nparticipant A as ${hostile}\nA->>A: ${hostile}`]) {
    const drawn = drawDiagram(source)
    expect(drawn, source).not.toBeNull()
    for (const shape of drawn?.shapes ?? []) {
      if (shape.t === 'path') expect(shape.d).toMatch(/^[MLHVQZahlmvz\d .-]+$/)
      else if (shape.t !== 'text') expect(Object.values(shape).every((one) => typeof one === 'string' || Number.isFinite(one))).toBe(true)
    }
    expect(drawn?.shapes.some((shape) => shape.t === 'text' && shape.lines.join(' ').includes('onerror'))).toBe(true)
  }
  expect(drawDiagram(`graph TD\nA[${'x'.repeat(9000)}]`)).toBeNull()
  expect(drawDiagram('%%{init: {"securityLevel": "loose"}}%%\ngraph TD\nA-->B')?.count).toBe(2)
})

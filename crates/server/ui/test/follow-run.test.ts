// A run followed over connections that are cut anywhere gives the same result as one read without a cut.

import { expect, test } from 'vitest'

import { reduceRunEvent, newRunView, continuation, buildTranscript, type RunView } from '../src/transcript'
import { retryDelayMs, followRun, RefusedError, type Connection } from '../src/follow-run'
import type { RunEvent, StepTask } from '../src/api-types'

const task = (node: string, update: unknown, notes?: Record<string, unknown>): StepTask =>
  ({ node, ms: 3, attempts: 1, input_tokens: 1, output_tokens: 2, update, ...(notes ? { notes } : {}) }) as StepTask
const says = (id: string, text: string) => ({ messages: [{ put: { id, role: 'assistant', parts: [{ type: 'text', text, origin: 'model' }] } }] })
const delta = (node: string, attempt: number, index: number, text: string): RunEvent => ({ type: 'delta', node, attempt, index, text })

/** A run whose answer is retried midway, that pauses for approval, is recovered after a crash, and ends. */
const EVENTS: RunEvent[] = [
  { n: 1, at: 10, type: 'started', agent: 'assistant', thread: 't', run: 'r' },
  { type: 'delta', node: 'router', attempt: 1, index: 0, data: { type: 'thinking', step: 'routing', content: '규정' } },
  { n: 2, at: 20, type: 'step', step: 1, tasks: [task('router', { route: 'rag' }, { events: [{ type: 'thinking', step: 'routing', content: '규정' }] })], next: ['agent'] },
  delta('agent', 1, 0, '버려질 '),
  delta('agent', 1, 1, '말'),
  { type: 'delta', node: 'agent', attempt: 1, index: 2, restarted: 'timeout' },
  delta('agent', 2, 0, '육아휴직은 '),
  delta('agent', 2, 1, '1년 😀입니다. [1]'),
  { n: 3, at: 30, type: 'step', step: 2, tasks: [task('agent', says('m1', '육아휴직은 1년 😀입니다. [1]'), { events: [{ type: 'tool_call', call: 'c', name: 'calculator', arguments: { e: '1+1' } }, { type: 'tool_result', call: 'c', name: 'calculator', text: '2', failed: false }, { type: 'sources', sources: [{ number: 1, document: 'd', title: '취업규칙', quote: '1년' }] }], models: [{ name: 'offline-extractive-2', kind: 'extractive' }] })], next: ['check'] },
  { n: 4, at: 32, type: 'paused', questions: [{ id: 'q', run: 'r', node: 'check', kind: 'ask', question: { type: 'approve_tool', call: 'c2', name: 'x' } }] },
  { n: 5, at: 34, type: 'resumed', answers: { q: { approve: true } } },
  { n: 6, at: 36, type: 'failed', code: 'node_failed', message: 'reset' },
  { n: 7, at: 40, type: 'restarted', why: 'crash' },
  delta('check', 1, 0, '끝입니다.'),
  { n: 8, at: 50, type: 'step', step: 3, tasks: [task('check', says('m2', '끝입니다.'))], next: [] },
  { n: 9, at: 60, type: 'finished' },
]

const frame = (event: RunEvent) =>
  `${event.n === undefined ? '' : `id: ${event.n}\n`}event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`

/** What the server sends after an event number: recorded events, and deltas of the step in progress. */
function streamAfter(after: number): Uint8Array {
  const from = after === 0 ? 0 : EVENTS.findIndex((event) => event.n === after) + 1
  return new TextEncoder().encode(EVENTS.slice(from).map(frame).join(''))
}

function body(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(out) {
      // In chunks of 17 bytes, so that frames arrive in parts.
      for (let at = 0; at < bytes.length; at += 17) out.enqueue(bytes.slice(at, at + 17))
      out.close()
    },
  })
}

async function followWithCuts(cuts: (connection: number, bytes: Uint8Array) => Uint8Array) {
  let run: RunView = newRunView('', 't', '')
  let connections = 0
  const states: Connection['state'][] = []
  const shown: string[] = []
  await followRun(
    {
      async open(after) {
        return body(cuts(connections++, streamAfter(after)))
      },
      applyEvent(event) {
        run = reduceRunEvent(run, event)
        shown.push(buildTranscript(run).text)
        return continuation(run.status)
      },
      lastEventNumber: () => run.lastEventNumber,
      onConnectionChange: ({ state }) => states.push(state),
      waitBeforeRetry: async () => undefined,
    },
    new AbortController().signal,
  )
  return { run, states, shown, connections }
}

test('a stream cut at any byte and taken up again gives the same run', async () => {
  const whole = await followWithCuts((_, bytes) => bytes)
  expect(whole.connections).toBe(1)
  expect(buildTranscript(whole.run).text).toBe('육아휴직은 1년 😀입니다. [1]\n\n끝입니다.')
  const length = streamAfter(0).length
  for (let at = 0; at <= length; at++) {
    const cut = await followWithCuts((connection, bytes) => (connection === 0 ? bytes.slice(0, at) : bytes))
    expect(cut.run, `cut at byte ${at}`).toEqual(whole.run)
    expect(buildTranscript(cut.run), `cut at byte ${at}`).toEqual(buildTranscript(whole.run))
  }
}, 60_000)

test('a connection that is cut again and again still gets there', async () => {
  const whole = await followWithCuts((_, bytes) => bytes)
  for (const size of [1, 100, 333]) {
    // Each connection is longer than the one before, else it would always end before the same frame.
    const cut = await followWithCuts((connection, bytes) => bytes.slice(0, size + 150 * connection))
    expect(cut.run).toEqual(whole.run)
    expect(cut.states.filter((state) => state === 'lost').length).toBeGreaterThan(0)
    expect(cut.states.at(-1)).toBe('done')
  }
})

test('words of a try that is void are taken back, and none is shown twice', async () => {
  const { shown } = await followWithCuts((_, bytes) => bytes)
  expect(shown).toContain('버려질 말')
  const last = shown.lastIndexOf('버려질 말')
  expect(shown.slice(last + 1).some((text) => text.includes('버려질'))).toBe(false)
  for (const text of shown) expect(text.split('육아휴직은').length).toBeLessThanOrEqual(2)
})

test('pieces that come twice or late change nothing', () => {
  let run = reduceRunEvent(newRunView('', 't', ''), EVENTS[0] as RunEvent)
  for (const index of [0, 1, 1, 0, 2]) run = reduceRunEvent(run, delta('agent', 2, index, `${index} `))
  run = reduceRunEvent(run, delta('agent', 1, 3, 'old'))
  expect(buildTranscript(run).text).toBe('0 1 2 ')
})

test('a missed piece shows as a gap, never as if nothing were missing', () => {
  let run = reduceRunEvent(newRunView('', 't', ''), EVENTS[0] as RunEvent)
  run = reduceRunEvent(run, delta('agent', 1, 0, '앞 '))
  run = reduceRunEvent(run, delta('agent', 1, 2, '뒤'))
  expect(buildTranscript(run).text).toBe('앞 …뒤')
})

test('a missing number is not skipped', () => {
  const run = reduceRunEvent(newRunView('', 't', ''), EVENTS[0] as RunEvent)
  expect(() => reduceRunEvent(run, { n: 3, type: 'finished' })).toThrow()
})

test('what the server refuses is not asked for again', async () => {
  let opened = 0
  const states: Connection[] = []
  await followRun(
    {
      async open() {
        opened += 1
        throw new RefusedError('gone')
      },
      applyEvent: () => 'continues',
      lastEventNumber: () => 0,
      onConnectionChange: (connection) => states.push(connection),
      waitBeforeRetry: async () => undefined,
    },
    new AbortController().signal,
  )
  expect(opened).toBe(1)
  expect(states.at(-1)).toEqual({ state: 'refused', error: 'gone' })
})

test('waiting grows and is bounded', () => {
  const waits = Array.from({ length: 30 }, (_, at) => retryDelayMs(at + 1))
  expect(waits[0]).toBeLessThanOrEqual(500)
  expect(Math.max(...waits)).toBe(10_000)
  expect([...waits].sort((left, right) => left - right)).toEqual(waits)
})

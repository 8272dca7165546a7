// The transcript of a run, built from its events.

import { expect, test } from 'vitest'

import { reduceRunEvent, newRunView, repliesIn, buildTranscript, isModelFailure, modelOfWords } from '../src/transcript'
import { edgeKey, END, highlightGraph, START } from '../src/graph-highlight'
import { inspectorRows } from '../src/views/inspector-rows'
import type { AgentActivity, Json, RunEvent } from '../src/api-types'

const started: RunEvent = { n: 1, at: 1, type: 'started', agent: 'a', thread: 't', run: 'r' }
const step = (n: number, node: string, next: string[], update: Json = {}): RunEvent => ({
  n, at: n, type: 'step', step: n - 1, next,
  tasks: [{ node, ms: 1, attempts: 1, input_tokens: 0, output_tokens: 0, update }],
})
const reduceAll = (...events: RunEvent[]) => events.reduce(reduceRunEvent, newRunView('', '', ''))

test('only what the assistant newly said is said', () => {
  const put = (id: string, role: string, text: string) => ({ put: { id, role, parts: [{ type: 'text', text }] } })
  expect(repliesIn({ messages: [put('1', 'assistant', '답'), put('2', 'tool', '8'), put('3', 'user', '물음'), { remove: '0' }, 'clear'] }))
    .toEqual([{ id: '1', text: '답' }])
  expect(repliesIn({ answer: '답', messages: [] })).toEqual([])
  // A field that repeats the answer for programs is not a second reply.
  expect(repliesIn({ response: '답', final_response: '답' })).toEqual([])
  expect(repliesIn(null)).toEqual([])
})

test('a message of an earlier turn that is shortened is not said again', () => {
  const update = { messages: [{ put: { id: 'old', role: 'assistant', text: '줄임' } }, { put: { id: 'new', role: 'assistant', text: '새 답' } }] }
  const run = reduceAll(started, step(2, 'summarizeHistory', [], update))
  expect(buildTranscript(run, new Set(['old'])).text).toBe('새 답')
})

test('a run that waits asks, and goes on with the answer', () => {
  const asks: RunEvent = { n: 3, type: 'paused', questions: [{ id: 'q', run: 'r', node: 'tools', kind: 'ask', question: { type: 'approve_tool' } }] }
  const paused = reduceAll(started, step(2, 'agent', ['tools']), asks)
  expect([paused.status, paused.questions.length]).toEqual(['paused', 1])
  const resumed = reduceRunEvent(paused, { n: 4, type: 'resumed', answers: { q: { approve: true } } })
  expect([resumed.status, resumed.questions.length]).toEqual(['running', 0])
})

test('what was said before a stop is kept', () => {
  const run = reduceAll(started, { type: 'delta', node: 'agent', attempt: 1, index: 0, text: '반쪽' }, { n: 2, type: 'cancelled', partial: { agent: '반쪽' } })
  expect([run.status, buildTranscript(run).text]).toEqual(['cancelled', '반쪽'])
})

test('a failed run that goes on has failed no longer', () => {
  const failed = reduceAll(started, { n: 2, type: 'failed', code: 'x', message: 'y', node: 'agent' })
  const again = reduceRunEvent(failed, { n: 3, type: 'restarted', why: 'retry' })
  expect([again.status, again.failure, again.restarts]).toEqual(['running', null, 1])
})

test('words that arrive after the end are not shown', () => {
  const run = reduceAll(started, { n: 2, type: 'finished' }, { type: 'delta', node: 'agent', attempt: 1, index: 0, text: '늦음' })
  expect(buildTranscript(run).text).toBe('')
})

test('the graph lights up step by step and counts its loops', () => {
  const run = reduceAll(started, step(2, 'agent', ['tools']), step(3, 'tools', ['agent']), step(4, 'agent', []), { n: 5, type: 'finished' })
  const lit = highlightGraph(run, null, ['agent'])
  expect(lit.nodes.get('agent')).toEqual({ highlight: 'done', count: 2 })
  expect(lit.edges).toEqual(new Set([edgeKey(START, 'agent'), edgeKey('agent', 'tools'), edgeKey('tools', 'agent'), edgeKey('agent', END)]))
  const before = highlightGraph(run, 1, ['agent'])
  // The step that is looked at stands out, not the one that came next.
  expect(before.nodes.get('agent')?.highlight).toBe('running')
  expect(before.nodes.has('tools')).toBe(false)
  expect(before.nodes.has(END)).toBe(false)
  expect(highlightGraph(reduceAll(started), null, ['agent']).nodes.get('agent')?.highlight).toBe('running')
})

test('a failed node is lit as failed', () => {
  const run = reduceAll(started, { n: 2, type: 'failed', code: 'x', message: 'y', node: 'agent' })
  expect(highlightGraph(run, null, ['agent']).nodes.get('agent')?.highlight).toBe('failed')
})

test('a tool that a person said no to is denied, not failed', () => {
  const asks: RunEvent = { n: 2, type: 'paused', questions: [
    { id: 'q1', run: 'r', node: 'tools', kind: 'ask', question: { type: 'approve_tool', call: 'c1', name: 'calculator' } },
    { id: 'q2', run: 'r', node: 'tools', kind: 'ask', question: { type: 'approve_tool', call: 'c2', name: 'calculator' } },
  ] }
  const answers: RunEvent = { n: 3, type: 'resumed', answers: { q1: { approve: false }, q2: { approve: true } } }
  const done = step(4, 'tools', [])
  if (done.type === 'step' && done.tasks[0]) {
    done.tasks[0].notes = { events: ['c1', 'c2'].flatMap((call): AgentActivity[] => [
      { type: 'tool_call', call, name: 'calculator', arguments: {} },
      { type: 'tool_result', call, name: 'calculator', text: 'x', failed: true, ms: 1 },
    ]) }
  }
  const { items } = buildTranscript(reduceAll(started, asks, answers, done))
  expect(items.map((item) => item.kind === 'tool' && [item.call, item.isDenied])).toEqual([['c1', true], ['c2', false]])
})

const call = (name: string, purpose: string, more: object = {}) =>
  ({ name, purpose, kind: 'language', role: purpose === 'answer' ? 'main' : 'small', input_tokens: 3, output_tokens: 4, cost_micros: null, counted: 'reported', ms: 1, ...more }) as unknown as Json
const answered = (n: number, node: string, models: Json[], text: string): RunEvent => {
  const event = step(n, node, [], text === '' ? {} : { messages: [{ put: { id: `m${n}`, role: 'assistant', text } }] })
  if (event.type === 'step' && event.tasks[0]) event.tasks[0].notes = { models } as never
  return event
}
const badge = (...events: RunEvent[]) => {
  const run = reduceAll(...events)
  return modelOfWords(run, buildTranscript(run), { name: 'expected' })?.name ?? null
}

test('the model that wrote the words is named, not the last one that was asked', () => {
  const said = answered(2, 'agent', [call('large', 'answer')], '답')
  expect(badge(started, said, answered(3, 'summarizeHistory', [call('tiny', 'summarize')], ''), { n: 4, type: 'finished' })).toBe('large')
  expect(badge(started, answered(2, 'router', [call('tiny', 'route')], ''))).toBe('expected')
  expect(badge(started, answered(2, 'router', [call('tiny', 'route')], ''), { type: 'delta', node: 'agent', attempt: 1, index: 0, text: '답' })).toBe('expected')
  // A sentence of the program has no model.
  expect(badge(started, answered(2, 'error', [], '요청이 너무 복잡합니다'), { n: 3, type: 'finished' })).toBe(null)
})

test('a stopped or failed call names its model, counts its tokens and stands in the timeline', () => {
  const unfinished = [{ node: 'agent', ms: 9, attempts: 1, notes: { models: [call('large', 'answer', { unfinished: 'stopped', counted: 'estimated' })] } }]
  const route = answered(2, 'router', [call('tiny', 'route')], '')
  for (const end of [
    { n: 3, type: 'cancelled', partial: { agent: '반쪽' }, unfinished }, { n: 3, type: 'cancelled', unfinished },
    { n: 3, type: 'failed', code: 'x', message: 'y', node: 'agent', unfinished },
  ] as RunEvent[]) {
    expect(badge(started, route, end)).toBe('large')
    const run = reduceAll(started, route, end)
    const { models, hasUnknownUsage } = buildTranscript(run)
    expect([models.map((one) => one.input_tokens), hasUnknownUsage]).toEqual([[3, 3], false])
    expect(inspectorRows(run).map((row) => [row.task.node, row.outcome])).toEqual([['router', 'done'], ['agent', end.type]])
  }
  const stopped = reduceAll(started, { n: 2, type: 'cancelled', partial: { agent: '반쪽' }, unfinished })
  expect(highlightGraph(stopped, null, ['agent']).nodes.get('agent')?.highlight).toBe('stopped')
  // A failed try stays in the timeline when the run goes on.
  const again = reduceAll(started, { n: 2, type: 'failed', code: 'x', message: 'y', node: 'agent', unfinished }, { n: 3, type: 'restarted', why: 'retry' }, answered(4, 'agent', [call('large', 'answer')], '답'))
  expect(inspectorRows(again).map((row) => row.outcome)).toEqual(['failed', 'done'])
})

test('the tokens of a cut-off call without a record are unknown, not zero', () => {
  expect(buildTranscript(reduceAll(started, { n: 2, type: 'cancelled', partial: { agent: '반쪽' } })).hasUnknownUsage).toBe(true)
  expect(buildTranscript(reduceAll(started, { n: 2, type: 'cancelled' })).hasUnknownUsage).toBe(false)
})

test('what a person was asked and answered stays, with its times', () => {
  const question = (id: string) => ({ id, run: 'r', node: 'tools', kind: 'ask', question: { type: 'approve_tool', call: id } }) as never
  const run = reduceAll(
    started, { n: 2, at: 20, type: 'paused', questions: [question('q1'), question('q2')] }, { n: 3, at: 30, type: 'resumed', answers: { q1: { approve: true } } },
    { n: 4, at: 40, type: 'paused', questions: [question('q2')] }, { n: 5, at: 50, type: 'resumed', answers: { q2: { approve: false } } }, { n: 6, at: 60, type: 'finished' },
  )
  expect(run.decisions.map(({ id, asked, answer, answered }) => [id, asked, answer, answered])).toEqual([
    ['q1', 20, { approve: true }, 30], ['q2', 20, { approve: false }, 50],
  ])
})

test('inner graphs are nested in the timeline, and tasks of one step stand side by side', () => {
  const inner: RunEvent = { n: 2, at: 100, type: 'step', step: 1, path: '0.0', next: [], tasks: ['a', 'b'].map((node, at) => ({ node, ms: 10 * (at + 1), attempts: 1, input_tokens: 0, output_tokens: 0, update: {} })) }
  const outer: RunEvent = { ...step(3, 'help', []), step: 1 } as RunEvent
  const run = reduceAll(started, inner, outer)
  const rows = inspectorRows(run)
  expect(rows.map((row) => [row.graph, row.task.node, row.depth, row.parallel])).toEqual([['help', 'a', 1, 2], ['help', 'b', 1, 2], ['', 'help', 0, 1]])
  // The nodes of the inner graph are lit, also before its outer task is recorded.
  for (const one of [run, reduceAll(started, inner)]) expect(highlightGraph(one, null, ['help']).nodes.get('help/a')?.highlight).toBe('done')
  expect([rows[0]?.began, rows[1]?.began, rows[1]?.ended]).toEqual([90, 80, 100])
})

test('what an agent says behind another one is not the answer, and rests on nothing', () => {
  const said = (text: string, progress: Json): Json => ({
    messages: [{ put: { id: text, role: 'assistant', text } }], progress,
    sources: [{ number: 1, title: text, document: text, passage: text, quote: text }] as never,
  })
  const inner = (n: number, update: Json) => ({ ...step(n, 'respond', [], update), step: 1, path: '0.0' }) as RunEvent
  const hidden = inner(2, said('속말', { path: [], is_subagent: true }))
  if (hidden.type === 'step' && hidden.tasks[0]) hidden.tasks[0].notes = { models: [call('large', 'answer')], events: [{ type: 'sources', sources: [{ number: 1, title: '속말' }] }] } as never
  const asks: RunEvent = { n: 3, type: 'paused', questions: [] }
  for (const end of [asks, { n: 3, type: 'failed', code: 'node_failed', message: '500', node: 'call' } as RunEvent]) {
    const { text, items, sources, models } = buildTranscript(reduceAll(started, hidden, end))
    expect([text, items, sources]).toEqual(['', [], []])
    // Its tokens were used all the same.
    expect(models.map((one) => one.name)).toEqual(['large'])
  }
  // An agent inside that goes on with the conversation speaks to the person.
  const shared = buildTranscript(reduceAll(started, inner(2, said('답', { path: [] })), asks))
  expect([shared.text, shared.sources.length]).toEqual(['답', 1])
})

test('only the failure of a model is a matter of models', () => {
  expect(['model_unavailable', 'model_unauthorized', 'node_failed', 'limit_exceeded', 'timeout', ''].filter(isModelFailure)).toEqual(['model_unavailable', 'model_unauthorized'])
})

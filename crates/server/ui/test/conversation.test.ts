// The open conversation while several requests are under way.

import { expect, test, vi } from 'vitest'

import type { MessageInfo, RunInfo } from '../src/api-types'

const api = vi.hoisted(() => ({
  fetchMessages: vi.fn(),
  fetchRuns: vi.fn(),
  fetchThread: vi.fn(),
  startRun: vi.fn(),
  openRunEvents: vi.fn(async () => new ReadableStream()),
  requireThread: vi.fn(async () => undefined),
  randomId: () => 'key',
  MAX_LISTED_RUNS: 200,
}))
vi.mock('../src/api', () => api)

const { askInsteadOf, conversation, openConversation, refreshConversation } = await import('../src/conversation')

const message = (role: string, text: string, run: string): MessageInfo => ({ id: `${run}-${role}`, role, text, run, at: 1, sources: [] }) as never
const run = (id: string, from: number, first: number): RunInfo => ({ id, agent: 'react', status: 'finished', created: first, from, first, last: first + 1 }) as never

test('a refresh that began before an edit does not bring back what the edit left behind', async () => {
  const messages = ['r1', 'r2'].flatMap((id) => [message('user', id, id), message('assistant', '답', id)])
  api.fetchMessages.mockResolvedValueOnce({ messages, decisions: [] })
  api.fetchRuns.mockResolvedValue([run('r1', 0, 1), run('r2', 2, 3)])
  await openConversation('t')
  const shown = () => conversation.value.turns.map((turn) => turn.question)
  expect(shown()).toEqual(['r1', 'r2'])

  let arrive: (list: unknown) => void = () => undefined
  api.fetchMessages.mockReturnValueOnce(new Promise((resolve) => { arrive = resolve }))
  const refresh = refreshConversation()
  api.startRun.mockResolvedValue({ body: new ReadableStream(), run: 'r3' })
  api.fetchRuns.mockResolvedValue([run('r1', 0, 1), run('r2', 2, 3), run('r3', 0, 5)])
  const [first] = conversation.value.turns
  if (!first) throw new Error('no turn')
  await askInsteadOf(first, 'react', 'other')
  await vi.waitFor(() => expect(conversation.value.turns[0]?.id.value).toBe('r3'))
  arrive({ messages, decisions: [] })
  await refresh
  expect(shown()).toEqual(['other'])
})

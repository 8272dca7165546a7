// A page with one of LangGraph's two hooks for React: `?hook=classic|events&graph=NAME&api=ADDRESS[&thread=ID]`. What the hook
// gives is shown as text, and the page keeps the id of its thread in its address, so that it can be loaded again.

import { createElement as h, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { useStream as useClassicStream } from '@langchain/langgraph-sdk/react'
import { useStream as useEventStream } from '@langchain/react'

const query = new URLSearchParams(location.search)
const options = { apiUrl: query.get('api'), assistantId: query.get('graph'), apiKey: query.get('key') ?? undefined }

function rememberThread(id) {
  query.set('thread', id)
  history.replaceState(null, '', `?${query}`)
}

const text = (content) => (typeof content === 'string' ? content : content.map((block) => block.text ?? '').join(''))
const kind = (message) => message.type ?? message.getType?.()
const human = (content) => ({ messages: [{ type: 'human', content }] })

const CHAT_UI = { streamMode: ['values'], streamSubgraphs: true, streamResumable: true }

/** What both hooks show, and the buttons that both have. */
function View({ messages, values, interrupt, isLoading, error, actions, children }) {
  const lines = messages.map((message) => h('li', { key: message.id }, `${kind(message)}: ${text(message.content)}`))
  const buttons = Object.entries(actions).map(([name, run]) => h('button', { key: name, id: name, onClick: run }, name))
  return h(
    'main',
    null,
    h('ul', { id: 'messages' }, lines),
    h('p', { id: 'values' }, JSON.stringify({ ...values, messages: undefined })),
    h('p', { id: 'interrupt' }, JSON.stringify(interrupt ?? null)),
    h('p', { id: 'state' }, error ? `error: ${error.message ?? error}` : isLoading ? 'loading' : 'idle'),
    buttons,
    children,
  )
}

function ClassicPage() {
  const [threadId, setThreadId] = useState(query.get('thread'))
  const [ticks, setTicks] = useState(0)
  const [found, setFound] = useState(null)
  const stream = useClassicStream({
    ...options,
    threadId,
    reconnectOnMount: true,
    fetchStateHistory: true,
    onThreadId: (id) => (rememberThread(id), setThreadId(id)),
    onCustomEvent: () => setTicks((count) => count + 1),
  })
  const first = stream.messages[0]
  const origin = first && stream.getMessagesMetadata(first)
  const answer = stream.messages[1] && stream.getMessagesMetadata(stream.messages[1])
  const actions = {
    send: () => stream.submit(human('hi'), { streamResumable: true }),
    start: () => stream.submit({}, { streamResumable: true }),
    resume: () => stream.submit(undefined, { command: { resume: 'yes' } }),
    stop: () => stream.stop(),
    // The first message again, in other words: another branch from before it.
    edit: () => stream.submit(human('again'), { checkpoint: origin?.firstSeenState?.parent_checkpoint }),
    back: () => stream.setBranch(origin.branchOptions[0]),
    // What agent-chat-ui does: a question in blocks, the same answer again, and the list of its threads.
    chat: () => stream.submit({ messages: [{ id: 'blocks', type: 'human', content: [{ type: 'text', text: 'hi' }] }], context: undefined }, CHAT_UI),
    regenerate: () => stream.submit(undefined, { checkpoint: answer?.firstSeenState?.parent_checkpoint, ...CHAT_UI }),
    find: async () => {
      const info = await fetch(`${options.apiUrl}/info`, { headers: { 'X-Api-Key': options.apiKey } })
      const threads = await stream.client.threads.search({ metadata: { graph_id: options.assistantId }, limit: 100 })
      setFound(info.ok && threads.some((thread) => thread.thread_id === threadId))
    },
  }
  return h(
    View,
    { messages: stream.messages, values: stream.values, interrupt: stream.interrupt, isLoading: stream.isLoading, error: stream.error, actions },
    h('p', { id: 'ticks' }, ticks),
    h('p', { id: 'history' }, stream.history.length),
    h('p', { id: 'branches' }, origin?.branchOptions?.length ?? 0),
    h('p', { id: 'answers' }, answer?.branchOptions?.length ?? 0),
    h('p', { id: 'found' }, String(found)),
  )
}

function EventsPage() {
  const [threadId, setThreadId] = useState(query.get('thread'))
  const stream = useEventStream({ ...options, threadId, onThreadId: (id) => (rememberThread(id), setThreadId(id)) })
  const [fork, setFork] = useState(null)
  const actions = {
    send: () => stream.submit(human('hi')),
    start: () => stream.submit({ answer: 'none' }),
    resume: () => stream.respond('yes'),
    stop: () => stream.stop(),
    // The checkpoint before the first input, and a run from there.
    look: async () => {
      const states = await stream.client.threads.getHistory(stream.threadId, { limit: 100 })
      setFork(states.at(-1).checkpoint.checkpoint_id)
    },
    edit: () => stream.submit(human('again'), { forkFrom: fork }),
  }
  return h(
    View,
    { messages: stream.messages, values: stream.values, interrupt: stream.interrupt, isLoading: stream.isLoading, error: stream.error, actions },
    h('p', { id: 'fork' }, fork),
  )
}

createRoot(document.getElementById('root')).render(h(query.get('hook') === 'classic' ? ClassicPage : EventsPage))

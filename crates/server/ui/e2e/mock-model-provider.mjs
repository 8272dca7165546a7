// A mock model provider with an OpenAI-compatible API. It answers slowly, with tool calls, with hostile text, or with an
// error. The real server uses it like any other provider.

import { createServer } from 'node:http'
import { HOSTILE } from './mock-data.mjs'

export const LONG = '긴 답을 천천히 씁니다. ' + Array.from({ length: 60 }, (_, at) => `문장 ${at + 1}은 여기에 있습니다.`).join(' ')
/** Brackets, lists and code that are no citations. */
export const BRACKETS = 'm[4][1] = a[1]; 계약 기간은 [    ]년입니다.\n\n- [ ] 할 일\n- [x] 한 일\n\n2. 둘\n4. 넷 [9]\n\n```py\nm[4][1] = [ ]\n```\n\nf[0](x)와 [목차](#a)'
/** Diagrams that are drawn, one that is not, and one that tries to get out. */
export const DIAGRAMS = [
  'flowchart LR\n  A[요청] --> B{승인?}\n  B -->|예| C[(기록)]\n  B -->|아니오| D([거절])',
  'sequenceDiagram\n  participant U as 사용자\n  U->>S: 로그인\n  S-->>U: 토큰\n  Note over U,S: 암호화',
  'gantt\n  title 일정',
  'flowchart TD\n  A["<img src=x onerror=window.__hit=1>"] --> B["<script>window.__hit=1</script>"]\n  click A "javascript:window.__hit=1"',
].map((one) => `\`\`\`mermaid\n${one}\n\`\`\``).join('\n\n')
/** Answers that are hard to render: they grow, nest, overflow, or hide markup where a renderer might trust it. */
export const BOMBS = [
  '$\\def\\a{\\a\\a}\\a$ $\\rule{9999em}{9999em}$ $\\class{hit}{x}$ $\\id{hit}{x}$ $\\data{hit=1}{x}$ $\\style{background:url(https://canary.invalid/m)}{x}$ $\\includegraphics{https://canary.invalid/p.png}$',
  `$${'\\frac{1}{'.repeat(200)}x${'}'.repeat(200)}$ and $${'\\sqrt{'.repeat(40)}x${'}'.repeat(40)}$`,
  `|${' <img src=x onerror=window.__hit=1> |'.repeat(60)}\n|${'---|'.repeat(60)}\n|${' [x](javascript:window.__hit=1) |'.repeat(60)}`,
  '```svg\n<svg onload="window.__hit=1"><a href="javascript:window.__hit=1"><text>x</text></a></svg>\n```',
  '```mermaid\n%%{init: {"securityLevel": "loose", "htmlLabels": true}}%%\nflowchart TD\n  A["<a href=\'javascript:window.__hit=1\'>x</a>"] --> B["\\u202egnp.exe"]\n  classDef x fill:url(https://canary.invalid/c)\n  style A fill:url(https://canary.invalid/s)\n```',
  `\`\`\`mermaid\nflowchart TD\n${Array.from({ length: 400 }, (_, at) => `  N${at} --> N${(at * 7) % 400}`).join('\n')}\n\`\`\``,
  '![x](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9IndpbmRvdy5fX2hpdD0xIj48L3N2Zz4=) <a href="javascript:window.__hit=1">x</a>',
  `${'- '.repeat(400)}deep\n\n${'> '.repeat(400)}deep\n\n- [ ] <input autofocus onfocus=window.__hit=1>`,
  `${'가'.repeat(3000)}\n\n끝까지 왔습니다.`,
].join('\n\n')
export const REFUSAL = 'this mock provider refuses the question'

/** Graphs of a user: one that another one continues with, and one that asks it behind the scenes, waits for a person and fails. */
const ownGraphs = (port) => `
[[graphs]]
name = "lookup"
start = "look"
[[graphs.node]]
name = "look"
use = "retrieve"
then = "say"
[[graphs.node]]
name = "say"
use = "respond"
prompt = "Answer: {{ question }}"
then = "end"

[[graphs]]
name = "helpdesk"
start = "help"
[[graphs.node]]
name = "help"
use = "subgraph"
graph = "lookup"
then = "bye"
[[graphs.node]]
name = "bye"
use = "respond"
text = "더 궁금한 것이 있으면 물어보세요."
then = "end"

[[graphs]]
name = "secretary"
start = "draft"
[[graphs.node]]
name = "draft"
use = "subgraph"
graph = "lookup"
input = { question = "{{ question }}" }
then = "confirm"
[[graphs.node]]
name = "confirm"
use = "interrupt"
ask = { ko = "보낼까요?", en = "Shall I send it?" }
then = "send"
[[graphs.node]]
name = "send"
use = "http"
then = "bye"
[graphs.node.http]
url = "http://127.0.0.1:${port}/mail"
body = { messages = [{ role = "user", content = "REFUSE" }] }
[[graphs.node]]
name = "bye"
use = "respond"
text = "보냈습니다."
then = "end"
`

/** Starts the provider. `pace` is the time between words in milliseconds. `left` counts answers whose client disconnected.
 * `requests` holds the bodies it got. */
export async function startMockModelProvider(port = 0) {
  const settings = { pace: 0 }
  const seen = { asked: 0, left: 0, requests: [] }
  const server = createServer(async (request, response) => {
    if (request.method === 'GET') {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ object: 'list', data: [{ id: 'scripted', object: 'model', owned_by: 'library' }] }))
      return
    }
    const body = JSON.parse(await readBody(request))
    seen.requests.push(body)
    seen.asked += 1
    const answer = reply(body)
    if (answer.status) {
      response.writeHead(answer.status, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ error: { message: REFUSAL, type: 'invalid_request_error', code: 'bad_request' } }))
      return
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    let isOpen = true
    response.on('close', () => {
      isOpen = false
      if (!response.writableEnded) seen.left += 1
    })
    const tell = (delta, finish = null, more = {}) =>
      response.write(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'scripted', choices: [{ index: 0, delta, finish_reason: finish }], ...more })}\n\n`)
    for (const word of (answer.text ?? '').split(/(?<= )/)) {
      if (!isOpen) return
      tell({ content: word })
      if (answer.isSpoken && settings.pace > 0) await new Promise((resolve) => setTimeout(resolve, settings.pace))
    }
    if (answer.call) tell({ tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: answer.call }] })
    tell({}, answer.call ? 'tool_calls' : 'stop', { usage: { prompt_tokens: answer.read ?? 120, completion_tokens: 30, total_tokens: (answer.read ?? 120) + 30 } })
    response.end('data: [DONE]\n\n')
  })
  await new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  const { port: bound } = server.address()
  return {
    settings,
    seen,
    /** The id by which a server finds its model. */
    modelId: `openai-compatible:http://127.0.0.1:${bound}/v1#scripted`,
    /** The settings file of the real server. A small model makes the decisions. The calculator requires approval. */
    toml: `model = "mock"\nsmall_model = "small"\n[models.mock]\nid = "openai-compatible:http://127.0.0.1:${bound}/v1#scripted"\n[models.small]\nid = "openai-compatible:http://127.0.0.1:${bound}/v1#decider"\n[tools.policies]\ncalculator = "ask"\n${ownGraphs(bound)}`,
    end() {
      server.close()
      server.closeAllConnections()
    },
  }
}

async function readBody(request) {
  let text = ''
  for await (const piece of request.setEncoding('utf8')) text += piece
  return text
}

function textOf(message) {
  if (typeof message?.content === 'string') return message.content
  return (message?.content ?? []).map((part) => part.text ?? '').join('')
}

function reply({ messages, response_format: format }) {
  const question = textOf(messages.findLast(({ role }) => role === 'user'))
  if (format) return { text: JSON.stringify(filled(format.json_schema?.schema ?? {}, question)) }
  const result = messages.at(-1)?.role === 'tool' ? textOf(messages.at(-1)) : null
  if (result !== null) return { text: /8\.5/.test(result) ? '남은 연차는 **8.5일**입니다.' : '계산하지 못했습니다.', isSpoken: true }
  // A question that was refused has no answer, so it is sent again in front of the next one.
  if (/REFUSE/.test(question.split('\n\n').at(-1) ?? '')) return { status: 400 }
  const wanted = /TOKENS (\d+)/.exec(question)
  if (wanted) return { text: manyWords(Number(wanted[1])), isSpoken: true }
  const read = /CONTEXT (\d+)/.exec(question)
  if (read) return { text: 'The context is large.', read: Number(read[1]), isSpoken: true }
  if (/DIAGRAM/.test(question)) return { text: DIAGRAMS, isSpoken: true }
  if (/이미지|image/i.test(question)) return { text: `그림을 ${countImages(messages)}장 받았습니다.`, isSpoken: true }
  if (/BRACKETS/.test(question)) return { text: BRACKETS, isSpoken: true }
  if (/BOMBS/.test(question)) return { text: BOMBS, isSpoken: true }
  if (/HOSTILE/.test(question)) return { text: HOSTILE, isSpoken: true }
  if (/계산/.test(question)) return { call: { name: 'calculator', arguments: '{"expression":"15 - 6.5"}' } }
  return { text: LONG, isSpoken: true }
}

/** So many words, with the Markdown that answers have. */
function manyWords(count) {
  const block = 'The **quick** brown `fox` jumps over the lazy dog and runs on.'.split(' ')
  return Array.from({ length: count }, (_, at) => `${block[at % block.length]}${at % 60 === 59 ? '\n\n' : at % 200 === 120 ? '\n\n- ' : ' '}`).join('')
}

const countImages = (messages) => messages.flatMap(({ content }) => (Array.isArray(content) ? content : [])).filter((part) => part.type === 'image_url' && part.image_url.url.startsWith('data:image/')).length

/** A value that fits a schema. Questions are routed to the agent itself. */
function filled(schema, question) {
  const value = (name, one) => {
    if (one.enum) return one.enum.includes('agent') ? 'agent' : one.enum[0]
    if (one.$ref) return value(name, schema.$defs[one.$ref.split('/').at(-1)])
    if (one.anyOf) return null
    if (one.type === 'boolean') return true
    if (one.type === 'object') return filled(one, question)
    return `왜냐하면 ${question.slice(0, 20)}`
  }
  return Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, one]) => [name, value(name, one)]))
}

// A server with scripted answers that implements the HTTP API, for behavior that the real one does not show on demand:
// connections cut inside a character, hostile output, slow streams, approvals, failures.

import { createServer } from 'node:http'
import { readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AGENTS, DOCUMENTS, DOCUMENT_TEXT, FACTS, HOSTILE, scriptFor, SEED } from './mock-data.mjs'
import { mockGraphSvg } from './mock-graph-svg.mjs'

const DIST = join(fileURLToPath(new URL('.', import.meta.url)), '../dist')
const TYPES = { '.js': 'text/javascript', '.css': 'text/css', '.html': 'text/html; charset=utf-8', '.svg': 'image/svg+xml' }
export const POLICY = [
  "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'", "font-src 'self'",
  "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
  'trusted-types doran-picture',
].join('; ')

/** Starts the server. `pace` is the time between words in milliseconds. `cut` ends a stream after that many bytes. With
 * `key`, every request needs that API key. */
export async function startMockServer({ port = 0, pace = 18, cut = 0, key = null } = {}) {
  const threads = new Map()
  const documents = new Map(DOCUMENTS.map((one) => [one.id, { ...one }]))
  const facts = new Map(FACTS.map((one) => [one.id, { ...one }]))
  const settings = { pace, cut, key, hasMemory: true, maxMessage: Infinity }
  let counter = 0
  const id = (kind) => `${kind}-${(++counter).toString(36).padStart(4, '0')}`

  const newThread = (agent, title = null, at = Date.now()) => {
    const thread = { id: id('t'), title, agent, created: at, updated: at, messages: [], runs: [] }
    threads.set(thread.id, thread)
    return thread
  }

  const startRun = (thread, agent, message, once, pace) => {
    const known = thread.runs.find((run) => run.once === once)
    if (once && known) return known
    const run = { id: id('r'), agent, once, status: 'running', started: Date.now(), ended: null, log: [], live: [], watchers: new Set(), message }
    thread.runs.push(run)
    thread.updated = Date.now()
    thread.title ??= message.slice(0, 40)
    thread.messages.push({ id: id('m'), role: 'user', text: message, run: run.id, at: Date.now() })
    tell(run, { type: 'started', agent, thread: thread.id, run: run.id })
    void play(thread, run, scriptFor(agent, message), pace)
    return run
  }

  const tell = (run, event) => {
    if (event.type !== 'delta') {
      event = { n: run.log.length + 1, at: Date.now(), ...event }
      run.log.push(event)
      if (event.type !== 'started') run.live = run.live.filter((one) => !(event.tasks ?? []).some((task) => task.node === one.node))
      if (['finished', 'failed', 'cancelled', 'paused', 'resumed'].includes(event.type)) run.live = []
    } else run.live.push(event)
    for (const watcher of [...run.watchers]) watcher(event)
  }

  const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

  async function play(thread, run, script, pace) {
    let step = 0
    for (const act of script) {
      if (run.status === 'cancelled') return
      if (act.fail) {
        run.status = 'failed'
        run.ended = Date.now()
        tell(run, { type: 'failed', code: act.fail.code, message: act.fail.message, node: act.node })
        return
      }
      const began = Date.now()
      let index = 0
      const attempt = act.attempt ?? 1
      for (const shown of act.events ?? []) {
        tell(run, { type: 'delta', node: act.node, attempt, index: index++, data: shown })
        await sleep(pace * 6)
        if (run.status === 'cancelled') return
      }
      if (act.ask) {
        run.status = 'paused'
        const answer = new Promise((resolve) => { run.answered = resolve })
        tell(run, { type: 'paused', questions: [{ id: `q-${run.id}`, node: act.node, kind: act.kind ?? 'ask', question: act.ask }] })
        const answers = await answer
        if (run.status === 'cancelled') return
        run.status = 'running'
        tell(run, { type: 'resumed', answers })
        const { approve, retry } = Object.values(answers)[0] ?? {}
        act.events = approve || retry ? act.approved : act.denied
        for (const shown of act.events) tell(run, { type: 'delta', node: act.node, attempt, index: index++, data: shown })
        await sleep(pace * 8)
      }
      if (act.again) {
        for (const word of ['이 말은 ', '무효가 ', '됩니다.']) {
          tell(run, { type: 'delta', node: act.node, attempt: 1, index: index++, text: word })
          await sleep(pace)
        }
        tell(run, { type: 'delta', node: act.node, attempt: 1, index: index++, restarted: 'timeout' })
        index = 0
      }
      for (const word of words(act.text ?? '')) {
        tell(run, { type: 'delta', node: act.node, attempt: act.again ? 2 : attempt, index: index++, text: word })
        await sleep(pace)
        if (run.status === 'cancelled') {
          run.ended = Date.now()
          return
        }
      }
      await sleep(pace * 4)
      if (run.status === 'cancelled') return
      const update = { ...(act.update ?? {}) }
      if (act.text) {
        const message = { id: id('m'), role: 'assistant', parts: [{ type: 'text', text: act.text, origin: 'model' }] }
        update.messages = [{ put: message }]
        thread.messages.push({ id: message.id, role: 'assistant', text: act.text, sources: act.sources ?? [], run: run.id, at: Date.now() })
      }
      const notes = {}
      if (act.events) notes.events = act.events
      if (act.models) notes.models = act.models
      step += 1
      const tokens = (act.models ?? []).reduce((sum, one) => [sum[0] + one.input_tokens, sum[1] + one.output_tokens], [0, 0])
      tell(run, {
        type: 'step', step,
        tasks: [{ node: act.node, ms: Date.now() - began, attempts: act.again ? 2 : 1, input_tokens: tokens[0], output_tokens: tokens[1], update, notes }],
        next: act.next,
      })
    }
    run.status = 'finished'
    run.ended = Date.now()
    thread.updated = Date.now()
    tell(run, { type: 'finished' })
  }

  for (const seed of SEED) {
    const thread = newThread(seed.agent, seed.title, Date.now() - seed.ago)
    startRun(thread, seed.agent, seed.ask, null, 0)
    setTimeout(() => { thread.updated = Date.now() - seed.ago }, 400)
  }

  const problem = (response, status, code, title, title_ko, more = {}) => {
    response.writeHead(status, { 'content-type': 'application/problem+json' })
    response.end(JSON.stringify({ type: 'about:blank', status, code, title, title_ko, ...more }))
  }
  const json = (response, value, status = 200) => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify(value))
  }

  const stream = (request, response, run, after, location) => {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store', ...(location ? { location } : {}) })
    let sent = 0
    const close = () => {
      run.watchers.delete(send)
      response.destroy()
    }
    const send = (event) => {
      const head = event.n ? `id: ${event.n}\n` : ''
      let bytes = Buffer.from(`${head}event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
      if (settings.cut > 0 && sent + bytes.length > settings.cut) {
        bytes = bytes.subarray(0, Math.max(0, settings.cut - sent))
        response.write(bytes, close)
        run.watchers.delete(send)
        return
      }
      sent += bytes.length
      response.write(bytes)
      if (['finished', 'failed', 'cancelled', 'paused'].includes(event.type) && event.n === run.log.length) {
        run.watchers.delete(send)
        response.end()
      }
    }
    for (const event of run.log.slice(after)) send(event)
    if (response.writableEnded || response.destroyed) return
    for (const event of run.live) send(event)
    // As the real server: a run that does nothing more has no events to wait for.
    if (run.status !== 'running') return response.end()
    run.watchers.add(send)
    request.on('close', () => run.watchers.delete(send))
  }

  const server = createServer(async (request, response) => {
    const url = new URL(request.url, 'http://localhost')
    const parts = url.pathname.split('/').filter(Boolean).map(decodeURIComponent)
    const { method } = request
    if (parts[0] !== 'api') return page(url.pathname, response)
    if (settings.key && request.headers.authorization !== `Bearer ${settings.key}`) {
      return problem(response, 401, 'no_key', 'an API key is required', 'API 키가 필요합니다')
    }
    const body = await new Promise((resolve) => {
      const chunks = []
      request.on('data', (chunk) => chunks.push(chunk))
      request.on('end', () => resolve(Buffer.concat(chunks)))
    })
    const input = () => JSON.parse(body.toString() || '{}')
    const [, what, one, sub, two, act] = parts
    if (what === 'agents' && !one) return json(response, { agents: AGENTS })
    if (what === 'agents' && sub === 'graph') {
      response.writeHead(200, { 'content-type': 'image/svg+xml' })
      return response.end(mockGraphSvg(one))
    }
    if (what === 'models') {
      const model = { name: 'offline-extractive-2', kind: 'extractive', ko: '문서의 문장을 그대로 찾아 인용하는 내장 모드입니다.', en: 'Built in. Finds and quotes sentences.' }
      return json(response, { active: [{ agent: 'assistant', model }], options: [{ id: model.name, model, is_default: true, added: false }], may_change: false })
    }
    if (what === 'approvals') return json(response, { questions: [] })
    if (what === 'usage') return json(response, { input_tokens: 18240, output_tokens: 2210, cost_micros: 0, by_model: [] })
    if (what === 'memory' && parts.length <= 3) return memory(method, one, url.searchParams, response)
    if (what === 'search') {
      const q = url.searchParams.get('q') ?? ''
      const hits = /휴|leave|급여/.test(q) ? [
        { passage: 'p1', document: 'd1', title: '취업규칙 › 제32조', text: '육아휴직은 자녀 1명당 1년 이내로 한다. 급여는 고용보험법이 정하는 바에 따른다.', page: 14, article: '제32조', start: 0, end: 0, score: 8.21, why: [{ term: '육아휴직', ranges: [{ start: 0, end: 12 }] }, { term: '급여', ranges: [{ start: 52, end: 58 }] }] },
        { passage: 'p2', document: 'd2', title: '복리후생 안내 › 가족', text: '<b>육아휴직</b> 중에도 단체보험은 유지된다.', page: 3, score: 4.4, why: [{ term: '육아휴직', ranges: [{ start: 3, end: 15 }] }] } ] : []
      return json(response, { hits })
    }
    if (what === 'threads' && !one) {
      if (method === 'POST') return json(response, pub(newThread(input().agent)), 201)
      const q = (url.searchParams.get('q') ?? '').toLowerCase()
      const isPinned = url.searchParams.get('pinned') === 'true'
      const list = [...threads.values()].filter((t) => !isPinned || t.pinned).filter((t) => !q || (t.title ?? '').toLowerCase().includes(q) || t.messages.some((m) => m.text.toLowerCase().includes(q)))
      return json(response, { threads: list.sort((a, b) => b.updated - a.updated).map(pub), next: null })
    }
    const thread = what === 'threads' ? threads.get(one) : null
    if (what === 'threads' && !thread) return problem(response, 404, 'not_found', 'not found', '찾을 수 없습니다')
    if (thread && !sub) {
      if (method === 'PATCH') Object.assign(thread, input())
      if (method === 'DELETE') threads.delete(one)
      return json(response, pub(thread))
    }
    if (thread && sub === 'messages') return json(response, { messages: thread.messages, decisions: [], feedback: [] })
    if (thread && sub === 'history') return json(response, { steps: thread.runs.flatMap((run, at) => run.log.filter((e) => e.type === 'step').map((e) => ({ seq: at * 1000 + e.n, parent: at * 1000 + e.n - 1, run: run.id, step: e.step, at: e.at, nodes: e.tasks.map((task) => task.node), next: e.next }))) })
    if (thread && sub === 'state') return json(response, { seq: Number(url.searchParams.get('at')), state: { messages: thread.messages.slice(0, 1 + (Number(url.searchParams.get('at')) % 4)).map((m) => ({ role: m.role, text: m.text })), route: 'rag' }, asks: url.searchParams.get('explain') ? [{ messages: [{ role: 'system', content: '당신은 문서에 근거해 답합니다. 근거가 없으면 없다고 말합니다.' }, { role: 'user', parts: [{ type: 'text', text: thread.messages[0]?.text ?? '' }] }] }] : [] })
    if (thread && sub === 'runs' && !two) {
      if (method === 'GET') return json(response, { runs: thread.runs.map(({ id: name, agent, status, started, ended }) => ({ id: name, agent, status, started, ended })) })
      if (thread.runs.some((run) => run.status === 'running' && run.once !== request.headers['idempotency-key'])) return problem(response, 409, 'thread_busy', 'the thread has a run under way', '이 대화에서 다른 실행이 진행 중입니다')
      const { agent, message } = input()
      if (message.length > settings.maxMessage) return problem(response, 413, 'too_large', 'the body is too large', '본문이 너무 큽니다')
      const run = startRun(thread, agent, message, request.headers['idempotency-key'], settings.pace)
      return stream(request, response, run, 0, `/api/threads/${thread.id}/runs/${run.id}/events`)
    }
    if (thread && sub === 'runs') {
      const run = thread.runs.find((found) => found.id === two)
      if (!run) return problem(response, 404, 'not_found', 'not found', '찾을 수 없습니다')
      if (!act) return json(response, { id: run.id, thread: thread.id, agent: run.agent, status: run.status, questions: [] })
      if (act === 'events') return stream(request, response, run, Number(request.headers['last-event-id'] || 0))
      if (act === 'cancel') {
        const said = run.live.filter((event) => event.text).map((event) => event.text).join('')
        run.status = 'cancelled'
        run.ended = Date.now()
        tell(run, { type: 'cancelled', partial: said ? { [run.live.at(-1).node]: said } : {} })
        run.answered?.({})
        return json(response, { status: 'cancelled' })
      }
      if (act === 'resume') {
        if (run.status !== 'paused') return problem(response, 409, 'conflict', 'this cannot be done in the current state', '지금 상태에서는 할 수 없습니다')
        run.answered?.(input().answers)
        return json(response, { status: 'running' })
      }
    }
    if (what === 'documents' && !one) {
      const thread = url.searchParams.get('thread')
      if (method === 'POST') {
        const name = url.searchParams.get('name') ?? 'file'
        const doc = { id: id('d'), name, title: name, kind: url.searchParams.get('kind') ?? 'general', collection: '', thread, status: 'queued', progress: 0, bytes: body.length, at: Date.now() }
        const held = [...documents.values()].find((one) => one.name === name && (one.thread ?? null) === thread)
        if (held) documents.delete(held.id)
        documents.set(doc.id, doc)
        void ingest(doc)
        return json(response, held ? { ...doc, replaced: true } : doc, 202)
      }
      return json(response, { documents: [...documents.values()].filter((one) => (one.thread ?? null) === thread) })
    }
    const doc = what === 'documents' ? documents.get(one) : null
    if (doc && sub === 'text') return json(response, { text: DOCUMENT_TEXT[one] ?? `${doc.name}\n\n${HOSTILE}`, title: doc.title, outline: [] })
    if (doc && method === 'DELETE') {
      documents.delete(one)
      return json(response, {})
    }
    if (doc && sub) {
      if (sub === 'pause') doc.status = 'paused'
      if (sub === 'cancel') doc.status = 'cancelled'
      if (sub === 'resume' || sub === 'retry') {
        doc.status = 'reading'
        void ingest(doc)
      }
      return json(response, doc)
    }
    return problem(response, 404, 'not_found', 'not found', '찾을 수 없습니다')
  })

  /** `GET /api/memory` and `DELETE /api/memory/{fact}`, as `routes/memory.rs` answers them. */
  function memory(method, fact, query, response) {
    const badInput = (parameter, detail, detail_ko) => problem(response, 400, 'bad_input', 'a value does not fit', '값이 맞지 않습니다', { parameter, detail: `\`${parameter}\`: ${detail}`, detail_ko: `\`${parameter}\`: ${detail_ko}` })
    const notFound = (detail, detail_ko) => problem(response, 404, 'not_found', 'not found', '찾을 수 없습니다', { detail, detail_ko })
    if (method !== (fact === undefined ? 'GET' : 'DELETE')) return problem(response, 405, 'method_not_allowed', 'this route does not take that method', '이 경로는 그 메서드를 받지 않습니다')
    if (!settings.hasMemory) return notFound('there is no memory here; switch it on with `memory = true` in `[tools]`', '여기에는 기억이 없습니다. `[tools]`에 `memory = true`를 적어 켜세요')
    if (fact !== undefined) {
      if (!facts.delete(fact)) return notFound(`nothing is remembered as \`${fact}\``, `\`${fact}\`(으)로 기억한 것이 없습니다`)
      response.writeHead(204)
      return response.end()
    }
    const unknown = [...query.keys()].find((name) => name !== 'q')
    if (unknown !== undefined) return badInput(unknown, 'there is no such parameter', '그런 매개변수가 없습니다')
    const q = (query.get('q') ?? '').trim()
    if (Array.from(q).length > 2000) return badInput('q', 'it has more than 2000 characters', '2000자를 넘습니다')
    const found = [...facts.values()].filter(({ text }) => q === '' || q.split(/\s+/).some((word) => text.includes(word)))
    return json(response, { facts: found.sort((left, right) => right.at - left.at || (left.id < right.id ? -1 : 1)) })
  }

  async function ingest(doc) {
    for (const [status, progress] of [['queued', 0], ['reading', 0.2], ['reading', 0.6], ['indexing', 0.8], ['ready', 1]]) {
      if (doc.status === 'paused' || doc.status === 'cancelled') return
      Object.assign(doc, { status, progress })
      await sleep(settings.pace * 30)
    }
    Object.assign(doc, { passages: 12, pages: 2 })
  }

  async function page(path, response) {
    const name = path === '/' || !extname(path) ? 'index.html' : path.slice(1)
    try {
      const bytes = await readFile(join(DIST, name))
      response.writeHead(200, { 'content-type': TYPES[extname(name)] ?? 'application/octet-stream', 'content-security-policy': POLICY, 'x-content-type-options': 'nosniff' })
      response.end(bytes)
    } catch {
      problem(response, 404, 'not_found', 'not found', '찾을 수 없습니다')
    }
  }

  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve))
  const base = `http://127.0.0.1:${server.address().port}`
  return { base, settings, threads, facts, stop: () => { server.closeAllConnections(); server.close() } }
}

const pub = ({ id, title, agent, created, updated }) => ({ id, title: title ?? '', agent, active: null, created, updated })

function words(text) {
  return text.match(text.length > 50_000 ? /[^]{1,5000}/g : /\S+\s*|\s+/g) ?? []
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const port = Number(process.argv[2] ?? 7980)
  const { base } = await startMockServer({ port })
  console.log(base)
}

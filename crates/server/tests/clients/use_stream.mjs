// LangGraph's two hooks for React in a real browser, on a page of another origin than the server:
// `node use_stream.mjs MODULES SERVER PORT [KEY]`. The page is served on PORT; `MODULES` is the folder with `node_modules`.
//
// For each hook: text streams, a question is asked and answered, a thread has branches, and a page that is loaded again goes on
// with the run that is under way. Prints a line a check.

import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const [modules, server, port, key] = process.argv.slice(2)
const from = createRequire(join(modules, 'package.json'))
const esbuild = from('esbuild')
const { chromium } = from('playwright-core')

const BROWSERS = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync']
const PATIENCE = 60_000
const TOKENS = Array.from({ length: 20 }, (_, at) => `token${at} `).join('').trim()

const built = await esbuild.build({
  entryPoints: [join(dirname(fileURLToPath(import.meta.url)), 'use_stream_page.mjs')],
  bundle: true,
  format: 'esm',
  platform: 'browser',
  write: false,
  nodePaths: [join(modules, 'node_modules')],
  define: { 'process.env.NODE_ENV': '"production"', 'process.env': '{}' },
})
const script = built.outputFiles[0].text
const html = '<!doctype html><meta charset="utf-8"><div id="root"></div><script type="module" src="/page.js"></script>'
const pages = createServer((request, response) => {
  const isScript = request.url.startsWith('/page.js')
  response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html')
  response.end(isScript ? script : html)
})
await new Promise((listens) => pages.listen(Number(port), '127.0.0.1', listens))

const executablePath = BROWSERS.find((path) => path && existsSync(path))
const browser = await chromium.launch({ executablePath, args: FLAGS })
let failed = 0

/** The parts of an open page. */
function partsOf(page) {
  const read = (id) => page.locator(`#${id}`).innerText()
  return {
    page,
    read,
    press: (id) => page.locator(`#${id}`).click(),
    /** Waits until a part fulfils a condition. */
    async until(id, holds) {
      const end = Date.now() + PATIENCE
      let seen = ''
      while (Date.now() < end) {
        seen = await read(id)
        if (holds(seen)) return seen
        await page.waitForTimeout(50)
      }
      throw new Error(`#${id} stayed ${JSON.stringify(seen)}; #state is ${await read('state')}`)
    },
    lines: async () => (await page.locator('#messages li').allInnerTexts()).map((line) => line.trim()),
  }
}

async function check(hook, graph, name, run) {
  const context = await browser.newContext()
  const page = await context.newPage()
  page.setDefaultTimeout(PATIENCE)
  const wrong = []
  page.on('pageerror', (error) => wrong.push(error.message))
  page.on('response', (response) => response.status() >= 400 && wrong.push(`${response.status()} ${response.request().method()} ${response.url()}`))
  page.on('console', (line) => /CORS/.test(line.text()) && wrong.push(line.text()))
  const query = new URLSearchParams({ hook, graph, api: server, ...(key ? { key } : {}) })
  try {
    await page.goto(`http://127.0.0.1:${port}/?${query}`)
    await run(partsOf(page))
    if (wrong.length > 0) throw new Error(wrong.join('\n'))
    console.log(`ok ${hook} ${name}`)
  } catch (error) {
    failed += 1
    console.log(`FAILED ${hook} ${name}\n${error.stack}\n${wrong.join('\n')}`)
  }
  await context.close()
}

/** Waits until the state of a thread fulfils a condition. */
async function settled(thread, holds) {
  const end = Date.now() + PATIENCE
  while (Date.now() < end) {
    const answer = await fetch(`${server}/threads/${thread}/state`, { headers: key ? { 'x-api-key': key } : {} })
    if (answer.ok && holds(await answer.json())) return
    await new Promise((later) => setTimeout(later, 50))
  }
  throw new Error(`thread ${thread} did not get there`)
}

/** Waits until the run of a thread has begun. */
const started = (thread) => settled(thread, (state) => state.next.length > 0)

const ENDED = (text) => text.includes('token19')
const isIdle = (text) => text === 'idle'

for (const hook of ['classic', 'events']) {
  await check(hook, 'chat', 'streams text', async ({ press, until, lines }) => {
    await press('send')
    await until('messages', ENDED)
    await until('state', isIdle)
    await until('values', (text) => JSON.parse(text).turn === 1)
    expect(await lines(), ['human: hi', `ai: ${TOKENS}`])
    await press('send')
    await until('values', (text) => JSON.parse(text).turn === 2)
    await until('state', isIdle)
    expect(await lines(), ['human: hi', `ai: ${TOKENS}`, 'human: hi', `ai: ${TOKENS}`])
  })

  await check(hook, 'hitl', 'asks and goes on with the answer', async ({ page, press, until, lines }) => {
    await press('send')
    await until('interrupt', (text) => JSON.parse(text)?.value?.question === 'approve?')
    await until('state', isIdle)
    // The question is still there when the page is loaded again.
    await page.reload()
    await until('interrupt', (text) => JSON.parse(text)?.value?.question === 'approve?')
    await press('resume')
    await until('messages', (text) => text.includes('you said yes'))
    await until('state', isIdle)
    await until('interrupt', (text) => JSON.parse(text) === null)
    expect(await lines(), ['human: hi', 'ai: you said yes'])
  })

  await check(hook, 'slow', 'goes on with its run when it is loaded again', async ({ page, press, until }) => {
    await press('start')
    if (hook === 'classic') await until('ticks', (count) => Number(count) >= 3)
    else await until('state', (text) => text === 'loading')
    await page.waitForURL(/thread=/)
    await started(new URL(page.url()).searchParams.get('thread'))
    await page.reload()
    await until('state', (text) => text === 'loading')
    if (hook === 'classic') await until('ticks', (count) => Number(count) >= 3)
    await until('values', (text) => JSON.parse(text).answer === 'done')
    await until('state', isIdle)
  })

  await check(hook, 'failing', 'shows why a run failed', async ({ press, until }) => {
    await press('start')
    await until('state', (text) => text.startsWith('error:') && text.includes('boom'))
  })

  await check(hook, 'slow', 'stops a run', async ({ page, press, until }) => {
    await press('start')
    await page.waitForURL(/thread=/)
    await started(new URL(page.url()).searchParams.get('thread'))
    await until('state', (text) => text === 'loading')
    await press('stop')
    await until('state', isIdle)
  })
}

await check('classic', 'chat', 'has a history and branches', async ({ press, until, lines }) => {
  await press('send')
  await until('history', (count) => Number(count) >= 5)
  await until('state', isIdle)
  await press('edit')
  await until('branches', (count) => count === '2')
  await until('state', isIdle)
  expect(await lines(), ['human: again', `ai: ${TOKENS}`])
  await press('back')
  await until('messages', (text) => text.includes('human: hi'))
  expect(await lines(), ['human: hi', `ai: ${TOKENS}`])
})

await check('classic', 'chat', 'does what agent-chat-ui does', async ({ press, until, lines }) => {
  await press('chat')
  await until('history', (count) => Number(count) >= 5)
  await until('state', isIdle)
  expect(await lines(), ['human: hi', `ai: ${TOKENS}`])
  await press('regenerate')
  await until('answers', (count) => count === '2')
  await until('state', isIdle)
  expect(await lines(), ['human: hi', `ai: ${TOKENS}`])
  await press('find')
  await until('found', (text) => text === 'true')
})

await check('events', 'chat', 'runs again from an older checkpoint', async ({ press, until, lines }) => {
  await press('send')
  await until('messages', ENDED)
  await until('state', isIdle)
  await press('look')
  await until('fork', (id) => id !== '')
  await press('edit')
  await until('messages', (text) => text.includes('human: again') && ENDED(text) && !text.includes('human: hi'))
  await until('state', isIdle)
  expect(await lines(), ['human: again', `ai: ${TOKENS}`])
})

function expect(got, wanted) {
  if (JSON.stringify(got) !== JSON.stringify(wanted)) throw new Error(`got ${JSON.stringify(got)}, wanted ${JSON.stringify(wanted)}`)
}

await browser.close()
pages.close()
process.exitCode = failed === 0 ? 0 : 1

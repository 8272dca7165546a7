// Measures how many frames a second the page shows while an answer streams: into an empty chat, into a long one, and into a long one
// with every turn shown. `node e2e/bench-frames.mjs --doran PROGRAM [--turns 500] [--tokens 2000] [--page ADDRESS] [--json]`.
//
// The times are those at which the browser asks the page for a frame. The empty chat is the comparison: what the machine cannot do there it
// cannot do in a long chat either.

import { chromium } from 'playwright-core'
import { startDoran } from './doran-process.mjs'
import { startMockModelProvider } from './mock-model-provider.mjs'
import { BROWSER_FLAGS, findBrowser } from './browser.mjs'

/** Milliseconds between tokens: about as fast as a large model writes. */
const PACE_MS = 5
const FRAME_MS = 1000 / 60
const TIMEOUT_MS = 600_000

function option(name, otherwise) {
  const at = process.argv.indexOf(`--${name}`)
  return at === -1 ? otherwise : process.argv[at + 1]
}

const program = option('doran', null)
const turns = Number(option('turns', '500'))
const tokens = Number(option('tokens', '2000'))
const executablePath = findBrowser()
if (!program || !executablePath) {
  console.error('--doran PROGRAM and a Chromium are needed')
  process.exit(2)
}

/** Fills a conversation with short turns. */
async function makeLongChat(base) {
  const post = (path, body) => fetch(`${base}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
  const { id } = await (await post('/api/threads', {})).json()
  for (let at = 1; at <= turns; at += 1) {
    const answered = await post(`/api/threads/${id}/runs?wait=true`, { agent: 'react', message: `TOKENS 40 question ${at}` })
    if (!answered.ok) throw new Error(`turn ${at}: ${answered.status} ${await answered.text()}`)
  }
  return id
}

/** Streams an answer into the page and returns the times of its frames while words came in. */
async function measure(page) {
  await page.waitForSelector('.composer textarea')
  await page.evaluate(() => {
    const times = []
    let lastLength = 0
    const look = (time) => {
      const text = document.querySelector('.turn.is-last .answer[data-status=running] .markdown')?.textContent ?? ''
      if (text.length > 0) {
        times.push({ time, isGrowing: text.length > lastLength })
        lastLength = text.length
      }
      window.__benchFrame = requestAnimationFrame(look)
    }
    window.__benchTimes = times
    window.__benchFrame = requestAnimationFrame(look)
  })
  const devtools = await page.context().newCDPSession(page)
  await devtools.send('Performance.enable', { timeDomain: 'threadTicks' })
  const busy = async () => (await devtools.send('Performance.getMetrics')).metrics.find(({ name }) => name === 'TaskDuration').value
  const before = await busy()
  await page.fill('.composer textarea', `TOKENS ${tokens} please`)
  await page.press('.composer textarea', 'Enter')
  await page.waitForSelector('.turn.is-last .answer[data-status=running] .markdown', { timeout: TIMEOUT_MS })
  await page.waitForSelector('.turn.is-last .answer[data-status=finished]', { timeout: TIMEOUT_MS })
  const worked = (await busy()) - before
  const times = await page.evaluate(() => {
    cancelAnimationFrame(window.__benchFrame)
    return window.__benchTimes.map(({ time }) => time)
  })
  const gaps = times.slice(1).map((time, at) => time - times[at]).sort((a, b) => a - b)
  const at = (share) => gaps[Math.min(gaps.length - 1, Math.floor(gaps.length * share))] ?? 0
  const seconds = ((times.at(-1) ?? 0) - (times[0] ?? 0)) / 1000
  const round = (value) => Math.round(value * 10) / 10
  return {
    seconds: round(seconds), frames: gaps.length, frames_per_second: round(gaps.length / seconds), median_ms: round(at(0.5)), p95_ms: round(at(0.95)), longest_ms: round(at(1)),
    // A frame that came so late that one or more before it were left out.
    // How long the thread of the page computed for each token. Other programs on the machine do not count.
    work_ms_per_token: Math.round((worked / tokens) * 1_000_000) / 1000,
    missed_percent: round((100 * gaps.filter((gap) => gap > FRAME_MS * 1.5).length) / gaps.length),
  }
}

const modelProvider = await startMockModelProvider()
const doranServer = await startDoran(program, modelProvider.toml)
const base = option('page', doranServer.base)
const browser = await chromium.launch({ executablePath, args: BROWSER_FLAGS })
const open = async (path) => {
  const page = await (await browser.newContext({ locale: 'en-GB', viewport: { width: 1360, height: 860 } })).newPage()
  page.setDefaultTimeout(TIMEOUT_MS)
  await page.goto(new URL(path, base).href)
  return page
}

const results = []
try {
  const long = await makeLongChat(doranServer.base)
  modelProvider.settings.pace = PACE_MS
  const run = async (name, path, prepare = async () => undefined) => {
    const page = await open(path)
    await prepare(page)
    results.push({ chat: name, ...(await measure(page)) })
    await page.context().close()
  }
  await run('empty', '/')
  await run(`${turns} turns`, `/t/${long}`, (page) => page.waitForSelector('.turn.is-last .answer-foot'))
  await run(`${turns} turns, all shown`, `/t/${long}`, async (page) => {
    await page.waitForSelector('.turn.is-last .answer-foot')
    for (const more = page.locator('.turns > .more'); await more.count() > 0;) await more.first().click()
  })
  await run('empty, again', '/')
} finally {
  await browser.close()
  await doranServer.end()
  modelProvider.end()
}
if (process.argv.includes('--json')) console.log(JSON.stringify({ turns, tokens, results }))
else {
  console.log(`${tokens} tokens, one every ${PACE_MS} ms`)
  console.log(`${'chat'.padEnd(22)} frames/s  median   p95  longest  missed  work/token`)
  for (const { chat, frames_per_second: rate, median_ms: median, p95_ms: p95, longest_ms: longest, missed_percent: missed, work_ms_per_token: work } of results) {
    console.log(`${chat.padEnd(22)} ${String(rate).padStart(8)} ${String(median).padStart(7)} ${String(p95).padStart(5)} ${String(longest).padStart(8)} ${String(missed).padStart(6)}% ${String(work).padStart(8)} ms`)
  }
}

// The page in a real browser:
// `node e2e/run.mjs [--doran PROGRAM] [--slow PROGRAM] [--base ADDRESS] [--shots FOLDER] [--only WORD]`.
//
// What any server must do is checked against the program `--doran` and a server that runs already at `--base`, and
// against the scripted server here. What takes a server that can be killed is checked against `--doran`, what takes
// one whose words come slowly against `--slow` (the example `paced`), and what takes one that misbehaves on demand
// against the scripted one.

import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { start } from './mock.mjs'
import { anywhere } from './anywhere.mjs'
import { doran } from './doran.mjs'
import { real, slow } from './real.mjs'
import { scripted } from './scripted.mjs'

const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync']
const BROWSERS = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome', '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome']

function option(name) {
  const at = process.argv.indexOf(`--${name}`)
  return at === -1 ? null : (process.argv[at + 1] ?? null)
}

function skip(en, ko) {
  console.log(`SKIPPED: ${en} / ${ko}`)
  console.log('0 passed, 0 failed, 1 skipped')
  process.exit(process.env.DORAN_REQUIRE_PARTS ? 1 : 0)
}

const executablePath = BROWSERS.find((path) => path && existsSync(path))
if (!executablePath) skip('no Chromium was found; set CHROMIUM to its path', 'Chromium을 찾지 못했습니다. CHROMIUM에 경로를 넣으세요')
const playwright = await import('playwright-core').catch(() => null)
if (!playwright) skip('run `npm ci` in crates/server/ui first', '먼저 crates/server/ui에서 `npm ci`를 실행하세요')

const base = option('base')
const shots = option('shots')
const only = option('only')
if (shots) mkdirSync(shots, { recursive: true })

const browser = await playwright.chromium.launch({ executablePath, args: FLAGS })
const tally = { passed: 0, failed: 0 }

/** Opens a page that remembers everything it should not have done. */
async function opened(address, options) {
  const context = await browser.newContext({ locale: 'ko-KR', viewport: { width: 1360, height: 860 }, ...options })
  const page = await context.newPage()
  page.setDefaultTimeout(30_000)
  const wrong = []
  page.on('pageerror', (error) => wrong.push(`error: ${error.message}`))
  page.on('console', (line) => {
    // A refused or lost request is told of by the browser; the page says it in its own words.
    if (line.type() === 'error' && !/Failed to load resource|ERR_|net::/.test(line.text())) wrong.push(line.text())
  })
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== new URL(address).origin) wrong.push(`asked another place: ${request.url()}`)
  })
  return { page, wrong, close: () => context.close() }
}

async function check(where, address, { name, options, run }, more = {}) {
  if (only && !name.includes(only)) return
  const { page, wrong, close } = await opened(address, options)
  try {
    await page.goto(address)
    const shoot = async (file) => {
      if (shots) await page.screenshot({ path: join(shots, `${file}.png`) })
    }
    await run({ page, base: address, shoot, ...more })
    if (wrong.length > 0) throw new Error(wrong.join('\n'))
    tally.passed += 1
    console.log(`ok      ${where} ${name}`)
  } catch (error) {
    tally.failed += 1
    console.log(`FAILED  ${where} ${name}\n        ${String(error.stack ?? error).split('\n').slice(0, 12).join('\n        ')}`)
    if (shots) await page.screenshot({ path: join(shots, `failed-${name.replace(/\W+/g, '-')}.png`) }).catch(() => undefined)
  } finally {
    await close()
  }
}

const house = option('doran') && (await doran(option('doran')))
if (house) for (const test of [...anywhere, ...real]) await check('doran   ', house.base, test, { house })
await house?.end()
const paced = option('slow') && (await doran(option('slow'), []))
if (paced) for (const test of slow) await check('slow    ', paced.base, test)
await paced?.end()
if (base) for (const test of anywhere) await check('server  ', base, test)
for (const test of [...anywhere, ...scripted]) {
  const server = await start({ pace: 4 })
  await check('scripted', server.base, test, { server })
  server.stop()
}
await browser.close()
console.log(`${tally.passed} passed, ${tally.failed} failed, 0 skipped`)
process.exit(tally.failed === 0 ? 0 : 1)

// The page in a real browser:
// `node e2e/run.mjs [--doran PROGRAM] [--base ADDRESS] [--shots FOLDER] [--only WORD]`.
//
// With `--doran` the real program is started, once with its built-in model and once with a vendor of models that is
// played here, and killed where that is the point. What takes a server that misbehaves on demand is checked against
// the scripted one. Without it, what any server must do is checked against the one at `--base` and the scripted one.

import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { start } from './mock.mjs'
import { anywhere } from './anywhere.mjs'
import { doran } from './doran.mjs'
import { real } from './real.mjs'
import { scripted } from './scripted.mjs'
import { slow } from './slow.mjs'
import { vendor } from './vendor.mjs'

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

/** The program with its built-in model. */
async function builtIn(program) {
  const house = await doran(program)
  for (const test of [...anywhere, ...real]) await check('built-in', house.base, test, { house })
  await house.end()
}

/** The program with a vendor whose words are ours. */
async function withVendor(program) {
  const one = await vendor()
  const house = await doran(program, one.toml)
  for (const test of slow) {
    one.settings.pace = 0
    await check('vendor  ', house.base, test, { house, vendor: one })
  }
  await house.end()
  one.end()
}

/** A server that misbehaves on demand. */
async function misbehaving(tests) {
  for (const test of tests) {
    const server = await start({ pace: 4 })
    await check('scripted', server.base, test, { server })
    server.stop()
  }
}

const program = option('doran')
if (program) {
  // Side by side: most of the time is spent waiting for words.
  await Promise.all([builtIn(program), withVendor(program).then(() => misbehaving(scripted))])
} else {
  if (base) for (const test of anywhere) await check('server  ', base, test)
  await misbehaving([...anywhere, ...scripted])
}
await browser.close()
console.log(`${tally.passed} passed, ${tally.failed} failed, 0 skipped`)
process.exit(tally.failed === 0 ? 0 : 1)

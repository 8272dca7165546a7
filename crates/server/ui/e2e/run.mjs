// Tests the page in a real browser:
// `node e2e/run.mjs [--doran PROGRAM] [--base ADDRESS] [--shots FOLDER] [--only WORD]`.
//
// With `--doran` the real program is started twice: with its built-in model and with a mock model provider. Tests that need
// a misbehaving server use the mock server. Without `--doran`, the tests for any server run against the server at `--base`
// and the mock server.

import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { startMockServer } from './mock-server.mjs'
import { anyServerTests } from './any-server.mjs'
import { startDoran } from './doran-process.mjs'
import { builtInModelTests } from './built-in-model.mjs'
import { misbehavingServerTests } from './misbehaving-server.mjs'
import { modelProviderTests } from './model-provider.mjs'
import { startMockModelProvider } from './mock-model-provider.mjs'

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

/** Opens a page and records errors and requests to other hosts. */
async function openPage(address, options) {
  const context = await browser.newContext({ locale: 'ko-KR', viewport: { width: 1360, height: 860 }, ...options })
  const page = await context.newPage()
  page.setDefaultTimeout(30_000)
  const wrong = []
  page.on('pageerror', (error) => wrong.push(`error: ${error.message}`))
  page.on('console', (line) => {
    // The browser logs failed requests. The page reports them in its own texts.
    if (line.type() === 'error' && !/Failed to load resource|ERR_|net::/.test(line.text())) wrong.push(line.text())
  })
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== new URL(address).origin) wrong.push(`requested another host: ${request.url()}`)
  })
  return { page, wrong, close: () => context.close() }
}

async function check(where, address, { name, options, run }, more = {}) {
  if (only && !name.includes(only)) return
  const { page, wrong, close } = await openPage(address, options)
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

/** The real program with its built-in model. */
async function withBuiltInModel(program) {
  const doranServer = await startDoran(program)
  for (const test of [...anyServerTests, ...builtInModelTests]) await check('built-in', doranServer.base, test, { doranServer })
  await doranServer.end()
}

/** The real program with the mock model provider. */
async function withModelProvider(program) {
  const modelProvider = await startMockModelProvider()
  const doranServer = await startDoran(program, modelProvider.toml)
  for (const test of modelProviderTests) {
    modelProvider.settings.pace = 0
    await check('provider', doranServer.base, test, { doranServer, modelProvider })
  }
  await doranServer.end()
  modelProvider.end()
}

/** The mock server, started anew for each test. */
async function withMockServer(tests) {
  for (const test of tests) {
    const server = await startMockServer({ pace: 4 })
    await check('mock    ', server.base, test, { server })
    server.stop()
  }
}

const program = option('doran')
if (program) {
  // In parallel: most of the time is spent waiting for answers.
  await Promise.all([withBuiltInModel(program), withModelProvider(program).then(() => withMockServer(misbehavingServerTests))])
} else {
  if (base) for (const test of anyServerTests) await check('server  ', base, test)
  await withMockServer([...anyServerTests, ...misbehavingServerTests])
}
await browser.close()
console.log(`${tally.passed} passed, ${tally.failed} failed, 0 skipped`)
process.exit(tally.failed === 0 ? 0 : 1)

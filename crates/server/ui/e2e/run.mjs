// Tests the page in a real browser:
// `node e2e/run.mjs [--doran PROGRAM] [--graphs PROGRAM] [--base ADDRESS] [--shots FOLDER] [--only WORD]`.
//
// With `--doran` the real program is started: with its built-in model, with a mock model provider, empty for a new user, and with a budget. With `--graphs`
// the program of a user is started, which serves graphs of its own. Tests that need
// a misbehaving server use the mock server. Without `--doran`, the tests for any server run against the server at `--base`
// and the mock server.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { BROWSER_FLAGS, findBrowser } from './browser.mjs'
import { startMockServer } from './mock-server.mjs'
import { anyServerTests } from './any-server.mjs'
import { startDoran } from './doran-process.mjs'
import { agentMenuTests } from './agent-menus.mjs'
import { attachmentTests } from './attachments.mjs'
import { builtInModelTests } from './built-in-model.mjs'
import { misbehavingServerTests } from './misbehaving-server.mjs'
import { budgetSettings, budgetTests } from './budget.mjs'
import { evalTests } from './evals.mjs'
import { memoryTests } from './memory.mjs'
import { modelProviderTests } from './model-provider.mjs'
import { NEW_USER_SETTINGS, newUserTasks } from './new-user-tasks.mjs'
import { otherTabTests } from './other-tabs.mjs'
import { ownGraphTests, startOwnGraphs } from './own-graphs.mjs'
import { phoneTests } from './phone.mjs'
import { startMockModelProvider } from './mock-model-provider.mjs'

function option(name) {
  const at = process.argv.indexOf(`--${name}`)
  return at === -1 ? null : (process.argv[at + 1] ?? null)
}

function skip(en, ko) {
  console.log(`SKIPPED: ${en} / ${ko}`)
  console.log('0 passed, 0 failed, 1 skipped')
  process.exit(process.env.DORAN_REQUIRE_PARTS ? 1 : 0)
}

const executablePath = findBrowser()
if (!executablePath) skip('no Chromium was found; set CHROMIUM to its path', 'Chromium을 찾지 못했습니다. CHROMIUM에 경로를 넣으세요')
const playwright = await import('playwright-core').catch(() => null)
if (!playwright) skip('run `npm ci` in crates/server/ui first', '먼저 crates/server/ui에서 `npm ci`를 실행하세요')

const base = option('base')
const shots = option('shots')
const only = option('only')
if (shots) mkdirSync(shots, { recursive: true })

const browser = await playwright.chromium.launch({ executablePath, args: BROWSER_FLAGS })
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

/** Runs a test in a page of its own. Returns what went wrong, or null. */
async function attempt(address, { name, options, run }, more) {
  const { page, wrong, close } = await openPage(address, options)
  try {
    await page.goto(address)
    const shoot = async (file) => {
      if (shots) await page.screenshot({ path: join(shots, `${file}.png`) })
    }
    await run({ page, base: address, shoot, ...more })
    if (wrong.length > 0) throw new Error(wrong.join('\n'))
    return null
  } catch (error) {
    if (shots) await page.screenshot({ path: join(shots, `failed-${name.replace(/\W+/g, '-')}.png`) }).catch(() => undefined)
    return String(error.stack ?? error).split('\n').slice(0, 12).join('\n        ')
  } finally {
    await close()
  }
}

/** Runs a test. One that fails runs again, at the address that `again` gives; if it passes then, it is reported as unstable and counts as
 * passed. */
async function check(where, address, test, more = {}, again = async () => address) {
  if (only && !test.name.includes(only)) return
  const first = await attempt(address, test, more)
  const second = first === null ? null : await attempt(await again(), test, more)
  if (second === null) tally.passed += 1
  else tally.failed += 1
  if (first === null) console.log(`ok      ${where} ${test.name}`)
  else if (second === null) console.log(`UNSTABLE ${where} ${test.name} failed and then passed\n        ${first}`)
  else console.log(`FAILED  ${where} ${test.name}\n        ${first}`)
}

/** The real program with its built-in model. */
async function withBuiltInModel(program) {
  const doranServer = await startDoran(program)
  for (const test of [...anyServerTests, ...attachmentTests, ...builtInModelTests]) await check('built-in', doranServer.base, test, { doranServer })
  await doranServer.end()
}

/** The real program with the mock model provider. */
async function withModelProvider(program) {
  const modelProvider = await startMockModelProvider()
  const doranServer = await startDoran(program, modelProvider.toml)
  for (const test of [...modelProviderTests, ...evalTests, ...phoneTests, ...agentMenuTests]) {
    modelProvider.settings.pace = 0
    await check('provider', doranServer.base, test, { doranServer, modelProvider })
  }
  await doranServer.end()
  modelProvider.end()
}

/** The real program as a new user finds it, and a model that can be connected. */
async function withNewUser(program) {
  const modelProvider = await startMockModelProvider()
  const doranServer = await startDoran(program, NEW_USER_SETTINGS)
  for (const test of newUserTasks) {
    modelProvider.settings.pace = 0
    await check('new user', doranServer.base, test, { doranServer, modelProvider })
  }
  await doranServer.end()
  modelProvider.end()
}

/** The real program with a model that costs money, and little of it. */
async function withBudget(program) {
  const modelProvider = await startMockModelProvider()
  let doranServer = null
  // What was spent stays spent.
  const startAnew = async () => {
    await doranServer?.end()
    doranServer = await startDoran(program, budgetSettings(modelProvider))
    return doranServer.base
  }
  for (const test of budgetTests) await check('budget  ', await startAnew(), test, {}, startAnew)
  await doranServer?.end()
  modelProvider.end()
}

/** Graphs that a user wrote in Rust. */
async function withOwnGraphs(graphs) {
  if (graphs === null) return
  const server = await startOwnGraphs(graphs)
  for (const test of ownGraphTests) await check('graphs  ', server.base, test)
  await server.end()
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
  await Promise.all([withBuiltInModel(program).then(() => withNewUser(program)).then(() => withBudget(program)), withModelProvider(program).then(() => withOwnGraphs(option('graphs'))).then(() => withMockServer([...misbehavingServerTests, ...otherTabTests, ...memoryTests]))])
} else {
  if (base) for (const test of anyServerTests) await check('server  ', base, test)
  await withMockServer([...anyServerTests, ...misbehavingServerTests, ...otherTabTests, ...memoryTests])
}
await browser.close()
console.log(`${tally.passed} passed, ${tally.failed} failed, 0 skipped`)
process.exit(tally.failed === 0 ? 0 : 1)

// Tests with graphs that a user wrote in Rust: the program `examples/four_graphs.rs`, which serves them with the page.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createServer } from 'node:net'
import { askQuestion, checkAccessibility, checkNoHorizontalScroll, PHONE, waitForAnswer, waitUntilReady } from './page-actions.mjs'

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })
}

/** Starts the program of a user. */
export async function startOwnGraphs(program) {
  const port = await freePort()
  const child = spawn(program, ['--port', String(port)], { stdio: 'ignore' })
  const base = `http://127.0.0.1:${port}`
  for (let at = 0; ; at++) {
    const isUp = await fetch(`${base}/healthz`).then(({ ok }) => ok, () => false)
    if (isUp) break
    if (child.exitCode !== null || at > 600) throw new Error(`the graphs of ${program} are not served`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return {
    base,
    end: () => new Promise((resolve) => {
      child.once('exit', resolve)
      child.kill('SIGKILL')
    }),
  }
}

export const ownGraphTests = [
  {
    name: 'a graph of the user stops before a node, its state is changed, it goes on, and both runs are compared',
    options: { locale: 'en-GB' },
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await page.locator('.agent', { hasText: 'chat' }).click()
      await page.keyboard.press('Control+i')
      await page.click('.breakpoints summary')
      await page.check('[aria-label="model: before"]')
      await askQuestion(page, 'Hello')
      await page.locator('.approval', { hasText: 'Paused before model' }).waitFor()
      await shoot('rust-graph-paused')
      await checkAccessibility(page, 'a graph that is paused')
      await page.click('.approval .primary')
      await waitForAnswer(page)
      await page.uncheck('[aria-label="model: before"]')
      const first = new URL(page.url()).pathname
      await page.locator('.timeline li > button', { hasText: 'prepare' }).click()
      await page.click('.step [role=tab] >> text=State')
      await page.click('.step button >> text=Edit the state')
      const state = JSON.parse(await page.inputValue('.state-editor textarea'))
      assert.equal(state.turn, 1)
      await page.fill('.state-editor textarea', JSON.stringify({ ...state, turn: 41 }))
      await page.click('.state-editor .primary')
      await page.waitForURL((url) => url.pathname !== first && url.pathname.startsWith('/t/'))
      await waitForAnswer(page)
      await page.click('.inspector [title="Compare with another run"]')
      await page.waitForFunction(() => document.querySelectorAll('.comparison option').length > 1)
      await page.selectOption('.comparison select', { index: 1 })
      await page.locator('.comparison .diff li', { hasText: /turn.*41/s }).waitFor()
      await shoot('rust-graph-compared')
    },
  },
  {
    name: 'the state of a paused run is changed where the pause is shown, in the chat and in the inbox, and the run continues with it',
    options: { locale: 'ko-KR', ...PHONE },
    async run({ page, base, shoot }) {
      const pause = async (thread) => {
        const body = JSON.stringify({ agent: 'chat', message: '안녕하세요', pause_before: ['model'] })
        const run = await (await fetch(`${base}/api/threads/${thread}/runs?wait=true`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })).json()
        assert.equal(run.status, 'paused', JSON.stringify(run))
      }
      const edit = async (card, turn) => {
        await card.locator('button', { hasText: '상태 수정' }).click()
        const field = card.locator('textarea')
        await field.waitFor()
        const state = JSON.parse(await field.inputValue())
        assert.equal(state.turn, 1)
        await field.fill('{"turn": ')
        await card.locator('[role=alert]', { hasText: 'JSON 객체가 아닙니다' }).waitFor()
        assert.ok(await card.locator('.primary').isDisabled())
        await field.fill(JSON.stringify({ ...state, nobody: 1 }))
        await card.locator('.primary').click()
        await card.locator('.problem', { hasText: '상태에 맞지 않습니다' }).waitFor()
        await field.fill(JSON.stringify({ ...state, turn }, null, 2))
      }
      const turnOf = async (thread) => (await (await fetch(`${base}/api/threads/${thread}/state?agent=chat`)).json()).state.turn
      const runsOf = async (thread) => (await (await fetch(`${base}/api/threads/${thread}/runs`)).json()).runs.map(({ status }) => status)
      const [inChat, inInbox] = ['chat', 'inbox'].map((place) => `edited-in-${place}-${Date.now()}`)
      await pause(inChat)
      await page.goto(`${base}/t/${inChat}`)
      const card = page.locator('.approval', { hasText: 'model' })
      await edit(card, 41)
      await shoot('paused-state-phone')
      await checkNoHorizontalScroll(page)
      await checkAccessibility(page, 'the state of a paused run')
      await card.locator('.primary').click()
      await waitForAnswer(page)
      assert.equal(await turnOf(inChat), 41)
      assert.deepEqual(await runsOf(inChat), ['finished'], 'it is the same run')
      await pause(inInbox)
      await page.goto(`${base}/inbox`)
      const waiting = page.locator('.waiting-run .approval', { hasText: 'model' })
      await edit(waiting, 7)
      await shoot('inbox-state-phone')
      await waiting.locator('.primary').click()
      await waiting.waitFor({ state: 'detached' })
      for (let at = 0; (await runsOf(inInbox))[0] !== 'finished'; at++) {
        assert.ok(at < 600, 'the run does not continue')
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
      assert.equal(await turnOf(inInbox), 7)
    },
  },
  {
    name: 'a thread of a client of LangGraph is listed by its first question',
    options: { locale: 'en-GB' },
    async run({ page, base }) {
      const post = async (path, body) => (await fetch(`${base}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })).json()
      const question = `How far is the moon? ${Date.now()}`
      const { thread_id: thread } = await post('/threads', {})
      await post(`/threads/${thread}/runs/wait`, { assistant_id: 'chat', input: { messages: [{ role: 'user', content: question }] } })
      await page.goto(`${base}/t/${thread}`)
      await page.locator('.thread.is-open', { hasText: question }).waitFor()
      await page.waitForFunction((words) => document.title.startsWith(words), question)
    },
  },
  {
    name: 'a graph that is no chat takes an input and shows its steps and its state',
    options: { locale: 'ko-KR', colorScheme: 'dark' },
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await page.locator('.agent', { hasText: 'slow' }).click()
      await page.fill('.composer textarea', 'not json')
      await page.press('.composer textarea', 'Enter')
      await page.waitForSelector('.dock .problem')
      await askQuestion(page, '{}')
      await page.waitForSelector('.turn.is-last .answer[data-status=finished]')
      await page.locator('.graph-steps code', { hasText: 'tick' }).waitFor()
      await page.locator('.graph-result .tree-string', { hasText: 'done' }).waitFor()
      await shoot('rust-graph-state')
      await checkAccessibility(page, 'the state of a graph')
      // One that fails says which node did and why.
      await page.click('.sidebar .new')
      await page.locator('.agent', { hasText: 'failing' }).click()
      await askQuestion(page, '{}')
      await page.locator('.card.problem', { hasText: 'boom' }).waitFor()
      assert.match((await page.textContent('.card.problem')) ?? '', /fail/)
      await shoot('rust-graph-failed')
    },
  },
]

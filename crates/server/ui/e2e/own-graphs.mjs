// Tests with graphs that a user wrote in Rust: the program `examples/four_graphs.rs`, which serves them with the page.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createServer } from 'node:net'
import { askQuestion, checkAccessibility, waitForAnswer, waitUntilReady } from './page-actions.mjs'

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

// What the page must do with the real program and its built-in model: every agent, a crash, a document from upload to
// quote.

import assert from 'node:assert/strict'
import { accessible, answerText, ask, finished, ready } from './steps.mjs'

const LOOKS = [
  { locale: 'ko-KR', colorScheme: 'light' },
  { locale: 'en-GB', colorScheme: 'dark' },
  { locale: 'ko-KR', colorScheme: 'dark' },
  { locale: 'en-GB', colorScheme: 'light' },
]

const agents = ['assistant', 'contract', 'react', 'docqa'].map((agent, at) => ({
  name: `${agent} answers every question that it proposes`,
  options: LOOKS[at],
  async run({ page, base, shoot }) {
    const { agents } = await (await fetch(`${base}/api/agents`)).json()
    const one = agents.findIndex(({ id }) => id === agent)
    assert.notEqual(one, -1, `there is no agent ${agent}`)
    await ready(page)
    await page.click(`.agent >> nth=${one}`)
    const [first, ...others] = agents[one].starters[LOOKS[at].locale.slice(0, 2)]
    for (const question of [...others, first]) {
      await page.click('.sidebar .new')
      await page.click(`.agent >> nth=${one}`)
      await page.click(`.starters button:has-text(${JSON.stringify(question)})`)
      await finished(page)
      const said = await answerText(page)
      assert.ok(said.trim().length > 0, `no answer: ${question}`)
      assert.doesNotMatch(said, /찾지 못했|did not find|본보기/, question)
      assert.equal(await page.locator('.card.problem').count(), 0)
    }
    await page.keyboard.press('Control+i')
    await page.waitForSelector('.graph-frame svg .is-done')
    await shoot(`agent-${agent}`)
    await accessible(page, agent)
    await page.reload()
    await finished(page)
    assert.equal(await page.locator('.turn').count(), 1)
  },
}))

export const real = [
  ...agents,
  ...['light', 'dark'].map((colorScheme) => ({
    name: `the page to try the interface on is ${colorScheme} and can be read`,
    options: { locale: 'en-GB', colorScheme },
    async run({ page, base, shoot }) {
      await page.goto(`${base}/docs`)
      await page.click('summary >> nth=0')
      await page.waitForSelector('details[open] button')
      const paper = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
      assert.equal(paper, colorScheme === 'dark' ? 'rgb(20, 24, 22)' : 'rgb(255, 255, 255)')
      await shoot(`docs-${colorScheme}`)
      await accessible(page, 'docs')
    },
  })),
  {
    name: 'a server that is killed and started again finishes what it was asked, once',
    async run({ page, house, shoot }) {
      let turns = 0
      await ready(page)
      for (const wait of [0, 20, 100]) {
        await ask(page, '연차휴가는 며칠인가요?')
        turns += 1
        await page.waitForFunction((count) => document.querySelectorAll('.turn').length === count, turns)
        await page.waitForURL(/\/t\//)
        // Whether the request came through is for the page to find out.
        await page.waitForTimeout(wait)
        await house.kill()
        if (wait === 0) await shoot('server-away')
        await house.start()
        await finished(page)
        assert.equal(await page.locator('.turn').count(), turns)
        assert.equal(await page.locator('.bubble').count(), turns)
        assert.match(await answerText(page), /15일/)
      }
      const thread = decodeURIComponent(new URL(page.url()).pathname.slice(3))
      const { runs } = await (await fetch(`${house.base}/api/threads/${encodeURIComponent(thread)}/runs`)).json()
      assert.deepEqual(runs.map(({ status }) => status), Array(turns).fill('finished'))
      await page.reload()
      await finished(page)
      assert.equal(await page.locator('.turn').count(), turns)
    },
  },
  {
    name: 'a document goes from upload to a quote that is marked in it',
    async run({ page, base, shoot }) {
      await ready(page)
      await page.click('a.place')
      const name = '주차 규정.md'
      const text = '# 주차 규정\n\n제1조(목적) 이 규정은 주차장 이용을 정한다.\n\n제2조(요금) 방문객의 주차 요금은 한 시간에 삼천원으로 한다.\n'
      await page.setInputFiles('input[type=file]', { name, mimeType: 'text/markdown', buffer: Buffer.from(text) })
      await page.locator('.doc.is-ready', { hasText: name }).waitFor()
      await page.goto(base)
      await ready(page)
      await ask(page, '방문객의 주차 요금은 얼마인가요?')
      await finished(page)
      assert.match(await answerText(page), /삼천원/)
      await page.click('.source >> nth=0')
      await page.waitForSelector('.document-text mark')
      const marked = (await page.locator('.document-text mark').allTextContents()).join('')
      assert.ok(text.replace(/^# /, '').includes(marked.trim()), `the mark is not in the document: ${marked}`)
      assert.match(marked, /삼천원/)
      await shoot('uploaded-quote')
      await accessible(page, 'source')
    },
  },
  {
    name: 'a fork from a step answers anew in a conversation of its own',
    async run({ page, base, shoot }) {
      await ready(page)
      await ask(page, '연차휴가는 며칠인가요?')
      await finished(page)
      const source = page.url()
      await page.keyboard.press('Control+i')
      await page.click('.timeline li:nth-child(2) button')
      await page.waitForSelector('.step-acts button')
      await shoot('fork-step')
      await accessible(page, 'an opened step')
      await page.click('.step-acts button')
      await page.waitForURL((url) => url.href !== source && url.pathname.startsWith('/t/'))
      await finished(page)
      assert.equal(await page.locator('.turn').count(), 1)
      assert.equal(await page.locator('.bubble').count(), 1)
      assert.match(await answerText(page), /15일/)
      const nodes = await page.locator('.timeline .row-node').allTextContents()
      assert.ok(!nodes.includes('router') && nodes.includes('agent'), nodes.join())
      await page.locator('.thread', { hasText: '(갈래)' }).first().waitFor()
      await shoot('forked')
      await page.reload()
      await finished(page)
      assert.equal(await page.locator('.turn').count(), 1)
      assert.equal(await page.locator('.card.problem').count(), 0)
      await page.goto(source)
      await finished(page)
      assert.equal(await page.locator('.turn').count(), 1)
      const { threads } = await (await fetch(`${base}/api/threads?q=${encodeURIComponent('갈래')}`)).json()
      assert.equal(threads.length, 1)
    },
  },
  ...[['en-GB', 'When are invoices due?'], ['ko-KR', '계약을 해지하려면 며칠 전에 알려야 하나요?']].map(([locale, question]) => ({
    // The pictures in README.md and README.ko.md are these.
    name: `the picture of the page, ${locale}`,
    options: { locale, colorScheme: 'light', viewport: { width: 1280, height: 760 } },
    async run({ page, base, shoot }) {
      const { agents } = await (await fetch(`${base}/api/agents`)).json()
      await ready(page)
      await page.click(`.agent >> nth=${agents.findIndex(({ id }) => id === 'contract')}`)
      await ask(page, question)
      await finished(page)
      await page.keyboard.press('Control+i')
      await page.waitForSelector('.graph-frame svg .is-done')
      await shoot(`readme-${locale.slice(0, 2)}`)
      assert.ok(await page.locator('.source').count(), 'no source')
    },
  })),
]

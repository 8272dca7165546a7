// Tests with the real program and its built-in model: every agent, crashes, and a document from upload to quote.

import assert from 'node:assert/strict'
import { checkAccessibility, answerText, askQuestion, waitForAnswer, checkNoHorizontalScroll, waitUntilReady } from './page-actions.mjs'

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
    await waitUntilReady(page)
    await page.click(`.agent >> nth=${one}`)
    const [first, ...others] = agents[one].starters[LOOKS[at].locale.slice(0, 2)]
    for (const question of [...others, first]) {
      await page.click('.sidebar .new')
      await page.click(`.agent >> nth=${one}`)
      await page.click(`.starters button:has-text(${JSON.stringify(question)})`)
      await waitForAnswer(page)
      const said = await answerText(page)
      assert.ok(said.trim().length > 0, `no answer: ${question}`)
      assert.doesNotMatch(said, /찾지 못했|did not find|본보기/, question)
      assert.equal(await page.locator('.card.problem').count(), 0)
    }
    await page.keyboard.press('Control+i')
    await page.waitForSelector('.graph-frame svg .is-done')
    await shoot(`agent-${agent}`)
    await checkAccessibility(page, agent)
    await page.reload()
    await waitForAnswer(page)
    assert.equal(await page.locator('.turn').count(), 1)
  },
}))

/** Deletes a document and waits until the sample documents are searched again, for the tests that follow. */
async function restoreSamples(base, name) {
  const read = async () => (await fetch(`${base}/api/documents`)).json()
  const { documents } = await read()
  for (const { id } of documents.filter((one) => one.name === name)) await fetch(`${base}/api/documents/${id}`, { method: 'DELETE' })
  for (let at = 0; !((await read()).samples > 0); at++) {
    assert.ok(at < 300, 'the samples did not come back')
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

export const builtInModelTests = [
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
      await page.setViewportSize({ width: 360, height: 780 })
      for (const one of await page.locator('summary').all()) await one.evaluate((line) => { line.parentElement.open = true })
      await checkNoHorizontalScroll(page)
      await shoot(`docs-${colorScheme}-narrow`)
      await checkAccessibility(page, 'docs')
    },
  })),
  {
    name: 'a server that is killed and started again finishes what it was asked, once',
    async run({ page, doranServer, shoot }) {
      let turns = 0
      await waitUntilReady(page)
      for (const wait of [0, 20, 100]) {
        await askQuestion(page, '연차휴가는 며칠인가요?')
        turns += 1
        await page.waitForFunction((count) => document.querySelectorAll('.turn').length === count, turns)
        await page.waitForURL(/\/t\//)
        // The page has to find out whether the request arrived.
        await page.waitForTimeout(wait)
        await doranServer.kill()
        if (wait === 0) await shoot('server-away')
        await doranServer.start()
        await waitForAnswer(page)
        assert.equal(await page.locator('.turn').count(), turns)
        assert.equal(await page.locator('.bubble').count(), turns)
        assert.match(await answerText(page), /15일/)
      }
      const thread = decodeURIComponent(new URL(page.url()).pathname.slice(3))
      const { runs } = await (await fetch(`${doranServer.base}/api/threads/${encodeURIComponent(thread)}/runs`)).json()
      assert.deepEqual(runs.map(({ status }) => status), Array(turns).fill('finished'))
      await page.reload()
      await waitForAnswer(page)
      assert.equal(await page.locator('.turn').count(), turns)
    },
  },
  {
    name: 'a question that was not sent says so, outlives its tab and is asked once',
    async run({ page, doranServer, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, '연차휴가는 며칠인가요?')
      await waitForAnswer(page)
      const { href } = new URL(page.url())
      await doranServer.kill()
      await askQuestion(page, '재택근무는 며칠까지 되나요?')
      const note = page.locator('.note.is-live')
      await note.waitFor()
      assert.match((await note.textContent()) ?? '', /아직 보내지 못했습니다/)
      assert.doesNotMatch((await page.textContent('.turn.is-last .answer')) ?? '', /처리 중|서버에서 계속/)
      await shoot('unsent')
      await checkAccessibility(page, 'an unsent question')
      const context = page.context()
      await page.close()
      await doranServer.start()
      const again = await context.newPage()
      await again.goto(href)
      await again.waitForFunction(() => document.querySelectorAll('.bubble').length === 2)
      await waitForAnswer(again)
      assert.match((await again.locator('.bubble').last().textContent()) ?? '', /재택근무/)
      const kept = await again.evaluate(() => Object.keys(localStorage).filter((name) => name.startsWith('doran.unsent.')))
      assert.deepEqual(kept, [])
      await again.reload()
      await waitForAnswer(again)
      assert.equal(await again.locator('.turn').count(), 2)
      // A withdrawn question returns to the box.
      await doranServer.kill()
      await askQuestion(again, '셋째 질문')
      await again.locator('.note.is-live').waitFor()
      await again.click('.round.stop')
      await again.waitForFunction(() => document.querySelectorAll('.turn').length === 2)
      assert.equal(await again.inputValue('.composer textarea'), '셋째 질문')
      await doranServer.start()
      await again.reload()
      await waitForAnswer(again)
      assert.equal(await again.locator('.turn').count(), 2)
      assert.equal(await again.inputValue('.composer textarea'), '셋째 질문', 'what is being written outlives a reload')
    },
  },
  {
    name: 'two tabs on one conversation show the same turns',
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, '연차휴가는 며칠인가요?')
      await waitForAnswer(page)
      const other = await page.context().newPage()
      await other.goto(page.url())
      await waitForAnswer(other)
      const turns = (count) => page.waitForFunction((n) => document.querySelectorAll('.turn').length === n, count)
      await askQuestion(other, '123 * 456 계산해줘')
      await other.waitForFunction(() => document.querySelectorAll('.turn').length === 2)
      await waitForAnswer(other)
      // The user returns to the first tab.
      await page.evaluate(() => dispatchEvent(new Event('focus')))
      await turns(2)
      await waitForAnswer(page)
      assert.match(await answerText(page), /56,?088/)
      await askQuestion(other, '2 * 3 계산해줘')
      await other.waitForFunction(() => document.querySelectorAll('.turn').length === 3)
      await waitForAnswer(other)
      // The first tab had no focus in the meantime.
      await askQuestion(page, '4 * 5 계산해줘')
      await turns(4)
      await waitForAnswer(page)
      const asked = await page.locator('.bubble').allTextContents()
      assert.deepEqual(asked.map((text) => /(연차|123|2 \*|4 \*)/.exec(text)?.[1]), ['연차', '123', '2 *', '4 *'])
      await shoot('two-tabs')
      await page.reload()
      await waitForAnswer(page)
      assert.deepEqual(await page.locator('.bubble').allTextContents(), asked)
    },
  },
  {
    name: 'the samples give way to a document, and what they answered stays open',
    async run({ page, base, doranServer, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, '육아휴직은 얼마나 쓸 수 있나요?')
      await waitForAnswer(page)
      const { href } = new URL(page.url())
      await page.click('a.place')
      await page.waitForSelector('.drop')
      const name = `점심규정${'가나다라마바사'.repeat(8)}.md`
      await page.setInputFiles('input[type=file]', { name, mimeType: 'text/markdown', buffer: Buffer.from('# 점심 규정\n\n점심시간은 열두 시부터이다.\n') })
      await page.locator('.doc.is-ready', { hasText: name }).waitFor()
      await page.locator('.note', { hasText: '예시 문서는 더 이상 검색하지 않지만' }).waitFor()
      await page.setViewportSize({ width: 360, height: 780 })
      await checkNoHorizontalScroll(page)
      const [title, remove] = await Promise.all([page.locator('.doc .doc-name').boundingBox(), page.locator('.doc button').last().boundingBox()])
      assert.ok(title.x + title.width <= remove.x, 'the name runs under the button')
      await shoot('samples-gave-way')
      await page.setViewportSize({ width: 1360, height: 860 })
      await doranServer.kill()
      await doranServer.start()
      await page.goto(base)
      await waitUntilReady(page)
      await page.waitForFunction(() => document.querySelectorAll('.starters li').length === 2)
      assert.doesNotMatch((await page.textContent('.starters')) ?? '', /육아휴직/)
      await shoot('welcome-own-documents')
      await page.goto(href)
      await waitForAnswer(page)
      await page.click('.source >> nth=0')
      await page.waitForSelector('.document-text mark')
      await restoreSamples(base, name)
    },
  },
  {
    name: 'a document goes from upload to a quote that is marked in it',
    async run({ page, base, shoot }) {
      await waitUntilReady(page)
      await page.click('a.place')
      const name = '주차 규정.md'
      const text = '# 주차 규정\n\n제1조(목적) 이 규정은 주차장 이용을 정한다.\n\n제2조(요금) 방문객의 주차 요금은 한 시간에 삼천원으로 한다.\n'
      await page.setInputFiles('input[type=file]', { name, mimeType: 'text/markdown', buffer: Buffer.from(text) })
      await page.locator('.doc.is-ready', { hasText: name }).waitFor()
      await page.goto(base)
      await waitUntilReady(page)
      await askQuestion(page, '방문객의 주차 요금은 얼마인가요?')
      await waitForAnswer(page)
      assert.match(await answerText(page), /삼천원/)
      await page.click('.source >> nth=0')
      await page.waitForSelector('.document-text mark')
      const marked = (await page.locator('.document-text mark').allTextContents()).join('')
      assert.ok(text.replace(/^# /, '').includes(marked.trim()), `the mark is not in the document: ${marked}`)
      assert.match(marked, /삼천원/)
      await shoot('uploaded-quote')
      await checkAccessibility(page, 'source')
      await restoreSamples(base, name)
    },
  },
  {
    name: 'a fork from a step answers anew in a conversation of its own',
    async run({ page, base, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, '연차휴가는 며칠인가요?')
      await waitForAnswer(page)
      const source = page.url()
      await page.keyboard.press('Control+i')
      await page.click('.timeline li:nth-child(2) button')
      await page.waitForSelector('.step-acts button')
      await shoot('fork-step')
      await checkAccessibility(page, 'an opened step')
      await page.click('.step-acts button')
      await page.waitForURL((url) => url.href !== source && url.pathname.startsWith('/t/'))
      await waitForAnswer(page)
      assert.equal(await page.locator('.turn').count(), 1)
      assert.equal(await page.locator('.bubble').count(), 1)
      assert.match(await answerText(page), /15일/)
      const nodes = await page.locator('.timeline .row-node').allTextContents()
      assert.ok(!nodes.includes('router') && nodes.includes('agent'), nodes.join())
      await page.locator('.thread', { hasText: '(분기)' }).first().waitFor()
      await shoot('forked')
      await page.reload()
      await waitForAnswer(page)
      assert.equal(await page.locator('.turn').count(), 1)
      assert.equal(await page.locator('.card.problem').count(), 0)
      await page.goto(source)
      await waitForAnswer(page)
      assert.equal(await page.locator('.turn').count(), 1)
      const { threads } = await (await fetch(`${base}/api/threads?q=${encodeURIComponent('(분기)')}`)).json()
      assert.equal(threads.length, 1)
    },
  },
  ...[['en-GB', 'When are invoices due?'], ['ko-KR', '계약을 해지하려면 며칠 전에 알려야 하나요?']].map(([locale, question]) => ({
    // These are the screenshots in README.md and README.ko.md.
    name: `the picture of the page, ${locale}`,
    options: { locale, colorScheme: 'light', viewport: { width: 1280, height: 760 } },
    async run({ page, base, shoot }) {
      const { agents } = await (await fetch(`${base}/api/agents`)).json()
      await waitUntilReady(page)
      await page.click(`.agent >> nth=${agents.findIndex(({ id }) => id === 'contract')}`)
      await askQuestion(page, question)
      await waitForAnswer(page)
      await page.keyboard.press('Control+i')
      await page.waitForSelector('.graph-frame svg .is-done')
      await shoot(`readme-${locale.slice(0, 2)}`)
      assert.ok(await page.locator('.source').count(), 'no source')
    },
  })),
]

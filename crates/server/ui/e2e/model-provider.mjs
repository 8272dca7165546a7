// Tests with the real program and a mock model provider that answers slowly, with tool calls, with hostile text, or with
// an error.

import assert from 'node:assert/strict'
import { HOSTILE } from './mock-data.mjs'
import { checkAccessibility, answerText, askQuestion, waitForAnswer, checkNoHorizontalScroll, PHONE, waitUntilReady } from './page-actions.mjs'
import { LONG, REFUSAL } from './mock-model-provider.mjs'

const SLOW_PACE_MS = 40
const CALCULATION = '연차 15일 중 6.5일을 썼으면 며칠 남았는지 계산해 주세요.'

const waitForThirdSentence = (page) => page.waitForFunction(() => document.querySelector('.markdown')?.textContent?.includes('문장 3은'))

async function runStatuses(base, page) {
  const thread = new URL(page.url()).pathname.slice(3)
  const { runs } = await (await fetch(`${base}/api/threads/${thread}/runs`)).json()
  return runs.map(({ status }) => status)
}

export const modelProviderTests = [
  {
    name: 'a reload in the middle of a word goes on with the answer',
    async run({ page, modelProvider, shoot }) {
      modelProvider.settings.pace = SLOW_PACE_MS
      await waitUntilReady(page)
      await askQuestion(page, '길게 써 주세요')
      await waitForThirdSentence(page)
      await shoot('in-the-middle')
      // The graph highlights the active node during the answer.
      await page.keyboard.press('Control+i')
      await page.waitForSelector('.graph-frame svg .is-running')
      assert.equal(await page.locator('.answer[data-status=finished]').count(), 0, 'the answer came too fast for this test')
      await shoot('lit')
      await page.keyboard.press('Control+i')
      await page.reload()
      await page.waitForSelector('.turn')
      await waitForThirdSentence(page)
      assert.equal(await page.locator('.answer[data-status=finished]').count(), 0, 'the answer came too fast for this test')
      modelProvider.settings.pace = 0
      await waitForAnswer(page)
      assert.equal((await answerText(page)).trim(), LONG)
      assert.equal(await page.locator('.turn').count(), 1)
      assert.equal(await page.locator('.bubble').count(), 1)
    },
  },
  {
    name: 'a server that is killed in the middle of a word finishes the answer, once',
    options: { locale: 'en-GB', colorScheme: 'dark' },
    async run({ page, base, doranServer, modelProvider, shoot }) {
      modelProvider.settings.pace = SLOW_PACE_MS
      await waitUntilReady(page)
      await askQuestion(page, '길게 써 주세요')
      await waitForThirdSentence(page)
      await doranServer.kill()
      await page.waitForSelector('.note.is-live')
      await shoot('server-killed')
      await doranServer.start()
      modelProvider.settings.pace = 0
      await waitForAnswer(page)
      assert.equal((await answerText(page)).trim(), LONG)
      assert.equal(await page.locator('.bubble').count(), 1)
      assert.deepEqual(await runStatuses(base, page), ['finished'])
      await page.reload()
      await waitForAnswer(page)
      assert.equal((await answerText(page)).trim(), LONG)
    },
  },
  {
    name: 'stop stops the run and the request to the model, and the next question is answered',
    options: PHONE,
    async run({ page, base, modelProvider, shoot }) {
      modelProvider.settings.pace = SLOW_PACE_MS
      await waitUntilReady(page)
      await askQuestion(page, '길게 써 주세요')
      await waitForThirdSentence(page)
      const { left } = modelProvider.seen
      await page.click('.round.stop')
      await page.waitForSelector('.answer[data-status=cancelled]')
      const text = await answerText(page)
      await checkNoHorizontalScroll(page)
      await shoot('stopped-phone')
      assert.deepEqual(await runStatuses(base, page), ['cancelled'])
      for (let at = 0; modelProvider.seen.left === left && at < 100; at++) await page.waitForTimeout(50)
      assert.equal(modelProvider.seen.left, left + 1, 'the model provider is still streaming')
      assert.equal(await answerText(page), text)
      modelProvider.settings.pace = 0
      await askQuestion(page, '다시 써 주세요')
      await page.waitForFunction(() => document.querySelectorAll('.turn').length === 2)
      await waitForAnswer(page)
    },
  },
  {
    name: 'a tool runs only after its exact arguments were approved, even by another process',
    async run({ page, doranServer, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, CALCULATION)
      await page.waitForSelector('.approval')
      assert.match((await page.textContent('.approval pre')) ?? '', /15 - 6\.5/)
      await page.waitForSelector('.thread.is-open .thread-active')
      await shoot('approval')
      await checkAccessibility(page, 'approval')
      await doranServer.kill()
      await doranServer.start()
      await page.reload()
      await page.waitForSelector('.approval')
      await page.click('.approval .primary')
      await waitForAnswer(page)
      assert.match(await answerText(page), /8\.5일/)
      await page.click('.activity-line')
      await page.waitForSelector('.tool.is-done')
    },
  },
  {
    name: 'an approval whose reply is lost, or that somebody else gave first, goes on all the same',
    async run({ page, base, shoot }) {
      await waitUntilReady(page)
      const given = async () => {
        const { questions } = await (await fetch(`${base}/api/approvals`)).json()
        const thread = new URL(page.url()).pathname.slice(3)
        const { id, run } = questions.find((one) => encodeURIComponent(one.thread) === thread || one.thread === thread)
        const answered = await fetch(`${base}/api/threads/${thread}/runs/${run}/resume`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ answers: { [id]: true } }) })
        assert.equal(answered.status, 200)
      }
      const lost = () => page.route('**/resume', async (route) => {
        await route.fetch()
        await route.abort()
      }, { times: 1 })
      for (const [turns, happens] of [[1, given], [2, lost]]) {
        await askQuestion(page, CALCULATION)
        await page.waitForFunction((count) => document.querySelectorAll('.turn').length === count, turns)
        await page.waitForSelector('.turn.is-last .approval')
        await happens()
        await page.click('.turn.is-last .approval .primary')
        await waitForAnswer(page)
        assert.match(await answerText(page), /8\.5일/)
        assert.equal(await page.locator('.approval, .card.problem').count(), 0)
      }
      await shoot('answered-elsewhere')
      assert.deepEqual(await runStatuses(base, page), ['finished', 'finished'])
    },
  },
  {
    name: 'a reload shows the answer under way while another question stands in line',
    async run({ page, base, modelProvider, shoot }) {
      modelProvider.settings.pace = SLOW_PACE_MS
      await waitUntilReady(page)
      await askQuestion(page, '길게 써 주세요')
      await waitForThirdSentence(page)
      const thread = new URL(page.url()).pathname.slice(3)
      const body = JSON.stringify({ agent: 'assistant', message: '또 길게 써 주세요', if_busy: 'enqueue' })
      const queued = await fetch(`${base}/api/threads/${thread}/runs`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
      await queued.body.cancel()
      assert.deepEqual(await runStatuses(base, page), ['queued', 'running'])
      await page.reload()
      await page.waitForFunction(() => document.querySelectorAll('.turn').length === 2)
      await waitForThirdSentence(page)
      await page.waitForSelector('.turn:not(.is-last) .answer[data-status=running]')
      await page.waitForSelector('.round.stop')
      await shoot('in-line')
      modelProvider.settings.pace = 0
      await page.waitForSelector('.turn:not(.is-last) .answer[data-status=finished]')
      await waitForAnswer(page)
      for (const said of await page.locator('.turn .markdown').allTextContents()) assert.equal(said.trim(), LONG)
      assert.equal(await page.locator('.turn .markdown').count(), 2)
    },
  },
  {
    name: 'a denied tool does not run, and the model is told',
    options: { locale: 'en-GB', colorScheme: 'dark' },
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, CALCULATION)
      await page.waitForSelector('.approval')
      await shoot('approval-dark')
      await page.click('.approval .row button:not(.primary)')
      await waitForAnswer(page)
      assert.match(await answerText(page), /계산하지 못했습니다/)
      await page.click('.activity-line')
      await page.waitForSelector('.tool.is-denied')
      assert.equal(await page.textContent('.tool .tool-state'), 'denied')
      assert.equal(await page.locator('.tool.is-failed').count(), 0)
      await shoot('denied-dark')
      await page.reload()
      await waitForAnswer(page)
      await page.click('.tongues [lang=ko]')
      await page.click('.activity-line')
      assert.equal(await page.textContent('.tool.is-denied .tool-state'), '거부됨')
    },
  },
  {
    name: 'a refusal is shown in the words of the model provider, with a way out, and never answered by another model',
    options: { locale: 'en-GB' },
    async run({ page, base, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, 'REFUSE this')
      await page.waitForSelector('.card.problem')
      assert.ok(((await page.textContent('.card.problem')) ?? '').includes(REFUSAL))
      assert.match((await page.textContent('.card.problem')) ?? '', /The model did not take the request\./)
      await page.click('.tongues [lang=ko]')
      const korean = (await page.textContent('.card.problem')) ?? ''
      assert.match(korean, /실행이 실패했습니다.*모델이 요청을 받아들이지 않았습니다\./)
      assert.ok(korean.includes(REFUSAL), 'the message of the provider is hidden')
      await shoot('refused-ko')
      await page.click('.tongues [lang=en]')
      assert.equal(await page.locator('.turn .markdown').count(), 0, 'somebody answered')
      await shoot('refused')
      await checkAccessibility(page, 'a refusal')
      assert.deepEqual(await runStatuses(base, page), ['failed'])
      await page.click('.answer-foot [title="Ask again"]')
      await page.waitForFunction(() => document.querySelectorAll('.turn').length === 2)
    },
  },
  {
    name: 'hostile output of models, files and titles stays text',
    options: { locale: 'en-GB' },
    async run({ page, base, shoot }) {
      await waitUntilReady(page)
      const name = '<img src=x onerror=window.__hit=1>.md'
      await fetch(`${base}/api/documents?name=${encodeURIComponent(name)}`, { method: 'POST', headers: { 'content-type': 'application/octet-stream' }, body: `# <script>window.__hit=1</script>\n\n${HOSTILE}` })
      await askQuestion(page, `HOSTILE <script>window.__hit=1</script> ${HOSTILE}`)
      await waitForAnswer(page)
      await page.keyboard.press('Control+i')
      await page.click('.timeline button')
      await page.waitForSelector('.step')
      await shoot('hostile')
      for (const [address, rel] of await page.locator('.markdown a').evaluateAll((all) => all.map((one) => [one.href, one.rel]))) {
        assert.match(address, /^(https?:|mailto:)/)
        assert.match(rel, /noopener/)
        assert.notEqual(new URL(address).origin, new URL(page.url()).origin)
      }
      assert.match(await answerText(page), /\(evil\.invalid\)/)
      await page.goto(new URL('/documents', page.url()).href)
      await page.locator('.doc', { hasText: name }).waitFor()
      await page.goBack()
      await waitForAnswer(page)
      assert.equal(await page.evaluate(() => window.__hit), undefined)
      assert.equal(await page.locator('iframe, object, embed, main img, style, base').count(), 0)
    },
  },
]

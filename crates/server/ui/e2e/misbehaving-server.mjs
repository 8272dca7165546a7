// Tests with the mock server: failures of the server, a model or the network.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { checkAccessibility, answerText, askQuestion, waitForAnswer, waitUntilReady } from './page-actions.mjs'

export const misbehavingServerTests = [
  {
    name: 'formulas and code are rendered, and the text stays what the model said',
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, 'RENDERED')
      await waitForAnswer(page)
      await page.locator('.formula math msup').first().waitFor()
      await page.locator('.code-keyword', { hasText: 'fn' }).waitFor()
      assert.equal(await page.locator('.formula.is-display math mfrac').count(), 1)
      assert.match(await answerText(page), /가격은 \$5에서 \$10 사이입니다/)
      assert.match(await answerText(page), /\$\\undefined\{\$ 는 수식이 아닙니다/)
      const code = await page.locator('figure.code code').allTextContents()
      assert.deepEqual(code, ['/// 제곱을 돌려줍니다.\nfn square(number: u64) -> u64 {\n    number * number // "그대로"\n}', '<b>plain</b>'])
      await checkAccessibility(page, 'formulas and code')
      await shoot('rendered-light')
      await page.emulateMedia({ colorScheme: 'dark' })
      await checkAccessibility(page, 'formulas and code in the dark')
      await shoot('rendered-dark')
      await page.setViewportSize({ width: 390, height: 800 })
      await shoot('rendered-phone')
    },
  },
  {
    name: 'formulas cannot link, style or load anything',
    async run({ page }) {
      await waitUntilReady(page)
      await askQuestion(page, 'HOSTILE')
      await waitForAnswer(page)
      await page.waitForFunction(() => document.querySelector('.markdown .formula math, .markdown .formula-source'))
      await page.waitForTimeout(300)
      assert.equal(await page.evaluate(() => window.__hit ?? null), null)
      assert.equal(await page.locator('.markdown :is([href^="javascript:"], [style*="url"], mglyph, .markdown img)').count(), 0)
    },
  },
  {
    name: 'each conversation has its own draft',
    async run({ page }) {
      await waitUntilReady(page)
      const box = page.locator('.composer textarea')
      await box.fill('새 대화의 초안')
      await page.click('text=육아휴직 기간')
      await page.waitForSelector('.markdown')
      assert.equal(await box.inputValue(), '')
      await box.fill('육아휴직의 초안')
      await page.click('text=연차 계산')
      await page.waitForFunction(() => document.querySelector('.composer textarea').value === '')
      await page.click('text=육아휴직 기간')
      await page.waitForFunction(() => document.querySelector('.composer textarea').value === '육아휴직의 초안')
      await page.reload()
      await page.waitForFunction(() => document.querySelector('.composer textarea').value === '육아휴직의 초안')
      await page.keyboard.press('Control+k')
      await page.waitForFunction(() => document.querySelector('.composer textarea').value === '새 대화의 초안')
      await box.fill('질문입니다')
      await page.keyboard.press('Enter')
      await page.waitForURL(/\/t\//)
      assert.equal(await box.inputValue(), '')
    },
  },
  {
    name: 'a file that takes the place of another of its name says so',
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await page.click('a.place')
      const file = (text) => ({ name: '계약서.md', mimeType: 'text/markdown', buffer: Buffer.from(text) })
      await page.setInputFiles('input[type=file]', file('갑의 계약서'))
      await page.locator('.doc.is-ready', { hasText: '계약서.md' }).waitFor()
      assert.equal(await page.locator('.note').count(), 0)
      await page.setInputFiles('input[type=file]', file('을의 계약서'))
      const note = page.locator('.note', { hasText: '“계약서.md” 파일이 같은 이름의 문서를 대체했습니다' })
      await note.waitFor()
      await shoot('replaced')
      await checkAccessibility(page, 'a replaced document')
      await note.locator('button').click()
      await note.waitFor({ state: 'detached' })
    },
  },
  {
    name: 'a connection that is cut again and again neither repeats nor loses a word',
    async run({ page, server, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, '육아휴직은?')
      await waitForAnswer(page)
      const whole = await answerText(page)
      server.settings.pace = 25
      for (const cut of [1500, 2203, 3777]) {
        server.settings.cut = cut
        await page.keyboard.press('Control+k')
        await waitUntilReady(page)
        await askQuestion(page, '육아휴직은?')
        await page.waitForSelector('.note.is-live')
        await shoot('reconnecting-ko-light')
        // Some frames are longer than the cut, so the connection slowly gets longer.
        for (let at = 1; at < 12; at++) {
          await page.waitForTimeout(150)
          server.settings.cut += 700
        }
        server.settings.cut = 0
        await waitForAnswer(page)
        assert.equal(await answerText(page), whole)
      }
    },
  },
  {
    name: 'a reload keeps what earlier steps of the run said',
    async run({ page, server }) {
      server.settings.pace = 40
      await waitUntilReady(page)
      await askQuestion(page, 'TWICE')
      await page.waitForFunction(() => document.querySelector('.markdown')?.textContent?.includes('문장 3'))
      await page.reload()
      await page.waitForFunction(() => document.querySelector('.markdown')?.textContent?.includes('문장 5'))
      assert.match(await answerText(page), /^첫 번째 말입니다\.긴 답을/)
      await page.click('.round.stop')
      await page.waitForSelector('.answer[data-status=cancelled]')
      assert.match(await answerText(page), /^첫 번째 말입니다\.긴 답을/)
      await page.reload()
      await page.waitForSelector('.answer[data-status=cancelled]')
      assert.match(await answerText(page), /^첫 번째 말입니다\.긴 답을.*문장 5/)
    },
  },
  {
    name: 'words of a try that failed are taken back',
    async run({ page, server }) {
      server.settings.pace = 60
      await waitUntilReady(page)
      await askQuestion(page, '육아휴직은?')
      await page.waitForFunction(() => document.querySelector('.markdown')?.textContent?.includes('무효'))
      await waitForAnswer(page)
      assert.doesNotMatch(await answerText(page), /무효/)
    },
  },
  {
    name: 'what became of a call that was cut off is asked, and only a clear answer is sent',
    async run({ page, shoot }) {
      for (const [button, told] of [['.primary', '사람이 말한 결과'], ['button:not(.primary)', '다시 보냈음']]) {
        await waitUntilReady(page)
        await askQuestion(page, '메일을 보내줘')
        await page.waitForSelector('.approval')
        assert.match((await page.textContent('.approval')) ?? '', /send_mail 호출이 실행되었나요/)
        assert.match((await page.textContent('.approval pre')) ?? '', /kim@example\.com/)
        await shoot('unknown-outcome')
        await checkAccessibility(page, 'an unknown outcome')
        await page.click(`.approval .row ${button}`)
        await waitForAnswer(page)
        await page.click('.activity-line')
        assert.match((await page.textContent('.tool')) ?? '', new RegExp(told))
        await page.keyboard.press('Control+k')
      }
    },
  },
  {
    name: 'a huge answer leaves the page alive',
    async run({ page, server }) {
      server.settings.pace = 0
      await waitUntilReady(page)
      await askQuestion(page, 'HUGE')
      await waitForAnswer(page)
      await page.waitForSelector('.markdown .more')
      await page.fill('.composer textarea', '아직 살아 있습니다')
      assert.ok((await page.evaluate(() => document.querySelectorAll('*').length)) < 20_000)
    },
  },
  {
    name: 'a key is asked for when the server wants one, and kept for this tab only',
    async run({ page, server, shoot }) {
      server.settings.key = 'secret-key-1'
      await page.reload()
      await page.waitForSelector('dialog[open] input[type=password]')
      await shoot('key-ko-light')
      await checkAccessibility(page, 'key')
      await page.fill('dialog[open] input[type=password]', 'secret-key-1')
      await page.keyboard.press('Enter')
      await waitUntilReady(page)
      await askQuestion(page, '육아휴직은?')
      await waitForAnswer(page)
      const kept = await page.evaluate(() => JSON.stringify([Object.entries(localStorage), document.cookie]))
      assert.doesNotMatch(kept, /secret-key-1/)
      await page.reload()
      await page.locator('.thread').first().waitFor()
      assert.equal(await page.locator('dialog[open]').count(), 0)
    },
  },
  {
    name: 'what is typed is not lost when the server is away',
    async run({ page, server }) {
      await waitUntilReady(page)
      server.stop()
      await page.waitForTimeout(100)
      await askQuestion(page, '서버가 없을 때의 질문')
      await page.waitForSelector('.dock .card.problem')
      assert.equal(await page.inputValue('.composer textarea'), '서버가 없을 때의 질문')
    },
  },
  {
    name: 'an idle page says that the server is away, and when it is back',
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await page.route('**/healthz', (route) => route.abort())
      await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')))
      await page.waitForSelector('.unreachable')
      await shoot('unreachable')
      await page.unroute('**/healthz')
      await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')))
      await page.locator('.unreachable').waitFor({ state: 'detached' })
    },
  },
  {
    name: 'a conversation is exported with the words of the model',
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await page.click('text=육아휴직 기간')
      await page.waitForSelector('.markdown')
      await page.click('.export summary')
      await checkAccessibility(page, 'export')
      await shoot('export')
      const saved = await Promise.all([page.waitForEvent('download'), page.click('.export button >> nth=0')])
      assert.equal(saved[0].suggestedFilename(), '육아휴직 기간.md')
      const text = readFileSync(await saved[0].path(), 'utf8')
      assert.match(text, /^# 육아휴직 기간\n/)
      assert.ok(text.includes('> 육아휴직은 자녀 1명당 1년 이내로 한다. [1]'))
    },
  },
  {
    name: 'a screen reader hears the end of an answer, not every word',
    async run({ page }) {
      await waitUntilReady(page)
      await page.evaluate(() => {
        window.heard = []
        new MutationObserver(() => window.heard.push(document.querySelector('[role=status][aria-live]')?.textContent)).observe(document.querySelector('[role=status][aria-live]'), { childList: true, characterData: true, subtree: true })
      })
      await askQuestion(page, '육아휴직은?')
      await waitForAnswer(page)
      await page.waitForTimeout(200)
      const heard = await page.evaluate(() => window.heard.filter(Boolean))
      assert.ok(heard.length === 1 && heard.some((one) => /출처 3개/.test(one ?? '')), JSON.stringify(heard))
      assert.equal(await page.getAttribute('[role=log]', 'aria-live'), 'off')
    },
  },
]

// Tests of the evaluation view, of diagrams and of images, with the real program and a mock model provider.

import assert from 'node:assert/strict'
import { askQuestion, checkAccessibility, checkNoHorizontalScroll, waitForAnswer, waitUntilReady, answerText } from './page-actions.mjs'
import { HOSTILE } from './mock-data.mjs'

/** A red square of 2 by 2 pixels. */
const PNG = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR4nGP8z8DAwMDAxMDAwMDAAAANHQEDasKb6QAAAABJRU5ErkJggg==', 'base64')

async function putCase(base, set, one) {
  const response = await fetch(`${base}/api/evals/${set}/cases/${encodeURIComponent(one.id)}`, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify(one) })
  assert.equal(response.status, 204, await response.text())
}

const remove = (base, set) => fetch(`${base}/api/evals/${set}`, { method: 'DELETE' })

export const evalTests = [
  {
    name: 'an evaluation runs with two sets of instructions side by side, shows its progress and can be stopped',
    options: { locale: 'en-GB', colorScheme: 'dark' },
    async run({ page, base, modelProvider, shoot }) {
      await remove(base, 'side-by-side')
      for (const id of ['one', 'two']) await putCase(base, 'side-by-side', { id, agent: 'react', ask: `TOKENS 30 evaluated ${id}`, expect: { contains: ['quick'] } })
      await page.goto(`${base}/evals`)
      await page.locator('.eval-sets .link', { hasText: 'side-by-side' }).click()
      await page.waitForSelector('.eval-run')
      await page.click('.eval-run .link')
      await page.fill('.eval-run textarea', 'Answer briefly.')
      await page.locator('.eval-run', { hasText: '2 runs of each case' }).waitFor()
      await page.click('.eval-run .primary')
      await page.waitForFunction(() => document.querySelectorAll('.eval-results thead th').length === 3)
      assert.equal(await page.locator('.outcome.is-passed').count(), 4)
      assert.ok(modelProvider.seen.requests.some((one) => JSON.stringify(one.messages).includes('Answer briefly.')))
      await shoot('evals-side-by-side')
      await checkAccessibility(page, 'results side by side')
      // A slow model can be stopped. The last results stay.
      modelProvider.settings.pace = 200
      await page.click('.eval-run .primary')
      await page.waitForSelector('.eval-run progress')
      await shoot('evals-running')
      await page.click('.eval-run button:has-text("Stop")')
      await page.locator('.eval-run [role=status]', { hasText: 'Stopped' }).waitFor()
      assert.equal(await page.locator('.outcome.is-passed').count(), 4)
      modelProvider.settings.pace = 0
      assert.equal((await (await fetch(`${base}/api/threads?q=evaluated`)).json()).threads.length, 0, 'an evaluation leaves no conversations')
      await remove(base, 'side-by-side')
    },
  },
  {
    name: 'an evaluation that a restart cuts off says so, can be run again, and its cost is in the usage',
    options: { locale: 'ko-KR' },
    async run({ page, base, doranServer, modelProvider, shoot }) {
      await remove(base, 'restart')
      await putCase(base, 'restart', { id: 'one', agent: 'react', ask: 'TOKENS 30 one', expect: { contains: ['quick'] } })
      await page.goto(`${base}/evals/restart`)
      const before = await (await fetch(`${base}/api/usage?days=7`)).json()
      await page.click('.eval-run .primary')
      await page.waitForSelector('.outcome.is-passed')
      await putCase(base, 'restart', { id: 'two', agent: 'react', ask: 'TOKENS 300 two', expect: { contains: ['quick'] } })
      modelProvider.settings.pace = 100
      await page.reload()
      await page.click('.eval-run .primary')
      await page.locator('.eval-run [role=status]', { hasText: 'two' }).waitFor()
      await doranServer.kill()
      await doranServer.start()
      modelProvider.settings.pace = 0
      await page.reload()
      await page.locator('.eval-run [role=status]', { hasText: '2개 중 1개에서 끊겼습니다' }).waitFor()
      assert.equal(await page.locator('.outcome.is-passed').count(), 1, 'the earlier results are kept')
      await shoot('evals-interrupted')
      await checkAccessibility(page, 'an evaluation that was cut off')
      await page.locator('.eval-run button', { hasText: '다시 실행' }).press('Enter')
      await page.waitForFunction(() => document.querySelectorAll('.outcome.is-passed').length === 2)
      assert.equal(await page.locator('.eval-run [role=status]').count(), 0)
      const after = await (await fetch(`${base}/api/usage?days=7`)).json()
      assert.equal(after.evals.runs - (before.evals?.runs ?? 0), 4, 'one, one again before the restart, and both')
      assert.ok(after.evals.output_tokens > (before.evals?.output_tokens ?? 0))
      assert.equal(after.runs - before.runs, 4, 'they are part of the whole')
      await page.goto(`${base}/usage`)
      await page.locator('.usage-evals', { hasText: '이 가운데 평가' }).waitFor()
      await shoot('usage-evals')
      await remove(base, 'restart')
    },
  },
  {
    name: 'cases are added, edited and deleted by keyboard, and hostile names and answers stay text',
    options: { locale: 'en-GB' },
    async run({ page, base, shoot }) {
      await remove(base, 'keyboard')
      await page.goto(`${base}/evals`)
      await page.locator('button', { hasText: 'New evaluation' }).press('Enter')
      await page.locator('label:has-text("Name of the evaluation") input').fill('../keyboard')
      await page.locator('.bad', { hasText: 'letters, digits' }).waitFor()
      await page.locator('label:has-text("Name of the evaluation") input').fill('keyboard')
      await page.locator('label:has-text("Name of the case") input').fill('<img src=x onerror=window.__hit=1>')
      await page.locator('.eval-form label:has-text("Agent") select').selectOption('react')
      await page.locator('.eval-form label', { has: page.locator('span', { hasText: /^Question$/ }) }).locator('textarea').fill(`HOSTILE ${HOSTILE.slice(0, 400)}`)
      assert.ok(await page.locator('.eval-form .primary').isDisabled(), 'a case that expects nothing could not fail')
      await page.locator('label:has-text("The answer contains") textarea').fill('<script>window.__hit=1</script>')
      await page.locator('.eval-form .primary').press('Enter')
      await page.waitForURL((url) => url.pathname === '/evals/keyboard')
      await page.locator('.eval-run .primary').press('Enter')
      await page.waitForSelector('.outcome')
      await page.locator('.outcome summary').first().press('Enter')
      await shoot('evals-hostile')
      await checkAccessibility(page, 'a hostile case')
      assert.equal(await page.evaluate(() => window.__hit), undefined)
      assert.equal(await page.locator('main img, main script, main iframe, main a[href^="javascript:"]').count(), 0)
      await page.setViewportSize({ width: 390, height: 844 })
      await checkNoHorizontalScroll(page)
      await page.setViewportSize({ width: 1360, height: 860 })
      await page.locator('.eval-cases [title="Delete"]').press('Enter')
      await page.locator('dialog[open] .danger').press('Enter')
      await page.waitForURL((url) => url.pathname === '/evals')
      assert.equal((await fetch(`${base}/api/evals/keyboard`)).status, 404)
    },
  },
  {
    name: 'diagrams are drawn, what cannot be drawn stays its source, and nothing gets out of them',
    options: { locale: 'ko-KR' },
    async run({ page, shoot }) {
      await waitUntilReady(page)
      const early = await page.evaluate(() => performance.getEntriesByType('resource').map(({ name }) => name))
      assert.ok(!early.some((name) => /diagram|highlight|temml/.test(name)), 'renderers are loaded on demand')
      await askQuestion(page, 'DIAGRAM')
      await waitForAnswer(page)
      await page.waitForFunction(() => document.querySelectorAll('.markdown svg.diagram').length === 3)
      const texts = await page.locator('svg.diagram').allTextContents()
      assert.match(texts[0] ?? '', /요청.*승인\?.*기록.*거절/s)
      assert.match(texts[1] ?? '', /사용자.*로그인.*토큰.*암호화/s)
      assert.match(texts[2] ?? '', /<img src=x\s*onerror=window\.__hit=1>/)
      assert.equal(await page.locator('.code pre', { hasText: 'gantt' }).count(), 1)
      assert.equal(await page.evaluate(() => window.__hit), undefined)
      assert.equal(await page.locator('svg.diagram a, svg.diagram image, svg.diagram foreignObject, svg.diagram script, svg.diagram style').count(), 0)
      await shoot('diagrams')
      await checkAccessibility(page, 'diagrams')
      await page.locator('.diagram-block .link', { hasText: '원문' }).first().click()
      await page.locator('.code pre', { hasText: '요청' }).waitFor()
      await page.emulateMedia({ colorScheme: 'dark' })
      await shoot('diagrams-dark')
    },
  },
  {
    name: 'an image is attached or pasted, reaches the model, and is shown again after a reload',
    options: { locale: 'ko-KR' },
    async run({ page, base, modelProvider, shoot }) {
      await waitUntilReady(page)
      await page.setInputFiles('.composer input[type=file]', { name: 'a.png', mimeType: 'image/png', buffer: PNG })
      await page.waitForSelector('.dock .images canvas[data-drawn]')
      // A second one from the clipboard, which is taken away again.
      await page.evaluate((bytes) => {
        const data = new DataTransfer()
        data.items.add(new File([Uint8Array.from(atob(bytes), (one) => one.charCodeAt(0))], 'b.png', { type: 'image/png' }))
        document.querySelector('.composer textarea').dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }))
      }, PNG.toString('base64'))
      await page.waitForFunction(() => document.querySelectorAll('.dock .images canvas[data-drawn]').length === 2)
      await shoot('image-attached')
      await checkAccessibility(page, 'an attached image')
      await page.click('.dock .images li:last-child button')
      await askQuestion(page, '이 이미지에는 무엇이 있나요?')
      await waitForAnswer(page)
      assert.match(await answerText(page), /그림을 1장/)
      assert.equal(await page.locator('.dock .images li').count(), 0)
      const asked = modelProvider.seen.requests.at(-1)
      assert.match(JSON.stringify(asked.messages), /data:image\/jpeg;base64,/)
      await page.reload()
      await waitForAnswer(page)
      await page.waitForSelector('.bubble canvas[data-drawn]')
      await shoot('image-in-chat')
      // The same question again keeps its image.
      await page.click('.turn.is-last .answer-foot [title="다시 답하기"]')
      await page.locator('.versions-count', { hasText: '2/2' }).waitFor()
      await waitForAnswer(page)
      assert.match(await answerText(page), /그림을 1장/)
      // A broken image says so and is not sent.
      await page.setInputFiles('.composer input[type=file]', { name: 'x.png', mimeType: 'image/png', buffer: Buffer.from('<svg onload=window.__hit=1>') })
      await page.locator('.dock .problem', { hasText: '이미지를 표시할 수 없습니다' }).waitFor()
      assert.equal(await page.evaluate(() => window.__hit), undefined)
      // A graph that does not look at images refuses them with the reason.
      const refused = await fetch(`${base}/api/threads/no-images/runs`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ agent: 'helpdesk', message: '?', images: [`data:image/png;base64,${PNG.toString('base64')}`] }) })
      assert.equal(refused.status, 400)
      assert.match((await refused.json()).detail, /does not look at images/)
    },
  },
]

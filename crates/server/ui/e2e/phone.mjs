// Tests of the views with tables at the width of phones, with the real program and a mock model provider.

import assert from 'node:assert/strict'
import { checkAccessibility, checkNoHorizontalScroll, PHONE } from './page-actions.mjs'

const NARROW = { ...PHONE, viewport: { width: 360, height: 780 } }

/** The widths of all elements, in pixels. */
const widths = (page, selector) => page.locator(selector).evaluateAll((all) => all.map((one) => one.getBoundingClientRect().width))

export const phoneTests = [
  {
    name: 'evaluations are made, run and read on a phone',
    options: { locale: 'ko-KR', colorScheme: 'dark', ...PHONE },
    async run({ page, base, shoot }) {
      await fetch(`${base}/api/evals/phone`, { method: 'DELETE' })
      await page.goto(`${base}/evals`)
      await page.locator('button', { hasText: '새 평가' }).click()
      await page.locator('.eval-new label:has-text("이름") input').first().fill('phone')
      await page.click('.eval-form summary')
      // Fields that stand side by side elsewhere have a line of their own.
      for (const width of await widths(page, '.eval-form .field')) assert.ok(width > 270, `a field is ${width} px wide`)
      await shoot('evals-form-phone')
      await checkNoHorizontalScroll(page)
      await checkAccessibility(page, 'the form of a case on a phone')
      for (const id of ['첫 번째로 물어볼 연차휴가 질문', 'two']) {
        const one = { id, agent: 'react', ask: `TOKENS 30 ${id}`, expect: { contains: id === 'two' ? ['quick'] : ['없는 말'] } }
        const response = await fetch(`${base}/api/evals/phone/cases/${encodeURIComponent(id)}`, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify(one) })
        assert.equal(response.status, 204, await response.text())
      }
      await page.goto(`${base}/evals/phone`)
      await page.click('.eval-run .link')
      await page.fill('.eval-run textarea', '짧게 답하세요.')
      await page.click('.eval-run .primary')
      await page.waitForFunction(() => document.querySelectorAll('.eval-results thead th').length === 3)
      await page.locator('.eval-results').scrollIntoViewIfNeeded()
      await shoot('evals-results-phone')
      await checkNoHorizontalScroll(page)
      // The name of a case stays beside its results, however far they are scrolled.
      const frame = page.locator('section .table-frame')
      await frame.evaluate((one) => { one.scrollLeft = one.scrollWidth })
      const name = await page.locator('.eval-results tbody th').first().boundingBox()
      const last = await page.locator('.eval-results tbody tr').first().locator('td').last().boundingBox()
      assert.ok(name.x >= 0 && name.width <= 120, JSON.stringify(name))
      assert.ok(last.x + last.width <= 390 && last.x >= name.x + name.width - 1, JSON.stringify(last))
      await shoot('evals-results-scrolled-phone')
      await checkAccessibility(page, 'results on a phone')
      await fetch(`${base}/api/evals/phone`, { method: 'DELETE' })
    },
  },
  ...[[1280, { viewport: { width: 1280, height: 800 } }], [PHONE.viewport.width, PHONE]].map(([width, device]) => ({
    name: `wide tables and long titles of documents are read on a screen of ${width} pixels`,
    options: { locale: 'ko-KR', ...device },
    async run({ page, base, shoot }) {
      const heads = Array.from({ length: 14 }, (_, at) => `열 이름 ${at + 1}`)
      const table = [heads, ...Array.from({ length: 3 }, () => heads.map((_, at) => `재택근무 승인 ${at + 1}`))].map((row) => row.join(',')).join('\n')
      const rules = Array.from({ length: 4 }, (_, at) => `## 제${at + 5}조 (지체상금과 손해배상에 관한 특별한 사항)\n\n제${at + 5}조에 따라 지체상금을 정한다.\n`).join('\n')
      const files = { 'wide.csv': table, 'long.md': `# 소프트웨어 개발 용역 계약의 부속 합의서\n\n${rules}` }
      for (const [name, text] of Object.entries(files)) {
        const response = await fetch(`${base}/api/documents?name=${name}`, { method: 'POST', body: text })
        assert.ok(response.ok, await response.text())
      }
      await page.goto(`${base}/documents`)
      for (const name of Object.keys(files)) await page.locator('button.doc-name', { hasText: name }).waitFor()
      await page.fill('.search-test input', '제7조 지체상금')
      await page.click('.search-test button[type=submit]')
      await page.waitForSelector('.hit .score')
      await shoot(`search-test-${width}`)
      // An article and a score stand on one line, however long the title beside them is.
      const heights = await page.locator('.hit-head > :not(.link)').evaluateAll((all) => all.map((one) => one.getBoundingClientRect().height))
      assert.ok(heights.length >= 4 && heights.every((height) => height < 32), `a number is broken: ${heights.join()}`)
      await page.locator('button.doc-name', { hasText: 'wide.csv' }).click()
      const frame = page.locator('.document-text .table')
      await frame.waitFor()
      assert.ok(await frame.evaluate((one) => one.scrollWidth > one.clientWidth), 'the table is not wide')
      await page.locator('.document-text .scroll-hint').waitFor()
      await shoot(`wide-table-${width}`)
      // Every column can be reached inside the frame.
      await frame.evaluate((one) => { one.scrollLeft = one.scrollWidth })
      const [last, box] = [await frame.locator('th').last().boundingBox(), await frame.boundingBox()]
      assert.ok(last.x + last.width <= box.x + box.width + 1 && box.x + box.width <= width, JSON.stringify([last, box]))
      await checkNoHorizontalScroll(page)
      await checkAccessibility(page, 'a wide table')
      const { documents } = await (await fetch(`${base}/api/documents`)).json()
      for (const { id } of documents.filter((one) => one.name in files)) await fetch(`${base}/api/documents/${id}`, { method: 'DELETE' })
    },
  })),
  ...[['ko-KR', PHONE, 'light'], ['en-GB', NARROW, 'dark']].map(([locale, device, colorScheme]) => ({
    name: `the usage is read without scrolling sideways on a screen of ${device.viewport.width} pixels`,
    options: { locale, colorScheme, ...device },
    async run({ page, base, shoot }) {
      // Sums as they are after a busy month.
      await page.route('**/api/usage?**', async (route) => {
        const usage = await (await route.fetch()).json()
        const sum = { runs: 12_345, input_tokens: 123_456_789, output_tokens: 4_567_890, cost_micros: 123_450_000 }
        const rows = (...names) => names.map((name) => ({ name, ...sum }))
        await route.fulfill({ json: {
          ...usage, ...sum, krw_per_usd: 1400,
          by_day: [0, 1].map((at) => ({ start: Date.UTC(2026, 10, 17 - at), ...sum })),
          by_agent: rows('assistant', 'a-described-agent-with-a-long-name'),
          by_model: rows('openai-compatible:http://127.0.0.1:11434/v1#llama-3.3-70b').map((one) => ({ ...one, calls: 30_000 })),
          by_key: rows('', '우리 팀의 열쇠'),
        } })
      })
      await page.goto(`${base}/usage`)
      await page.waitForSelector('.usage-view table')
      const hidden = await page.locator('.usage-view .table-frame').evaluateAll((all) => all.map((one) => one.scrollWidth - one.clientWidth))
      assert.deepEqual(hidden, hidden.map(() => 0), 'columns are out of sight')
      const lines = await page.locator('.usage-view :is(td, thead th:not(:first-child))').evaluateAll((all) => all.map((one) => one.getBoundingClientRect().height))
      assert.ok(lines.length > 20 && lines.every((height) => height < 50), `a number or a word is broken: ${lines.join()}`)
      const about = (await widths(page, '.usage-view .column > .row > p'))[0]
      assert.ok(about > device.viewport.width - 60, `the text is ${about} px wide`)
      await shoot(`usage-phone-${device.viewport.width}`)
      await checkNoHorizontalScroll(page)
      await checkAccessibility(page, 'usage on a phone')
      await page.locator('.usage-view section').last().scrollIntoViewIfNeeded()
      await shoot(`usage-phone-${device.viewport.width}-end`)
    },
  })),
]

// Tests of the memory with the mock server: reading, searching, deleting, and what is told when that does not work.

import assert from 'node:assert/strict'
import { checkAccessibility, checkNoHorizontalScroll, PHONE, waitUntilReady } from './page-actions.mjs'

const MEMORY = '/documents#memory'
const texts = (page) => page.locator('.fact-text').allTextContents()
const focused = (page) => page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent)

/** Fills the memory with many facts. The first is the newest. */
function remember(server, count) {
  server.facts.clear()
  for (let at = 1; at <= count; at++) {
    const id = at.toString(16).padStart(12, '0')
    server.facts.set(id, { id, text: `사실 ${at}: ${at % 10 === 0 ? '주차 자리' : '회의 시간'}`, at: Date.now() - at * 60_000 })
  }
}

export const memoryTests = [
  {
    name: 'facts are read and deleted, and the focus stays in the list',
    async run({ page, server, shoot }) {
      await waitUntilReady(page)
      await page.click('a.place')
      await page.click('.parts a:has-text("메모리")')
      await page.waitForURL((url) => url.pathname + url.hash === MEMORY)
      await page.locator('.fact').first().waitFor()
      assert.equal(await page.title(), '메모리 · 도란')
      assert.equal(await focused(page), '메모리', 'the focus was lost with the part before')
      assert.deepEqual(await texts(page), [...server.facts.values()].map((one) => one.text))
      assert.equal(await page.evaluate(() => window.__hit ?? null), null)
      const times = await page.locator('.fact .doc-facts span').allTextContents()
      assert.ok(times.every((one) => one.endsWith('에 기억함')) && /^20\d\d년/.test(times[2]), times.join())
      assert.equal(await page.locator('.memory-search').count(), 0, 'three facts need no search')
      await shoot('memory-ko-light')
      await checkAccessibility(page, 'memory')
      await page.emulateMedia({ colorScheme: 'dark' })
      await checkAccessibility(page, 'memory in the dark')
      await shoot('memory-ko-dark')

      // Cancel keeps the fact, and the focus where it was.
      await page.focus('.fact-delete >> nth=1')
      await page.keyboard.press('Enter')
      await page.locator('dialog', { hasText: '“my desk is on floor 7” 항목을 삭제합니다' }).waitFor()
      await shoot('memory-delete')
      await checkAccessibility(page, 'the question before a fact is deleted')
      await page.keyboard.press('Escape')
      await page.waitForSelector('dialog', { state: 'detached' })
      await page.waitForFunction(() => document.activeElement.getAttribute('aria-label') === 'my desk is on floor 7 삭제')
      assert.equal(server.facts.size, 3)

      await page.keyboard.press('Enter')
      await page.click('dialog button.danger')
      await page.waitForFunction(() => document.querySelectorAll('.fact').length === 2)
      await page.waitForFunction(() => /^회의실 비번은.* 삭제$/.test(document.activeElement.getAttribute('aria-label')))
      assert.ok(!server.facts.has('e46ba859fe45'))
      assert.match(await page.locator('[role=status][aria-live]').textContent(), /사실을 삭제했습니다/)
      for (let left = 1; left >= 0; left--) {
        await page.locator('.fact-delete').first().click()
        await page.click('dialog button.danger')
        await page.waitForFunction((left) => document.querySelectorAll('.fact').length === left, left)
      }
      await page.locator('.memory-note', { hasText: '기억해 줘' }).waitFor()
      assert.match(await focused(page), /^메모리/)
      await page.emulateMedia({ colorScheme: 'light' })
      await checkAccessibility(page, 'an empty memory')
      await shoot('memory-empty-ko')
      await page.reload()
      await page.locator('.memory-note', { hasText: '기억해 줘' }).waitFor()
      await page.goBack()
      await page.waitForSelector('.drop')
    },
  },
  {
    name: 'many facts are shown in parts and searched',
    async run({ page, base, server, shoot }) {
      remember(server, 120)
      await page.goto(base + MEMORY)
      await page.waitForFunction(() => document.querySelectorAll('.fact').length === 50)
      assert.equal(await page.textContent('h1 .count'), '120')
      await page.locator('button.more').click()
      await page.locator('button.more').click()
      await page.waitForFunction(() => document.querySelectorAll('.fact').length === 120)
      assert.equal(await page.locator('button.more').count(), 0)
      await page.fill('.memory-search input', '주차')
      await page.waitForFunction(() => document.querySelectorAll('.fact').length === 12)
      assert.equal(await page.textContent('.documents-main > [role=status]'), '결과 12건')
      assert.equal(await page.locator('.fact mark').count(), 12)
      await shoot('memory-search')
      await checkAccessibility(page, 'a search in the memory')
      // The found fact is deleted, not the one at its place in the whole list.
      await page.locator('.fact-delete').nth(1).click()
      await page.click('dialog button.danger')
      await page.waitForFunction(() => document.querySelectorAll('.fact').length === 11)
      assert.ok(![...server.facts.values()].some((one) => one.text.startsWith('사실 20:')) && server.facts.size === 119)
      // A Korean word that is half typed.
      await page.fill('.memory-search input', '')
      await page.focus('.memory-search input')
      const wire = await page.context().newCDPSession(page)
      for (const text of ['ㅈ', '주', '줓', '주차']) {
        await wire.send('Input.imeSetComposition', { text, selectionStart: text.length, selectionEnd: text.length })
        await page.waitForTimeout(30)
        assert.ok((await texts(page)).some((one) => one.includes('주차')), text)
      }
      await page.fill('.memory-search input', '없는 말')
      await page.locator('.documents-main > [role=status]', { hasText: '검색 결과가 없습니다' }).waitFor()
    },
  },
  {
    name: 'a memory that cannot be read, written or reached says so',
    options: { locale: 'en-GB' },
    async run({ page, base, server, shoot }) {
      await page.goto(base + MEMORY)
      await page.locator('.fact').first().waitFor()
      // A fact that is gone already just goes.
      server.facts.delete('44566381258c')
      await page.locator('.fact-delete').first().click()
      await page.click('dialog button.danger')
      await page.waitForFunction(() => document.querySelectorAll('.fact').length === 2)
      assert.equal(await page.locator('.fact .bad').count(), 0)

      const unavailable = { status: 503, contentType: 'application/problem+json', body: JSON.stringify({ code: 'unavailable', status: 503, title: 'not available now', title_ko: '지금은 쓸 수 없습니다', detail: 'the memories could not be written or read', detail_ko: '기억에 쓰거나 읽지 못했습니다' }) }
      await page.route('**/api/memory**', (route) => route.fulfill(unavailable))
      await page.locator('.fact-delete').first().click()
      await page.click('dialog button.danger')
      await page.locator('.fact [role=alert]', { hasText: 'the memories could not be written or read' }).waitFor()
      assert.equal(await page.locator('.fact').count(), 2)
      await page.reload()
      await page.locator('.card.problem', { hasText: 'the memories could not be written or read' }).waitFor()
      await shoot('memory-problem-en')
      await checkAccessibility(page, 'a memory that cannot be read')
      await page.unroute('**/api/memory**')
      await page.click('.card.problem button')
      await page.waitForFunction(() => document.querySelectorAll('.fact').length === 2)
      assert.equal(await page.locator('.card.problem').count(), 0)

      server.settings.hasMemory = false
      await page.reload()
      await page.locator('.memory-note', { hasText: 'Memory is switched off on this server' }).waitFor()
      assert.equal(await page.locator('.card.problem, .fact').count(), 0)
      await shoot('memory-off-en')
      // What changed while the page was out of sight is there when it is seen again.
      server.settings.hasMemory = true
      await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')))
      await page.waitForFunction(() => document.querySelectorAll('.fact').length === 2)

      server.settings.key = 'secret-key-2'
      await page.reload()
      await page.waitForSelector('dialog[open] input[type=password]')
      assert.equal(await page.locator('.fact').count(), 0)
      await page.fill('dialog[open] input[type=password]', 'secret-key-2')
      await page.keyboard.press('Enter')
      await page.waitForFunction(() => document.querySelectorAll('.fact').length === 2)
    },
  },
  ...[['ko-KR', 'light', 390], ['en-GB', 'dark', 360]].map(([locale, colorScheme, width]) => ({
    name: `the memory is opened from the settings and read on a screen of ${width} pixels`,
    options: { locale, colorScheme, ...PHONE, viewport: { width, height: 780 } },
    async run({ page, server, shoot }) {
      remember(server, 8)
      server.facts.set('a', { id: 'aaaaaaaaaaaa', text: `https://example.com/${'long/'.repeat(60)} 긴 주소`, at: Date.now() })
      await waitUntilReady(page)
      await page.click('.top .only-narrow')
      await page.click('button.place')
      await page.waitForSelector('dialog[open]')
      await page.locator('dialog section button', { hasText: locale === 'ko-KR' ? '기억하는 사실 보기' : 'Show the facts' }).scrollIntoViewIfNeeded()
      await page.waitForTimeout(300)
      await shoot(`memory-settings-${width}`)
      await checkAccessibility(page, 'settings with the memory')
      await page.locator('dialog section button', { hasText: locale === 'ko-KR' ? '기억하는 사실 보기' : 'Show the facts' }).click()
      await page.locator('.fact').first().waitFor()
      assert.equal(await page.locator('dialog, .shell.has-drawer').count(), 0)
      await page.waitForTimeout(300)
      await shoot(`memory-phone-${width}`)
      await checkNoHorizontalScroll(page)
      const over = await page.locator('.documents').evaluate((one) => one.scrollWidth - one.clientWidth)
      assert.ok(over <= 0, `the list is ${over} px too wide`)
      for (const box of await page.locator('.fact-delete').evaluateAll((all) => all.map((one) => one.getBoundingClientRect().toJSON()))) {
        assert.ok(box.right <= width && box.width >= 24 && box.height >= 24, JSON.stringify(box))
      }
      await checkAccessibility(page, 'memory on a phone')
    },
  })),
]

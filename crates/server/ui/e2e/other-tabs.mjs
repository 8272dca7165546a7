// Tests with the mock server: questions that the server refuses, and what other tabs and keys do to the open conversation.

import assert from 'node:assert/strict'
import { askQuestion, checkAccessibility, waitForAnswer, waitUntilReady } from './page-actions.mjs'

const box = (page) => page.locator('.composer textarea')
const send = (base, path, method, body) => fetch(base + path, { method, headers: { 'content-type': 'application/json' }, ...(body ? { body: JSON.stringify(body) } : {}) })

export const otherTabTests = [
  {
    name: 'a question that is too long comes back into the box, and no empty conversation is left',
    async run({ page, server, shoot }) {
      await waitUntilReady(page)
      const before = server.threads.size
      server.settings.maxMessage = 50
      const long = '긴 글입니다. '.repeat(20).trim()
      await askQuestion(page, long)
      await page.locator('.dock .card.problem', { hasText: '질문이 너무 깁니다. 긴 글은 파일로 첨부하세요.' }).waitFor()
      assert.equal(await box(page).inputValue(), long)
      assert.equal(new URL(page.url()).pathname, '/')
      await page.waitForSelector('.agent')
      await shoot('question-too-long')
      await checkAccessibility(page, 'a question that is too long')
      assert.equal(server.threads.size, before)
      await page.reload()
      await waitUntilReady(page)
      assert.equal(await box(page).inputValue(), long)
      await askQuestion(page, '짧은 질문')
      await waitForAnswer(page)
      assert.equal(await page.locator('.dock .card.problem').count(), 0)
      // In a conversation with turns the same.
      await askQuestion(page, long)
      await page.locator('.dock .card.problem', { hasText: '질문이 너무 깁니다' }).waitFor()
      assert.equal(await box(page).inputValue(), long)
      assert.equal(await page.locator('.turn').count(), 1)
      assert.equal(await page.locator('.activity.is-live').count(), 0)
    },
  },
  {
    name: 'a refused question waits with a button when something else is being written',
    async run({ page, server }) {
      await waitUntilReady(page)
      await askQuestion(page, '첫 질문')
      await waitForAnswer(page)
      let refuse = () => undefined
      const held = new Promise((resolve) => { refuse = resolve })
      await page.route('**/runs', async (route) => {
        if (route.request().method() !== 'POST') return route.continue()
        await held
        await route.fulfill({ status: 422, contentType: 'application/problem+json', body: JSON.stringify({ code: 'refused', status: 422, title: 'refused', title_ko: '거절했습니다' }) })
      })
      await askQuestion(page, '둘째 질문')
      await page.locator('.bubble', { hasText: '둘째 질문' }).waitFor()
      await box(page).fill('쓰던 글')
      refuse()
      const again = page.locator('.turn.is-last button', { hasText: '다시 보내기' })
      await again.waitFor()
      assert.equal(await box(page).inputValue(), '쓰던 글')
      assert.equal(await page.locator('.activity.is-live').count(), 0)
      await page.unroute('**/runs')
      await again.click()
      await waitForAnswer(page)
      assert.deepEqual(server.threads.get(page.url().split('/').pop()).messages.filter((one) => one.role === 'user').map((one) => one.text), ['첫 질문', '둘째 질문'])
      assert.equal(await box(page).inputValue(), '쓰던 글')
    },
  },
  {
    name: 'a key that is revoked loses no question, and a wrong key is said to be wrong',
    async run({ page, server, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, '육아휴직은?')
      await waitForAnswer(page)
      server.settings.key = 'secret-key-2'
      await askQuestion(page, '중요한 긴 질문')
      await page.waitForSelector('dialog[open] input[type=password]')
      assert.equal(await box(page).inputValue(), '중요한 긴 질문')
      assert.equal(await page.locator('.activity.is-live').count(), 0)
      assert.doesNotMatch((await page.textContent('body')) ?? '', /API 키가 필요합니다/)
      await page.fill('dialog[open] input[type=password]', 'wrong')
      await page.keyboard.press('Enter')
      await page.locator('dialog[open] [role=alert]', { hasText: '키가 맞지 않습니다. 다시 확인하세요.' }).waitFor()
      assert.equal(await page.getAttribute('dialog[open] input', 'placeholder'), 'Doran 서버 키')
      await shoot('key-wrong')
      await checkAccessibility(page, 'a wrong key')
      await page.fill('dialog[open] input[type=password]', 'secret-key-2')
      await page.keyboard.press('Enter')
      await page.waitForSelector('dialog[open]', { state: 'detached' })
      await box(page).press('Enter')
      await page.waitForFunction(() => document.querySelectorAll('.turn').length === 2)
      await waitForAnswer(page)
    },
  },
  {
    name: 'a conversation that was deleted elsewhere says so and is not made anew by a question',
    async run({ page, base, server, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, '첫 질문')
      await waitForAnswer(page)
      const thread = page.url().split('/').pop()
      // It was deleted a moment ago, and the page has not noticed.
      await page.route(`**/api/threads/${thread}`, (route) => route.fulfill({ json: server.threads.has(thread) ? { updated: 1, active: null } : {}, status: server.threads.has(thread) ? 200 : 404 }))
      await send(base, `/api/threads/${thread}`, 'DELETE')
      await askQuestion(page, '삭제된 대화에 질문')
      await page.locator('.dock [role=alert]', { hasText: '이 대화는 삭제되었습니다' }).waitFor()
      assert.equal(await box(page).inputValue(), '삭제된 대화에 질문')
      assert.equal(server.threads.has(thread), false)
      assert.equal(await page.locator('.turn').count(), 1)
      await shoot('deleted-elsewhere')
      await checkAccessibility(page, 'a conversation that was deleted elsewhere')
      await box(page).press('Enter')
      assert.equal(await box(page).inputValue(), '삭제된 대화에 질문')
      await page.click('.dock .blocked button')
      await waitUntilReady(page)
      assert.equal(await box(page).inputValue(), '삭제된 대화에 질문')
    },
  },
  {
    name: 'an idle tab shows what another one asks, answers and deletes',
    async run({ page, base, server }) {
      await waitUntilReady(page)
      await askQuestion(page, '첫 질문')
      await waitForAnswer(page)
      const thread = page.url().split('/').pop()
      await (await send(base, `/api/threads/${thread}/runs`, 'POST', { agent: 'assistant', message: '다른 탭의 질문' })).text()
      await page.locator('.bubble', { hasText: '다른 탭의 질문' }).waitFor()
      await send(base, `/api/threads/${thread}`, 'DELETE')
      await page.locator('.dock [role=alert]', { hasText: '이 대화는 삭제되었습니다' }).waitFor()
    },
  },
  {
    name: 'an approval that was given elsewhere says so',
    async run({ page, base, server, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, '메일을 보내줘')
      await page.waitForSelector('.approval')
      const thread = page.url().split('/').pop()
      const run = server.threads.get(thread).runs[0].id
      // The page has not noticed.
      await page.route(`**/api/threads/${thread}`, (route) => route.abort())
      await send(base, `/api/threads/${thread}/runs/${run}/resume`, 'POST', { answers: { [`q-${run}`]: { retry: true } } })
      await page.click('.approval .row .primary')
      await page.locator('.turn .note', { hasText: '다른 곳에서 이미 답했습니다.' }).waitFor()
      await waitForAnswer(page)
      assert.equal(await page.locator('.approval').count(), 0)
      await shoot('answered-elsewhere')
    },
  },
]

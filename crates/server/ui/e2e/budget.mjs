// Tests of prices and of the budget of the month, with the real program and a mock model provider whose model has a price.

import assert from 'node:assert/strict'
import { askQuestion, checkAccessibility, checkNoHorizontalScroll, waitForAnswer, waitUntilReady } from './page-actions.mjs'

/** 1 cent a month, 1,400 won for a dollar, and a question that costs 0.42 cents. */
export const budgetSettings = ({ modelId }) => `model = "${modelId}"\nsmall_model = "${modelId}"\nkrw_per_usd = 1400\nmonthly_budget_cents = 1\n[prices."${modelId}"]\ninput = 10\noutput = 100\n`

const ask = (base, thread) => fetch(`${base}/api/threads/${thread}/runs?wait=true`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ agent: 'react', message: 'TOKENS 30' }) })

export const budgetTests = [
  {
    name: 'what a question costs is shown in dollars and won, and a budget that is spent stops questions and evaluations',
    options: { locale: 'ko-KR' },
    async run({ page, base, shoot }) {
      await waitUntilReady(page)
      await page.locator('.agent', { hasText: '도구 채팅' }).click()
      await askQuestion(page, 'TOKENS 30')
      await waitForAnswer(page)
      assert.match((await page.textContent('.turn.is-last .spent')) ?? '', /150토큰 · \$0\.0042/)
      await page.click('a.place[href="/usage"]')
      for (const place of ['.usage-total', '.usage-view section[aria-label="이번 달 예산"]', '.usage-view tbody']) {
        await page.locator(place, { hasText: /\$0\.0\d+ · ₩[1-9]/ }).first().waitFor()
      }
      assert.equal(await page.locator('.usage-note', { hasText: '가격을 모르는' }).count(), 0)
      await shoot('usage-won')
      // Others spend the rest.
      let refused = null
      for (let at = 0; refused === null; at++) {
        assert.ok(at < 5, 'more is spent than the budget and the call that goes over it')
        const response = await ask(base, `spend-${at}`)
        if (response.status === 402) refused = await response.json()
        else await response.text()
      }
      assert.equal(refused.code, 'budget_spent')
      // What a deleted chat used stays spent, and is shown.
      assert.equal((await fetch(`${base}/api/threads/spend-0`, { method: 'DELETE' })).status, 204)
      await page.reload()
      await page.locator('.usage-view .card.problem', { hasText: '예산을 다 썼습니다' }).waitFor()
      await page.locator('.usage-deleted', { hasText: /삭제한 대화: 실행 1개.*\$0\.0\d+ · ₩[1-9]/ }).waitFor()
      await shoot('budget-spent')
      await checkAccessibility(page, 'a budget that is spent')
      await page.goto(base)
      await waitUntilReady(page)
      await askQuestion(page, '아직 물어볼 수 있나요?')
      await page.locator('main [role=alert]', { hasText: '예산' }).first().waitFor()
      await shoot('budget-refused')
      await page.setViewportSize({ width: 390, height: 844 })
      await checkNoHorizontalScroll(page)
      await page.setViewportSize({ width: 1360, height: 860 })
      await fetch(`${base}/api/evals/budget/cases/one`, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ id: 'one', agent: 'react', ask: 'TOKENS 30', expect: { contains: ['quick'] } }) })
      await page.goto(`${base}/evals/budget`)
      await page.click('.eval-run .primary')
      await page.locator('.eval-run [role=alert]', { hasText: '예산' }).waitFor()
    },
  },
]

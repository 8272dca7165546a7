// Actions and checks that the tests share.

import { createRequire } from 'node:module'
import assert from 'node:assert/strict'

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js')

export const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 }

export async function waitUntilReady(page) {
  await page.waitForSelector('.agent')
}

/** Types a question and sends it. */
export async function askQuestion(page, text) {
  await page.waitForSelector('.composer textarea')
  await page.fill('.composer textarea', text)
  await page.press('.composer textarea', 'Enter')
}

export async function waitForAnswer(page) {
  await page.waitForSelector('.turn.is-last .answer[data-status=finished]')
  await page.waitForSelector('.turn.is-last .answer-foot')
}

export async function answerText(page) {
  return (await page.textContent('.turn.is-last .markdown')) ?? ''
}

/** Fails on serious accessibility violations. */
export async function checkAccessibility(page, what) {
  // Wait for transitions to end, or colours in between are measured.
  await page.addStyleTag({ content: '' }).catch(() => undefined)
  await page.waitForTimeout(350)
  const source = await (await import('node:fs/promises')).readFile(axe, 'utf8')
  // Evaluated through the debugger: the CSP of the page blocks other scripts.
  await page.evaluate(source)
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }))
  const bad = violations.filter((one) => one.impact === 'serious' || one.impact === 'critical')
  const problems = bad.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 140)} ${node.any?.[0]?.message ?? ''}`).join(' | ')}`)
  assert.equal(bad.length, 0, `${what}: ${problems.join('\n')}`)
}

export async function checkNoHorizontalScroll(page) {
  const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
  assert.ok(over <= 0, `the page is ${over} px wider than the screen`)
}

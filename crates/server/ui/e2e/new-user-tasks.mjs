// Ten tasks of a new user, in the order in which they come up, on one server that starts empty. Every task keeps a screenshot.

import assert from 'node:assert/strict'
import { answerText, askQuestion, checkAccessibility, checkNoHorizontalScroll, PHONE, waitForAnswer, waitUntilReady } from './page-actions.mjs'

const OFFLINE = 'offline-extractive-2'
const CONTRACT_NAME = '용역계약서_데모.md'
const CONTRACT = '# 용역계약서\n\n제1조(목적) 이 계약은 검색 화면의 개발을 정한다.\n\n제2조(대금) 갑은 세금계산서를 받은 날부터 45일 안에 대금을 지급한다.\n\n제3조(해지) 당사자는 30일 전에 서면으로 알리고 이 계약을 해지할 수 있다.\n'
const CONTRACT_QUESTION = '대금은 며칠 안에 지급하나요?'
const DAY_MS = 86_400_000

/** The settings of the server: only the calculator asks before it runs. */
export const NEW_USER_SETTINGS = '[tools.policies]\ncalculator = "ask"\n'

/** Makes the scripted model the default, as the first task does on the page. */
async function connectModel(base, modelProvider) {
  const response = await fetch(`${base}/api/models/default`, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ model: modelProvider.modelId }) })
  assert.equal(response.status, 200, await response.text())
}

/** Uploads the contract, if it is not there. */
async function uploadContract(base) {
  const list = async () => (await (await fetch(`${base}/api/documents`)).json()).documents
  if (!(await list()).some(({ name }) => name === CONTRACT_NAME)) {
    await fetch(`${base}/api/documents?name=${encodeURIComponent(CONTRACT_NAME)}&kind=contract`, { method: 'POST', headers: { 'content-type': 'application/octet-stream' }, body: CONTRACT })
  }
  for (let at = 0; !(await list()).some(({ name, status }) => name === CONTRACT_NAME && status === 'ready'); at++) {
    assert.ok(at < 600, 'the contract is not read')
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

/** Asks about the contract, with the model that quotes. Another one is the default. */
async function askAboutContract(page) {
  await waitUntilReady(page)
  await page.locator('.model-picker select').selectOption(OFFLINE)
  await askQuestion(page, CONTRACT_QUESTION)
  await waitForAnswer(page)
}

/** What the tasks before have left behind: a model is connected and the contract is there. */
async function prepare({ page, base, modelProvider }) {
  await connectModel(base, modelProvider)
  await uploadContract(base)
  await page.reload()
}

export const newUserTasks = [
  {
    name: 'task 1: connect a model',
    async run({ page, modelProvider, shoot }) {
      await waitUntilReady(page)
      await page.click('.connect-card .primary')
      await page.selectOption('#connect-place', 'own')
      await page.fill('#connect-model', modelProvider.modelId)
      await page.click('.connect-model button:has-text("테스트")')
      await page.locator('.note.good', { hasText: '답했습니다' }).waitFor()
      await shoot('task-01-connect-a-model')
      await page.click('.connect-model .primary')
      await page.waitForSelector('dialog', { state: 'detached' })
      await askQuestion(page, '길게 써 주세요')
      await waitForAnswer(page)
      assert.match(((await page.textContent('.turn.is-last .answer-head .badge-name')) ?? '').trim(), /scripted/)
    },
  },
  {
    name: 'task 2: upload a contract and ask about it',
    async run({ page, base, modelProvider, shoot }) {
      await connectModel(base, modelProvider)
      await page.reload()
      await waitUntilReady(page)
      await page.click('a.place[href="/documents"]')
      // The server recognises a contract.
      assert.equal(await page.locator('.drop select').inputValue(), 'auto')
      await page.setInputFiles('.drop input[type=file]', { name: CONTRACT_NAME, mimeType: 'text/markdown', buffer: Buffer.from(CONTRACT) })
      await page.locator('.doc.is-ready', { hasText: CONTRACT_NAME }).locator('.tag', { hasText: '계약서' }).waitFor()
      await page.click('.sidebar .new')
      await askAboutContract(page)
      assert.match(await answerText(page), /45일/)
      await shoot('task-02-ask-about-a-contract')
      await checkAccessibility(page, 'an answer about a contract')
    },
  },
  {
    name: 'task 3: open the quotation',
    options: { locale: 'ko-KR', colorScheme: 'dark' },
    async run({ page, base, modelProvider, shoot }) {
      await prepare({ page, base, modelProvider })
      await askAboutContract(page)
      await page.locator('.turn.is-last .cite').first().click()
      await page.waitForSelector('.document-text mark')
      assert.match((await page.locator('.document-text mark').allTextContents()).join(''), /45일 안에 대금을 지급한다/)
      await shoot('task-03-open-the-quotation')
    },
  },
  {
    name: 'task 4: edit a question',
    async run({ page, base, modelProvider, shoot }) {
      await prepare({ page, base, modelProvider })
      await askAboutContract(page)
      await page.hover('.turn.is-last .asked')
      await page.click('.turn.is-last .asked [title="질문 수정"]')
      // It puts the caret at the end when it opens. Text that is filled in before that is appended.
      await page.locator('.question-editor textarea:focus').waitFor()
      await page.fill('.question-editor textarea', '해지하려면 며칠 전에 알려야 하나요?')
      await page.press('.question-editor textarea', 'Enter')
      await page.locator('.versions-count', { hasText: '2/2' }).waitFor()
      await waitForAnswer(page)
      assert.match(await answerText(page), /30일/)
      await shoot('task-04-edit-a-question')
    },
  },
  {
    name: 'task 5: stop an answer',
    options: { ...PHONE, locale: 'en-GB' },
    async run({ page, base, modelProvider, shoot }) {
      await connectModel(base, modelProvider)
      modelProvider.settings.pace = 60
      await page.reload()
      await waitUntilReady(page)
      await askQuestion(page, 'Write something long')
      await page.waitForFunction(() => document.querySelector('.markdown')?.textContent?.includes('문장 1'))
      await page.click('.round.stop')
      await page.waitForSelector('.answer[data-status=cancelled]')
      await shoot('task-05-stop')
      await checkNoHorizontalScroll(page)
    },
  },
  {
    name: 'task 6: approve a tool',
    options: { locale: 'en-GB' },
    async run({ page, base, modelProvider, shoot }) {
      await connectModel(base, modelProvider)
      await page.reload()
      await waitUntilReady(page)
      await askQuestion(page, '연차 15일 중 6.5일을 썼으면 며칠 남았는지 계산해 주세요.')
      await page.locator('.approval', { hasText: '15 - 6.5' }).waitFor()
      await shoot('task-06-approve')
      await page.click('.approval .primary')
      await waitForAnswer(page)
      assert.match(await answerText(page), /8\.5일/)
    },
  },
  {
    name: "task 7: find yesterday's chat",
    options: { locale: 'en-GB', colorScheme: 'dark' },
    async run({ page, base, modelProvider, shoot }) {
      await prepare({ page, base, modelProvider })
      await askAboutContract(page)
      const first = new URL(page.url()).pathname
      // It is tomorrow now.
      await page.clock.setFixedTime(Date.now() + DAY_MS)
      await page.goto(base)
      await waitUntilReady(page)
      await page.locator('.thread-list h2', { hasText: 'Yesterday' }).waitFor()
      await page.fill('.sidebar .search input', '대금')
      await page.locator('.thread', { hasText: CONTRACT_QUESTION }).first().waitFor()
      await shoot('task-07-find-a-chat')
      await page.locator(`.thread a[href="${first}"]`).click()
      await page.waitForSelector('.turn.is-last .markdown')
      assert.match(await answerText(page), /45일/)
    },
  },
  {
    name: 'task 8: see the cost',
    async run({ page, base, modelProvider, shoot }) {
      await connectModel(base, modelProvider)
      await page.reload()
      await waitUntilReady(page)
      await askQuestion(page, '길게 써 주세요')
      await waitForAnswer(page)
      assert.match((await page.textContent('.turn.is-last .spent')) ?? '', /\d+토큰 · 가격 정보 없음/)
      await page.click('a.place[href="/usage"]')
      await page.locator('.usage th[scope=row]', { hasText: 'scripted' }).first().waitFor()
      assert.match((await page.textContent('.usage-total')) ?? '', /–$/, 'what has no price did not cost nothing')
      await shoot('task-08-see-the-cost')
      await checkAccessibility(page, 'usage')
    },
  },
  {
    name: 'task 9: inspect a wrong answer',
    options: { locale: 'en-GB' },
    async run({ page, base, modelProvider, shoot }) {
      await prepare({ page, base, modelProvider })
      await waitUntilReady(page)
      await page.locator('.model-picker select').selectOption(OFFLINE)
      await askQuestion(page, '점심 메뉴는 무엇인가요?')
      await waitForAnswer(page)
      await page.click('.turn.is-last .answer-foot [title="Inspect"]')
      await page.locator('.timeline li > button', { hasText: 'rag' }).click()
      // What was found, with scores, tells why the answer is wrong.
      await page.click('.step [role=tab] >> text=Search')
      await page.locator('.hit-notes .score').first().waitFor()
      // The step that was opened is the one that stands out in the graph.
      await page.locator('.graph-frame .is-running', { hasText: 'rag' }).waitFor()
      await shoot('task-09-inspect')
      await checkAccessibility(page, 'an inspected answer')
    },
  },
  {
    name: 'task 10: turn an answer into a test case, and see later that it got better',
    async run({ page, base, modelProvider, shoot }) {
      await prepare({ page, base, modelProvider })
      await fetch(`${base}/api/evals/${encodeURIComponent('계약')}`, { method: 'DELETE' })
      await askAboutContract(page)
      await page.click('.turn.is-last .answer-foot [title="인스펙터에서 보기"]')
      await page.click('.inspector [aria-label="평가 사례로 저장"]')
      const dialog = page.locator('dialog[open]')
      await dialog.waitFor()
      const name = dialog.locator('label:has-text("평가 이름") input')
      await name.waitFor()
      assert.equal(await name.inputValue(), '내-평가')
      assert.ok(await dialog.locator('.primary').isEnabled(), 'the case can be saved at once')
      await name.fill('내 평가')
      await dialog.locator('.bad', { hasText: '띄어쓰기' }).waitFor()
      assert.ok(await dialog.locator('.primary').isDisabled())
      await name.fill('계약')
      await dialog.locator('label:has-text("들어 있어야") textarea').fill('99일')
      await shoot('task-10-save-a-case')
      await checkAccessibility(page, 'the dialog that saves a case')
      await dialog.locator('.primary').click()
      await page.waitForURL((url) => url.pathname.startsWith('/evals/'))
      // Asked with the model that is the default now, and with the one that quotes.
      await page.locator('.eval-run label', { hasText: OFFLINE }).locator('input').check()
      await page.click('.eval-run .primary')
      await page.waitForFunction(() => document.querySelectorAll('.outcome.is-failed').length === 2)
      assert.match((await page.locator('.eval-model').allTextContents()).sort().join(), /offline-extractive-2.*scripted/)
      await shoot('task-10-failed')
      await page.click('.eval-cases [title="편집"]')
      await page.locator('.eval-form label:has-text("들어 있어야") textarea').fill('45일')
      await page.click('.eval-form .primary')
      await page.waitForSelector('.eval-form', { state: 'detached' })
      await page.click('.eval-run .primary')
      await page.locator('.outcome.is-passed .change-mended').waitFor()
      assert.equal(await page.locator('.outcome.is-failed').count(), 1, 'the other model does not know the contract')
      await shoot('task-10-passed')
      await checkAccessibility(page, 'the results of an evaluation')
      await page.setViewportSize({ width: 390, height: 844 })
      await checkNoHorizontalScroll(page)
      await shoot('task-10-phone')
    },
  },
]

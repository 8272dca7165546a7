// Tests with the real program and a mock model provider that answers slowly, with tool calls, with hostile text, or with
// an error.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { HOSTILE } from './mock-data.mjs'
import { checkAccessibility, answerText, askQuestion, waitForAnswer, checkNoHorizontalScroll, PHONE, waitUntilReady } from './page-actions.mjs'
import { BRACKETS, LONG, REFUSAL } from './mock-model-provider.mjs'

const SLOW_PACE_MS = 40
const CALCULATION = '연차 15일 중 6.5일을 썼으면 며칠 남았는지 계산해 주세요.'

const waitForThirdSentence = (page) => page.waitForFunction(() => document.querySelector('.markdown')?.textContent?.includes('문장 3은'))

const badge = async (page) => (await page.textContent('.turn.is-last .answer-head .badge-name'))?.trim()

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
      await page.locator('.note.is-live', { hasText: 'It goes on when the connection is back.' }).waitFor()
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
      assert.match((await page.textContent('.turn.is-last .spent')) ?? '', /약 [\d,]+토큰/)
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
      await page.fill('.composer textarea', '다음 질문')
      await page.press('.composer textarea', 'Enter')
      await page.locator('.blocked', { hasText: '새 질문을 보낼 수 없습니다' }).waitFor()
      assert.equal(await page.inputValue('.composer textarea'), '다음 질문')
      await shoot('blocked')
      await page.fill('.composer textarea', '')
      await page.click('.approval .primary')
      await waitForAnswer(page)
      assert.match(await answerText(page), /8\.5일/)
      await page.click('.activity-line')
      await page.waitForSelector('.tool.is-done')
      const decided = async () => ((await page.textContent('.decision summary')) ?? '').trim()
      assert.match(await decided(), /calculator 승인함.*\d{1,2}:\d{2}/s)
      // The decision stays when its run is not the newest any more.
      await askQuestion(page, '다시 써 주세요')
      await page.waitForFunction(() => document.querySelectorAll('.turn').length === 2)
      await waitForAnswer(page)
      await page.reload()
      await waitForAnswer(page)
      assert.match(await decided(), /calculator 승인함/)
      await page.click('.decision summary')
      assert.match((await page.textContent('.decision')) ?? '', /15 - 6\.5/)
      await shoot('decision')
    },
  },
  {
    name: 'arguments can be edited, a tool can be allowed for the chat, and the inbox lists what waits',
    options: { locale: 'en-GB' },
    async run({ page, base, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, CALCULATION)
      await page.waitForSelector('.approval')
      const thread = page.url()
      await page.locator('.place .count', { hasText: /\d/ }).waitFor()
      await page.click('a.place[href="/inbox"]')
      const waiting = page.locator('.waiting-run', { hasText: '연차 15일 중' })
      await waiting.first().waitFor()
      await shoot('inbox')
      await checkAccessibility(page, 'inbox')
      await waiting.first().locator('.link', { hasText: 'Edit the arguments' }).click()
      await waiting.first().locator('textarea').fill('{"expression": 1')
      await waiting.first().locator('.bad', { hasText: 'not a JSON object' }).waitFor()
      assert.ok(await waiting.first().locator('.primary').isDisabled())
      await waiting.first().locator('textarea').fill('{"expression": "20 - 11.5"}')
      await waiting.first().locator('button', { hasText: 'Always approve' }).click()
      await page.waitForFunction(() => document.querySelectorAll('.waiting-run').length === 0)
      await page.goto(thread)
      await waitForAnswer(page)
      assert.match(await answerText(page), /8\.5일/)
      const decision = page.locator('.decision')
      assert.match((await decision.locator('summary').textContent()) ?? '', /always approved in this chat.*arguments edited/s)
      await decision.locator('summary').click()
      assert.match((await decision.textContent()) ?? '', /20 - 11\.5.*15 - 6\.5/s)
      await shoot('decision-edited')
      await checkAccessibility(page, 'a decision')
      // The tool is not asked about again in this chat.
      await askQuestion(page, CALCULATION)
      await page.waitForFunction(() => document.querySelectorAll('.turn').length === 2)
      await waitForAnswer(page)
      assert.equal(await page.locator('.approval').count(), 0)
      assert.deepEqual(await runStatuses(base, page), ['finished', 'finished'])
    },
  },
  {
    name: 'an edited question starts a branch, and each version keeps what followed it',
    async run({ page, base, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, '길게 써 주세요')
      await waitForAnswer(page)
      await askQuestion(page, '하나 더 써 주세요')
      await page.waitForFunction(() => document.querySelectorAll('.turn').length === 2)
      await waitForAnswer(page)
      await page.hover('.turn:first-child .asked')
      await page.click('.turn:first-child .asked [title="질문 수정"]')
      // It puts the caret at the end when it opens. Text that is filled in before that is appended.
      await page.locator('.question-editor textarea:focus').waitFor()
      await page.fill('.question-editor textarea', 'BRACKETS')
      await shoot('edit-question')
      await checkAccessibility(page, 'an edited question')
      await page.press('.question-editor textarea', 'Enter')
      await page.locator('.versions-count', { hasText: '2/2' }).waitFor()
      await waitForAnswer(page)
      assert.deepEqual((await page.locator('.bubble').allTextContents()).map((text) => text.replace('나: ', '')), ['BRACKETS'])
      // The title of the conversation is the question that is shown.
      await page.locator('.thread.is-open .thread-title', { hasText: 'BRACKETS' }).waitFor()
      await shoot('version-2')
      await page.click('.versions [title="이전 버전"]')
      await page.locator('.versions-count', { hasText: '1/2' }).waitFor()
      await page.waitForFunction(() => document.querySelectorAll('.turn').length === 2)
      await shoot('version-1')
      // Asking here continues this version, without the other one in the context.
      await askQuestion(page, '세 번째를 써 주세요')
      await page.waitForFunction(() => document.querySelectorAll('.turn').length === 3)
      await waitForAnswer(page)
      const thread = new URL(page.url()).pathname.slice(3)
      const { state } = await (await fetch(`${base}/api/threads/${thread}/state`)).json()
      assert.doesNotMatch(JSON.stringify(state), /BRACKETS/)
      await page.reload()
      await waitForAnswer(page)
      assert.equal(await page.locator('.turn').count(), 3)
      await page.hover('.turn:nth-child(2) .asked')
      await page.click('.turn:nth-child(2) .answer-foot [title="다시 답하기"]')
      await page.locator('.turn:nth-child(2) .versions-count', { hasText: '2/2' }).waitFor()
      await waitForAnswer(page)
      assert.equal(await page.locator('.turn').count(), 2)
      // A question that the server refuses leaves the conversation as it was.
      const refusal = { status: 400, contentType: 'application/problem+json', body: JSON.stringify({ status: 400, code: 'bad_input', title: 'no', title_ko: '거절합니다' }) }
      await page.route('**/runs', (route) => (route.request().method() === 'POST' ? route.fulfill(refusal) : route.continue()))
      await page.click('.turn:nth-child(1) .answer-foot [title="다시 답하기"]')
      await page.locator('.turn:nth-child(1) .card.problem', { hasText: '거절합니다' }).waitFor()
      assert.equal(await page.locator('.turn').count(), 2)
    },
  },
  {
    name: 'a question that is sent while a run works waits for its turn and can be cancelled',
    options: { ...PHONE, locale: 'ko-KR' },
    async run({ page, base, modelProvider, shoot }) {
      modelProvider.settings.pace = SLOW_PACE_MS
      await waitUntilReady(page)
      await askQuestion(page, '길게 써 주세요')
      await waitForThirdSentence(page)
      await askQuestion(page, '둘째 질문')
      await page.locator('.turn.is-last .note', { hasText: '앞의 실행이 끝나면 시작합니다' }).waitFor()
      await askQuestion(page, '셋째 질문')
      await page.waitForFunction(() => document.querySelectorAll('.turn').length === 3)
      await page.locator('.turn.is-last .note', { hasText: '앞의 실행이 끝나면 시작합니다' }).waitFor()
      await shoot('queued-phone')
      await checkNoHorizontalScroll(page)
      await page.click('.turn.is-last .note .link')
      await page.waitForFunction(() => document.querySelectorAll('.turn').length === 2)
      modelProvider.settings.pace = 0
      await page.waitForSelector('.turn:nth-child(2) .answer[data-status=finished]')
      assert.deepEqual(await runStatuses(base, page), ['cancelled', 'finished', 'finished'])
      await page.reload()
      await waitForAnswer(page)
      assert.equal(await page.locator('.turn').count(), 2)
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
    name: 'a question in line is shown after a reload, in another tab and when it is answered',
    async run({ page, base, modelProvider, shoot }) {
      modelProvider.settings.pace = SLOW_PACE_MS
      await waitUntilReady(page)
      await askQuestion(page, '길게 써 주세요')
      await waitForThirdSentence(page)
      assert.match(await page.textContent('.turn.is-last .activity-now'), /답을 쓰고 있습니다/)
      await askQuestion(page, '이것도 길게 써 주세요')
      await page.locator('.turn.is-last .note', { hasText: '앞의 실행이 끝나면 시작합니다' }).waitFor()
      const questions = (tab) => tab.locator('.bubble').evaluateAll((all) => all.map((one) => one.textContent.replace('나: ', '')))
      await page.waitForFunction(() => Object.keys(localStorage).some((key) => key.startsWith('doran.queued.')))
      await page.reload()
      await page.waitForFunction(() => document.querySelectorAll('.bubble').length === 2)
      await shoot('in-line-after-a-reload')
      const second = await page.context().newPage()
      await second.goto(page.url())
      await second.waitForFunction(() => document.querySelectorAll('.bubble').length === 2)
      // Another browser does not know the question before its run starts.
      const stranger = await page.context().browser().newContext({ locale: 'ko-KR' })
      const third = await stranger.newPage()
      await third.goto(page.url())
      await third.locator('.turn.is-last .note', { hasText: '다른 곳에서 보낸 질문입니다' }).waitFor()
      modelProvider.settings.pace = 5
      for (const tab of [page, second, third]) {
        await waitForAnswer(tab)
        assert.deepEqual(await questions(tab), ['길게 써 주세요', '이것도 길게 써 주세요'])
      }
      await page.reload()
      await waitForAnswer(page)
      assert.deepEqual(await questions(page), ['길게 써 주세요', '이것도 길게 써 주세요'])
      assert.equal(await page.evaluate(() => Object.keys(localStorage).some((key) => key.startsWith('doran.queued.'))), false)
      await stranger.close()
    },
  },
  {
    name: 'a failed run says with which model a retry goes on, and offers an answer from the chosen one',
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, 'REFUSE')
      await page.waitForSelector('.answer[data-status=failed] .card.problem')
      assert.equal(await page.locator('.failure-details[open]').count(), 0)
      assert.equal(await page.locator('.card.problem', { hasText: '재시도하면' }).count(), 0)
      const other = await page.locator('.model-picker option').evaluateAll((all) => all.map((one) => one.value).find((one) => one !== '' && !one.startsWith('\0')))
      await page.selectOption('.model-picker select', other)
      await page.locator('.card.problem', { hasText: '재시도하면 이 실행의 모델(scripted)로 이어집니다' }).waitFor()
      await shoot('retry-keeps-its-model')
      await checkAccessibility(page, 'a failed run')
      await page.locator('.card.problem .failure-details summary').click()
      await page.locator('.card.problem .failure-message').waitFor()
      await page.locator('.card.problem button', { hasText: '다시 답하기' }).click()
      await page.locator('.versions-count', { hasText: '2/2' }).waitFor()
    },
  },
  {
    name: 'the badge names the model that wrote the words, and a stopped step stands in the timeline',
    async run({ page, modelProvider, shoot }) {
      modelProvider.settings.pace = SLOW_PACE_MS
      await waitUntilReady(page)
      await askQuestion(page, '길게 써 주세요')
      await waitForThirdSentence(page)
      assert.equal(await badge(page), 'scripted', 'while streaming')
      await page.click('.round.stop')
      await page.waitForSelector('.answer[data-status=cancelled]')
      assert.equal(await badge(page), 'scripted', 'after a stop')
      await page.click('.answer-foot [aria-pressed]')
      await page.waitForSelector('.timeline li.is-cancelled')
      await page.click('.timeline li.is-cancelled button')
      await page.waitForSelector('.timeline .model-calls')
      await page.locator('.timeline li.is-cancelled .tab-body', { hasText: '문장 3은' }).waitFor()
      assert.match((await page.textContent('.timeline li.is-cancelled')) ?? '', /agent.*중지됨.*scripted.*입력 [\d,]+ · 출력 [\d,]+ 토큰\(추정\)/s)
      await shoot('stopped-step')
      await checkAccessibility(page, 'a stopped step')
      modelProvider.settings.pace = 0
      await askQuestion(page, 'REFUSE this')
      await page.waitForSelector('.turn.is-last .card.problem')
      assert.equal(await badge(page), 'scripted', 'after a failure')
      await askQuestion(page, '다시 써 주세요')
      await page.waitForFunction(() => document.querySelectorAll('.turn').length === 3)
      await waitForAnswer(page)
      await page.reload()
      await waitForAnswer(page)
      assert.deepEqual(await page.locator('.answer-head .badge-name').allTextContents(), ['scripted', 'scripted', 'scripted'])
    },
  },
  {
    name: 'what an agent says behind another one is never shown as the answer, and a call that fails is no matter of models',
    options: { locale: 'ko-KR' },
    async run({ page, shoot }) {
      const noAnswer = async () => assert.equal(await page.locator('.turn .markdown').count(), 0, await page.locator('.turn').textContent())
      await waitUntilReady(page)
      await page.locator('.agent', { hasText: 'secretary' }).click()
      await askQuestion(page, 'TOKENS 12')
      await page.locator('.approval', { hasText: '보낼까요?' }).waitFor()
      await noAnswer()
      await page.reload()
      await page.locator('.approval', { hasText: '보낼까요?' }).waitFor()
      await noAnswer()
      await shoot('behind-another')
      await page.fill('.approval input', '네')
      await page.press('.approval input', 'Enter')
      const failed = page.locator('.turn .card.problem')
      await failed.waitFor()
      await noAnswer()
      assert.match((await failed.textContent()) ?? '', /한 단계가 실패해/)
      assert.doesNotMatch((await failed.textContent()) ?? '', /모델/)
      await page.reload()
      await failed.waitFor()
      await noAnswer()
    },
  },
  {
    name: 'a graph of the user stops inside its inner graph, is changed and compared',
    options: { locale: 'en-GB' },
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await page.locator('.agent', { hasText: 'helpdesk' }).click()
      await page.keyboard.press('Control+i')
      await page.click('.breakpoints summary')
      await page.check('[aria-label="say: before"]')
      await askQuestion(page, 'Write something')
      await page.locator('.approval', { hasText: 'Paused before say' }).waitFor()
      await page.locator('.timeline .row-node', { hasText: 'help › look' }).waitFor()
      await shoot('own-graph-paused')
      await page.click('.approval .primary')
      await waitForAnswer(page)
      assert.match(await answerText(page), /더 궁금한 것이 있으면/)
      await page.locator('.timeline li.depth-1', { hasText: 'look' }).waitFor()
      assert.deepEqual((await page.locator('.timeline .row-node').allTextContents()).map((text) => text.trim()), ['help › look', 'help › say', 'help', 'bye'])
      await page.uncheck('[aria-label="say: before"]')
      const first = new URL(page.url()).pathname
      await page.locator('.timeline li > button', { hasText: /^help/ }).last().click()
      await page.click('.step [role=tab] >> text=State')
      await page.click('.step button >> text=Edit the state')
      const state = JSON.parse(await page.inputValue('.state-editor textarea'))
      state.values = { changed: true }
      await page.fill('.state-editor textarea', JSON.stringify(state))
      await shoot('own-graph-state')
      await page.click('.state-editor .primary')
      await page.waitForURL((url) => url.pathname !== first && url.pathname.startsWith('/t/'))
      await waitForAnswer(page)
      await page.click('.inspector [title="Compare with another run"]')
      await page.waitForFunction(() => document.querySelectorAll('.comparison option').length > 1)
      await page.selectOption('.comparison select', { index: 1 })
      await page.locator('.comparison .diff li', { hasText: 'values' }).first().waitFor()
      await shoot('own-graph-compared')
      await checkAccessibility(page, 'a graph of the user')
    },
  },
  {
    name: 'no character of an answer changes',
    async run({ page, shoot }) {
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
      await waitUntilReady(page)
      await askQuestion(page, 'BRACKETS')
      await waitForAnswer(page)
      const copied = async () => {
        await page.click('.turn.is-last .answer-foot [title="답 복사"]')
        await page.waitForFunction(() => document.querySelector('.shell > .away[role=status]')?.textContent?.includes('복사했습니다'))
        return page.evaluate(() => navigator.clipboard.readText())
      }
      assert.equal(await copied(), BRACKETS)
      const shown = await page.evaluate(() => document.querySelector('.turn.is-last .markdown').innerText)
      for (const part of ['m[4][1] = a[1]; 계약 기간은 [    ]년입니다.', '넷 [9]', 'm[4][1] = [ ]', 'f[0](x)와 [목차](#a)']) assert.ok(shown.includes(part), `${part} is not in ${shown}`)
      assert.deepEqual(await page.locator('.turn.is-last .markdown ol li').evaluateAll((all) => all.map((one) => one.value)), [2, 4])
      await shoot('brackets')
      await page.reload()
      await waitForAnswer(page)
      assert.equal(await copied(), BRACKETS)
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
      await page.click('.approval .deny')
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
      await page.click('.answer-foot [title="Answer again"]')
      await page.locator('.versions-count', { hasText: '2/2' }).waitFor()
      assert.equal(await page.locator('.turn').count(), 1)
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
  {
    name: 'answers that grow, nest and overflow in a renderer leave the page whole',
    options: { locale: 'ko-KR', viewport: { width: 390, height: 844 } },
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, 'BOMBS')
      await waitForAnswer(page)
      await page.locator('.markdown', { hasText: '끝까지 왔습니다.' }).waitFor()
      await page.waitForSelector('.markdown svg.diagram')
      await page.waitForSelector('.markdown .formula math')
      await page.waitForFunction(() => document.querySelectorAll('.markdown .hljs-tag, .markdown .code pre span').length > 0)
      assert.equal(await page.evaluate(() => window.__hit), undefined)
      assert.equal(await page.locator('.markdown :is(img, iframe, script, style, foreignObject, image, use, input:not([type=checkbox]), [onload], [onerror], [onfocus], [data-hit], .hit, #hit, [width="9999em"], [href^="javascript:"], [style*="url"])').count(), 0)
      assert.equal(await page.locator('.markdown svg.diagram').count(), 1, 'one with too many nodes stays its source')
      await checkNoHorizontalScroll(page)
      await shoot('bombs-phone')
      await checkAccessibility(page, 'hard to render')
      await askQuestion(page, '다음 질문')
      await page.locator('.turn').nth(1).waitFor()
      await waitForAnswer(page)
      assert.equal(await page.locator('.turn').count(), 2)
    },
  },
  {
    name: 'a run is copied as a command that works, a breakpoint stops after a node, and the context meter fills',
    options: { locale: 'en-GB', permissions: ['clipboard-read', 'clipboard-write'] },
    async run({ page, base, shoot }) {
      await waitUntilReady(page)
      await page.locator('.agent', { has: page.locator('.agent-name', { hasText: 'Tools' }) }).click()
      await askQuestion(page, "CONTEXT 64000 it's")
      await waitForAnswer(page)
      const meter = page.locator('.turn.is-last .context-meter')
      assert.equal(await meter.getAttribute('aria-label'), 'Context 64,000 / 128,000 tokens')
      assert.equal(await meter.getAttribute('value'), '64000')
      await shoot('context-meter')
      await page.keyboard.press('Control+i')
      await page.click('.inspector [aria-label="Copy as curl"]')
      const command = await page.evaluate(() => navigator.clipboard.readText())
      // Not synchronously: the mock provider answers in this process.
      const { stdout: events } = await promisify(execFile)('bash', ['-c', command])
      assert.match(events, /The context is large/)
      const thread = /threads\/(from-curl-[\w-]+)\//.exec(command)[1]
      const { messages } = await (await fetch(`${base}/api/threads/${thread}/messages`)).json()
      assert.equal(messages[0].text ?? messages[0].parts?.[0]?.text, "CONTEXT 64000 it's")
      await page.click('.breakpoints summary')
      await page.locator('.breakpoints input[aria-label$=": after"]').first().check()
      await askQuestion(page, 'TOKENS 30')
      await page.locator('.approval', { hasText: 'Paused after' }).waitFor()
      await page.click('.approval .primary')
      await waitForAnswer(page)
    },
  },
]

// Tests with the real program and its built-in model: every agent, crashes, and a document from upload to quote.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { startMockModelProvider } from './mock-model-provider.mjs'
import { checkAccessibility, answerText, askQuestion, waitForAnswer, checkNoHorizontalScroll, waitUntilReady } from './page-actions.mjs'

const LOOKS = [
  { locale: 'ko-KR', colorScheme: 'light' },
  { locale: 'en-GB', colorScheme: 'dark' },
  { locale: 'ko-KR', colorScheme: 'dark' },
  { locale: 'en-GB', colorScheme: 'light' },
]

const agents = ['assistant', 'contract', 'react', 'docqa'].map((agent, at) => ({
  name: `${agent} answers every question that it proposes`,
  options: LOOKS[at],
  async run({ page, base, shoot }) {
    const { agents } = await (await fetch(`${base}/api/agents`)).json()
    const one = agents.findIndex(({ id }) => id === agent)
    assert.notEqual(one, -1, `there is no agent ${agent}`)
    await waitUntilReady(page)
    await page.click(`.agent >> nth=${one}`)
    const [first, ...others] = agents[one].starters[LOOKS[at].locale.slice(0, 2)]
    for (const question of [...others, first]) {
      await page.click('.sidebar .new')
      await page.click(`.agent >> nth=${one}`)
      await page.click(`.starters button:has-text(${JSON.stringify(question)})`)
      await waitForAnswer(page)
      const said = await answerText(page)
      assert.ok(said.trim().length > 0, `no answer: ${question}`)
      assert.doesNotMatch(said, /찾지 못했|did not find|본보기/, question)
      assert.equal(await page.locator('.card.problem').count(), 0)
    }
    await page.keyboard.press('Control+i')
    await page.waitForSelector('.graph-frame svg .is-done')
    await shoot(`agent-${agent}`)
    await checkAccessibility(page, agent)
    await page.reload()
    await waitForAnswer(page)
    assert.equal(await page.locator('.turn').count(), 1)
  },
}))

/** Deletes a document and waits until the sample documents are searched again, for the tests that follow. */
async function restoreSamples(base, name) {
  const read = async () => (await fetch(`${base}/api/documents`)).json()
  const { documents } = await read()
  for (const { id } of documents.filter((one) => one.name === name)) await fetch(`${base}/api/documents/${id}`, { method: 'DELETE' })
  for (let at = 0; !((await read()).samples > 0); at++) {
    assert.ok(at < 300, 'the samples did not come back')
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

/** The port of Ollama. The program looks for a model server there. */
const OLLAMA_PORT = 11434

const OFFLINE = 'offline-extractive-2'

const badge = async (page) => ((await page.textContent('.turn.is-last .answer-head .badge-name')) ?? '').trim()

async function chooseDefault(base, model) {
  const response = await fetch(`${base}/api/models/default`, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ model }) })
  assert.equal(response.status, 200, await response.text())
}

export const builtInModelTests = [
  ...agents,
  {
    name: 'a new user connects a model server of this machine, and each chat chooses its model, temperature and instructions',
    async run({ page, base, doranServer, shoot }) {
      const ollama = await startMockModelProvider(OLLAMA_PORT)
      try {
        await page.reload()
        await waitUntilReady(page)
        await page.locator('.connect-found', { hasText: 'Ollama' }).waitFor()
        await shoot('connect-card')
        await checkAccessibility(page, 'the card to connect a model')
        await page.click('.connect-card .primary')
        await page.waitForSelector('#connect-model')
        assert.equal(await page.inputValue('#connect-model'), 'ollama:scripted')
        await page.click('.connect-model button:has-text("테스트")')
        await page.locator('.note.good', { hasText: '답했습니다' }).waitFor()
        await shoot('connect-tested')
        await checkAccessibility(page, 'the dialog to connect a model')
        await page.click('.connect-model .primary')
        await page.waitForSelector('dialog', { state: 'detached' })
        await page.waitForSelector('.connect-card', { state: 'detached' })
        // The settings of a chat that has no thread yet.
        await page.click('[title="대화 설정"]')
        await page.fill('#chat-instructions', '존댓말로 답하세요.')
        await page.uncheck('.check input')
        await page.fill('#chat-temperature', '0.3')
        await shoot('chat-settings')
        await checkAccessibility(page, 'the settings of a chat')
        await page.click('dialog .primary')
        await askQuestion(page, '길게 써 주세요')
        await waitForAnswer(page)
        assert.equal(await badge(page), 'ollama:scripted')
        const asked = ollama.seen.requests.findLast((one) => !one.response_format)
        assert.equal(asked.temperature, 0.3)
        assert.match(JSON.stringify(asked.messages), /존댓말로 답하세요/)
        assert.equal(await page.locator('.bubble').count(), 1, 'the instructions are not part of the conversation')
        // Another model for this chat alone.
        await page.selectOption('.model-picker select', OFFLINE)
        await askQuestion(page, '연차휴가는 며칠인가요?')
        await page.waitForFunction(() => document.querySelectorAll('.turn').length === 2)
        await waitForAnswer(page)
        assert.equal(await badge(page), OFFLINE)
        await page.reload()
        await waitForAnswer(page)
        assert.equal(await page.inputValue('.model-picker select'), OFFLINE)
        assert.equal(await page.locator('.bubble').count(), 2)
        await shoot('chat-with-own-model')
        // The inspector shows the settings of the run in its state.
        const thread = new URL(page.url()).pathname.slice(3)
        const { state } = await (await fetch(`${base}/api/threads/${thread}/state`)).json()
        assert.equal(state.progress.chosen.model, OFFLINE)
        assert.equal(state.progress.chosen.temperature.toFixed(3), '0.300')
        // A step is run again with another model, in a fork.
        await page.keyboard.press('Control+i')
        await page.click('.timeline li:last-child button')
        await page.click('.rerun-with summary')
        await page.selectOption('.rerun-with select', 'ollama:scripted')
        await page.fill('.rerun-with textarea', '한 문장으로 답하세요.')
        await shoot('rerun-with')
        await checkAccessibility(page, 'a step that is run again')
        await page.click('.rerun-with .primary')
        await page.waitForURL((url) => url.pathname !== `/t/${thread}`)
        await waitForAnswer(page)
        assert.equal(await badge(page), 'ollama:scripted')
        assert.match(JSON.stringify(ollama.seen.requests.at(-1).messages), /한 문장으로 답하세요/)
        await fetch(`${base}/api/threads/${new URL(page.url()).pathname.slice(3)}`, { method: 'DELETE' })
        await page.keyboard.press('Control+i')
        // A new chat has the default model, also after a restart.
        await doranServer.kill()
        await doranServer.start()
        await page.click('.sidebar .new')
        await page.locator('.model-picker option:checked', { hasText: 'ollama:scripted' }).waitFor({ state: 'attached' })
      } finally {
        await chooseDefault(base, OFFLINE)
        ollama.end()
      }
    },
  },
  {
    name: 'the key of a provider is stored and never sent back, and has another place than the key of the server',
    options: { locale: 'en-GB', colorScheme: 'dark' },
    async run({ page, base, shoot }) {
      const secret = 'sk-page-test-0123456789'
      await page.route('**/api/models/providers/openai', (route) => route.fulfill({ json: { models: ['openai:gpt-test'] } }))
      await waitUntilReady(page)
      await page.selectOption('.model-picker select', { label: 'Connect a model…' })
      await page.selectOption('#connect-place', 'provider openai')
      await page.fill('#provider-key', secret)
      await shoot('provider-key')
      await checkAccessibility(page, 'the key of a provider')
      await page.click('.provider-key .primary')
      await page.locator('.key-known', { hasText: 'stored on this server, encrypted' }).waitFor()
      await page.locator('#connect-model option', { hasText: 'openai:gpt-test' }).waitFor({ state: 'attached' })
      await page.click('.connect-model button:has-text("Add to the list")')
      await page.waitForSelector('dialog', { state: 'detached' })
      for (const path of ['/api/models', '/api/models/offers']) {
        const text = await (await fetch(base + path)).text()
        assert.ok(!text.includes(secret), path)
      }
      await page.click('.place:has-text("Settings")')
      await page.locator('.model', { hasText: 'openai:gpt-test' }).waitFor()
      await page.locator('.server-key', { hasText: 'not the key of a model vendor' }).waitFor()
      await shoot('settings-models')
      await page.locator('.model', { hasText: 'openai:gpt-test' }).locator('button', { hasText: 'Delete' }).click()
      await page.locator('.model', { hasText: 'openai:gpt-test' }).waitFor({ state: 'detached' })
      assert.equal((await fetch(`${base}/api/models/keys/openai`, { method: 'DELETE' })).status, 204)
    },
  },
  {
    name: 'a document changes its kind and its collection, shows its outline and gives its original back',
    options: { locale: 'en-GB' },
    async run({ page, base, shoot }) {
      const text = '# 용역계약서\n\n제1조(목적) 이 계약은 개발 용역에 관한 것이다.\n\n제2조(대금) 대금은 매월 말일에 지급한다.\n\n제3조(해지) 30일 전에 통지하고 해지할 수 있다.\n'
      await page.goto(`${base}/documents`)
      await page.setInputFiles('.drop input[type=file]', { name: '용역계약서.md', mimeType: 'text/markdown', buffer: Buffer.from(text) })
      const row = page.locator('.doc.is-ready', { hasText: '용역계약서.md' })
      await row.waitFor()
      try {
        await row.locator('[title="Change kind and collection"]').click()
        await row.locator('.doc-settings select').selectOption('contract')
        await row.locator('.doc-settings input').fill('2026')
        await shoot('document-settings')
        await checkAccessibility(page, 'the settings of a document')
        await row.locator('.doc-settings .primary').click()
        await row.locator('.tag', { hasText: '2026' }).waitFor()
        await row.locator('.tag', { hasText: 'Contract' }).waitFor()
        assert.equal(await row.count(), 1)
        const download = page.waitForEvent('download')
        await row.locator('[title="Download the original"]').click()
        const saved = await download
        assert.equal(saved.suggestedFilename(), '용역계약서.md')
        assert.equal(readFileSync(await saved.path(), 'utf8'), text)
        await row.locator('.doc-name').click()
        await page.click('.outline summary')
        await page.locator('.outline li', { hasText: '제3조' }).locator('button').click()
        await page.locator('.source-panel mark', { hasText: '제3조(해지)' }).waitFor()
        await shoot('outline')
        await checkAccessibility(page, 'an outline')
      } finally {
        await restoreSamples(base, '용역계약서.md')
      }
    },
  },
  {
    name: 'an answer is rated with a note, a chat is pinned, and the usage is shown by day, agent, model and key',
    options: { locale: 'en-GB', colorScheme: 'dark' },
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, 'How many days of annual leave do I have?')
      await waitForAnswer(page)
      await page.click('[title="Wrong answer"]')
      await page.fill('.feedback-note input', 'It is 20 days since May')
      await shoot('feedback')
      await page.press('.feedback-note input', 'Enter')
      await page.waitForSelector('.feedback-note', { state: 'detached' })
      await page.reload()
      await page.waitForSelector('[title="It is 20 days since May"][aria-pressed=true]')
      // A second click shows the reason. It deletes nothing.
      await page.click('[title="It is 20 days since May"]')
      assert.equal(await page.inputValue('.feedback-note input'), 'It is 20 days since May')
      await page.reload()
      await page.click('[title="It is 20 days since May"][aria-pressed=true]')
      await page.locator('.feedback-note button', { hasText: 'Remove' }).click()
      await page.waitForSelector('[title="Wrong answer"][aria-pressed=false]')
      await page.waitForSelector('.feedback-note', { state: 'detached' })
      await page.hover('.thread.is-open')
      await page.click('.thread.is-open [title="Pin"]')
      await page.locator('.thread-list section:first-child h2', { hasText: 'Pinned' }).waitFor()
      await checkAccessibility(page, 'a rated answer')
      await page.hover('.thread.is-open')
      await page.click('.thread.is-open [title="Unpin"]')
      await page.locator('.thread-list h2', { hasText: 'Pinned' }).waitFor({ state: 'detached' })
      await page.keyboard.press('Control+i')
      await page.click('[aria-label="Save as a test case"]')
      const saved = page.waitForEvent('download')
      await page.click('dialog [aria-label="Download as a TOML file"]')
      const testCase = readFileSync(await (await saved).path(), 'utf8')
      assert.match(testCase, /\[\[case\]\][\s\S]*ask = "How many days of annual leave do I have\?"[\s\S]*sources = \["Employee handbook/)
      await page.click('dialog [aria-label="Close"]')
      await page.keyboard.press('Control+i')
      await page.click('a.place[href="/usage"]')
      for (const title of ['By day', 'By agent', 'By model', 'By server key']) await page.locator('.usage-view h2', { hasText: title }).waitFor()
      await page.locator('.usage-view th', { hasText: OFFLINE }).waitFor()
      await page.locator('.usage-view th', { hasText: 'No key' }).waitFor()
      await shoot('usage')
      await checkAccessibility(page, 'usage')
      await page.setViewportSize({ width: 390, height: 844 })
      await checkNoHorizontalScroll(page)
    },
  },
  {
    name: 'a chosen version is shown again after a reload, and an export says which versions it leaves out',
    async run({ page }) {
      await waitUntilReady(page)
      for (const question of ['연차휴가는 며칠인가요?', '병가는 며칠인가요?']) {
        await askQuestion(page, question)
        await page.locator('.turn.is-last .bubble', { hasText: question }).waitFor()
        await waitForAnswer(page)
      }
      await page.locator('.turn.is-last [title="질문 수정"]').click()
      await page.fill('.question-editor textarea', '재택근무는 며칠까지인가요?')
      await page.click('.question-editor .primary')
      await page.locator('.turn.is-last .versions-count', { hasText: '2/2' }).waitFor()
      await waitForAnswer(page)
      await page.click('.turn.is-last [title="이전 버전"]')
      await page.locator('.turn.is-last .bubble', { hasText: '병가는' }).waitFor()
      await page.reload()
      await page.locator('.turn.is-last .versions-count', { hasText: '1/2' }).waitFor()
      assert.match(await page.textContent('.turn.is-last .bubble'), /병가는/)
      await page.click('.export summary')
      const [saved] = await Promise.all([page.waitForEvent('download'), page.click('.export button >> nth=0')])
      const text = readFileSync(await saved.path(), 'utf8')
      assert.match(text, /병가는 며칠인가요\?/)
      assert.doesNotMatch(text, /재택근무/)
      assert.match(text, /다른 버전 1개는 이 파일에 없습니다/)
      await page.click('.turn.is-last [title="다음 버전"]')
      await page.locator('.turn.is-last .bubble', { hasText: '재택근무' }).waitFor()
      await page.reload()
      await page.locator('.turn.is-last .versions-count', { hasText: '2/2' }).waitFor()
    },
  },
  {
    name: 'a source does not move the page, a copied answer names its sources, and many chats fit into the side bar',
    options: { viewport: { width: 1280, height: 800 }, permissions: ['clipboard-read', 'clipboard-write'] },
    async run({ page, shoot }) {
      await waitUntilReady(page)
      for (const question of ['연차휴가는 며칠인가요?', '병가는 며칠인가요?', '연차휴가는 며칠인가요?', '육아휴직은 며칠인가요?']) {
        await askQuestion(page, question)
        await page.waitForURL(/\/t\//)
        await page.locator('.turn.is-last .bubble', { hasText: question }).waitFor()
        await waitForAnswer(page)
      }
      await page.locator('.turn .cite').last().click()
      await page.locator('.source-panel mark').first().waitFor()
      assert.deepEqual(await page.evaluate(() => [document.scrollingElement.scrollTop, document.scrollingElement.scrollHeight - innerHeight]), [0, 0])
      await shoot('source-in-place')
      await page.locator('.turn.is-last [title="답 복사"]').click()
      assert.match(await page.evaluate(() => navigator.clipboard.readText()), /\n\n출처:\n\[1\] \S/)
      assert.ok((await page.locator('.thread-list').boundingBox()).height > 420, 'there is room for chats')
      // A long list of chats does not push the places out of sight.
      assert.ok((await page.locator('.tongues').boundingBox()).y < 790)
    },
  },
  ...['light', 'dark'].map((colorScheme) => ({
    name: `the page to try the interface on is ${colorScheme} and can be read`,
    options: { locale: 'en-GB', colorScheme },
    async run({ page, base, shoot }) {
      await page.goto(`${base}/docs`)
      await page.click('summary >> nth=0')
      await page.waitForSelector('details[open] button')
      const paper = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
      assert.equal(paper, colorScheme === 'dark' ? 'rgb(20, 24, 22)' : 'rgb(255, 255, 255)')
      await shoot(`docs-${colorScheme}`)
      await page.setViewportSize({ width: 360, height: 780 })
      for (const one of await page.locator('summary').all()) await one.evaluate((line) => { line.parentElement.open = true })
      await checkNoHorizontalScroll(page)
      await shoot(`docs-${colorScheme}-narrow`)
      await checkAccessibility(page, 'docs')
    },
  })),
  {
    name: 'a server that is killed and started again finishes what it was asked, once',
    async run({ page, doranServer, shoot }) {
      let turns = 0
      await waitUntilReady(page)
      for (const wait of [0, 20, 100]) {
        await askQuestion(page, '연차휴가는 며칠인가요?')
        turns += 1
        await page.waitForFunction((count) => document.querySelectorAll('.turn').length === count, turns)
        await page.waitForURL(/\/t\//)
        // The page has to find out whether the request arrived.
        await page.waitForTimeout(wait)
        await doranServer.kill()
        if (wait === 0) await shoot('server-away')
        await doranServer.start()
        await waitForAnswer(page)
        assert.equal(await page.locator('.turn').count(), turns)
        assert.equal(await page.locator('.bubble').count(), turns)
        assert.match(await answerText(page), /15일/)
      }
      const thread = decodeURIComponent(new URL(page.url()).pathname.slice(3))
      const { runs } = await (await fetch(`${doranServer.base}/api/threads/${encodeURIComponent(thread)}/runs`)).json()
      assert.deepEqual(runs.map(({ status }) => status), Array(turns).fill('finished'))
      await page.reload()
      await waitForAnswer(page)
      assert.equal(await page.locator('.turn').count(), turns)
    },
  },
  {
    name: 'a question that was not sent says so, outlives its tab and is asked once',
    async run({ page, doranServer, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, '연차휴가는 며칠인가요?')
      await waitForAnswer(page)
      const { href } = new URL(page.url())
      await doranServer.kill()
      await askQuestion(page, '재택근무는 며칠까지 되나요?')
      const note = page.locator('.note.is-live')
      await note.waitFor()
      assert.match((await note.textContent()) ?? '', /아직 보내지 못했습니다/)
      assert.doesNotMatch((await page.textContent('.turn.is-last .answer')) ?? '', /처리 중|서버에서 계속/)
      await shoot('unsent')
      await checkAccessibility(page, 'an unsent question')
      const context = page.context()
      await page.close()
      await doranServer.start()
      const again = await context.newPage()
      await again.goto(href)
      await again.waitForFunction(() => document.querySelectorAll('.bubble').length === 2)
      await waitForAnswer(again)
      assert.match((await again.locator('.bubble').last().textContent()) ?? '', /재택근무/)
      const kept = await again.evaluate(() => Object.keys(localStorage).filter((name) => name.startsWith('doran.unsent.')))
      assert.deepEqual(kept, [])
      await again.reload()
      await waitForAnswer(again)
      assert.equal(await again.locator('.turn').count(), 2)
      // A withdrawn question returns to the box.
      await doranServer.kill()
      await askQuestion(again, '셋째 질문')
      await again.locator('.note.is-live').waitFor()
      await again.click('.round.stop')
      await again.waitForFunction(() => document.querySelectorAll('.turn').length === 2)
      assert.equal(await again.inputValue('.composer textarea'), '셋째 질문')
      await doranServer.start()
      await again.reload()
      await waitForAnswer(again)
      assert.equal(await again.locator('.turn').count(), 2)
      assert.equal(await again.inputValue('.composer textarea'), '셋째 질문', 'what is being written outlives a reload')
    },
  },
  {
    name: 'two tabs on one conversation show the same turns',
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, '연차휴가는 며칠인가요?')
      await waitForAnswer(page)
      const other = await page.context().newPage()
      await other.goto(page.url())
      await waitForAnswer(other)
      const turns = (count) => page.waitForFunction((n) => document.querySelectorAll('.turn').length === n, count)
      await askQuestion(other, '123 * 456 계산해줘')
      await other.waitForFunction(() => document.querySelectorAll('.turn').length === 2)
      await waitForAnswer(other)
      // The user returns to the first tab.
      await page.evaluate(() => dispatchEvent(new Event('focus')))
      await turns(2)
      await waitForAnswer(page)
      assert.match(await answerText(page), /56,?088/)
      await askQuestion(other, '2 * 3 계산해줘')
      await other.waitForFunction(() => document.querySelectorAll('.turn').length === 3)
      await waitForAnswer(other)
      // The first tab had no focus in the meantime.
      await askQuestion(page, '4 * 5 계산해줘')
      await turns(4)
      await waitForAnswer(page)
      const asked = await page.locator('.bubble').allTextContents()
      assert.deepEqual(asked.map((text) => /(연차|123|2 \*|4 \*)/.exec(text)?.[1]), ['연차', '123', '2 *', '4 *'])
      await shoot('two-tabs')
      await page.reload()
      await waitForAnswer(page)
      assert.deepEqual(await page.locator('.bubble').allTextContents(), asked)
    },
  },
  {
    name: 'the samples give way to a document, and what they answered stays open',
    async run({ page, base, doranServer, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, '육아휴직은 얼마나 쓸 수 있나요?')
      await waitForAnswer(page)
      const { href } = new URL(page.url())
      await page.click('a.place')
      await page.waitForSelector('.drop')
      const name = `점심규정${'가나다라마바사'.repeat(8)}.md`
      await page.setInputFiles('input[type=file]', { name, mimeType: 'text/markdown', buffer: Buffer.from('# 점심 규정\n\n점심시간은 열두 시부터이다.\n') })
      await page.locator('.doc.is-ready', { hasText: name }).waitFor()
      await page.locator('.note', { hasText: '예시 문서는 더 이상 검색하지 않지만' }).waitFor()
      await page.setViewportSize({ width: 360, height: 780 })
      await checkNoHorizontalScroll(page)
      const [title, remove] = await Promise.all([page.locator('.doc .doc-name').boundingBox(), page.locator('.doc button').last().boundingBox()])
      assert.ok(title.x + title.width <= remove.x, 'the name runs under the button')
      await shoot('samples-gave-way')
      await page.setViewportSize({ width: 1360, height: 860 })
      await doranServer.kill()
      await doranServer.start()
      await page.goto(base)
      await waitUntilReady(page)
      await page.waitForFunction(() => document.querySelectorAll('.starters li').length === 2)
      assert.doesNotMatch((await page.textContent('.starters')) ?? '', /육아휴직/)
      await shoot('welcome-own-documents')
      await page.goto(href)
      await waitForAnswer(page)
      await page.click('.source >> nth=0')
      await page.waitForSelector('.document-text mark')
      await restoreSamples(base, name)
    },
  },
  {
    name: 'a document goes from upload to a quote that is marked in it',
    async run({ page, base, shoot }) {
      await waitUntilReady(page)
      await page.click('a.place')
      const name = '주차 규정.md'
      const text = '# 주차 규정\n\n제1조(목적) 이 규정은 주차장 이용을 정한다.\n\n제2조(요금) 방문객의 주차 요금은 한 시간에 삼천원으로 한다.\n\n## 부록\n\n| 구역 | 대수 |\n|---|--:|\n| 가 | 12 |\n'
      await page.setInputFiles('input[type=file]', { name, mimeType: 'text/markdown', buffer: Buffer.from(text) })
      await page.locator('.doc.is-ready', { hasText: name }).waitFor()
      await page.goto(base)
      await waitUntilReady(page)
      await askQuestion(page, '방문객의 주차 요금은 얼마인가요?')
      await waitForAnswer(page)
      assert.match(await answerText(page), /삼천원/)
      await page.click('.source >> nth=0')
      await page.waitForSelector('.document-text mark')
      const marked = (await page.locator('.document-text mark').allTextContents()).join('')
      assert.match(marked, /방문객의 주차 요금은 한 시간에 삼천원으로 한다\./)
      assert.doesNotMatch(marked, /목적/, 'more than the quote is marked')
      assert.equal(await page.locator('.source-panel > .note').count(), 0, 'the quote is not recognized')
      assert.equal(await page.locator('.document-text table td').count(), 2)
      assert.equal(await page.locator('.document-text h4').textContent(), '부록')
      await shoot('uploaded-quote')
      await checkAccessibility(page, 'source')
      await restoreSamples(base, name)
    },
  },
  {
    name: 'a fork from a step answers anew in a conversation of its own',
    async run({ page, base, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, '연차휴가는 며칠인가요?')
      await waitForAnswer(page)
      const source = page.url()
      await page.keyboard.press('Control+i')
      await page.click('.timeline li:nth-child(2) button')
      await page.waitForSelector('.step-acts button')
      await shoot('fork-step')
      await checkAccessibility(page, 'an opened step')
      await page.click('.step-acts button')
      await page.waitForURL((url) => url.pathname !== new URL(source).pathname && url.pathname.startsWith('/t/'))
      await waitForAnswer(page)
      assert.equal(await page.locator('.turn').count(), 1)
      assert.equal(await page.locator('.bubble').count(), 1)
      assert.match(await answerText(page), /15일/)
      const nodes = await page.locator('.timeline .row-node').allTextContents()
      assert.ok(!nodes.includes('router') && nodes.includes('agent'), nodes.join())
      await page.locator('.thread', { hasText: '(분기)' }).first().waitFor()
      await shoot('forked')
      await page.reload()
      await waitForAnswer(page)
      assert.equal(await page.locator('.turn').count(), 1)
      assert.equal(await page.locator('.card.problem').count(), 0)
      await page.goto(source)
      await waitForAnswer(page)
      assert.equal(await page.locator('.turn').count(), 1)
      const { threads } = await (await fetch(`${base}/api/threads?q=${encodeURIComponent('(분기)')}`)).json()
      assert.equal(threads.length, 1)
    },
  },
  {
    name: 'a run stops at a breakpoint, its state is changed in a fork, and both runs are compared',
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await page.keyboard.press('Control+i')
      await page.click('.breakpoints summary')
      await page.check('[aria-label="agent: 앞"]')
      await page.waitForSelector('.graph-frame .has-breakpoint')
      await askQuestion(page, '연차휴가는 며칠인가요?')
      await page.locator('.approval', { hasText: 'agent 노드 실행 전에 멈췄습니다' }).waitFor()
      await page.waitForSelector('.timeline li.is-paused')
      await shoot('breakpoint')
      await checkAccessibility(page, 'a breakpoint')
      await page.click('.approval .primary')
      await waitForAnswer(page)
      assert.match((await page.textContent('.decision')) ?? '', /중단점 재개함/)
      const first = page.url()
      await page.uncheck('[aria-label="agent: 앞"]')
      await page.click('.timeline li:nth-child(1) > button')
      await page.click('.step [role=tab] >> text=상태')
      await page.waitForSelector('.json-tree')
      await page.fill('.json-tree input', '연차휴가')
      await page.locator('.tree-string', { hasText: '연차휴가는 며칠인가요?' }).first().waitFor()
      await page.click('.step button >> text=상태 수정')
      const state = await page.inputValue('.state-editor textarea')
      await page.fill('.state-editor textarea', state.replaceAll('연차휴가는 며칠인가요?', '육아휴직은 얼마나 쓸 수 있나요?'))
      await shoot('edit-state')
      await page.click('.state-editor .primary')
      await page.waitForURL((url) => url.pathname !== new URL(first).pathname && url.pathname.startsWith('/t/'))
      await waitForAnswer(page)
      assert.match(await answerText(page), /육아휴직/)
      await page.click('.inspector [title="다른 실행과 비교"]')
      await page.waitForFunction(() => document.querySelectorAll('.comparison option').length > 1)
      await page.selectOption('.comparison select', { index: 1 })
      await page.locator('.comparison tr.is-different', { hasText: '응답' }).waitFor()
      await page.locator('.comparison .diff li').first().waitFor()
      await page.click('.inspector [title="전체 너비로 보기"]')
      await page.waitForSelector('.shell.is-full')
      await shoot('compare-full')
      await checkAccessibility(page, 'a comparison')
      await page.click('.inspector [title="옆에 고정"]')
    },
  },
  {
    name: 'the list of runs leads to a run and a step by an address that can be shared, and the panel can be resized',
    options: { locale: 'en-GB', colorScheme: 'dark' },
    async run({ page, base, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, '연차휴가는 며칠인가요?')
      await waitForAnswer(page)
      await page.click('a.place[href="/runs"]')
      await page.locator('.runs tbody tr').first().waitFor()
      await page.selectOption('.runs .picker:nth-child(1) select', 'assistant')
      await page.selectOption('.runs .picker:nth-child(2) select', 'finished')
      await page.locator('.runs tbody tr .status.is-finished').first().waitFor()
      await shoot('runs')
      await checkAccessibility(page, 'runs')
      await page.selectOption('.runs .picker:nth-child(2) select', 'failed')
      await page.locator('.runs [role=status]', { hasText: 'No run matches' }).waitFor()
      await page.selectOption('.runs .picker:nth-child(2) select', '')
      await page.locator('.runs tbody .link').first().click()
      await page.waitForSelector('.inspector .timeline')
      await page.waitForURL((url) => url.searchParams.has('run'))
      await page.locator('.timeline li > button', { hasText: 'rag' }).click()
      await page.waitForURL((url) => url.searchParams.has('step'))
      await page.locator('.timeline li > button', { hasText: 'agent' }).click()
      await page.click('.step [role=tab] >> text=Prompt')
      await page.locator('.tab-body', { hasText: 'The prompt exactly as it was sent' }).waitFor()
      await page.locator('.timeline li > button', { hasText: 'rag' }).click()
      await page.click('.step [role=tab] >> text=Search')
      await page.locator('.hit-notes .score').first().waitFor()
      await shoot('search-notes')
      await page.evaluate(() => localStorage.setItem('doran.inspector', 'closed'))
      await page.reload()
      await page.locator('.timeline li > button.is-on', { hasText: 'rag' }).waitFor()
      await page.click('.step [role=tab] >> text=State')
      await page.waitForSelector('.json-tree')
      await shoot('state-tree')
      const before = (await page.locator('.side').boundingBox()).width
      await page.focus('.resizer')
      await page.keyboard.press('ArrowLeft')
      await page.keyboard.press('ArrowLeft')
      const after = (await page.locator('.side').boundingBox()).width
      assert.ok(after > before + 40, `${before} ${after}`)
      await checkAccessibility(page, 'the inspector')
      await page.setViewportSize({ width: 390, height: 844 })
      await shoot('state-tree-phone')
      for (const view of ['runs', 'inbox']) {
        await page.goto(new URL(`/${view}`, base).href)
        await page.waitForSelector(`.${view} h1`)
        await checkNoHorizontalScroll(page)
        await shoot(`${view}-phone`)
      }
    },
  },
  {
    name: 'a fact that the assistant was asked to remember is seen among the facts, and is forgotten once it is deleted there',
    async run({ page, base, shoot }) {
      const facts = async () => (await (await fetch(`${base}/api/memory`)).json()).facts
      for (const { id } of await facts()) await fetch(`${base}/api/memory/${id}`, { method: 'DELETE' })
      const ask = async (question) => {
        await page.click('.sidebar .new')
        await waitUntilReady(page)
        await askQuestion(page, question)
        await waitForAnswer(page)
        return answerText(page)
      }
      await ask('내 사번은 20231234라고 기억해 줘')
      assert.match(await ask('내 사번이 뭐야?'), /20231234/)
      const [kept] = await facts()
      assert.match(kept?.text ?? '', /사번은 20231234/)
      await page.click('a.place[href="/documents"]')
      await page.click('.parts a:has-text("메모리")')
      const row = page.locator('.fact', { hasText: kept.id })
      assert.equal(await row.locator('.fact-text').textContent(), kept.text)
      await shoot('memory')
      await checkAccessibility(page, 'the memory')
      await row.locator('.fact-delete').click()
      await page.click('dialog button.danger')
      await page.locator('.memory-note', { hasText: '기억해 줘' }).waitFor()
      assert.deepEqual(await facts(), [])
      assert.doesNotMatch(await ask('내 사번이 뭐야?'), /20231234/)
    },
  },
  ...[['en-GB', 'When are invoices due?'], ['ko-KR', '계약을 해지하려면 며칠 전에 알려야 하나요?']].map(([locale, question]) => ({
    // These are the screenshots in README.md and README.ko.md.
    name: `the picture of the page, ${locale}`,
    options: { locale, colorScheme: 'light', viewport: { width: 1280, height: 760 } },
    async run({ page, base, shoot }) {
      const { agents } = await (await fetch(`${base}/api/agents`)).json()
      await waitUntilReady(page)
      await page.click(`.agent >> nth=${agents.findIndex(({ id }) => id === 'contract')}`)
      await askQuestion(page, question)
      await waitForAnswer(page)
      await page.keyboard.press('Control+i')
      await page.waitForSelector('.graph-frame svg .is-done')
      await shoot(`readme-${locale.slice(0, 2)}`)
      assert.ok(await page.locator('.source').count(), 'no source')
    },
  })),
]

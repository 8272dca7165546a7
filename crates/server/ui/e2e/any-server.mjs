// Tests that pass with any server: the real program or the mock server.

import assert from 'node:assert/strict'
import { checkAccessibility, answerText, askQuestion, waitForAnswer, checkNoHorizontalScroll, PHONE, waitUntilReady } from './page-actions.mjs'

const QUESTION = '육아휴직은 최대 얼마나 쓸 수 있나요?'

export const anyServerTests = [
  {
    name: 'a question is answered, with its model named honestly',
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await page.locator('.starters button').first().waitFor()
      // In a low window the start page has to be scrolled. It is shown from its top.
      const size = page.viewportSize()
      await page.setViewportSize({ width: 1360, height: 420 })
      await page.waitForFunction(() => document.querySelector('.scroller').clientHeight < document.querySelector('.scroller').scrollHeight)
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
      assert.equal(await page.locator('.scroller').evaluate((one) => one.scrollTop), 0, 'the greeting is in view')
      await page.setViewportSize(size)
      await shoot('welcome-ko-light')
      await page.click('.starters button')
      await waitForAnswer(page)
      assert.ok((await answerText(page)).trim().length > 0)
      assert.match((await page.textContent('.turn.is-last .answer-head')) ?? '', /LLM 아님/)
      assert.match(page.url(), /\/t\//)
      await shoot('chat-ko-light')
      await checkAccessibility(page, 'chat')
    },
  },
  {
    name: 'a reload in the middle and after the end shows the same, once',
    async run({ page }) {
      await waitUntilReady(page)
      await askQuestion(page, QUESTION)
      await page.waitForURL(/\/t\//)
      await page.reload()
      await waitForAnswer(page)
      const text = await answerText(page)
      assert.equal(await page.locator('.turn').count(), 1)
      assert.equal(await page.locator('.bubble').count(), 1)
      await page.reload()
      await waitForAnswer(page)
      assert.equal(await answerText(page), text)
    },
  },
  {
    name: 'two turns stay two turns',
    async run({ page }) {
      await waitUntilReady(page)
      await askQuestion(page, QUESTION)
      await waitForAnswer(page)
      await askQuestion(page, '연차 15일 중 6.5일을 썼으면 며칠 남았나요?')
      await page.waitForFunction(() => document.querySelectorAll('.turn').length === 2)
      await waitForAnswer(page)
      await page.reload()
      await page.waitForFunction(() => document.querySelectorAll('.turn').length === 2)
      assert.equal(await page.locator('.markdown').count(), 2)
    },
  },
  {
    name: 'the graph is lit and a step opens',
    options: { locale: 'en-GB', colorScheme: 'dark' },
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, QUESTION)
      await waitForAnswer(page)
      await page.keyboard.press('Control+i')
      await page.waitForSelector('.graph-frame svg .is-done')
      assert.equal(await page.locator('.graph-frame svg style').count(), 0)
      await page.waitForSelector('.timeline button')
      await page.click('.timeline > li:last-child > button')
      await page.waitForSelector('.step [role=tab]')
      const said = (await page.textContent('.turn.is-last .markdown p'))?.trim().slice(0, 12)
      // What each tab must hold of this answer.
      const held = [['reply', said], ['prompt', QUESTION], ['change', 'messages'], ['state', 'messages'], ['raw', '"update"']]
      assert.equal(await page.locator('.step [role=tab]').count(), held.length)
      for (const [name, words] of held) {
        await page.click(`#tab-${name}`)
        await page.waitForFunction((words) => document.querySelector('.tab-body')?.textContent?.includes(words), words)
        assert.equal(await page.locator('.tab-body .card.problem').count(), 0, name)
      }
      await page.click('.step [role=tab] >> nth=0')
      await shoot('inspector-en-dark')
      await checkAccessibility(page, 'inspector')
      await page.press('.graph-frame [role=button] >> nth=0', 'Enter')
      await page.keyboard.press('Control+i')
      assert.equal(await page.locator('.inspector').count(), 0)
    },
  },
  {
    name: 'a source opens at the quoted words',
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await askQuestion(page, QUESTION)
      await waitForAnswer(page)
      await page.waitForSelector('.source')
      // As the answer names them: from 1, without a gap, and no others.
      const numbers = (await page.locator('.turn.is-last .source-number').allTextContents()).map(Number)
      assert.deepEqual(numbers, numbers.map((_, at) => at + 1))
      const cited = new Set((await page.locator('.turn.is-last .cite').allTextContents()).map(Number))
      assert.deepEqual([...cited], numbers)
      await page.click('.source')
      await page.waitForSelector('.document-text mark')
      const box = await page.locator('.document-text mark').boundingBox()
      assert.ok(box && box.y > 0 && box.y < 860, 'the quote is out of sight')
      await shoot('source-ko-light')
      await page.keyboard.press('Escape')
      assert.equal(await page.locator('.source-panel').count(), 0)
    },
  },
  {
    name: 'threads are found, renamed and deleted',
    async run({ page }) {
      await waitUntilReady(page)
      await askQuestion(page, QUESTION)
      await waitForAnswer(page)
      const name = `이름 <b>${Date.now()}</b>`
      await page.hover('.thread.is-open')
      await page.click('.thread.is-open .thread-tools [title="이름 바꾸기"]')
      await page.fill('.thread input', name)
      await page.press('.thread input', 'Enter')
      await page.waitForFunction((title) => document.querySelector('.thread.is-open .thread-title')?.textContent === title, name)
      await page.fill('.search input', name.slice(3, 20))
      await page.waitForFunction(() => document.querySelectorAll('.thread').length === 1)
      await page.hover('.thread')
      // A deletion can be undone for a while.
      await page.click('.thread .thread-tools [title="삭제"]')
      await page.waitForFunction(() => document.querySelectorAll('.thread').length === 0)
      assert.equal(new URL(page.url()).pathname, '/')
      await page.click('.deleted .link')
      await page.waitForFunction(() => document.querySelectorAll('.thread').length === 1)
      await page.hover('.thread')
      await page.click('.thread .thread-tools [title="삭제"]')
      await page.waitForSelector('.deleted .note')
      const deleted = page.waitForResponse((response) => response.request().method() === 'DELETE')
      assert.equal((await deleted).ok(), true)
      await page.waitForFunction(() => document.querySelectorAll('.thread, .deleted .note').length === 0)
    },
  },
  {
    name: 'language and theme are chosen and remembered',
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await page.click('.tongues [lang=en]')
      assert.equal(await page.getAttribute('html', 'lang'), 'en')
      await page.click('button.place')
      await page.waitForSelector('dialog[open]')
      await checkAccessibility(page, 'settings')
      await page.getByLabel('Dark').check({ force: true })
      await shoot('settings-en-dark')
      await page.keyboard.press('Escape')
      await page.reload()
      await waitUntilReady(page)
      assert.equal(await page.getAttribute('html', 'lang'), 'en')
      assert.equal(await page.getAttribute('html', 'data-theme'), 'dark')
      await checkAccessibility(page, 'welcome, dark')
    },
  },
  {
    name: 'a document is brought in, found and deleted',
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await page.click('a.place')
      await page.waitForURL(/\/documents$/)
      const name = `시험 규정 ${Date.now()}.md`
      const text = '# 시험 규정\n\n제1조 육아휴직 급여는 매월 25일에 지급한다.\n'
      await page.setInputFiles('input[type=file]', { name, mimeType: 'text/markdown', buffer: Buffer.from(text) })
      const row = page.locator('.doc', { hasText: name })
      await row.waitFor()
      await page.locator('.doc.is-ready', { hasText: name }).waitFor()
      await page.fill('.search-test input', '육아휴직 급여')
      await page.press('.search-test input', 'Enter')
      await page.waitForSelector('.hit mark')
      await page.waitForSelector('.hit-why .tag')
      await shoot('documents-ko-light')
      await checkAccessibility(page, 'documents')
      await page.reload()
      await row.locator('button').last().click()
      await page.click('dialog button.danger')
      await row.waitFor({ state: 'detached' })
    },
  },
  {
    name: 'a file that is dropped on a conversation is attached to it, and one that is pasted in the documents is a document',
    async run({ page }) {
      await waitUntilReady(page)
      await page.fill('.composer textarea', '아직 쓰는 중')
      const dropped = `놓은 파일 ${Date.now()}.md`
      const taken = await page.evaluate((name) => {
        const carried = new DataTransfer()
        carried.items.add(new File(['# 놓은 규정\n\n제1조 놓은 파일은 문서가 된다.\n'], name, { type: 'text/markdown' }))
        // What nobody takes, the browser opens in place of the page.
        return ['dragover', 'drop'].map((kind) => !document.querySelector('.composer')
          .dispatchEvent(new DragEvent(kind, { dataTransfer: carried, bubbles: true, cancelable: true })))
      }, dropped)
      assert.deepEqual(taken, [true, true])
      await page.waitForURL(/\/t\//)
      const attached = page.locator('.attachment', { hasText: dropped })
      await page.locator('.attachment.is-ready', { hasText: dropped }).waitFor()
      assert.equal(await page.inputValue('.composer textarea'), '아직 쓰는 중')
      // It belongs to the conversation alone.
      await page.click('a.place[href="/documents"]')
      await page.waitForSelector('.drop')
      assert.equal(await page.locator('.doc', { hasText: dropped }).count(), 0)
      const pasted = `붙인 파일 ${Date.now()}.md`
      await page.evaluate((name) => {
        const carried = new DataTransfer()
        carried.items.add(new File(['# 붙인 규정\n\n제1조 붙인 파일도 문서가 된다.\n'], name, { type: 'text/markdown' }))
        document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData: carried, bubbles: true, cancelable: true }))
      }, pasted)
      await page.locator('.doc.is-ready', { hasText: pasted }).waitFor()
      const row = page.locator('.doc', { hasText: pasted })
      await row.locator('button').last().click()
      await page.click('dialog button.danger')
      await row.waitFor({ state: 'detached' })
      await page.click('a.back')
      assert.equal(await page.inputValue('.composer textarea'), '아직 쓰는 중')
      await attached.locator('[title="삭제"]').click()
      await attached.waitFor({ state: 'detached' })
    },
  },
  {
    name: 'it fits a phone',
    options: PHONE,
    async run({ page, shoot }) {
      await waitUntilReady(page)
      await checkNoHorizontalScroll(page)
      await shoot('phone-welcome')
      await askQuestion(page, QUESTION)
      await waitForAnswer(page)
      await checkNoHorizontalScroll(page)
      await shoot('phone-chat')
      await page.click('.top .only-narrow')
      await page.waitForSelector('.shell.has-drawer')
      await page.waitForTimeout(300)
      await shoot('phone-threads')
      await page.keyboard.press('Escape')
      await page.click('.top [aria-pressed]')
      await page.waitForSelector('.timeline button')
      await checkNoHorizontalScroll(page)
      const side = await page.locator('.side').boundingBox()
      assert.ok(side.y < 80 && side.y + side.height > 800, `the inspector does not fill the screen: ${JSON.stringify(side)}`)
      await shoot('phone-inspector')
      await checkAccessibility(page, 'inspector on a phone')
      // The inspector covers the chat, so it closes with it.
      await page.click('.top .only-narrow')
      await page.click('.sidebar .new')
      await page.waitForSelector('.side', { state: 'detached' })
      await waitUntilReady(page)
    },
  },
  {
    name: 'Hangul is sent once, whole, with one Enter',
    async run({ page }) {
      await waitUntilReady(page)
      await page.focus('.composer textarea')
      const wire = await page.context().newCDPSession(page)
      await wire.send('Input.insertText', { text: '안녕하세' })
      await wire.send('Input.imeSetComposition', { text: '요', selectionStart: 1, selectionEnd: 1 })
      await wire.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', key: 'Enter', code: 'Enter', windowsVirtualKeyCode: 229, nativeVirtualKeyCode: 229 })
      await page.waitForTimeout(60)
      assert.equal(await page.locator('.bubble').count(), 0, 'sent while the syllable was open')
      await wire.send('Input.insertText', { text: '요' })
      await wire.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', key: 'Enter', code: 'Enter', windowsVirtualKeyCode: 13, nativeVirtualKeyCode: 13 })
      await page.waitForSelector('.bubble')
      await page.waitForTimeout(400)
      assert.equal(await page.locator('.bubble').count(), 1)
      assert.match((await page.textContent('.bubble')) ?? '', /안녕하세요$/)
      assert.equal(await page.inputValue('.composer textarea'), '')
    },
  },
  {
    name: 'everything can be reached by keyboard',
    async run({ page }) {
      await waitUntilReady(page)
      await page.keyboard.press('Control+k')
      assert.equal(await page.evaluate(() => document.activeElement?.tagName), 'TEXTAREA')
      const seen = new Set()
      for (let at = 0; at < 60; at++) {
        await page.keyboard.press('Tab')
        seen.add(await page.evaluate(() => document.activeElement?.className || document.activeElement?.tagName))
        const isVisible = await page.evaluate(() => {
          const one = document.activeElement
          if (!one || one === document.body) return true
          const box = one.getBoundingClientRect()
          return box.width > 0 && box.height > 0
        })
        assert.ok(isVisible, 'the focus went to something that cannot be seen')
      }
      for (const name of ['new', 'agent is-on', 'place']) assert.ok([...seen].some((one) => String(one) === name), `${name} was not reached: ${[...seen]}`)
    },
  },
]

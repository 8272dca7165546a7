// Tests of the files of a chat, with the real program and its built-in model.

import assert from 'node:assert/strict'
import { answerText, askQuestion, checkAccessibility, checkNoHorizontalScroll, PHONE, waitForAnswer, waitUntilReady } from './page-actions.mjs'

const CONTRACT = '# 물류 용역\n\n가온(이하 "갑")과 나래(이하 "을")는 다음과 같이 계약한다.\n\n## 제1조(대금)\n\n갑은 청구를 받은 날부터 37일 안에 대금을 지급한다.\n\n## 제2조(검수)\n\n갑은 9일 안에 검수한다.\n'

export const attachmentTests = [
  {
    name: 'a file that is attached to a chat is quoted there, is found nowhere else and is deleted with the chat',
    async run({ page, base, shoot }) {
      await waitUntilReady(page)
      await page.setInputFiles('.composer input[type=file]', { name: '출장 메모.md', mimeType: 'text/markdown', buffer: Buffer.from('# 출장 메모\n\n제주 워크숍의 참가비는 한 사람당 73,500원이다.\n') })
      await page.locator('.attachment.is-ready', { hasText: '출장 메모.md' }).waitFor()
      await page.setInputFiles('.composer input[type=file]', { name: '사진.png', mimeType: 'image/png', buffer: Buffer.from('x') })
      await page.locator('.note.bad', { hasText: '내장 모델은 이미지를 볼 수 없습니다' }).waitFor()
      await shoot('attachment')
      await checkAccessibility(page, 'an attachment')
      await askQuestion(page, '제주 워크숍 참가비는 한 사람당 얼마인가요?')
      await waitForAnswer(page)
      assert.match(await answerText(page), /73,500원/)
      await page.click('.source')
      await page.locator('.source-panel mark', { hasText: '73,500원' }).waitFor()
      await shoot('attachment-quoted')
      const thread = new URL(page.url()).pathname.slice(3)
      const listed = async (query) => (await (await fetch(`${base}/api/documents${query}`)).json()).documents.map(({ name }) => name)
      assert.deepEqual(await listed(`?thread=${thread}`), ['출장 메모.md'])
      assert.deepEqual(await listed(''), [])
      await page.click('.sidebar .new')
      await askQuestion(page, '제주 워크숍 참가비는 한 사람당 얼마인가요?')
      await waitForAnswer(page)
      assert.doesNotMatch(await answerText(page), /73,500원/)
      assert.equal((await fetch(`${base}/api/threads/${thread}`, { method: 'DELETE' })).status, 204)
      assert.deepEqual(await listed(`?thread=${thread}`), [])
    },
  },
  {
    name: 'a contract that is attached to a chat is recognised, and the contract agent quotes it; on a phone',
    options: { locale: 'ko-KR', colorScheme: 'dark', ...PHONE },
    async run({ page, base, shoot }) {
      await waitUntilReady(page)
      await page.locator('.agent', { hasText: '계약' }).first().click()
      const file = (name, text) => ({ name, mimeType: 'text/markdown', buffer: Buffer.from(text) })
      await page.setInputFiles('.composer input[type=file]', [file('가온 나래.md', CONTRACT), file('안내.md', '# 안내\n\n창고는 아홉 시에 연다.\n')])
      await page.locator('.attachment.is-ready', { hasText: '가온 나래.md' }).locator('.tag', { hasText: '계약서' }).waitFor()
      await page.locator('.attachment.is-ready', { hasText: '안내.md' }).waitFor()
      assert.equal(await page.locator('.attachment .tag').count(), 1, 'a note is no contract')
      await shoot('attachment-contract-phone')
      await checkNoHorizontalScroll(page)
      await checkAccessibility(page, 'an attached contract')
      await askQuestion(page, '이 계약서에서 대금은 며칠 안에 지급하나요?')
      await waitForAnswer(page)
      assert.match(await answerText(page), /37일/)
      const thread = new URL(page.url()).pathname.slice(3)
      const { documents } = await (await fetch(`${base}/api/documents?thread=${thread}`)).json()
      assert.deepEqual(documents.map(({ name, kind }) => `${name} ${kind}`).sort(), ['가온 나래.md contract', '안내.md general'])
      // The panel of a source covers this chat, and not the next one.
      await page.locator('.source').first().click()
      await page.waitForSelector('.source-panel')
      await shoot('source-panel-phone')
      await page.keyboard.press('Control+k')
      await waitUntilReady(page)
      await page.waitForSelector('.source-panel', { state: 'detached' })
      assert.ok(await page.locator('.composer textarea').isVisible())
      await page.goto(`${base}/t/${thread}`)
      await page.locator('.attachment .link', { hasText: '가온 나래.md' }).click()
      await page.waitForSelector('.source-panel')
      await page.goBack()
      await page.waitForSelector('.source-panel', { state: 'detached' })
      assert.equal((await fetch(`${base}/api/threads/${thread}`, { method: 'DELETE' })).status, 204)
    },
  },
]

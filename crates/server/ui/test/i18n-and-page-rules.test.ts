// Both languages have every text, and the source code follows the security rules of the page.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

import { expect, test } from 'vitest'

import { chooseLanguage, language, t } from '../src/i18n'
import en from '../src/i18n/en.json'
import ko from '../src/i18n/ko.json'

const SRC = join(import.meta.dirname, '../src')
const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((name) => /\.tsx?$/.test(name))
const code = files.map((name) => ({ name, text: readFileSync(join(SRC, name), 'utf8') }))
const HANGUL = /[\uac00-\ud7a3]/

test('both languages have the same keys and the same slots, each in its own script', () => {
  expect(Object.keys(ko)).toEqual(Object.keys(en))
  const slots = (text: string) => (text.match(/\{\w+\}/g) ?? []).sort()
  for (const [key, words] of Object.entries(ko)) {
    const other = en[key as keyof typeof en]
    expect(slots(words), key).toEqual(slots(other))
    expect([words.trim(), other.trim()].every((one) => one !== ''), key).toBe(true)
    expect(HANGUL.test(other), key).toBe(false)
    if (words !== other && !/^\W*\{\w+\}\W*$/.test(words)) expect(HANGUL.test(words), key).toBe(true)
  }
})

test('one is one, and many are many', () => {
  language.value = 'en'
  expect(t('passages_n', { n: 1 })).toBe('1 passage')
  expect(t('passages_n', { n: '1' })).toBe('1 passage')
  expect(t('passages_n', { n: 0 })).toBe('0 passages')
  expect(t('steps_took', { n: 2, time: '1 s' })).toBe('2 steps · 1 s')
})

test('every key is used, or it would be kept for nothing', () => {
  const all = code.map(({ text }) => text).join('\n')
  for (const key of Object.keys(en)) expect(all.includes(`'${key}'`), key).toBe(true)
})

test('no words stand in the code', () => {
  for (const { name, text } of code) {
    for (const [at, line] of text.split('\n').entries()) {
      if (!HANGUL.test(line) || /^\s*(\/\/|\*|\/\*)/.test(line)) continue
      const isName = line.includes('한국어') || line.includes('standard:용역') || line.includes("new Problem(")
      expect(isName || name === 'api.ts', `${name}:${at + 1}: ${line.trim()}`).toBe(true)
    }
  }
})

test('no text is ever read as markup', () => {
  for (const { name, text } of code) {
    for (const word of ['innerHTML', 'outerHTML', 'insertAdjacentHTML', 'document.write', 'eval(', 'new Function', 'createContextualFragment']) {
      expect(text.includes(word) || text.includes(`dangerously${word}`), `${name}: ${word}`).toBe(false)
    }
    expect(text.includes('dangerouslySet'), name).toBe(false)
    expect(/\bstyle=["{]/.test(text), `${name}: style attribute`).toBe(false)
  }
})

test('the API key is kept for the session of the tab and nowhere else', () => {
  const keepers = ['settings.ts', 'pending-messages.ts']
  for (const { name, text } of code) {
    expect(text.includes('document.cookie') || text.includes('indexedDB'), name).toBe(false)
    if (name === 'api.ts') expect(text.includes('localStorage'), name).toBe(false)
    else if (!keepers.includes(name)) expect(/localStorage|sessionStorage/.test(text), name).toBe(false)
    // Modules with access to storage have no access to the API key.
    else expect(/from '\.\/api'/.test(text), name).toBe(false)
  }
})

test('the language is the one chosen, else the browser’s, else English', () => {
  expect(chooseLanguage(null, ['ko-KR', 'en'])).toBe('ko')
  expect(chooseLanguage(null, ['fr', 'en-GB', 'ko'])).toBe('en')
  expect(chooseLanguage('en', ['ko'])).toBe('en')
  expect(chooseLanguage('xx', ['fr'])).toBe('en')
})

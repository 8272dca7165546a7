// Enter with Hangul composition, in the event orders of different browsers.

import { expect, test } from 'vitest'

import { ImeComposer, type KeyPress } from '../src/ime'

type ImeAction = ['start'] | ['update', string] | ['end', string] | ['key', Partial<KeyPress>] | ['wait', number] | ['blur']

/** The decisions at each key and at each end of a composition. */
function playActions(acts: ImeAction[]): string[] {
  const composer = new ImeComposer()
  let now = 1000
  const out: string[] = []
  for (const act of acts) {
    now += 1
    if (act[0] === 'start') composer.start()
    else if (act[0] === 'update') composer.update(act[1])
    else if (act[0] === 'end') out.push(composer.end(act[1], now) ? 'send' : '-')
    else if (act[0] === 'blur') composer.blur()
    else if (act[0] === 'wait') now += act[1]
    else out.push(composer.keydown({ key: 'Enter', keyCode: 13, isComposing: false, shiftKey: false, ...act[1] }, now))
  }
  return out
}

const sends = (out: string[]) => out.filter((one) => one === 'send').length
const composing: Partial<KeyPress> = { keyCode: 229, isComposing: true }

test('Chrome on Windows: Enter within a syllable sends once, after it', () => {
  const out = playActions([['start'], ['update', '요'], ['key', composing], ['end', '요']])
  expect(out).toEqual(['send-after-composition', 'send'])
})

test('Chrome on a Mac: the second Enter of the same press does not send again', () => {
  const out = playActions([['start'], ['update', '요'], ['key', composing], ['end', '요'], ['key', {}]])
  expect(out).toEqual(['send-after-composition', 'send', 'swallow'])
})

test('a plain 13 while a syllable is open waits for the syllable', () => {
  const out = playActions([['start'], ['update', '요'], ['key', { keyCode: 13 }], ['end', '요']])
  expect(out).toEqual(['send-after-composition', 'send'])
})

test('Safari: the composition ends first, then Enter comes with 229', () => {
  const out = playActions([['start'], ['update', '요'], ['end', '요'], ['key', { keyCode: 229 }]])
  expect(out).toEqual(['-', 'send'])
})

test('Enter that chooses a candidate sends nothing', () => {
  expect(sends(playActions([['start'], ['update', 'にほん'], ['key', composing], ['end', '日本']]))).toBe(0)
  expect(sends(playActions([['start'], ['update', '日本'], ['end', '日本'], ['key', { keyCode: 229 }]]))).toBe(0)
  expect(playActions([['start'], ['update', '日本'], ['end', '日本'], ['wait', 200], ['key', {}]]).at(-1)).toBe('send')
})

test('Enter while a composition goes on never sends by itself', () => {
  for (const text of ['ㅎ', '하', 'にほん', 'a']) {
    expect(sends(playActions([['start'], ['update', text], ['key', composing]]))).toBe(0)
  }
})

test('a composition that goes on after Enter was not ended by it', () => {
  expect(sends(playActions([['start'], ['update', '하'], ['key', composing], ['update', '한'], ['end', '한']]))).toBe(0)
})

test('leaving the box forgets a send that waits', () => {
  expect(sends(playActions([['start'], ['update', '하'], ['key', composing], ['blur'], ['end', '하']]))).toBe(0)
})

test('plain Enter sends, Shift and Enter does not, a held key sends once', () => {
  expect(playActions([['key', {}]])).toEqual(['send'])
  expect(playActions([['key', { shiftKey: true }]])).toEqual(['leave'])
  expect(playActions([['start'], ['update', '하'], ['key', { ...composing, shiftKey: true }], ['end', '하']])).toEqual(['leave', '-'])
  expect(sends(playActions([['key', {}], ['wait', 500], ['key', { repeat: true }], ['wait', 30], ['key', { repeat: true }]]))).toBe(1)
  expect(sends(playActions([['key', {}], ['wait', 500], ['key', {}]]))).toBe(2)
})

test('two presses of Enter without a composition both send, however quickly they follow', () => {
  expect(sends(playActions([['key', {}], ['wait', 10], ['key', {}]]))).toBe(2)
})

test('other keys are left alone', () => {
  expect(playActions([['key', { key: 'a', keyCode: 65 }], ['key', { key: 'Process', keyCode: 229, isComposing: true }]])).toEqual(['leave', 'leave'])
})

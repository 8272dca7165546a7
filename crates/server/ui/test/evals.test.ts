import { expect, test } from 'vitest'

import en from '../src/i18n/en.json'
import ko from '../src/i18n/ko.json'
import { expectsSomething, isSetName, linesOf, newSetName, variantsOf } from '../src/evals'

test('every model is asked as it is set up and with each of the instructions', () => {
  expect(variantsOf([null], [])).toEqual([{}])
  expect(variantsOf([null, 'm'], ['짧게', ' ', '짧게 '])).toEqual([{}, { instructions: '짧게' }, { model: 'm' }, { model: 'm', instructions: '짧게' }])
  expect(variantsOf([], ['x'])).toEqual([])
})

test('a case that expects nothing could not fail', () => {
  expect(expectsSomething({ contains: [], lacks: [], })).toBe(false)
  expect(expectsSomething({ contains: ['15일'] })).toBe(true)
  expect(expectsSomething({ tools: [] })).toBe(true)
  expect(expectsSomething({ model_calls: 0 })).toBe(true)
})

test('a name becomes a file name', () => {
  for (const name of ['leave', '휴가_규정-2', 'a'.repeat(40)]) expect(isSetName(name), name).toBe(true)
  for (const name of ['', '.', '..', 'a.b', 'a/b', '-a', 'a b', 'a'.repeat(41)]) expect(isSetName(name), name).toBe(false)
})

test('empty lines say nothing', () => {
  expect(linesOf(' a \n\n b')).toEqual(['a', 'b'])
})

test('the name that is proposed can be used at once', () => {
  for (const { eval_set_name_proposed: proposed } of [ko, en]) {
    expect(newSetName(proposed, [])).toBe(proposed)
    expect(newSetName(proposed, [proposed, `${proposed}-2`])).toBe(`${proposed}-3`)
    expect(isSetName(newSetName(proposed, [proposed])), proposed).toBe(true)
  }
})

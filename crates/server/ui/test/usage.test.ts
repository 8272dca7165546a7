// What the usage view says about costs.

import { expect, test } from 'vitest'

import type { UsageInfo } from '../src/api-types'
import { hasUnknownPrice, knownCost } from '../src/usage'

const sum = (tokens: number, cost_micros: number | null) => ({ input_tokens: tokens, output_tokens: 0, cost_micros })
const usage = (...costs: (number | null)[]) => ({ by_model: costs.map((cost_micros) => ({ name: 'm', calls: 1, ...sum(1, cost_micros) })) }) as unknown as UsageInfo

test('a model without a known price did not cost nothing', () => {
  expect([usage(), usage(0, 3), usage(0, null)].map(hasUnknownPrice)).toEqual([false, false, true])
  expect(knownCost(sum(5, 0), true)).toBe(null)
  expect(knownCost(sum(5, 0), false)).toBe(0)
  // What is known stays, and no tokens cost nothing.
  expect([knownCost(sum(5, 7), true), knownCost(sum(0, 0), true)]).toEqual([7, 0])
})

// What the usage view says about costs.

import type { UsageInfo } from './api-types'

/** Whether the price of a model that was used is not known. */
export function hasUnknownPrice(usage: UsageInfo): boolean {
  return (usage.by_model ?? []).some((one) => one.cost_micros === null)
}

/**
 * The cost of a sum, or null if it is not known. Sums leave out models without a known price, so where there are such models
 * a sum of 0 does not mean that nothing was to be paid.
 */
export function knownCost(sum: { input_tokens: number; output_tokens: number; cost_micros: number | null }, isPriceUnknown: boolean): number | null {
  return isPriceUnknown && sum.cost_micros === 0 && sum.input_tokens + sum.output_tokens > 0 ? null : sum.cost_micros
}

// What did not hold in a case of an evaluation, in words.

import type { FailedExpectation } from './api-types'
import { t, type MessageKey } from './i18n'

const LABELS: Record<string, MessageKey> = {
  sources: 'eval_what_sources', tools: 'eval_what_tools', contains: 'eval_what_contains', lacks: 'eval_what_lacks', route: 'eval_route', path: 'eval_what_path',
  model_calls: 'eval_model_calls', most_cost: 'eval_most_cost', error: 'error', asks: 'eval_what_asks', fails: 'eval_what_fails',
}

const ERRORS: Record<string, MessageKey> = {
  model_truncated: 'eval_error_truncated', model_empty: 'eval_error_empty', model_unavailable: 'eval_error_unavailable', model_unreachable: 'eval_error_unreachable',
  model_rate_limited: 'eval_error_rate_limited', model_limit_exceeded: 'eval_error_limit', model_unauthorized: 'eval_error_unauthorized',
  model_out_of_credit: 'eval_error_credit', model_too_long: 'eval_error_too_long', model_filtered: 'eval_error_filtered', model_rejected: 'eval_error_rejected',
}

export interface FailureWords {
  label: string
  /** Null if nothing was expected that could be said. */
  expected: string | null
  /** Null if the label says it, or if it is the answer itself. */
  was: string | null
}

export function failureWords({ what, expected, was }: FailedExpectation): FailureWords {
  const label = LABELS[what] ? t(LABELS[what]) : what
  if (what === 'contains' || what === 'lacks' || what === 'fails') return { label, expected, was: null }
  if (what === 'sources' || what === 'tools' || what === 'path') return { label, expected: listWords(expected), was: listWords(was) }
  if (what === 'error') return { label, expected: expected === NONE ? null : errorWords(expected), was: errorWords(was) }
  return { label, expected: expected === NONE ? t('eval_nothing') : expected, was: was === NONE ? t('eval_nothing') : was }
}

/** How the server writes that there is none. */
const NONE = '-'

/** The server writes a list in brackets. */
function listWords(list: string): string {
  const items = list.startsWith('[') && list.endsWith(']') ? list.slice(1, -1).trim() : list
  return items === '' ? t('eval_nothing') : items
}

/** An error by its code. A code that is not known is shown as it is. */
function errorWords(code: string): string {
  if (code === NONE) return t('eval_nothing')
  return ERRORS[code] ? t(ERRORS[code]) : code
}

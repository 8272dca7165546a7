// One difference between two states.

import { sanitizeText } from '../sanitize-text'
import type { StateChange } from '../state-diff'
import type { Json } from '../api-types'

/** Longer values are cut. */
const MAX_VALUE_CHARS = 300

export function DiffLine({ change }: { change: StateChange }) {
  return (
    <li>
      <code>{sanitizeText(change.path)}</code>
      {change.before !== undefined && <del>{shortValue(change.before)}</del>}
      {change.after !== undefined && <ins>{shortValue(change.after)}</ins>}
    </li>
  )
}

function shortValue(value: Json): string {
  const text = sanitizeText(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))
  return text.length > MAX_VALUE_CHARS ? `${text.slice(0, MAX_VALUE_CHARS)}…` : text
}

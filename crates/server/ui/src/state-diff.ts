// The differences between two states, as a list of paths.

import { isJsonObject } from './transcript'
import type { Json } from './api-types'

export interface StateChange {
  path: string
  before: Json | undefined
  after: Json | undefined
}

/** More changes are not listed: the whole state is shown anyway. */
const MAX_CHANGES = 200

export function diffStates(before: Json | undefined, after: Json | undefined): StateChange[] {
  const out: StateChange[] = []
  collectChanges('', before, after, out)
  return out
}

function collectChanges(path: string, before: Json | undefined, after: Json | undefined, out: StateChange[]): void {
  if (out.length >= MAX_CHANGES || JSON.stringify(before) === JSON.stringify(after)) return
  if (isJsonObject(before) && isJsonObject(after)) {
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
      collectChanges(path === '' ? name : `${path}.${name}`, before[name], after[name], out)
    }
  } else if (Array.isArray(before) && Array.isArray(after)) {
    for (let at = 0; at < Math.max(before.length, after.length); at++) collectChanges(`${path}[${at}]`, before[at], after[at], out)
  } else out.push({ path, before, after })
}

// What changed between two states, as a list of places.

import { isObject } from './fold'
import type { Json } from './types'

export interface Change {
  path: string
  before: Json | undefined
  after: Json | undefined
}

/** A state that changed in more places than this is better read whole. */
const MOST = 200

export function diff(before: Json | undefined, after: Json | undefined): Change[] {
  const out: Change[] = []
  walk('', before, after, out)
  return out
}

function walk(path: string, before: Json | undefined, after: Json | undefined, out: Change[]): void {
  if (out.length >= MOST || JSON.stringify(before) === JSON.stringify(after)) return
  if (isObject(before) && isObject(after)) {
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
      walk(path === '' ? name : `${path}.${name}`, before[name], after[name], out)
    }
  } else if (Array.isArray(before) && Array.isArray(after)) {
    for (let at = 0; at < Math.max(before.length, after.length); at++) walk(`${path}[${at}]`, before[at], after[at], out)
  } else out.push({ path, before, after })
}

// Parses and searches JSON values. Paths are written as in `state-diff.ts`: `messages[0].text`.

import { isJsonObject } from './transcript'
import type { Json } from './api-types'

export function childPath(path: string, key: string, isList: boolean): string {
  if (isList) return `${path}[${key}]`
  return path === '' ? key : `${path}.${key}`
}

/** The paths of all values whose name or text contains the query, with all that is above and below them. */
export function matchingPaths(value: Json, query: string): Set<string> {
  const wanted = query.toLowerCase()
  const found = new Set<string>()
  const visit = (one: Json, name: string, path: string, isBelow: boolean): boolean => {
    const isNamed = isBelow || (name !== '' && name.toLowerCase().includes(wanted))
    let isFound = isNamed
    if (typeof one === 'object' && one !== null) {
      const isList = Array.isArray(one)
      for (const [key, child] of Object.entries(one)) {
        if (visit(child as Json, isList ? '' : key, childPath(path, key, isList), isNamed)) isFound = true
      }
    } else if (String(one).toLowerCase().includes(wanted)) isFound = true
    if (isFound) found.add(path)
    return isFound
  }
  visit(value, '', '', false)
  return found
}

/** The object that a text holds, or undefined if it is not the JSON of an object. */
export function parseJsonObject(text: string): { [key: string]: Json } | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isJsonObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

// A case of an evaluation as text, in the format of `doran eval agent`.

import type { EvalCaseInfo } from './api-types'

/** A text as a basic string of TOML. JSON escapes the same characters. */
function quoted(text: string): string {
  return JSON.stringify(text).replaceAll('\u007f', '\\u007f')
}

const list = (texts: string[]) => `[${texts.map(quoted).join(', ')}]`

export function evalCaseToml({ id, agent, before, ask, expect }: EvalCaseInfo): string {
  const expected = Object.entries(expect).flatMap(([key, value]) => (Array.isArray(value) ? [`${key} = ${list(value)}`] : []))
  const lines = [
    '[[case]]',
    `id = ${quoted(id)}`,
    `agent = ${quoted(agent)}`,
    ...(before && before.length > 0 ? [`before = ${list(before)}`] : []),
    `ask = ${quoted(ask)}`,
    `expect = { ${expected.join(', ')} }`,
  ]
  return `${lines.join('\n')}\n`
}

// A run as a case of an evaluation, in the format of `doran eval agent`.

export interface EvalCase {
  id: string
  agent: string
  /** Earlier questions of the same thread. */
  before: string[]
  ask: string
  /** Tools that ran, each once. */
  tools: string[]
  /** Titles of the cited documents. */
  sources: string[]
}

/** A text as a basic string of TOML. JSON escapes the same characters. */
function quoted(text: string): string {
  return JSON.stringify(text).replaceAll('\u007f', '\\u007f')
}

const list = (texts: string[]) => `[${texts.map(quoted).join(', ')}]`

/** The case expects what the run did. Whoever keeps it corrects what was wrong. */
export function evalCaseToml({ id, agent, before, ask, tools, sources }: EvalCase): string {
  const lines = [
    '[[case]]',
    `id = ${quoted(id)}`,
    `agent = ${quoted(agent)}`,
    ...(before.length > 0 ? [`before = ${list(before)}`] : []),
    `ask = ${quoted(ask)}`,
    `expect = { tools = ${list([...new Set(tools)])}, sources = ${list([...new Set(sources)])} }`,
  ]
  return `${lines.join('\n')}\n`
}

// The request of a question as a command for the terminal.

import type { MakeThreadBody, StartRun } from './api-types'

const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

/** A command that sends JSON. The address is already quoted. */
function curl(flags: string, address: string, body: unknown, needsKey: boolean): string {
  return [
    `curl ${flags} ${address}`,
    `  -H 'content-type: application/json'`,
    ...(needsKey ? [`  -H "authorization: Bearer $DORAN_API_KEY"`] : []),
    `  -d ${quote(JSON.stringify(body))}`,
  ].join(' \\\n')
}

/** The command that asks the same in this thread. A thread that does not exist is made. */
export function curlCommand(origin: string, thread: string, request: StartRun, needsKey: boolean): string {
  return curl('-N', quote(`${origin}/api/threads/${encodeURIComponent(thread)}/runs`), request, needsKey)
}

/** The commands that ask the same in a new thread with these settings, such as the model of the chat. */
export function curlCommandWithSettings(origin: string, settings: MakeThreadBody, request: StartRun, needsKey: boolean): string {
  const made = curl('-s', quote(`${origin}/api/threads`), { agent: request.agent, ...settings }, needsKey)
  return `thread=$(${made} \\\n  | sed 's/.*"id":"\\([^"]*\\)".*/\\1/')\n${curl('-N', `${quote(`${origin}/api/threads/`)}"$thread"/runs`, request, needsKey)}`
}

// The request of a question as a command for the terminal.

import type { StartRun } from './api-types'

/** The command that asks the same in this thread. A thread that does not exist is made. */
export function curlCommand(origin: string, thread: string, request: StartRun, needsKey: boolean): string {
  const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
  return [
    `curl -N ${quote(`${origin}/api/threads/${encodeURIComponent(thread)}/runs`)}`,
    `  -H 'content-type: application/json'`,
    ...(needsKey ? [`  -H "authorization: Bearer $DORAN_API_KEY"`] : []),
    `  -d ${quote(JSON.stringify(request))}`,
  ].join(' \\\n')
}

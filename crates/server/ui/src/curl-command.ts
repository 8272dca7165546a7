// The request of a question as a command for the terminal.

export function curlCommand(origin: string, agent: string, message: string, needsKey: boolean): string {
  const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
  const thread = 'from-curl'
  return [
    `curl -N ${quote(`${origin}/api/threads/${thread}/runs`)}`,
    `  -H 'content-type: application/json'`,
    ...(needsKey ? [`  -H "authorization: Bearer $DORAN_API_KEY"`] : []),
    `  -d ${quote(JSON.stringify({ agent, message }))}`,
  ].join(' \\\n')
}

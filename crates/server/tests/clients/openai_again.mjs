// OpenAI's own client for Node.js as it comes, which asks again by itself: `openai_again.mjs BASE THREAD`. Prints what it
// was refused with.

import OpenAI from 'openai'

const [base, thread] = process.argv.slice(2)
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: '-' })
const messages = [{ role: 'user', content: '안녕?' }]
try {
  await client.chat.completions.create({ model: 'assistant', messages }, { headers: { 'x-thread-id': thread } })
} catch (error) {
  if (!(error instanceof OpenAI.APIError)) throw error
  console.log(error.status, error.code)
}

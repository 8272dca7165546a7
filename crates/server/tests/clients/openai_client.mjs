// OpenAI's own client for Node.js against the server: `openai_client.mjs BASE KEY`. Ends with `ok` or with what did not
// hold.

import assert from 'node:assert/strict'
import OpenAI from 'openai'

const [base, apiKey] = process.argv.slice(2)
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey, maxRetries: 0 })
const messages = [{ role: 'user', content: '연차휴가는 며칠인가요?' }]

const names = []
for await (const model of client.models.list()) names.push(model.id)
assert.ok(names.includes('assistant'), names.join())

const whole = await client.chat.completions.create({ model: 'assistant', messages })
const said = whole.choices[0].message.content
assert.match(said, /15일/)
assert.equal(whole.choices[0].finish_reason, 'stop')

let streamed = ''
let thought = ''
let usage = null
const stream = await client.chat.completions.create({ model: 'assistant', messages, stream: true, stream_options: { include_usage: true } })
for await (const chunk of stream) {
  streamed += chunk.choices[0]?.delta?.content ?? ''
  thought += chunk.choices[0]?.delta?.reasoning_content ?? ''
  usage = chunk.usage ?? usage
}
assert.equal(streamed, said)
assert.ok(usage.total_tokens > 0)
assert.ok(thought !== '' && thought === whole.choices[0].message.reasoning_content, thought)

await assert.rejects(client.chat.completions.create({ model: 'gpt-5', messages }), OpenAI.NotFoundError)
const stranger = new OpenAI({ baseURL: `${base}/v1`, apiKey: 'key-nobody', maxRetries: 0 })
await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError)
console.log('ok openai for Node.js')

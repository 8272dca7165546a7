// OpenAI's client for Node.js: tools, typed answers, Responses and embeddings. The model behind calls `get_weather` once.
import assert from 'node:assert/strict'
import OpenAI from 'openai'
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod'
import { z } from 'zod'

const [base, apiKey] = process.argv.slice(2)
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey, maxRetries: 0 })
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false }
const question = { role: 'user', content: 'What is the weather in Seoul?' }
const Forecast = z.object({ city: z.string(), days: z.number() })

const ran = []
const runner = client.chat.completions.runTools({
  model: 'react',
  messages: [question],
  tools: [{ type: 'function', function: { name: 'get_weather', parameters, parse: JSON.parse, function: ({ city }) => (ran.push(city), 'sunny') } }],
})
assert.equal(await runner.finalContent(), 'The weather: sunny')
assert.deepEqual(ran, ['Seoul'])

const typed = await client.chat.completions.parse({
  model: 'react',
  messages: [{ role: 'user', content: 'How many days?' }],
  response_format: zodResponseFormat(Forecast, 'forecast'),
})
assert.deepEqual(typed.choices[0].message.parsed, { city: 'Seoul', days: 3 })

const tools = [{ type: 'function', name: 'get_weather', parameters, strict: true }]
const first = await client.responses.create({ model: 'react', input: [question], tools })
const call = first.output.find((item) => item.type === 'function_call')
assert.deepEqual(JSON.parse(call.arguments), { city: 'Seoul' })
const output = { type: 'function_call_output', call_id: call.call_id, output: 'rain' }
const second = await client.responses.create({ model: 'react', input: [output], previous_response_id: first.id, tools })
assert.equal(second.output_text, 'The weather: rain')

let words = ''
const events = await client.responses.create({ model: 'react', input: 'Hello?', stream: true })
for await (const event of events) if (event.type === 'response.output_text.delta') words += event.delta
assert.equal(words, 'You said: Hello?')
const seen = []
for await (const event of await client.responses.create({ model: 'react', input: 'Again?', stream: true, background: true })) seen.push(event)
const said = (events) => events.map((event) => (event.type === 'response.output_text.delta' ? event.delta : '')).join('')
const id = seen.at(-1).response.id
for (const [at, { sequence_number: starting_after }] of seen.slice(0, -1).entries()) {
  const rest = []
  for await (const event of await client.responses.retrieve(id, { stream: true, starting_after })) rest.push(event)
  assert.equal(said([...seen.slice(0, at + 1), ...rest]), 'You said: Again?')
  const helped = []
  for await (const event of client.responses.stream({ response_id: id, starting_after })) helped.push(event)
  assert.equal(said([...seen.slice(0, at + 1), ...helped]), 'You said: Again?')
}
const parsed = await client.responses.parse({ model: 'react', input: 'How many days?', text: { format: zodTextFormat(Forecast, 'forecast') } })
assert.deepEqual(parsed.output_parsed, { city: 'Seoul', days: 3 })

const embedded = await client.embeddings.create({ model: 'built-in', input: ['연차휴가'] })
assert.ok(embedded.data[0].embedding.length > 10)
console.log('ok openai')

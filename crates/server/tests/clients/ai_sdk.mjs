// The AI SDK with its OpenAI provider (Responses) and its OpenAI-compatible provider (chat completions).
import assert from 'node:assert/strict'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { embed, generateObject, generateText, stepCountIs, streamText, tool } from 'ai'
import { z } from 'zod'

const [base, apiKey] = process.argv.slice(2)
const openai = createOpenAI({ baseURL: `${base}/v1`, apiKey })
const compatible = createOpenAICompatible({ name: 'doran', baseURL: `${base}/v1`, apiKey, supportsStructuredOutputs: true })
const schema = z.object({ city: z.string(), days: z.number() })

for (const [name, model, encoder] of [
  ['openai', openai('react'), openai.textEmbeddingModel('built-in')],
  ['openai.chat', openai.chat('react'), openai.textEmbeddingModel('built-in')],
  ['openai-compatible', compatible('react'), compatible.textEmbeddingModel('built-in')],
]) {
  const options = { model, maxRetries: 0 }
  const text = await generateText({ ...options, prompt: 'Hello?' })
  assert.equal(text.text, 'You said: Hello?', name)

  const stream = streamText({ ...options, prompt: 'Hello?', onError: ({ error }) => { throw error } })
  let words = ''
  for await (const piece of stream.textStream) words += piece
  assert.equal(words, 'You said: Hello?', name)

  const object = await generateObject({ ...options, schema, prompt: 'How many days?' })
  assert.deepEqual(object.object, { city: 'Seoul', days: 3 }, name)

  const tools = () => ({
    get_weather: tool({
      description: 'Weather of a city',
      inputSchema: z.object({ city: z.string() }),
      execute: async ({ city }) => `sunny in ${city}`,
    }),
  })
  const prompt = 'What is the weather in Seoul?'
  const called = await generateText({ ...options, prompt, tools: tools(), stopWhen: stepCountIs(3) })
  assert.match(called.text, /The weather: .*sunny in Seoul/, name)
  assert.equal(called.steps.length, 2, name)
  const streamed = streamText({ ...options, prompt, tools: tools(), stopWhen: stepCountIs(3), onError: ({ error }) => { throw error } })
  assert.match(await streamed.text, /The weather: .*sunny in Seoul/, name)

  const { embedding } = await embed({ model: encoder, value: '연차휴가', maxRetries: 0 })
  assert.ok(embedding.length > 10, name)
}
console.log('ok ai')

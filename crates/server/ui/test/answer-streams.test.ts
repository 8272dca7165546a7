// Not a byte of an answer changes in the page. The streams are what a server sent for random texts of a scripted vendor:
// some are recorded here, and DORAN_ANSWER_STREAMS=DIRECTORY reads as many as crates/server/tests/it/answer_bytes.rs wrote there.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

import { expect, test } from 'vitest'

import { SseParser } from '../src/sse'
import { buildTranscript, newRunView, reduceRunEvent } from '../src/transcript'
import type { RunEvent } from '../src/api-types'

interface RecordedAnswer {
  text: string
  stream: string
}

/** The bytes that arrive at once: few enough that frames and characters are cut. */
const CHUNK_BYTES = 13

function recordedFiles(): string[] {
  const directory = process.env.DORAN_ANSWER_STREAMS
  if (!directory) return [fileURLToPath(new URL('fixtures/answer-streams.jsonl', import.meta.url))]
  return readdirSync(directory).filter((name) => name.endsWith('.jsonl')).map((name) => join(directory, name))
}

function shownText(stream: string): string {
  const parser = new SseParser()
  const bytes = new TextEncoder().encode(stream)
  let run = newRunView('', '', '')
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
    for (const frame of parser.push(bytes.subarray(at, at + CHUNK_BYTES))) {
      if (frame.data !== '') run = reduceRunEvent(run, JSON.parse(frame.data) as RunEvent)
    }
  }
  expect(run.status).toBe('finished')
  return buildTranscript(run).text
}

test('an answer is shown as the vendor sent it', { timeout: 600_000 }, () => {
  let count = 0
  for (const file of recordedFiles()) {
    for (const line of readFileSync(file, 'utf8').split('\n').filter((line) => line !== '')) {
      const { text, stream } = JSON.parse(line) as RecordedAnswer
      expect(shownText(stream), `answer ${count} of ${file}`).toBe(text)
      count++
    }
  }
  expect(count).toBeGreaterThanOrEqual(30)
})

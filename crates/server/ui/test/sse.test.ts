// Server-sent events from chunks that are cut anywhere.

import { expect, test } from 'vitest'

import { SseParser, type SseFrame } from '../src/sse'

const bytes = (text: string) => new TextEncoder().encode(text)

function read(pieces: Uint8Array[]): SseFrame[] {
  const frames = new SseParser()
  return pieces.flatMap((piece) => frames.push(piece))
}

const STREAM = 'id: 1\nevent: started\ndata: {"a":"가나"}\n\n: alive\n\nevent: delta\r\ndata: 다라\r\n\r\nid: 2\ndata: one\ndata: 😀 two\n\ndata: never'
const WHOLE: SseFrame[] = [
  { id: '1', event: 'started', data: '{"a":"가나"}' },
  { id: null, event: 'delta', data: '다라' },
  { id: '2', event: 'message', data: 'one\n😀 two' },
]

test('frames are read whole', () => {
  expect(read([bytes(STREAM)])).toEqual(WHOLE)
})

test('a cut at any byte, even within a character, changes nothing', () => {
  const all = bytes(STREAM)
  for (let at = 0; at <= all.length; at++) expect(read([all.slice(0, at), all.slice(at)]), `cut at ${at}`).toEqual(WHOLE)
  expect(read(Array.from(all, (_, at) => all.slice(at, at + 1)))).toEqual(WHOLE)
})

test('what is not ended by an empty line was not sent', () => {
  expect(read([bytes('id: 9\ndata: half\n')])).toEqual([])
})

test('a frame does not inherit the number of the one before', () => {
  expect(read([bytes('id: 7\ndata: a\n\ndata: b\n\n')]).map((frame) => frame.id)).toEqual(['7', null])
})

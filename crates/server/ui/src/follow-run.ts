// Follows a run through lost connections. The run belongs to the server: whatever happens to the connection, its
// events are asked for again after the newest one that was seen, until the run rests.

import { SseParser } from './sse'
import type { RunEvent } from './types'

export type Connection =
  | { state: 'connecting' }
  | { state: 'open' }
  | { state: 'lost'; tries: number }
  | { state: 'done' }
  | { state: 'refused'; error: unknown }

/** An answer of the server that trying again does not change. */
export class RefusedError extends Error {
  constructor(readonly problem: unknown) {
    super('the server refused')
  }
}

export interface EventSourceClient {
  /** Opens the events after a number. Throws [`Refused`] when there is no point in trying again. */
  open(after: number, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>
  /**
   * Takes an event and says whether the run goes on after it, rests there unless more follows (it asks, or it failed and
   * may have been tried again), or is over. Throws when the event does not follow what came before.
   */
  applyEvent(event: RunEvent): 'more' | 'rest' | 'over'
  /** Number of the newest event that was taken. */
  lastEventNumber(): number
  onConnectionChange?(connection: Connection): void
  /** Waits before the next try; ends early when the network is back. */
  waitBeforeRetry(ms: number, signal: AbortSignal): Promise<void>
}

/** Nothing at all, not even a sign of life, for so long means that the connection is dead. */
const DEAD_CONNECTION_MS = 45_000

/** Follows until the run rests, the server refuses, or `signal` ends it. */
export async function followRun(source: EventSourceClient, signal: AbortSignal): Promise<void> {
  let tries = 0
  const stands: RunContinuation = { now: 'more' }
  // A line can be cut just where a run seems to rest: it does when nothing more comes the second time.
  let seemed: number | null = null
  source.onConnectionChange?.({ state: 'connecting' })
  while (!signal.aborted) {
    const before = source.lastEventNumber()
    try {
      if ((await readStreamOnce(source, signal, stands)) === 'rest') {
        if (stands.now === 'rest' && seemed !== source.lastEventNumber()) {
          seemed = source.lastEventNumber()
          continue
        }
        source.onConnectionChange?.({ state: 'done' })
        return
      }
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof RefusedError) {
        source.onConnectionChange?.({ state: 'refused', error: error.problem })
        return
      }
    }
    if (signal.aborted) return
    tries = source.lastEventNumber() > before ? 1 : tries + 1
    source.onConnectionChange?.({ state: 'lost', tries })
    await source.waitBeforeRetry(retryDelayMs(tries), signal)
  }
}

/** How long to wait before a try: short at first, never more than ten seconds. */
export function retryDelayMs(tries: number): number {
  return Math.min(10_000, 250 * 2 ** Math.min(tries - 1, 10))
}

/** What the newest event said of the run, through all connections. */
interface RunContinuation {
  now: ReturnType<EventSourceClient['applyEvent']>
}

/** The server ends the stream of a run that rests. One that ends elsewhere was cut. */
async function readStreamOnce(source: EventSourceClient, signal: AbortSignal, stands: RunContinuation): Promise<'rest' | 'cut'> {
  const own = new AbortController()
  const stop = () => own.abort()
  signal.addEventListener('abort', stop)
  let silence = setTimeout(stop, DEAD_CONNECTION_MS)
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  try {
    const body = await source.open(source.lastEventNumber(), own.signal)
    source.onConnectionChange?.({ state: 'open' })
    reader = body.getReader()
    const frames = new SseParser()
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return stands.now === 'rest' ? 'rest' : 'cut'
      clearTimeout(silence)
      silence = setTimeout(stop, DEAD_CONNECTION_MS)
      for (const frame of frames.push(value)) {
        const event = JSON.parse(frame.data) as RunEvent
        if (event.type === 'draining' || event.type === 'error') return 'cut'
        stands.now = source.applyEvent(event)
        if (stands.now === 'over') return 'rest'
      }
    }
  } finally {
    clearTimeout(silence)
    signal.removeEventListener('abort', stop)
    reader?.cancel().catch(() => undefined)
    own.abort()
  }
}

// Follows the events of a run and reconnects when the connection is lost. The run continues on the server. After a
// reconnect the stream continues after the last event received, until the run stops.

import { SseParser } from './sse'
import type { RunEvent } from './api-types'

export type Connection =
  | { state: 'connecting' }
  | { state: 'open' }
  | { state: 'lost'; tries: number }
  | { state: 'done' }
  | { state: 'refused'; error: unknown }

/** An error response that a retry would not change. */
export class RefusedError extends Error {
  constructor(readonly problem: unknown) {
    super('the server refused')
  }
}

/** Whether a run continues after its last event, has stopped there unless more events follow, or has ended for good. */
export type RunContinuation = 'continues' | 'stopped' | 'ended'

/** What `followRun` needs from its caller. */
export interface FollowRunHandlers {
  /** Opens the event stream after an event number. Throws `RefusedError` if a retry is pointless. */
  open(after: number, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>
  /**
   * Applies an event and returns whether the run continues after it. Throws if an event is missing before it.
   */
  applyEvent(event: RunEvent): RunContinuation
  /** Number of the last event applied. */
  lastEventNumber(): number
  onConnectionChange?(connection: Connection): void
  /** Waits before the next attempt. May return early when the network is back. */
  waitBeforeRetry(ms: number, signal: AbortSignal): Promise<void>
}

/** A connection without any data, not even a keep-alive comment, for this long counts as dead. */
const DEAD_CONNECTION_MS = 45_000

/** Follows until the run stops, the server refuses, or `signal` aborts. */
export async function followRun(handlers: FollowRunHandlers, signal: AbortSignal): Promise<void> {
  let tries = 0
  const latest: LatestContinuation = { value: 'continues' }
  // The connection may be cut right after a pause or failure. Only if a second read brings no more events is it the end.
  let stoppedAt: number | null = null
  handlers.onConnectionChange?.({ state: 'connecting' })
  while (!signal.aborted) {
    const before = handlers.lastEventNumber()
    try {
      if ((await readStreamOnce(handlers, signal, latest)) === 'stopped') {
        if (latest.value === 'stopped' && stoppedAt !== handlers.lastEventNumber()) {
          stoppedAt = handlers.lastEventNumber()
          continue
        }
        handlers.onConnectionChange?.({ state: 'done' })
        return
      }
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof RefusedError) {
        handlers.onConnectionChange?.({ state: 'refused', error: error.problem })
        return
      }
    }
    if (signal.aborted) return
    tries = handlers.lastEventNumber() > before ? 1 : tries + 1
    handlers.onConnectionChange?.({ state: 'lost', tries })
    await handlers.waitBeforeRetry(retryDelayMs(tries), signal)
  }
}

/** Exponential backoff from 250 ms to ten seconds. */
export function retryDelayMs(tries: number): number {
  return Math.min(10_000, 250 * 2 ** Math.min(tries - 1, 10))
}

/** The continuation after the last event, kept across connections. */
interface LatestContinuation {
  value: RunContinuation
}

/** Reads one connection to its end. The server closes the stream when the run stops; any other end is a cut. */
async function readStreamOnce(handlers: FollowRunHandlers, signal: AbortSignal, latest: LatestContinuation): Promise<'stopped' | 'cut'> {
  const own = new AbortController()
  const stop = () => own.abort()
  signal.addEventListener('abort', stop)
  let silence = setTimeout(stop, DEAD_CONNECTION_MS)
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  try {
    const body = await handlers.open(handlers.lastEventNumber(), own.signal)
    handlers.onConnectionChange?.({ state: 'open' })
    reader = body.getReader()
    const frames = new SseParser()
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return latest.value === 'stopped' ? 'stopped' : 'cut'
      clearTimeout(silence)
      silence = setTimeout(stop, DEAD_CONNECTION_MS)
      for (const frame of frames.push(value)) {
        const event = JSON.parse(frame.data) as RunEvent
        if (event.type === 'draining' || event.type === 'error') return 'cut'
        latest.value = handlers.applyEvent(event)
        if (latest.value === 'ended') return 'stopped'
      }
    }
  } finally {
    clearTimeout(silence)
    signal.removeEventListener('abort', stop)
    reader?.cancel().catch(() => undefined)
    own.abort()
  }
}

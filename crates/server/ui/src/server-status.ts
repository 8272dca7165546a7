// Whether the server can be reached. An idle page asks it now and then, so that it does not look alive when it is not.

import { signal } from '@preact/signals'

export const isServerReachable = signal(true)

const CHECK_INTERVAL_MS = 10_000

export function watchServer(onReturn: () => void): void {
  const check = async () => {
    if (document.hidden) return
    const wasReachable = isServerReachable.value
    try {
      // Any response will do: the server is there.
      const response = await fetch('/healthz', { cache: 'no-store', credentials: 'omit' })
      await response.body?.cancel()
      isServerReachable.value = true
    } catch {
      isServerReachable.value = false
    }
    if (!wasReachable && isServerReachable.value) onReturn()
  }
  setInterval(() => void check(), CHECK_INTERVAL_MS)
  document.addEventListener('visibilitychange', () => void check())
}

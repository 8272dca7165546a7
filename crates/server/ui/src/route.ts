// Where in the page a person is. The address says it, so that a reload and a bookmark lead back.

import { signal } from '@preact/signals'

export type Place = { view: 'chat'; thread: string | null } | { view: 'documents' }

export function placeOf(path: string): Place {
  const thread = /^\/t\/([^/]+)\/?$/.exec(path)
  if (thread?.[1]) {
    try {
      return { view: 'chat', thread: decodeURIComponent(thread[1]) }
    } catch {
      return { view: 'chat', thread: null }
    }
  }
  return /^\/documents\/?$/.test(path) ? { view: 'documents' } : { view: 'chat', thread: null }
}

export function pathOf(place: Place): string {
  if (place.view === 'documents') return '/documents'
  return place.thread === null ? '/' : `/t/${encodeURIComponent(place.thread)}`
}

export const place = signal<Place>({ view: 'chat', thread: null })

export function watchAddress(): void {
  place.value = placeOf(location.pathname)
  addEventListener('popstate', () => {
    place.value = placeOf(location.pathname)
  })
}

export function go(to: Place, how: 'push' | 'replace' = 'push'): void {
  const path = pathOf(to)
  if (path !== location.pathname) {
    if (how === 'push') history.pushState(null, '', path)
    else history.replaceState(null, '', path)
  }
  place.value = to
}

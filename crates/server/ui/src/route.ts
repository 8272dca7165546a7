// The current view of the page. It is stored in the URL, so reloads and bookmarks work.

import { signal } from '@preact/signals'

export type PageRoute = { view: 'chat'; thread: string | null } | { view: 'documents' }

export function routeFromPath(path: string): PageRoute {
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

export function pathFromRoute(place: PageRoute): string {
  if (place.view === 'documents') return '/documents'
  return place.thread === null ? '/' : `/t/${encodeURIComponent(place.thread)}`
}

export const currentRoute = signal<PageRoute>({ view: 'chat', thread: null })

export function watchLocation(): void {
  currentRoute.value = routeFromPath(location.pathname)
  addEventListener('popstate', () => {
    currentRoute.value = routeFromPath(location.pathname)
  })
}

export function navigate(to: PageRoute, how: 'push' | 'replace' = 'push'): void {
  const path = pathFromRoute(to)
  if (path !== location.pathname) {
    if (how === 'push') history.pushState(null, '', path)
    else history.replaceState(null, '', path)
  }
  currentRoute.value = to
}

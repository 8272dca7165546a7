// The current view of the page. It is stored in the URL, so reloads and bookmarks work.

import { signal } from '@preact/signals'

export type PageRoute = { view: 'chat'; thread: string | null } | { view: 'documents' } | { view: 'memory' } | { view: 'inbox' } | { view: 'runs' } | { view: 'usage' } | { view: 'evals'; set: string | null }

/** The memory is a part of the documents page. */
const MEMORY_HASH = '#memory'

/** The view of a path. `hash` is the part of the address from `#` on. */
export function routeFromPath(path: string, hash = ''): PageRoute {
  const thread = /^\/t\/([^/]+)\/?$/.exec(path)
  if (thread?.[1]) {
    try {
      return { view: 'chat', thread: decodeURIComponent(thread[1]) }
    } catch {
      return { view: 'chat', thread: null }
    }
  }
  const set = /^\/evals(?:\/([^/]+))?\/?$/.exec(path)
  if (set) {
    try {
      return { view: 'evals', set: set[1] ? decodeURIComponent(set[1]) : null }
    } catch {
      return { view: 'evals', set: null }
    }
  }
  const view = /^\/(documents|inbox|runs|usage)\/?$/.exec(path)?.[1]
  if (view === 'documents' && hash === MEMORY_HASH) return { view: 'memory' }
  return view === 'documents' || view === 'inbox' || view === 'runs' || view === 'usage' ? { view } : { view: 'chat', thread: null }
}

export function pathFromRoute(place: PageRoute): string {
  if (place.view === 'memory') return `/documents${MEMORY_HASH}`
  if (place.view === 'evals') return place.set === null ? '/evals' : `/evals/${encodeURIComponent(place.set)}`
  if (place.view !== 'chat') return `/${place.view}`
  return place.thread === null ? '/' : `/t/${encodeURIComponent(place.thread)}`
}

/** The run, and the row of its timeline, that an address leads to. */
export interface InspectorLink {
  run: string
  row: string | null
}

export function inspectorLinkFromQuery(query: string): InspectorLink | null {
  const params = new URLSearchParams(query)
  const run = params.get('run')
  return run ? { run, row: params.get('step') } : null
}

export function inspectorQuery({ run, row }: InspectorLink): string {
  return `?${new URLSearchParams({ run, ...(row === null ? {} : { step: row }) })}`
}

/** The link that the page was opened with, until the inspector has followed it. */
export const openedLink = signal<InspectorLink | null>(null)

/** Puts what the inspector shows into the address, so that it can be shared. */
export function showInspectorLink(link: InspectorLink | null): void {
  const query = link ? inspectorQuery(link) : ''
  if (location.pathname.startsWith('/t/') && location.search !== query) history.replaceState(null, '', location.pathname + query)
}

export const currentRoute = signal<PageRoute>({ view: 'chat', thread: null })

export function watchLocation(): void {
  const follow = () => {
    openedLink.value = inspectorLinkFromQuery(location.search)
    currentRoute.value = routeFromPath(location.pathname, location.hash)
  }
  follow()
  addEventListener('popstate', follow)
}

export function navigate(to: PageRoute, how: 'push' | 'replace' = 'push', link: InspectorLink | null = null): void {
  const path = pathFromRoute(to) + (link ? inspectorQuery(link) : '')
  openedLink.value = link
  if (path !== location.pathname + (link ? location.search : '') + location.hash) {
    if (how === 'push') history.pushState(null, '', path)
    else history.replaceState(null, '', path)
  }
  currentRoute.value = to
}

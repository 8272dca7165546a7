// What the page remembers of a person's taste, and nothing else.

import { effect, signal } from '@preact/signals'

export type Theme = 'system' | 'light' | 'dark'
export type Detail = 'quiet' | 'steps' | 'all'

const PREFIX = 'doran.'

export function recall(name: string): string | null {
  try {
    return localStorage.getItem(PREFIX + name)
  } catch {
    return null
  }
}

export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value)
  } catch {
    // A browser may forbid it; then the choice lasts as long as the page.
  }
}

function oneOf<T extends string>(name: string, values: readonly T[], otherwise: T): T {
  const saved = recall(name)
  return values.find((value) => value === saved) ?? otherwise
}

export const theme = signal<Theme>(oneOf('theme', ['system', 'light', 'dark'], 'system'))
export const detail = signal<Detail>(oneOf('detail', ['quiet', 'steps', 'all'], 'steps'))
export const inspectorOpen = signal(recall('inspector') === 'open')

export function showTheme(): void {
  effect(() => {
    document.documentElement.dataset.theme = theme.value
    remember('theme', theme.value)
  })
  effect(() => remember('detail', detail.value))
  effect(() => remember('inspector', inspectorOpen.value ? 'open' : 'closed'))
}

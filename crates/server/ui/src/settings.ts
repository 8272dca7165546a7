// Display settings, stored in the browser.

import { effect, signal } from '@preact/signals'

export type Theme = 'system' | 'light' | 'dark'
export type ActivityDetail = 'quiet' | 'steps' | 'all'

const PREFIX = 'doran.'

export function loadSetting(name: string): string | null {
  try {
    return localStorage.getItem(PREFIX + name)
  } catch {
    return null
  }
}

export function saveSetting(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value)
  } catch {
    // Storage may be disabled. The setting is then kept until the page is closed.
  }
}

function loadChoice<T extends string>(name: string, values: readonly T[], otherwise: T): T {
  const saved = loadSetting(name)
  return values.find((value) => value === saved) ?? otherwise
}

export const theme = signal<Theme>(loadChoice('theme', ['system', 'light', 'dark'], 'system'))
export const activityDetail = signal<ActivityDetail>(loadChoice('detail', ['quiet', 'steps', 'all'], 'steps'))
export const inspectorOpen = signal(loadSetting('inspector') === 'open')

export function persistSettings(): void {
  effect(() => {
    document.documentElement.dataset.theme = theme.value
    saveSetting('theme', theme.value)
  })
  effect(() => saveSetting('detail', activityDetail.value))
  effect(() => saveSetting('inspector', inspectorOpen.value ? 'open' : 'closed'))
}

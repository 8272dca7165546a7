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

/** A setting of this tab. */
export function loadTabSetting(name: string): string | null {
  try {
    return sessionStorage.getItem(PREFIX + name)
  } catch {
    return null
  }
}

/** Null takes the setting away. */
export function saveTabSetting(name: string, value: string | null): void {
  try {
    if (value === null) sessionStorage.removeItem(PREFIX + name)
    else sessionStorage.setItem(PREFIX + name, value)
  } catch {
    // Storage may be disabled. The setting is then lost with the page.
  }
}

function loadChoice<T extends string>(name: string, values: readonly T[], otherwise: T): T {
  const saved = loadSetting(name)
  return values.find((value) => value === saved) ?? otherwise
}

export const theme = signal<Theme>(loadChoice('theme', ['system', 'light', 'dark'], 'system'))
export const activityDetail = signal<ActivityDetail>(loadChoice('detail', ['quiet', 'steps', 'all'], 'steps'))
export const inspectorOpen = signal(loadSetting('inspector') === 'open')
/** Whether the inspector takes the place of the conversation. */
export const isInspectorFull = signal(loadSetting('inspector-full') === 'yes')
/** Width of the side panel in pixels. Null until the user changes it. */
export const panelWidth = signal<number | null>(Number(loadSetting('panel-width')) || null)

export function persistSettings(): void {
  effect(() => {
    document.documentElement.dataset.theme = theme.value
    saveSetting('theme', theme.value)
  })
  effect(() => saveSetting('detail', activityDetail.value))
  effect(() => saveSetting('inspector', inspectorOpen.value ? 'open' : 'closed'))
  effect(() => saveSetting('inspector-full', isInspectorFull.value ? 'yes' : 'no'))
  effect(() => {
    if (panelWidth.value === null) return
    document.documentElement.style.setProperty('--panel-width', `${panelWidth.value}px`)
    saveSetting('panel-width', String(panelWidth.value))
  })
}

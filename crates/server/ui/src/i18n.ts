// Texts of the page in Korean and English. A key that is missing in one language does not compile.

import { computed, signal } from '@preact/signals'

import en from './i18n/en.json'
import ko from './i18n/ko.json'
import { loadSetting, saveSetting } from './settings'

export type Language = 'ko' | 'en'
export type MessageKey = keyof typeof en & keyof typeof ko

const MESSAGES: Record<Language, Record<MessageKey, string>> = { ko, en }

export const language = signal<Language>(chooseLanguage(loadSetting('lang'), globalThis.navigator?.languages ?? []))

/** The saved language, else the first supported language of the browser, else English. */
export function chooseLanguage(saved: string | null, wanted: readonly string[]): Language {
  if (saved === 'ko' || saved === 'en') return saved
  for (const one of wanted) {
    const short = one.slice(0, 2).toLowerCase()
    if (short === 'ko' || short === 'en') return short
  }
  return 'en'
}

export function setLanguage(next: Language): void {
  language.value = next
  saveSetting('lang', next)
}

/** Translates a key. Fills `{slot}` and chooses from `{slot|one|many}` by the slot's number. */
export function t(key: MessageKey, slots: Record<string, string | number> = {}): string {
  return MESSAGES[language.value][key]
    .replace(/\{(\w+)\|([^|}]*)\|([^}]*)\}/g, (_, name: string, one: string, many: string) => (String(slots[name]) === '1' ? one : many))
    .replace(/\{(\w+)\}/g, (whole, name: string) => String(slots[name] ?? whole))
}

/** Chooses the text for the language of the page from a text the server sent in both. */
export function localized(both: { ko?: string | null; en?: string | null } | null | undefined): string {
  if (!both) return ''
  return (language.value === 'ko' ? (both.ko ?? both.en) : (both.en ?? both.ko)) ?? ''
}

const numbers = computed(() => new Intl.NumberFormat(language.value === 'ko' ? 'ko-KR' : 'en-GB'))

export function formatNumber(value: number): string {
  return numbers.value.format(value)
}

export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return t('seconds', { n: (ms / 1000).toFixed(1) })
  return t('minutes', { m: Math.floor(ms / 60_000), s: Math.round((ms % 60_000) / 1000) })
}

export function formatBytes(value: number): string {
  if (value < 1024) return `${value} B`
  if (value < 1024 * 1024) return `${(value / 1024).toFixed(0)} KB`
  return `${(value / 1024 / 1024).toFixed(1)} MB`
}

/** Formats a time: the time of day for today, else the date. */
export function formatTime(at: number): string {
  const date = new Date(at)
  const isToday = date.toDateString() === new Date().toDateString()
  const locale = language.value === 'ko' ? 'ko-KR' : 'en-GB'
  return isToday
    ? date.toLocaleTimeString(locale, { hour: 'numeric', minute: '2-digit' })
    : date.toLocaleDateString(locale, { month: 'short', day: 'numeric' })
}

/** Formats a time with its date, unless it is today, and the year, unless it is this one. */
export function formatDateTime(at: number): string {
  const date = new Date(at)
  const isToday = date.toDateString() === new Date().toDateString()
  const locale = language.value === 'ko' ? 'ko-KR' : 'en-GB'
  const year = date.getFullYear() === new Date().getFullYear() ? {} : { year: 'numeric' } as const
  const day = isToday ? {} : { ...year, month: 'short', day: 'numeric' } as const
  return date.toLocaleString(locale, { ...day, hour: 'numeric', minute: '2-digit' })
}

/** Formats a cost in millionths of a dollar as won. */
export function formatWon(micros: number, krwPerUsd: number): string {
  const won = (micros / 1e6) * krwPerUsd
  return `₩${formatNumber(won < 100 ? Math.round(won * 10) / 10 : Math.round(won))}`
}

/** Formats a cost in millionths of a dollar. An unknown cost is a dash. */
export function formatCost(micros: number | null | undefined): string {
  if (micros === null || micros === undefined) return '–'
  if (micros === 0) return '$0'
  const dollars = micros / 1e6
  return dollars < 0.01 ? `$${dollars.toFixed(6).replace(/0+$/, '')}` : `$${dollars.toFixed(2)}`
}

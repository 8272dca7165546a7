// Words of the page in both languages. A key that lacks one of them does not compile.

import { computed, signal } from '@preact/signals'

import en from './i18n/en.json'
import ko from './i18n/ko.json'
import { loadSetting, saveSetting } from './settings'

export type Language = 'ko' | 'en'
export type MessageKey = keyof typeof en & keyof typeof ko

const MESSAGES: Record<Language, Record<MessageKey, string>> = { ko, en }

export const language = signal<Language>(chooseLanguage(loadSetting('lang'), globalThis.navigator?.languages ?? []))

/** What was chosen before, else the first of the browser's languages that is one of ours, else English. */
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

/** The words for a key, with `{slots}` filled, and of `{slot|one|many}` the one that fits its number. */
export function t(key: MessageKey, slots: Record<string, string | number> = {}): string {
  return MESSAGES[language.value][key]
    .replace(/\{(\w+)\|([^|}]*)\|([^}]*)\}/g, (_, name: string, one: string, many: string) => (String(slots[name]) === '1' ? one : many))
    .replace(/\{(\w+)\}/g, (whole, name: string) => String(slots[name] ?? whole))
}

/** The words of the server in the language of the page. */
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

/** A moment, as short as it can be said today. */
export function formatTime(at: number): string {
  const date = new Date(at)
  const isToday = date.toDateString() === new Date().toDateString()
  const locale = language.value === 'ko' ? 'ko-KR' : 'en-GB'
  return isToday
    ? date.toLocaleTimeString(locale, { hour: 'numeric', minute: '2-digit' })
    : date.toLocaleDateString(locale, { month: 'short', day: 'numeric' })
}

/** Millionths of a dollar. What is not known is not guessed. */
export function formatCost(micros: number | null | undefined): string {
  if (micros === null || micros === undefined) return '–'
  if (micros === 0) return '$0'
  const dollars = micros / 1e6
  return dollars < 0.01 ? `$${dollars.toFixed(6).replace(/0+$/, '')}` : `$${dollars.toFixed(2)}`
}

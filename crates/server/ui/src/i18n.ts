// Words of the page in both languages. A key that lacks one of them does not compile.

import { computed, signal } from '@preact/signals'

import en from './i18n/en.json'
import ko from './i18n/ko.json'
import { recall, remember } from './settings'

export type Lang = 'ko' | 'en'
export type Key = keyof typeof en & keyof typeof ko

const TABLES: Record<Lang, Record<Key, string>> = { ko, en }

export const lang = signal<Lang>(chosen(recall('lang'), globalThis.navigator?.languages ?? []))

/** What was chosen before, else the first of the browser's languages that is one of ours, else English. */
export function chosen(saved: string | null, wanted: readonly string[]): Lang {
  if (saved === 'ko' || saved === 'en') return saved
  for (const one of wanted) {
    const short = one.slice(0, 2).toLowerCase()
    if (short === 'ko' || short === 'en') return short
  }
  return 'en'
}

export function speak(next: Lang): void {
  lang.value = next
  remember('lang', next)
}

/** The words for a key, with `{slots}` filled, and of `{slot|one|many}` the one that fits its number. */
export function t(key: Key, slots: Record<string, string | number> = {}): string {
  return TABLES[lang.value][key]
    .replace(/\{(\w+)\|([^|}]*)\|([^}]*)\}/g, (_, name: string, one: string, many: string) => (String(slots[name]) === '1' ? one : many))
    .replace(/\{(\w+)\}/g, (whole, name: string) => String(slots[name] ?? whole))
}

/** The words of the server in the language of the page. */
export function said(both: { ko?: string | null; en?: string | null } | null | undefined): string {
  if (!both) return ''
  return (lang.value === 'ko' ? (both.ko ?? both.en) : (both.en ?? both.ko)) ?? ''
}

const numbers = computed(() => new Intl.NumberFormat(lang.value === 'ko' ? 'ko-KR' : 'en-GB'))

export function number(value: number): string {
  return numbers.value.format(value)
}

export function took(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return t('seconds', { n: (ms / 1000).toFixed(1) })
  return t('minutes', { m: Math.floor(ms / 60_000), s: Math.round((ms % 60_000) / 1000) })
}

export function bytes(value: number): string {
  if (value < 1024) return `${value} B`
  if (value < 1024 * 1024) return `${(value / 1024).toFixed(0)} KB`
  return `${(value / 1024 / 1024).toFixed(1)} MB`
}

/** A moment, as short as it can be said today. */
export function moment(at: number): string {
  const date = new Date(at)
  const isToday = date.toDateString() === new Date().toDateString()
  const locale = lang.value === 'ko' ? 'ko-KR' : 'en-GB'
  return isToday
    ? date.toLocaleTimeString(locale, { hour: 'numeric', minute: '2-digit' })
    : date.toLocaleDateString(locale, { month: 'short', day: 'numeric' })
}

/** Millionths of a dollar. What is not known is not guessed. */
export function cost(micros: number | null | undefined): string {
  if (micros === null || micros === undefined) return '–'
  if (micros === 0) return '$0'
  const dollars = micros / 1e6
  return dollars < 0.01 ? `$${dollars.toFixed(6).replace(/0+$/, '')}` : `$${dollars.toFixed(2)}`
}

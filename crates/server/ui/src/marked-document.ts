// Cuts a part out of a document and puts signs around the words to highlight, such that its Markdown can still be parsed.

import { sanitizeText } from './sanitize-text'
import type { TextRange } from './quoted-words'

/** Signs around highlighted words. Both are for private use: they are taken out of the document first. */
export const MARK_START = '\ue000'
export const MARK_END = '\ue001'

/** A block is shown whole if it is at most this much longer. */
const MAX_BLOCK_CHARS = 4000

/** What stands before the words of a line: signs of quotes, headings, lists and tables. */
const LINE_PREFIX = /^(?:[ \t]*(?:>|#{1,6}[ \t]|[-*+][ \t](?:\[[ xX]\][ \t])?|\d{1,9}[.)][ \t]|\|))*[ \t]*/
const FENCE_LINE = /^ {0,3}(?:`{3,}|~{3,})/
const TABLE_DIVIDER = /^[ \t]*\|?[ \t:|-]*-[ \t:|-]*$/

export interface DocumentPart {
  text: string
  hasBefore: boolean
  hasAfter: boolean
}

/** The document around these ranges, `reach` characters to each side, from the beginning if there is nothing to highlight. */
export function markedPart(document: string, ranges: TextRange[], reach: number): DocumentPart {
  const text = document.replace(/[\ue000\ue001]/g, '\ufffd')
  const first = ranges[0]?.from ?? 0
  const last = ranges.at(-1)?.to ?? 0
  const from = blockStart(text, Math.max(0, first - reach))
  const to = blockEnd(text, Math.min(text.length, last + reach))
  let out = ''
  let at = from
  for (const range of ranges) {
    const start = markStart(text, range.from, range.to)
    const end = markEnd(text, start, range.to)
    if (start < at || end <= start) continue
    out += sanitizeText(text.slice(at, start)) + MARK_START + sanitizeText(text.slice(start, end)) + MARK_END
    at = end
  }
  return { text: out + sanitizeText(text.slice(at, to)), hasBefore: from > 0, hasAfter: to < text.length }
}

function blockStart(text: string, at: number): number {
  const found = at === 0 ? -1 : text.lastIndexOf('\n\n', at)
  if (found !== -1 && at - found <= MAX_BLOCK_CHARS) return found + 2
  return at === 0 ? 0 : Math.max(0, text.lastIndexOf('\n', at) + 1)
}

function blockEnd(text: string, at: number): number {
  const found = text.indexOf('\n\n', at)
  if (found === -1) return text.length - at <= MAX_BLOCK_CHARS ? text.length : at
  return found - at <= MAX_BLOCK_CHARS ? found : at
}

/** Moves the start behind what makes a line a heading, a list item, a table row or code. */
function markStart(text: string, from: number, to: number): number {
  let at = from
  while (at < to) {
    const lineStart = text.lastIndexOf('\n', at - 1) + 1
    const next = text.indexOf('\n', at)
    const lineEnd = next === -1 ? text.length : next
    const line = text.slice(lineStart, lineEnd)
    const words = lineStart + (LINE_PREFIX.exec(line)?.[0].length ?? 0)
    let place = Math.max(at, words)
    if (line.includes('|')) while (place < lineEnd && /[|\s]/.test(text[place] as string)) place++
    if (place < lineEnd && !FENCE_LINE.test(line) && !TABLE_DIVIDER.test(line)) return place
    at = lineEnd + 1
  }
  return to
}

function markEnd(text: string, start: number, to: number): number {
  let at = to
  for (;;) {
    while (at > start && /[|\s]/.test(text[at - 1] as string)) at--
    const lineStart = text.lastIndexOf('\n', at - 1) + 1
    const line = text.slice(lineStart, text.indexOf('\n', lineStart) === -1 ? text.length : text.indexOf('\n', lineStart))
    if (lineStart <= start || !(FENCE_LINE.test(line) || TABLE_DIVIDER.test(line))) return at
    at = lineStart
  }
}

// Locates quotes in documents. The server counts UTF-8 bytes, JavaScript counts UTF-16 units.

import type { AnswerSource } from './api-types'

/** A source and the number it is shown with. */
export type NumberedSource = AnswerSource & { shown: number }

/** Converts a UTF-8 byte offset to a UTF-16 index. The result is never inside a character. */
export function utf16IndexOfByte(text: string, byte: number): number {
  let bytes = 0
  let at = 0
  while (at < text.length && bytes < byte) {
    const code = text.codePointAt(at) as number
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4
    at += code < 0x10000 ? 1 : 2
  }
  return at
}

/** Finds a quote: at the given byte range if it is there, else at its first occurrence, else null. */
export function findQuote(text: string, quote: string, start?: number, end?: number): { from: number; to: number } | null {
  if (start !== undefined && end !== undefined && end > start) {
    const from = utf16IndexOfByte(text, start)
    const to = from + utf16IndexOfByte(text.slice(from), end - start)
    if (text.slice(from, to) === quote || quote === '') return { from, to }
  }
  const from = quote === '' ? -1 : text.indexOf(quote)
  return from === -1 ? null : { from, to: from + quote.length }
}

/** Splits a text into parts that match one of the terms and parts that do not. */
export function highlightTerms(text: string, terms: string[]): { text: string; isHit: boolean }[] {
  const words = terms.filter((term) => term.trim() !== '').map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  if (words.length === 0) return [{ text, isHit: false }]
  const any = new RegExp(`(${words.sort((left, right) => right.length - left.length).slice(0, 40).join('|')})`, 'giu')
  const pieces: { text: string; isHit: boolean }[] = []
  text.split(any).forEach((piece, at) => {
    const isHit = at % 2 === 1
    const last = pieces.at(-1)
    if (piece === '') return
    // Adjacent matches, such as the parts of a Korean compound, become one.
    if (last?.isHit === isHit) last.text += piece
    else pieces.push({ text: piece, isHit })
  })
  return pieces
}

/** Translates Korean article numbers to English if the document is not in Korean. */
export function articleLabel(label: string, title = label): string {
  const counted = /\uc81c(\d+)\uc870(?:\uc758(\d+))?/g
  if (/[\uac00-\ud7a3]/.test(title.replace(counted, ''))) return label
  return label.replace(counted, (_, number: string, branch?: string) => `Article ${number}${branch ? `-${branch}` : ''} `).replace(/ +(?=\s|$)/g, '')
}

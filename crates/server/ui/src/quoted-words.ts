// Finds the words of a passage that an answer quotes.

import { findCitationMarks } from './citation-marks'

export interface TextRange {
  from: number
  to: number
}

/** Shorter pieces would be found by chance. */
const MIN_QUOTE_CHARS = 6
const MAX_QUOTE_CHARS = 2000

/** The parts of a passage that stand word for word before the marks of its source. Empty if the answer uses other words. */
export function quotedRanges(answer: string, source: number, passage: string): TextRange[] {
  const marks = findCitationMarks(answer)
  const found = marks.flatMap((mark, at) => {
    if (!mark.numbers.includes(source)) return []
    // Marks that stand side by side belong to the same words.
    const before = marks.slice(0, at).findLast((one) => answer.slice(one.to, mark.from).trim() !== '' && !isOnlyMarks(answer.slice(one.to, mark.from)))
    return sentences(answer.slice(before?.to ?? 0, mark.from)).flatMap((sentence) => findWords(passage, sentence) ?? [])
  })
  return mergeRanges(passage, found)
}

function isOnlyMarks(text: string): boolean {
  return /^(?:\s|\[[\d, ]+\])*$/.test(text)
}

/** The sentences of a text, and what it puts in quotation marks. */
function sentences(text: string): string[] {
  const quotes = [...text.matchAll(/["“「『]([^"“”「」『』]+)["”」』]/g)].map((found) => found[1] as string)
  return [...quotes, ...quotes.flatMap(splitSentences), ...splitSentences(text)]
    .map((piece) => piece.replace(/[*`]/g, '').replace(/^[\s>\-•"“'‘(#]+|[\s"”'’)]+$/g, ''))
    .filter((piece) => piece.length >= MIN_QUOTE_CHARS && piece.length <= MAX_QUOTE_CHARS)
}

function splitSentences(text: string): string[] {
  return text.split(/\n+|(?<=[.!?。]["”’')\]]*)\s+/)
}

/** Finds a text whose blanks may differ. A full stop at its end may be missing. */
function findWords(passage: string, text: string): TextRange | null {
  for (const wanted of [text, text.replace(/[.。]+$/, '')]) {
    const words = wanted.split(/\s+/).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
    const found = new RegExp(words.join('\\s+')).exec(passage)
    if (found) return { from: found.index, to: found.index + found[0].length }
  }
  return null
}

function mergeRanges(text: string, ranges: TextRange[]): TextRange[] {
  const out: TextRange[] = []
  for (const one of [...ranges].sort((left, right) => left.from - right.from)) {
    const last = out.at(-1)
    if (last && (one.from <= last.to || text.slice(last.to, one.from).trim() === '')) last.to = Math.max(last.to, one.to)
    else out.push({ ...one })
  }
  return out
}

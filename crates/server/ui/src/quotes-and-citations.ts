// Places in a text, and the numbers of its sources. The server counts bytes of UTF-8, a browser counts units of UTF-16.

/** Where a byte stands in the text, never inside a character. */
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

/** Where a quote stands: at the place that was said if it is there, else where it is found, else nowhere. */
export function findQuote(text: string, quote: string, start?: number, end?: number): { from: number; to: number } | null {
  if (start !== undefined && end !== undefined && end > start) {
    const from = utf16IndexOfByte(text, start)
    const to = from + utf16IndexOfByte(text.slice(from), end - start)
    if (text.slice(from, to) === quote || quote === '') return { from, to }
  }
  const from = quote === '' ? -1 : text.indexOf(quote)
  return from === -1 ? null : { from, to: from + quote.length }
}

/** The text cut at the words that were looked for. */
export function highlightTerms(text: string, terms: string[]): { text: string; isHit: boolean }[] {
  const words = terms.filter((term) => term.trim() !== '').map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  if (words.length === 0) return [{ text, isHit: false }]
  const any = new RegExp(`(${words.sort((left, right) => right.length - left.length).slice(0, 40).join('|')})`, 'giu')
  const pieces: { text: string; isHit: boolean }[] = []
  text.split(any).forEach((piece, at) => {
    const isHit = at % 2 === 1
    const last = pieces.at(-1)
    if (piece === '') return
    // Words that touch, as the parts of a Korean compound do, are marked as one.
    if (last?.isHit === isHit) last.text += piece
    else pieces.push({ text: piece, isHit })
  })
  return pieces
}

/** Articles are counted in Korean; of a document that is not in Korean, in English. */
export function articleLabel(label: string, title = label): string {
  const counted = /\uc81c(\d+)\uc870(?:\uc758(\d+))?/g
  if (/[\uac00-\ud7a3]/.test(title.replace(counted, ''))) return label
  return label.replace(counted, (_, number: string, branch?: string) => `Article ${number}${branch ? `-${branch}` : ''} `).replace(/ +(?=\s|$)/g, '')
}

/** What an answer names as its sources: `[3]`, or `[3, 5]`. */
const CITATION_PATTERN = /\[(\d{1,3}(?:\s*,\s*\d{1,3}){0,9})\](?!\()/g

/** The numbers that a text names, in the order of their first mention. Shown, they are counted from 1 without a gap. */
export function citedNumbers(text: string, known: readonly number[]): number[] {
  const named = [...text.matchAll(CITATION_PATTERN)].flatMap(([, list]) => (list ?? '').split(',').map(Number))
  return [...new Set(named)].filter((n) => known.includes(n))
}

/** The text with its sources counted as they are shown. */
export function renumberCitations(text: string, cited: readonly number[]): string {
  return text.replace(CITATION_PATTERN, (_, list: string) => `[${list.split(',').map((one) => {
    const at = cited.indexOf(Number(one))
    return at === -1 ? one.trim() : at + 1
  }).join(', ')}]`)
}

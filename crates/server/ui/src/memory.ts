// Search in the facts that agents remember. All of them are loaded, so the page looks through them itself.

import type { MemoryFactInfo } from './api-types'

/** The final consonants of Korean syllables from U+11A8 on, as letters. A dot is a final of two letters. */
const FINALS = 'ㄱㄲ.ㄴ..ㄷㄹ.......ㅁㅂ.ㅅㅆㅇㅈㅊㅋㅌㅍㅎ'

/** Splits Korean syllables into letters and makes all letters small, so that a half-typed syllable is found, too. */
const normalize = (text: string) => text.normalize('NFKD').toLowerCase()

export const wordsOfQuery = (query: string) => query.split(/\s+/).filter((word) => word !== '')

/** The facts that contain every word of the query in their text or id, in the same order. */
export function findFacts(facts: MemoryFactInfo[], query: string): MemoryFactInfo[] {
  const words = wordsOfQuery(query).map((word) => spellings(normalize(word)))
  if (words.length === 0) return facts
  return facts.filter(({ text, id }) => {
    const all = normalize(`${text}\n${id}`)
    return words.every((word) => word.some((spelling) => all.includes(spelling)))
  })
}

/** A word, and the word with its last final consonant as the first letter of a syllable that is not typed yet. */
function spellings(word: string): string[] {
  const letter = FINALS[(word.codePointAt(word.length - 1) ?? 0) - 0x11a8]
  return letter === undefined || letter === '.' ? [word] : [word, word.slice(0, -1) + normalize(letter)]
}

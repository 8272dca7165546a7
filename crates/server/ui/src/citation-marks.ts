// The citation marks of an answer, such as `[3]` or `[3, 5]`. The rules are those of the server: a list of numbers in
// brackets is not a mark in code, as the text of a link, or directly after an ASCII letter or digit or a closing bracket,
// where it is an index such as `m[4][1]`.

export interface CitationMark {
  from: number
  to: number
  numbers: number[]
}

const LEADING_MARK = /^\[(\d{1,3}(?: *, *\d{1,3}){0,9})\](?!\()/
const INDEXED = /[A-Za-z0-9_)\]}\\]/

/** Longest inline code. A backtick without another one this near stands for itself. */
const MAX_CODE_CHARS = 4096

/** Parses the mark at the start of `text`. `before` is the character before it. */
export function parseCitationMark(text: string, before: string): { source: string; numbers: number[] } | null {
  const found = INDEXED.test(before) ? null : LEADING_MARK.exec(text)
  return found ? { source: found[0], numbers: (found[1] as string).split(',').map(Number) } : null
}

/** The marks of a text, in order. In a text that goes on, a mark at the very end may still become a link and is not one yet. */
export function findCitationMarks(text: string, isWhole = true): CitationMark[] {
  const marks: CitationMark[] = []
  let fence: string | null = null
  let lineStart = true
  let before = ''
  let at = 0
  while (at < text.length) {
    if (lineStart) {
      const end = text.indexOf('\n', at)
      const line = text.slice(at, end === -1 ? text.length : end + 1)
      const run = /^ {0,3}(`+|~+)/.exec(line)
      const after = run ? line.slice(run[0].length) : line
      if (fence !== null) {
        const closes = run && run[1]?.[0] === fence[0] && (run[1] as string).length >= fence.length && /^[\d \t\r\n,[\]]*$/.test(after)
        at += closes ? line.length - after.length : line.length
        lineStart = !closes
        if (closes) fence = null
        before = ''
        continue
      }
      if (run?.[1] && run[1].length >= 3 && !(run[1][0] === '`' && after.includes('`'))) {
        fence = run[1]
        at += line.length
        continue
      }
    }
    const char = text[at] as string
    if (char === '[') {
      const mark = parseCitationMark(text.slice(at, at + 60), before)
      const to = at + (mark?.source.length ?? 1)
      if (mark && (isWhole || to < text.length)) marks.push({ from: at, to, numbers: mark.numbers })
      at = to
      before = ''
    } else if (char === '`') {
      at += codeSpanLength(text.slice(at, at + MAX_CODE_CHARS))
      before = ''
    } else {
      at += 1
      before = char === '\n' ? '' : char
    }
    lineStart = char === '\n'
  }
  return marks
}

/** Length of the inline code at the start of a text, or only of its backticks if it is none. */
function codeSpanLength(text: string): number {
  const open = (/^`+/.exec(text) as RegExpExecArray)[0].length
  const pieces = /`+|\n/g
  pieces.lastIndex = open
  for (let found = pieces.exec(text); found; found = pieces.exec(text)) {
    const next = found.index + found[0].length
    // A blank line ends the paragraph, and a code block may begin here.
    if (found[0] === '\n' && /^(?:[^\S\n]*(?:\n|$)| {0,3}(?:`{3}|~{3}))/.test(text.slice(next))) return open
    if (found[0].length === open && found[0] !== '\n') return next
  }
  return open
}

/** The source numbers cited in a text, in order of first mention. The index plus one is the number shown. */
export function citedNumbers(text: string, known: readonly number[], isWhole = true): number[] {
  return [...new Set(findCitationMarks(text, isWhole).flatMap(({ numbers }) => (numbers.every((n) => known.includes(n)) ? numbers : [])))]
}

/** Replaces the source numbers in the marks of a text by the numbers shown. Everything else stays as it is. */
export function renumberCitations(text: string, cited: readonly number[]): string {
  let out = ''
  let from = 0
  for (const mark of findCitationMarks(text)) {
    if (!mark.numbers.every((n) => cited.includes(n))) continue
    out += text.slice(from, mark.from) + text.slice(mark.from, mark.to).replace(/\d+/g, (n) => String(cited.indexOf(Number(n)) + 1))
    from = mark.to
  }
  return out + text.slice(from)
}

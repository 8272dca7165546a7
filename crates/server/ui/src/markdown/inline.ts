// Parses inline Markdown into a tree. One pass with bounded lookahead, so that the time is linear for any text of a
// model. HTML is treated as text.

import { parseCitationMark } from '../citation-marks'
import { parseSafeLink } from './link'

export type Inline =
  | { t: 'text'; v: string }
  | { t: 'code'; v: string }
  | { t: 'strong' | 'em' | 'del'; c: Inline[] }
  | { t: 'link'; href: string; host: string; c: Inline[] }
  | { t: 'image'; href: string; host: string; alt: string }
  | { t: 'cite'; numbers: number[]; source: string }
  | { t: 'math'; v: string; display: boolean; source: string }
  | { t: 'br' }

interface EmphasisMark {
  mark: string
  opens: boolean
  closes: boolean
}

type InlineToken = Inline | { t: 'mark'; m: EmphasisMark }

/** Maximum length of a link label or URL. */
const MAX_LOOKAHEAD = 2000
/** Maximum nesting of links and brackets. */
const MAX_NESTING = 6

const ESCAPABLE = /[!-/:-@[-`{-~]/
const BARE_URL = /^https?:\/\/[^\s<>"'`\u3000-\u303f\uff00-\uffef\uac00-\ud7a3]+/i
const WORD_CHARACTER = /[\p{L}\p{N}]/u

export function parseInline(text: string, depth = 0): Inline[] {
  return resolveEmphasis(tokenizeInline(text, depth))
}

function tokenizeInline(text: string, depth: number): InlineToken[] {
  const out: InlineToken[] = []
  const noCloser = new Set<number>()
  let plain = ''
  const flush = () => {
    if (plain !== '') out.push({ t: 'text', v: plain })
    plain = ''
  }
  const add = (token: InlineToken) => {
    flush()
    out.push(token)
  }
  let at = 0
  // A mark may directly follow another one or inline code.
  let markEnd = 0
  while (at < text.length) {
    const char = text[at] as string
    const next = text[at + 1] ?? ''
    const formula = char === '$' || char === '\\' ? parseFormula(text, at) : null
    if (formula) {
      add({ t: 'math', v: formula.v, display: formula.display, source: text.slice(at, formula.end) })
      at = formula.end
    } else if (char === '\\' && ESCAPABLE.test(next)) {
      plain += next
      at += 2
    } else if (char === '\n') {
      add({ t: 'br' })
      at += 1
    } else if (char === '`') {
      const run = runLength(text, at, '`')
      const end = noCloser.has(run) ? -1 : findCloser(text, at + run, run)
      if (end === -1) {
        noCloser.add(run)
        plain += text.slice(at, at + run)
        at += run
      } else {
        add({ t: 'code', v: text.slice(at + run, end).replace(/\n/g, ' ').replace(/^ (.+) $/, '$1') })
        at = end + run
        markEnd = at
      }
    } else if (char === '!' && next === '[') {
      const found = parseBracketLink(text, at + 1)
      const to = found && parseSafeLink(found.address)
      if (found) {
        // What must not become a link is shown as it stands there.
        if (to) add({ t: 'image', ...to, alt: found.label })
        else plain += text.slice(at, found.end)
        at = found.end
      } else {
        plain += char
        at += 1
      }
    } else if (char === '[') {
      const cited = parseCitationMark(text.slice(at, at + 60), at === markEnd ? '' : (text[at - 1] ?? ''))
      const found = cited || depth >= MAX_NESTING ? null : parseBracketLink(text, at)
      const to = found && parseSafeLink(found.address)
      if (cited) {
        add({ t: 'cite', ...cited })
        at += cited.source.length
        markEnd = at
      } else if (found) {
        if (to) add({ t: 'link', ...to, c: parseInline(found.label, depth + 1) })
        else plain += text.slice(at, found.end)
        at = found.end
      } else {
        plain += char
        at += 1
      }
    } else if (char === '<') {
      const rest = text.slice(at, at + MAX_LOOKAHEAD)
      const line = /^<br\s*\/?>/i.exec(rest)
      const auto = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/i.exec(rest)
      const to = auto?.[1] ? parseSafeLink(auto[1]) : null
      if (line) {
        add({ t: 'br' })
        at += line[0].length
      } else if (auto?.[1] && to) {
        add({ t: 'link', ...to, c: [{ t: 'text', v: auto[1] }] })
        at += auto[0].length
      } else {
        plain += char
        at += 1
      }
    } else if ((char === 'h' || char === 'H') && !WORD_CHARACTER.test(text[at - 1] ?? '') && /^https?:/i.test(text.slice(at, at + 6))) {
      const bare = (BARE_URL.exec(text.slice(at, at + MAX_LOOKAHEAD))?.[0] ?? '').replace(/[.,:;!?)\]}*_~]+$/, '')
      const to = parseSafeLink(bare)
      if (to) {
        add({ t: 'link', ...to, c: [{ t: 'text', v: bare }] })
        at += bare.length
      } else {
        plain += char
        at += 1
      }
    } else if (char === '*' || char === '_' || (char === '~' && next === '~')) {
      const run = Math.min(runLength(text, at, char), char === '~' ? 2 : 3)
      const before = text[at - 1] ?? ' '
      const after = text[at + run] ?? ' '
      const mark = text.slice(at, at + run)
      const isTight = char === '_' || (char === '*' && run === 1)
      // `**` works next to letters, because Korean particles follow without a space. `*` and `_` do not, or parts of
      // 2*3*4 and snake_case would be emphasized.
      const opens = !/\s/.test(after) && !(isTight && /[A-Za-z0-9]/.test(before))
      const closes = !/\s/.test(before) && !(char === '_' && WORD_CHARACTER.test(after))
      if (opens || closes) add({ t: 'mark', m: { mark, opens, closes } })
      else plain += mark
      at += run
    } else {
      plain += char
      at += 1
    }
  }
  flush()
  return out
}

/** Pairs the emphasis marks. A mark without a partner is text. */
function resolveEmphasis(list: InlineToken[]): Inline[] {
  const stack: { mark: string; from: number }[] = []
  const out: Inline[] = []
  for (const token of list) {
    if (token.t !== 'mark') {
      out.push(token)
      continue
    }
    const { mark, opens, closes } = token.m
    // The search is bounded to keep the time linear.
    const low = Math.max(0, stack.length - 8)
    let partner = -1
    for (let at = stack.length - 1; closes && at >= low; at--) {
      if (stack[at]?.mark === mark && (stack[at] as { from: number }).from < out.length - 1) {
        partner = at
        break
      }
    }
    const open = stack[partner]
    if (open) {
      const content = out.splice(open.from).slice(1)
      out.push(wrapEmphasis(mark, content))
      stack.length = partner
    } else {
      if (opens) stack.push({ mark, from: out.length })
      out.push({ t: 'text', v: mark })
    }
  }
  return joinText(out)
}

function wrapEmphasis(mark: string, content: Inline[]): Inline {
  const c = joinText(content)
  if (mark === '~~') return { t: 'del', c }
  if (mark.length === 3) return { t: 'strong', c: [{ t: 'em', c }] }
  return { t: mark.length === 2 ? 'strong' : 'em', c }
}

function joinText(list: Inline[]): Inline[] {
  const out: Inline[] = []
  for (const one of list) {
    const last = out.at(-1)
    if (one.t === 'text' && last?.t === 'text') out[out.length - 1] = { t: 'text', v: last.v + one.v }
    else out.push(one)
  }
  return out
}

function runLength(text: string, at: number, char: string): number {
  let run = 1
  while (text[at + run] === char && run < 100) run++
  return run
}

function findCloser(text: string, from: number, run: number): number {
  const end = Math.min(text.length, from + 10 * MAX_LOOKAHEAD)
  for (let at = text.indexOf('`', from); at !== -1 && at < end; at = text.indexOf('`', at)) {
    const found = runLength(text, at, '`')
    if (found === run) return at
    at += found
  }
  return -1
}

const FORMULA_DELIMITERS: [open: string, close: string, display: boolean][] = [
  ['$$', '$$', true], ['\\[', '\\]', true], ['\\(', '\\)', false], ['$', '$', false],
]

/** Parses a LaTeX formula. Prices are not formulas: after an opening `$` and before a closing one there is no space, and no digit follows. */
function parseFormula(text: string, at: number): { v: string; display: boolean; end: number } | null {
  for (const [open, close, display] of FORMULA_DELIMITERS) {
    if (!text.startsWith(open, at)) continue
    const from = at + open.length
    const end = text.slice(from, from + MAX_LOOKAHEAD).indexOf(close)
    if (end <= 0) return null
    const source = text.slice(from, from + end)
    const isPrice = open === '$' && (/^\s|\s$|\n/.test(source) || /\d/.test(text[from + end + 1] ?? '') || WORD_CHARACTER.test(text[at - 1] ?? ''))
    return isPrice || source.trim() === '' ? null : { v: source.trim(), display, end: from + end + close.length }
  }
  return null
}

/** Parses `[label](address "title")` at a bracket. */
function parseBracketLink(text: string, at: number): { label: string; address: string; end: number } | null {
  let depth = 0
  let close = -1
  for (let i = at; i < Math.min(text.length, at + MAX_LOOKAHEAD); i++) {
    if (text[i] === '\\') i++
    else if (text[i] === '[') depth++
    else if (text[i] === ']' && --depth === 0) {
      close = i
      break
    }
    if (depth > MAX_NESTING) return null
  }
  if (close === -1 || text[close + 1] !== '(') return null
  const inside = text.slice(close + 2, close + 2 + MAX_LOOKAHEAD)
  const found = /^\s*(?:<([^<>\n]*)>|((?:[^\s()]|\([^\s()]*\))*))(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(inside)
  if (!found) return null
  return { label: text.slice(at + 1, close), address: found[1] ?? found[2] ?? '', end: close + 2 + found[0].length }
}

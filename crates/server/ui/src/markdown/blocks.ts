// Parses Markdown into a list of blocks. Incomplete Markdown (an open fence, half a table) is parsed as far as it goes.
// Nesting is bounded: anything deeper is text.

import { parseInline, type Inline } from './inline'

export type Align = 'left' | 'center' | 'right' | null

export type Block =
  | { t: 'p'; c: Inline[] }
  | { t: 'h'; level: number; c: Inline[] }
  | { t: 'code'; lang: string; v: string }
  | { t: 'quote'; c: Block[] }
  | { t: 'list'; ordered: boolean; items: ListItem[] }
  | { t: 'table'; align: Align[]; head: Inline[][]; rows: Inline[][][] }
  | { t: 'hr' }

export interface ListItem {
  /** The number of an item of an ordered list. */
  value: number
  /** Whether the number is written as `1)`. */
  hasParenthesis: boolean
  /** Whether a task is done. Null for other items. */
  done: boolean | null
  c: Block[]
}

const MAX_NESTING = 6
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/
const LIST_ITEM = /^( {0,12})([-*+]|\d{1,9}[.)])(?:\s+(.*)|\s*)$/
const HORIZONTAL_RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/
const TABLE_DIVIDER = /^ {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/

export function parseMarkdown(text: string): Block[] {
  return splitBlocks(text).flatMap((source) => parseLines(source.split('\n'), 0))
}

/** Splits a text into parts that can be parsed and rendered separately. While the text grows only the last part changes. */
export function splitBlocks(text: string): string[] {
  const out: string[] = []
  let piece: string[] = []
  let fence: string | null = null
  const lines = text.replace(/\r\n?/g, '\n').split('\n')
  lines.forEach((line, index) => {
    const found = FENCE.exec(line)
    if (fence !== null) {
      if (closesFence(line, fence)) fence = null
      piece.push(line)
      return
    }
    if (found?.[1]) fence = found[1]
    // A blank line ends a part, unless the next line is indented or continues a list.
    if (line.trim() === '') {
      const next = lines[index + 1] ?? ''
      const inList = piece.some((one) => LIST_ITEM.test(one))
      if (inList && (/^\s{2,}\S/.test(next) || LIST_ITEM.test(next))) piece.push(line)
      else if (piece.length > 0) {
        out.push(piece.join('\n'))
        piece = []
      }
      return
    }
    piece.push(line)
  })
  if (piece.length > 0) out.push(piece.join('\n'))
  return out
}

/** Parses one part, as `splitBlocks` returns them. */
export function parseBlock(source: string): Block[] {
  return parseLines(source.split('\n'), 0)
}

function parseLines(lines: string[], depth: number): Block[] {
  if (depth >= MAX_NESTING) return [{ t: 'p', c: parseInline(lines.join('\n')) }]
  const out: Block[] = []
  let paragraph: string[] = []
  const flush = () => {
    if (paragraph.length > 0) out.push({ t: 'p', c: parseInline(paragraph.join('\n')) })
    paragraph = []
  }
  let at = 0
  while (at < lines.length) {
    const line = lines[at] as string
    const fence = FENCE.exec(line)
    const heading = HEADING.exec(line)
    if (line.trim() === '') {
      flush()
      at += 1
    } else if (fence?.[1]) {
      flush()
      let end = at + 1
      while (end < lines.length && !closesFence(lines[end] as string, fence[1])) end++
      out.push({ t: 'code', lang: fenceLanguage(fence[2] ?? ''), v: lines.slice(at + 1, end).join('\n') })
      at = end + 1
    } else if (heading) {
      flush()
      out.push({ t: 'h', level: (heading[1] as string).length, c: parseInline((heading[2] ?? '').replace(/\s#+$/, '').trim()) })
      at += 1
    } else if (HORIZONTAL_RULE.test(line)) {
      flush()
      out.push({ t: 'hr' })
      at += 1
    } else if (/^ {0,3}>/.test(line)) {
      flush()
      const inner: string[] = []
      while (at < lines.length && /^ {0,3}>/.test(lines[at] as string)) {
        inner.push((lines[at] as string).replace(/^ {0,3}> ?/, ''))
        at += 1
      }
      out.push({ t: 'quote', c: parseLines(inner, depth + 1) })
    } else if (line.includes('|') && TABLE_DIVIDER.test(lines[at + 1] ?? '') && (lines[at + 1] ?? '').includes('-')
      && splitCells(line).length === splitCells(lines[at + 1] as string).length) {
      flush()
      at = parseTable(lines, at, out)
    } else if (LIST_ITEM.test(line) && !(paragraph.length > 0 && !/^\s*(?:[-*+]|1[.)])\s/.test(line))) {
      flush()
      at = parseList(lines, at, depth, out)
    } else {
      paragraph.push(line)
      at += 1
    }
  }
  flush()
  return out
}

function parseList(lines: string[], from: number, depth: number, out: Block[]): number {
  const first = LIST_ITEM.exec(lines[from] as string) as RegExpExecArray
  const indent = (first[1] as string).length
  const ordered = /\d/.test(first[2] as string)
  const items: ListItem[] = []
  let at = from
  while (at < lines.length) {
    const found = LIST_ITEM.exec(lines[at] as string)
    if (!found || (found[1] as string).length > indent + 1 || (found[1] as string).length < indent) break
    if (/\d/.test(found[2] as string) !== ordered || HORIZONTAL_RULE.test(lines[at] as string)) break
    const width = indent + (found[2] as string).length + 1
    let opening = found[3] ?? ''
    const task = /^\[([ xX])\]\s+/.exec(opening)
    if (task) opening = opening.slice(task[0].length)
    const body = [opening]
    at += 1
    while (at < lines.length) {
      const line = lines[at] as string
      const isInside = line.startsWith(' '.repeat(Math.min(width, indent + 2)))
      if (line.trim() === '' || isInside) body.push(isInside ? line.slice(indentOf(line, width)) : '')
      else if (!LIST_ITEM.test(line) && !FENCE.test(line) && !HEADING.test(line) && !line.startsWith('>') && body.at(-1) !== '') {
        body.push(line)
      } else break
      at += 1
    }
    while (body.length > 1 && body.at(-1) === '') body.pop()
    const number = found[2] as string
    items.push({ value: Number.parseInt(number, 10) || 0, hasParenthesis: number.endsWith(')'), done: task ? task[1] !== ' ' : null, c: parseLines(body, depth + 1) })
  }
  out.push({ t: 'list', ordered, items })
  return at
}

function indentOf(line: string, most: number): number {
  let indent = 0
  while (indent < most && line[indent] === ' ') indent++
  return indent
}

function parseTable(lines: string[], from: number, out: Block[]): number {
  const head = splitCells(lines[from] as string)
  const align = splitCells(lines[from + 1] as string).map((cell): Align => {
    const [left, right] = [cell.startsWith(':'), cell.endsWith(':')]
    return left && right ? 'center' : right ? 'right' : left ? 'left' : null
  })
  const rows: Inline[][][] = []
  let at = from + 2
  while (at < lines.length && (lines[at] as string).includes('|')) {
    // A row may have more or fewer cells than the head. None is dropped.
    rows.push(splitCells(lines[at] as string).map((cell) => parseInline(cell)))
    at += 1
  }
  out.push({ t: 'table', align, head: head.map((cell) => parseInline(cell)), rows })
  return at
}

function splitCells(line: string): string[] {
  const trimmed = line.trim().replace(/^\|/, '').replace(/(?<!\\)\|$/, '')
  return trimmed.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll('\\|', '|'))
}

function closesFence(line: string, fence: string): boolean {
  const trimmed = line.trim()
  return trimmed.length >= fence.length && trimmed === (fence[0] as string).repeat(trimmed.length)
}

/** The language of a fence. Only letters, digits and a few signs are accepted. */
function fenceLanguage(info: string): string {
  return /^[\w+#.-]{1,24}/.exec(info.trim())?.[0] ?? ''
}

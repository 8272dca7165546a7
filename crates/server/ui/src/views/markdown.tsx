// Renders Markdown as elements and text nodes. HTML in the text is never interpreted.

import type { ComponentChildren } from 'preact'
import { useMemo, useState } from 'preact/hooks'

import { sanitizeText } from '../sanitize-text'
import { language, formatNumber, t } from '../i18n'
import { parseBlock, splitBlocks, type Block } from '../markdown/blocks'
import type { Inline } from '../markdown/inline'
import type { NumberedSource } from '../quotes-and-citations'
import { CodeBlock } from './code-block'
import { DiagramBlock } from './diagram-block'
import { Formula } from './math'
import { TableFrame } from './table-frame'

/** Longer texts are cut, with a button to show the rest. */
const MAX_SHOWN_CHARS = 60_000

interface MarkdownProps {
  text: string
  sources: NumberedSource[]
  cite: (source: NumberedSource) => void
}

export function Markdown({ text, sources, cite }: MarkdownProps) {
  const [limit, setLimit] = useState(MAX_SHOWN_CHARS)
  const cut = text.length > limit ? text.slice(0, limit) : text
  const pieces = useMemo(() => splitBlocks(sanitizeText(cut)), [cut])
  return (
    <div class="markdown">
      {pieces.map((piece, at) => (
        <MarkdownBlock key={at} source={piece} sources={sources} cite={cite} />
      ))}
      {text.length > limit && (
        <button type="button" class="more" onClick={() => setLimit(limit * 4)}>
          {t('show_more', { n: formatNumber(text.length - limit) })}
        </button>
      )}
    </div>
  )
}

/** Memoized: an unchanged block is not rendered again. */
function MarkdownBlock({ source, sources, cite }: { source: string; sources: NumberedSource[]; cite: (source: NumberedSource) => void }) {
  const tongue = language.value
  return useMemo(() => <>{parseBlock(source).map((block) => renderBlock(block, { sources, cite }))}</>, [source, sources, tongue])
}

interface RenderOptions {
  sources: NumberedSource[]
  cite: (source: NumberedSource) => void
  /** Renders plain text. Given for documents, whose code, formulas and numbers in brackets are plain text too. */
  renderText?: (text: string) => ComponentChildren
}

export function renderBlock(block: Block, around: RenderOptions): ComponentChildren {
  switch (block.t) {
    case 'p':
      return <p>{renderInline(block.c, around)}</p>
    case 'h': {
      // Headings of an answer rank below those of the page.
      const Heading = `h${Math.min(6, block.level + 2)}` as 'h3'
      return <Heading>{renderInline(block.c, around)}</Heading>
    }
    case 'code':
      if (around.renderText) return <pre tabIndex={0}><code>{around.renderText(block.v)}</code></pre>
      return block.lang.toLowerCase() === 'mermaid' ? <DiagramBlock source={block.v} /> : <CodeBlock language={block.lang} text={block.v} />
    case 'quote':
      return <blockquote>{block.c.map((one) => renderBlock(one, around))}</blockquote>
    case 'hr':
      return <hr />
    case 'list': {
      const items = block.items.map((item) => (
        <li class={[item.done === null ? '' : 'task', item.hasParenthesis ? 'parenthesis' : ''].join(' ').trim()} value={block.ordered ? item.value : undefined}>
          {item.done !== null && <input type="checkbox" checked={item.done} disabled aria-label={t(item.done ? 'done' : 'open')} />}
          {item.c.length === 1 && item.c[0]?.t === 'p' ? renderInline(item.c[0].c, around) : item.c.map((one) => renderBlock(one, around))}
        </li>
      ))
      return block.ordered ? <ol>{items}</ol> : <ul>{items}</ul>
    }
    case 'table':
      return (
        <TableFrame name="table" label={t('table')}>
          <table>
            <thead>
              <tr>{block.head.map((cell, at) => <th class={`to-${block.align[at] ?? 'left'}`}>{renderInline(cell, around)}</th>)}</tr>
            </thead>
            <tbody>
              {block.rows.map((row) => (
                <tr>{row.map((cell, at) => <td class={`to-${block.align[at] ?? 'left'}`}>{renderInline(cell, around)}</td>)}</tr>
              ))}
            </tbody>
          </table>
        </TableFrame>
      )
  }
}

function renderInline(list: Inline[], around: RenderOptions): ComponentChildren {
  return list.map((one) => {
    switch (one.t) {
      case 'text':
        return around.renderText?.(one.v) ?? one.v
      case 'br':
        return <br />
      case 'code':
        return <code>{around.renderText?.(one.v) ?? one.v}</code>
      case 'math':
        return around.renderText ? around.renderText(one.source) : <Formula source={one.v} isDisplay={one.display} delimited={one.source} />
      case 'strong':
        return <strong>{renderInline(one.c, around)}</strong>
      case 'em':
        return <em>{renderInline(one.c, around)}</em>
      case 'del':
        return <del>{renderInline(one.c, around)}</del>
      case 'link':
        return <ExternalLink href={one.href} host={one.host} text={plainText(one.c)}>{renderInline(one.c, around)}</ExternalLink>
      case 'image':
        // Images are not loaded: the request would leak data to their server.
        return <ExternalLink href={one.href} host={one.host} text="">{t('image')}{one.alt ? `: ${one.alt}` : ''}</ExternalLink>
      case 'cite': {
        if (around.renderText) return around.renderText(one.source)
        const found = one.numbers.map((n) => around.sources.find((source) => source.number === n))
        // Numbers that name no source are text, exactly as they stand there.
        return found.every((source) => source !== undefined) ? found.map((source) => <CitationButton source={source} cite={around.cite} />) : one.source
      }
    }
  })
}

function ExternalLink({ href, host, text, children }: { href: string; host: string; text: string; children: ComponentChildren }) {
  const saysHost = text.toLowerCase().startsWith(`https://${host}`) || text.toLowerCase().startsWith(`http://${host}`)
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow" title={href}>
      {children}
      {!saysHost && <span class="host"> ({host})</span>}
    </a>
  )
}

function CitationButton({ source, cite }: { source: NumberedSource; cite: (source: NumberedSource) => void }) {
  const label = t('open_source', { n: source.shown, title: sanitizeText(source.title) })
  return (
    <button type="button" class="cite" title={sanitizeText(source.quote)} aria-label={label} onClick={() => cite(source)}>
      {source.shown}
    </button>
  )
}

function plainText(list: Inline[]): string {
  return list.map((one) => ('v' in one ? one.v : 'c' in one ? plainText(one.c) : '')).join('')
}

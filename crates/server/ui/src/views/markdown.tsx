// Draws Markdown. Everything becomes elements and text nodes: no markup of a model is ever read as markup.

import type { ComponentChildren } from 'preact'
import { useMemo, useState } from 'preact/hooks'

import { clean } from '../clean'
import { lang, number, t } from '../i18n'
import { blocksOf, sources as piecesOf, type Block } from '../markdown/blocks'
import type { Inline } from '../markdown/inline'
import type { Cited } from '../types'
import { CopyButton } from './copy'

/** More than this is shown when it is asked for. */
const SHOWN = 60_000

interface Props {
  text: string
  sources: Cited[]
  cite: (source: Cited) => void
}

export function Markdown({ text, sources, cite }: Props) {
  const [limit, setLimit] = useState(SHOWN)
  const cut = text.length > limit ? text.slice(0, limit) : text
  const pieces = useMemo(() => piecesOf(clean(cut)), [cut])
  return (
    <div class="markdown">
      {pieces.map((piece, at) => (
        <Piece key={at} source={piece} sources={sources} cite={cite} />
      ))}
      {text.length > limit && (
        <button type="button" class="more" onClick={() => setLimit(limit * 4)}>
          {t('show_more', { n: number(text.length - limit) })}
        </button>
      )}
    </div>
  )
}

/** A piece that did not change is not drawn again: the same element is given back. */
function Piece({ source, sources, cite }: { source: string; sources: Cited[]; cite: (source: Cited) => void }) {
  const tongue = lang.value
  return useMemo(() => <>{blocksOf(source).map((block) => drawn(block, { sources, cite }))}</>, [source, sources, tongue])
}

interface Around {
  sources: Cited[]
  cite: (source: Cited) => void
}

function drawn(block: Block, around: Around): ComponentChildren {
  switch (block.t) {
    case 'p':
      return <p>{inline(block.c, around)}</p>
    case 'h': {
      // Headings of an answer stand below those of the page.
      const Heading = `h${Math.min(6, block.level + 2)}` as 'h3'
      return <Heading>{inline(block.c, around)}</Heading>
    }
    case 'code':
      return <Code lang={block.lang} text={block.v} />
    case 'quote':
      return <blockquote>{block.c.map((one) => drawn(one, around))}</blockquote>
    case 'hr':
      return <hr />
    case 'list': {
      const items = block.items.map((item) => (
        <li class={item.done === null ? '' : 'task'}>
          {item.done !== null && <input type="checkbox" checked={item.done} disabled aria-label={t(item.done ? 'done' : 'open')} />}
          {item.c.length === 1 && item.c[0]?.t === 'p' ? inline(item.c[0].c, around) : item.c.map((one) => drawn(one, around))}
        </li>
      ))
      return block.ordered ? <ol start={block.start}>{items}</ol> : <ul>{items}</ul>
    }
    case 'table':
      return (
        <div class="table" tabIndex={0} role="region" aria-label={t('table')}>
          <table>
            <thead>
              <tr>{block.head.map((cell, at) => <th class={`to-${block.align[at] ?? 'left'}`}>{inline(cell, around)}</th>)}</tr>
            </thead>
            <tbody>
              {block.rows.map((row) => (
                <tr>{row.map((cell, at) => <td class={`to-${block.align[at] ?? 'left'}`}>{inline(cell, around)}</td>)}</tr>
              ))}
            </tbody>
          </table>
        </div>
      )
  }
}

function inline(list: Inline[], around: Around): ComponentChildren {
  return list.map((one) => {
    switch (one.t) {
      case 'text':
        return one.v
      case 'br':
        return <br />
      case 'code':
        return <code>{one.v}</code>
      case 'strong':
        return <strong>{inline(one.c, around)}</strong>
      case 'em':
        return <em>{inline(one.c, around)}</em>
      case 'del':
        return <del>{inline(one.c, around)}</del>
      case 'link':
        return <Link href={one.href} host={one.host} text={plain(one.c)}>{inline(one.c, around)}</Link>
      case 'image':
        // Loading it would tell its server that, and what, was read here.
        return <Link href={one.href} host={one.host} text="">{t('image')}{one.alt ? `: ${one.alt}` : ''}</Link>
      case 'cite': {
        const source = around.sources.find((found) => found.number === one.n)
        return source ? <Cite source={source} cite={around.cite} /> : `[${one.n}]`
      }
    }
  })
}

function Link({ href, host, text, children }: { href: string; host: string; text: string; children: ComponentChildren }) {
  const saysHost = text.toLowerCase().startsWith(`https://${host}`) || text.toLowerCase().startsWith(`http://${host}`)
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow" title={href}>
      {children}
      {!saysHost && <span class="host"> ({host})</span>}
    </a>
  )
}

function Cite({ source, cite }: { source: Cited; cite: (source: Cited) => void }) {
  const label = t('open_source', { n: source.shown, title: clean(source.title) })
  return (
    <button type="button" class="cite" title={clean(source.quote)} aria-label={label} onClick={() => cite(source)}>
      {source.shown}
    </button>
  )
}

function Code({ lang: name, text }: { lang: string; text: string }) {
  return (
    <figure class="code">
      <figcaption>
        <span>{name || t('code')}</span>
        <CopyButton text={text} />
      </figcaption>
      <pre tabIndex={0}><code>{text}</code></pre>
    </figure>
  )
}

function plain(list: Inline[]): string {
  return list.map((one) => ('v' in one ? one.v : 'c' in one ? plain(one.c) : '')).join('')
}

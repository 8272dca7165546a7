// The sources of an answer, and the panel that opens a document at the quote.

import { signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'

import * as api from '../api'
import { sanitizeText, sanitizeLine } from '../sanitize-text'
import { t } from '../i18n'
import { articleLabel, findQuote, utf16IndexOfByte } from '../quotes-and-citations'
import { quotedRanges } from '../quoted-words'
import { markedPart } from '../marked-document'
import { isSampleDocument } from '../documents'
import { conversation } from '../conversation'
import type { AnswerSource, DocumentText } from '../api-types'
import type { NumberedSource } from '../quotes-and-citations'
import { DocumentMarkdown } from './document-text'
import { Icon } from './icons'
import { ProblemCard } from './problem-card'

/** The source shown in the side panel. */
export const openSource = signal<OpenSource | null>(null)

/** A place in a document. `answer` is the text that cites it. */
type OpenSource = Pick<AnswerSource, 'document' | 'title' | 'quote'> & Partial<AnswerSource> & { answer?: string }

let elementToRefocus: HTMLElement | null = null

export function showSource(source: OpenSource): void {
  elementToRefocus = document.activeElement instanceof HTMLElement ? document.activeElement : null
  openSource.value = source
}

export function closeSource(): void {
  openSource.value = null
  elementToRefocus?.focus()
  elementToRefocus = null
}

function sourceLocation(source: Partial<AnswerSource>): string {
  const sample = source.document !== undefined && isSampleDocument(source.document) ? t('sample') : null
  const kind = source.kind === 'user' && sample === null ? t('kind_user') : source.kind === 'standard' ? t('kind_standard') : null
  const page = source.page ? t('page_n', { n: source.page }) : null
  const named = source.article ? articleLabel(source.article, source.title) : null
  return [sample, kind, named, source.clause, page].filter(Boolean).map((one) => sanitizeLine(String(one))).join(' · ')
}

/** Lists the cited sources only. All retrieved passages are in the inspector. */
export function Sources({ sources, show }: { sources: NumberedSource[]; show: (source: NumberedSource) => void }) {
  if (sources.length === 0) return null
  return (
    <section class="sources" aria-label={t('sources')}>
      <h3>{t('sources')}</h3>
      <ol>
        {sources.map((source) => (
          <li key={source.number}>
            <button type="button" class="source" onClick={() => show(source)} title={sanitizeText(source.quote)}>
              <span class="source-number">{source.shown}</span>
              <span class="source-title">{sanitizeLine(articleLabel(source.title))}</span>
              <span class="source-place">{sourceLocation(source)}</span>
            </button>
          </li>
        ))}
      </ol>
    </section>
  )
}

/** Characters of a long document shown at first on each side of the quote. */
const CONTEXT_CHARS = 6000

export function SourcePanel() {
  const source = openSource.value
  const [got, setGot] = useState<DocumentText | null>(null)
  const [error, setError] = useState<unknown>(null)
  const [reach, setReach] = useState(CONTEXT_CHARS)
  const mark = useRef<HTMLElement>(null)
  const title = useRef<HTMLHeadingElement>(null)

  useEffect(() => {
    if (!source) return
    setError(null)
    setReach(CONTEXT_CHARS)
    title.current?.focus()
    if (got?.id === source.document) return
    let isOld = false
    setGot(null)
    api.fetchDocumentText(source.document, conversation.value.thread ?? undefined).then(
      (found) => { if (!isOld) setGot({ ...found, id: source.document }) },
      (why) => { if (!isOld) setError(why) },
    )
    return () => { isOld = true }
  }, [source])

  useEffect(() => {
    if (got) mark.current?.scrollIntoView({ block: 'center' })
  }, [got, source])

  if (!source) return null
  const place = got ? findQuote(got.text, source.quote, source.start, source.end) : null
  const quoted = place && source.answer !== undefined && source.number !== undefined
    ? quotedRanges(source.answer, source.number, source.quote).map(({ from, to }) => ({ from: place.from + from, to: place.from + to })) : []
  const part = got ? markedPart(got.text, quoted.length > 0 ? quoted : place ? [place] : [], reach) : null
  return (
    <section class="panel source-panel" aria-label={t('source')}>
      <header class="panel-head">
        <div class="grow">
          <h2 ref={title} tabIndex={-1}>{sanitizeLine(articleLabel(source.title))}</h2>
          <p class="dim">{[sourceLocation(source), source.version && t('version_n', { n: sanitizeLine(source.version).slice(0, 8) })].filter(Boolean).join(' · ')}</p>
        </div>
        <button type="button" class="ghost" onClick={closeSource} aria-label={t('close')} title={t('close')}><Icon name="close" /></button>
      </header>
      {error !== null && (
        <>
          <ProblemCard error={error} />
          {source.quote && <blockquote class="quote-alone">{sanitizeText(source.quote)}</blockquote>}
        </>
      )}
      {got && place === null && source.quote && (
        <div class="card problem" role="note">
          <Icon name="warn" />
          <div>
            <strong>{t('quote_not_found')}</strong>
            <blockquote class="quote-alone">{sanitizeText(source.quote)}</blockquote>
          </div>
        </div>
      )}
      {place && source.answer !== undefined && quoted.length === 0 && <p class="note">{t('passage_marked')}</p>}
      {got && got.outline.length > 1 && <Outline document={got} open={(range) => { openSource.value = { document: source.document, title: source.title, quote: '', ...range } }} />}
      {part ? (
        <div class="document-text" tabIndex={0} role="document" aria-label={sanitizeLine(articleLabel(source.title))}>
          {part.hasBefore && <button type="button" class="more" onClick={() => setReach(reach * 4)}>{t('show_before')}</button>}
          <DocumentMarkdown text={part.text} first={mark} />
          {part.hasAfter && <button type="button" class="more" onClick={() => setReach(reach * 4)}>{t('show_after')}</button>}
        </div>
      ) : error === null && <p class="dim pad">{t('loading')}</p>}
    </section>
  )
}

/** The articles of a contract, or the headings of a document. */
function Outline({ document: { text, outline }, open }: { document: DocumentText; open: (range: { start: number; end: number }) => void }) {
  return (
    <details class="outline">
      <summary>{t('outline')} <span class="count">{outline.length}</span></summary>
      <ol>
        {outline.map((entry) => (
          <li key={entry.start}>
            <button type="button" class="link" onClick={() => open({ start: entry.start, end: entry.start + lineBytes(text, entry.start) })}>
              {sanitizeLine(articleLabel(entry.title))}
            </button>
          </li>
        ))}
      </ol>
    </details>
  )
}

/** The length in bytes of the line that starts at this byte. */
function lineBytes(text: string, start: number): number {
  const from = utf16IndexOfByte(text, start)
  const end = text.indexOf('\n', from)
  return new TextEncoder().encode(text.slice(from, end === -1 ? undefined : end)).length
}

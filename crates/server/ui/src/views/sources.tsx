// The sources of an answer, and the panel that opens a document at the quote.

import { signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'

import * as api from '../api'
import { sanitizeText, sanitizeLine } from '../sanitize-text'
import { t } from '../i18n'
import { articleLabel, findQuote } from '../quotes-and-citations'
import type { AnswerSource } from '../api-types'
import type { NumberedSource } from '../quotes-and-citations'
import { Icon } from './icons'
import { ProblemCard } from './problem-card'

/** The source shown in the side panel. */
export const openSource = signal<Pick<AnswerSource, 'document' | 'title' | 'quote'> & Partial<AnswerSource> | null>(null)

let elementToRefocus: HTMLElement | null = null

export function showSource(source: NonNullable<typeof openSource.value>): void {
  elementToRefocus = document.activeElement instanceof HTMLElement ? document.activeElement : null
  openSource.value = source
}

export function closeSource(): void {
  openSource.value = null
  elementToRefocus?.focus()
  elementToRefocus = null
}

function sourceLocation(source: Partial<AnswerSource>): string {
  const kind = source.kind === 'user' ? t('kind_user') : source.kind === 'standard' ? t('kind_standard') : null
  const page = source.page ? t('page_n', { n: source.page }) : null
  const named = source.article ? articleLabel(source.article, source.title) : null
  return [kind, named, source.clause, page].filter(Boolean).map((one) => sanitizeLine(String(one))).join(' · ')
}

/** Lists the cited sources only. All retrieved passages are in the inspector. */
export function Sources({ sources }: { sources: NumberedSource[] }) {
  if (sources.length === 0) return null
  return (
    <section class="sources" aria-label={t('sources')}>
      <h3>{t('sources')}</h3>
      <ol>
        {sources.map((source) => (
          <li key={source.number}>
            <button type="button" class="source" onClick={() => showSource(source)} title={sanitizeText(source.quote)}>
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
  const [got, setGot] = useState<{ id: string; text: string } | null>(null)
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
    api.fetchDocumentText(source.document).then(
      ({ text }) => { if (!isOld) setGot({ id: source.document, text }) },
      (why) => { if (!isOld) setError(why) },
    )
    return () => { isOld = true }
  }, [source])

  useEffect(() => {
    if (got) mark.current?.scrollIntoView({ block: 'center' })
  }, [got, source])

  if (!source) return null
  const place = got ? findQuote(got.text, source.quote, source.start, source.end) : null
  const from = place ? Math.max(0, place.from - reach) : 0
  const to = got ? Math.min(got.text.length, (place?.to ?? 0) + reach) : 0
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
      {got ? (
        <div class="document-text" tabIndex={0} role="document" aria-label={sanitizeLine(articleLabel(source.title))}>
          {from > 0 && <button type="button" class="more" onClick={() => setReach(reach * 4)}>{t('show_before')}</button>}
          {place ? (
            <>
              {sanitizeText(got.text.slice(from, place.from))}
              <mark ref={mark}>{sanitizeText(got.text.slice(place.from, place.to))}</mark>
              {sanitizeText(got.text.slice(place.to, to))}
            </>
          ) : sanitizeText(got.text.slice(0, to))}
          {to < got.text.length && <button type="button" class="more" onClick={() => setReach(reach * 4)}>{t('show_after')}</button>}
        </div>
      ) : error === null && <p class="dim pad">{t('loading')}</p>}
    </section>
  )
}

// The search box of the documents view: passages found, and the terms that matched.

import { useRef, useState } from 'preact/hooks'

import * as api from '../api'
import { sanitizeText, sanitizeLine } from '../sanitize-text'
import { t } from '../i18n'
import { ImeComposer } from '../ime'
import { isSampleDocument } from '../documents'
import { highlightTerms, utf16IndexOfByte } from '../quotes-and-citations'
import type { SearchHit } from '../api-types'
import { Icon } from './icons'
import { ProblemCard } from './problem-card'
import { showSource } from './sources'

export function SearchBox() {
  const [text, setText] = useState('')
  const [found, setFound] = useState<{ query: string; hits: SearchHit[] } | null>(null)
  const [error, setError] = useState<unknown>(null)
  const [isBusy, setBusy] = useState(false)
  const box = useRef<HTMLInputElement>(null)
  const ime = useRef(new ImeComposer()).current
  const look = async () => {
    const query = (box.current?.value ?? text).trim()
    if (query === '') return
    setBusy(true)
    setError(null)
    try {
      setFound({ query, hits: await api.searchDocuments(query) })
    } catch (why) {
      setError(why)
    } finally {
      setBusy(false)
    }
  }
  return (
    <aside class="search-test" aria-label={t('search_test')}>
      <h2>{t('search_test')}</h2>
      <p class="dim">{t('search_test_about')}</p>
      <form class="row" role="search" onSubmit={(event) => { event.preventDefault(); void look() }}>
        <label class="search grow">
          <Icon name="search" size={15} />
          <span class="away">{t('search_test')}</span>
          <input ref={box} type="search" value={text} placeholder={t('search_placeholder')}
            onInput={(event) => setText(event.currentTarget.value)}
            onCompositionStart={() => ime.start()}
            onCompositionUpdate={(event) => ime.update(event.data)}
            onCompositionEnd={(event) => { if (ime.end(event.data, event.timeStamp)) setTimeout(() => void look()) }}
            onKeyDown={(event) => {
              const decision = ime.keydown(event, event.timeStamp)
              if (decision !== 'leave') event.preventDefault()
              if (decision === 'send') setTimeout(() => void look())
            }} />
        </label>
        <button type="submit" class="primary" disabled={isBusy || text.trim() === ''}>{t('search')}</button>
      </form>
      {error !== null && <ProblemCard error={error} />}
      {found && (
        <div aria-live="polite">
          <p class="dim">{found.hits.length === 0 ? t('nothing_found') : t('hits_n', { n: found.hits.length })}</p>
          <ol class="hits">
            {found.hits.map((hit, at) => <SearchHitRow key={hit.passage || at} hit={hit} query={found.query} />)}
          </ol>
        </div>
      )}
    </aside>
  )
}

function SearchHitRow({ hit, query }: { hit: SearchHit; query: string }) {
  const why = hit.why ?? []
  const words = why.flatMap(({ ranges }) => ranges.map(({ start, end }) => hit.text.slice(utf16IndexOfByte(hit.text, start), utf16IndexOfByte(hit.text, end))))
  const place = [hit.article, hit.page ? t('page_n', { n: hit.page }) : null].filter(Boolean).join(' · ')
  return (
    <li class="hit">
      <div class="hit-head">
        <button type="button" class="link" onClick={() => showSource({ document: hit.document, title: hit.title, quote: hit.text, start: hit.start, end: hit.end })}>
          {sanitizeLine(hit.title)}
        </button>
        {isSampleDocument(hit.document) && <span class="tag">{t('sample')}</span>}
        <span class="dim">{sanitizeLine(place)}</span>
        <span class="score" title={t('score')}>{hit.score.toFixed(2)}</span>
      </div>
      <p class="hit-text">
        {highlightTerms(sanitizeText(hit.text.slice(0, 400)), words.length > 0 ? words : queryWords(query)).map((piece, at) => (piece.isHit ? <mark key={at}>{piece.text}</mark> : piece.text))}
        {hit.text.length > 400 && '…'}
      </p>
      {why.length === 0 && <p class="hit-why"><span class="tag">{t('found_without_words')}</span></p>}
      {why.length > 0 && (
        <p class="hit-why">
          <span class="dim">{t('found_by')}</span>
          {why.slice(0, 8).map(({ term, ranges }) => <span key={term} class="tag">{sanitizeLine(matchedText(hit.text, term, ranges[0]))}{ranges.length > 1 && ` ×${ranges.length}`}</span>)}
        </p>
      )}
    </li>
  )
}

/** The matched word as written in the text. The index may hold a shortened form of it. */
function matchedText(text: string, term: string, range: { start: number; end: number } | undefined): string {
  return range ? text.slice(utf16IndexOfByte(text, range.start), utf16IndexOfByte(text, range.end)) || term : term
}

/** The words of a query, and Korean words also without a particle of one or two syllables. */
function queryWords(query: string): string[] {
  return query.split(/[\s.,?!]+/).flatMap((word) => {
    const bare = [1, 2].map((cut) => word.slice(0, -cut)).filter((stem) => stem.length >= 2 && /[\uac00-\ud7a3]$/.test(word))
    return word.length < 2 ? [] : [word, ...bare]
  })
}

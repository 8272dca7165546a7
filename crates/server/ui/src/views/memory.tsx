// The memory: the facts that agents were asked to remember. Only agents add facts; here they are read, searched and deleted.

import { useEffect, useRef, useState } from 'preact/hooks'

import * as api from '../api'
import { announce } from '../announce'
import type { MemoryFactInfo } from '../api-types'
import { formatDateTime, formatNumber, t } from '../i18n'
import { findFacts, wordsOfQuery } from '../memory'
import { highlightTerms } from '../quotes-and-citations'
import { sanitizeLine, sanitizeText } from '../sanitize-text'
import { askConfirmation } from './confirm'
import { Icon } from './icons'
import { ProblemCard, problemText } from './problem-card'

/** Facts that are shown at first and with each click on “More”. */
const FACTS_PER_PAGE = 50
/** From so many facts on there is a search box. */
const MIN_FACTS_TO_SEARCH = 6
/** The most characters of a fact in a question or a label. */
const MAX_NAME_CHARS = 120

const isNotFound = (error: unknown) => error instanceof api.ApiProblem && error.status === 404

/** A fact on one line, shortened. */
function factName(text: string): string {
  const line = Array.from(sanitizeLine(text))
  return line.length > MAX_NAME_CHARS ? `${line.slice(0, MAX_NAME_CHARS).join('')}…` : line.join('')
}

export function Memory() {
  const [facts, setFacts] = useState<MemoryFactInfo[] | null>(null)
  const [error, setError] = useState<unknown>(null)
  const [query, setQuery] = useState('')
  const [limit, setLimit] = useState(FACTS_PER_PAGE)
  const heading = useRef<HTMLHeadingElement>(null)
  const list = useRef<HTMLUListElement>(null)
  const lastRequest = useRef(0)
  /** The place of the row that was deleted, until the focus has moved on from it. */
  const deletedRow = useRef<number | null>(null)

  const load = async () => {
    const mine = ++lastRequest.current
    try {
      const got = await api.fetchFacts()
      if (mine !== lastRequest.current) return
      setFacts(got)
      setError(null)
    } catch (why) {
      if (mine !== lastRequest.current) return
      if (isNotFound(why)) setFacts(null)
      setError(why)
    }
  }
  useEffect(() => {
    setFacts(null)
    setError(null)
    void load()
  }, [api.apiKeyChanges.value])
  useEffect(() => {
    // Facts may have been kept or forgotten while the page was out of sight.
    const look = () => { if (!document.hidden) void load() }
    document.addEventListener('visibilitychange', look)
    return () => {
      document.removeEventListener('visibilitychange', look)
      lastRequest.current += 1
    }
  }, [])
  useEffect(() => {
    if (deletedRow.current === null) return
    const buttons = list.current?.querySelectorAll<HTMLElement>('.fact-delete') ?? []
    const next = buttons[Math.min(deletedRow.current, buttons.length - 1)] ?? heading.current
    deletedRow.current = null
    next?.focus()
  }, [facts])

  const drop = (id: string, row: number) => {
    deletedRow.current = row
    setFacts((facts ?? []).filter((one) => one.id !== id))
    announce(t('fact_deleted'))
    void load()
  }
  const all = facts ?? []
  const found = findFacts(all, query)
  const words = wordsOfQuery(query)
  return (
    <div class="documents-grid is-single">
      <div class="documents-main memory">
        <h1 ref={heading} tabIndex={-1}>{t('memory')} {all.length > 0 && <span class="count">{formatNumber(all.length)}</span>}</h1>
        <p class="dim">{t('memory_about')}</p>
        {isNotFound(error) && <p class="card memory-note" role="status">{t('memory_off')}</p>}
        {error !== null && !isNotFound(error) && <ProblemCard error={error}><button type="button" onClick={() => void load()}>{t('try_again')}</button></ProblemCard>}
        {facts === null && error === null && <p class="dim" role="status">{t('loading')}</p>}
        {facts?.length === 0 && error === null && <p class="card memory-note">{t('memory_empty')}</p>}
        {(all.length >= MIN_FACTS_TO_SEARCH || query !== '') && (
          <label class="search memory-search">
            <Icon name="search" size={15} />
            <span class="away">{t('memory_search')}</span>
            <input type="search" value={query} placeholder={t('memory_search')}
              onInput={(event) => { setQuery(event.currentTarget.value); setLimit(FACTS_PER_PAGE) }} />
          </label>
        )}
        <p class="dim" role="status">{words.length > 0 && facts !== null && (found.length === 0 ? t('nothing_found') : t('hits_n', { n: formatNumber(found.length) }))}</p>
        {found.length > 0 && (
          <ul ref={list} class="doc-list" aria-label={t('memory')}>
            {found.slice(0, limit).map((fact, row) => <FactRow key={fact.id} fact={fact} words={words} drop={() => drop(fact.id, row)} reload={load} />)}
          </ul>
        )}
        {found.length > limit && <button type="button" class="more" onClick={() => setLimit(limit + FACTS_PER_PAGE)}>{t('more')}</button>}
      </div>
    </div>
  )
}

function FactRow({ fact, words, drop, reload }: { fact: MemoryFactInfo; words: string[]; drop: () => void; reload: () => Promise<void> }) {
  const [error, setError] = useState<unknown>(null)
  const name = factName(fact.text)
  const remove = async () => {
    setError(null)
    if (!(await askConfirmation(t('delete_fact'), t('delete_fact_sure', { text: name }), t('delete')))) return
    try {
      await api.forgetFact(fact.id)
      drop()
    } catch (why) {
      // Somebody else was faster, or the memory was switched off. The list tells.
      if (isNotFound(why)) await reload()
      else setError(why)
    }
  }
  return (
    <li class="doc fact">
      <div class="grow">
        <p class="fact-text">{highlightTerms(sanitizeText(fact.text), words).map((piece, at) => (piece.isHit ? <mark key={at}>{piece.text}</mark> : piece.text))}</p>
        <p class="doc-facts"><span>{t('fact_kept', { time: formatDateTime(fact.at) })}</span><code>{sanitizeLine(fact.id)}</code></p>
        {error !== null && <p class="bad" role="alert">{problemText(error).detail ?? problemText(error).title}</p>}
      </div>
      <button type="button" class="ghost small fact-delete" onClick={() => void remove()} aria-label={t('delete_n', { title: name })} title={t('delete')}><Icon name="trash" size={15} /></button>
    </li>
  )
}

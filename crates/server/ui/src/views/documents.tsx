// Documents: bring them in, watch them being read, try what a search finds in them.

import { signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'

import * as api from '../api'
import { announce } from '../announce'
import { cleanLine } from '../clean'
import { bytes, moment, number, said, t, type Key } from '../i18n'
import { documents as list, documentsError as listError, gaveWay, loadDocuments, samples } from '../shelf'
import type { Document, DocumentStatus } from '../types'
import { ask as confirmed } from './confirm'
import { Icon } from './icons'
import { ProblemCard, wordsOf } from './problem'
import { SearchBox } from './search'
import { showSource } from './sources'

interface Sending {
  key: string
  name: string
  share: number
  error: unknown
  stop: () => void
  again: () => void
}

const sendings = signal<Sending[]>([])
const kind = signal('general')

const STATUS: Record<DocumentStatus, Key> = {
  queued: 'doc_queued', reading: 'doc_reading', indexing: 'doc_indexing', ready: 'doc_ready', failed: 'doc_failed',
  paused: 'doc_paused', cancelled: 'doc_cancelled',
}

/** Whether the server is still at work on it. */
const isMoving = (one: Document) => one.status === 'queued' || one.status === 'reading' || one.status === 'indexing'

async function load(): Promise<void> {
  const before = list.peek()
  const hadSamples = !gaveWay.peek()
  await loadDocuments()
  for (const one of list.peek() ?? []) {
    const was = before?.find((old) => old.id === one.id)
    if (was && isMoving(was) && !isMoving(one)) announce(`${cleanLine(one.name)}: ${t(STATUS[one.status])}`)
  }
  if (hadSamples && gaveWay.peek()) announce(t('samples_gave_way'))
}

/** Names of documents whose place another file of the name took. */
const replaced = signal<string[]>([])

/** Files at a time; the others wait here. */
const AT_ONCE = 3
let sendingNow = 0
const waiting: (() => void)[] = []

function send(file: Blob, name: string): void {
  const key = api.newId()
  const change = (some: Partial<Sending>) => {
    sendings.value = sendings.value.map((one) => (one.key === key ? { ...one, ...some } : one))
  }
  const drop = () => {
    sendings.value = sendings.value.filter((one) => one.key !== key)
  }
  const chosen = kind.value
  const begin = () => {
    if (!sendings.peek().some((one) => one.key === key)) return next()
    const { done, stop } = api.upload(file, name, chosen, (share) => change({ share }))
    change({ stop: () => { stop(); drop() }, error: null })
    done.then(
      (taken) => {
        drop()
        if (taken.replaced) {
          replaced.value = [...replaced.peek().filter((one) => one !== name), name]
          announce(t('doc_replaced', { name: cleanLine(name) }))
        }
        void load()
      },
      (error) => { if (!(error instanceof DOMException)) change({ error, share: 0 }) },
    ).finally(next)
  }
  const next = () => {
    sendingNow -= 1
    waiting.shift()?.()
  }
  const queue = () => {
    const go = () => { sendingNow += 1; begin() }
    if (sendingNow < AT_ONCE) go()
    else waiting.push(go)
  }
  sendings.value = [...sendings.value, { key, name, share: 0, error: null, stop: drop, again: queue }]
  queue()
}

export function sendFiles(files: Iterable<File>): void {
  for (const file of files) send(file, file.name || t('pasted_file'))
}

export function Documents() {
  const [isOver, setOver] = useState(false)
  const picker = useRef<HTMLInputElement>(null)
  useEffect(() => {
    void load()
    // Looked at often while something moves, now and then otherwise.
    let timer: ReturnType<typeof setTimeout>
    const tick = () => {
      const wait = (list.peek() ?? []).some(isMoving) ? 800 : 6000
      timer = setTimeout(() => void load().finally(tick), document.hidden ? 10_000 : wait)
    }
    tick()
    return () => clearTimeout(timer)
  }, [])
  useEffect(() => {
    const paste = (event: ClipboardEvent) => {
      const files = Array.from(event.clipboardData?.files ?? [])
      const text = event.clipboardData?.getData('text/plain') ?? ''
      const isField = event.target instanceof HTMLElement && event.target.closest('input, textarea')
      if (files.length > 0) sendFiles(files)
      else if (!isField && text.trim().length > 200) send(new Blob([text], { type: 'text/plain' }), t('pasted_text_name'))
      else return
      event.preventDefault()
    }
    addEventListener('paste', paste)
    return () => removeEventListener('paste', paste)
  }, [])

  const all = list.value ?? []
  const queue = all.filter((one) => one.status !== 'ready')
  const ready = all.filter((one) => one.status === 'ready')
  return (
    <div class="documents scroller" tabIndex={-1}>
      <div class="documents-grid">
        <div class="documents-main">
          <h1>{t('documents')}</h1>
          <p class="dim">{t('documents_about')}</p>
          <div class={isOver ? 'drop is-over' : 'drop'}
            onDragOver={(event) => { event.preventDefault(); setOver(true) }}
            onDragLeave={() => setOver(false)}
            onDrop={(event) => { event.preventDefault(); setOver(false); sendFiles(Array.from(event.dataTransfer?.files ?? [])) }}>
            <Icon name="upload" size={26} />
            <p><strong>{t('drop_here')}</strong></p>
            <p class="dim">HWPX · HWP · PDF · DOCX · XLSX · CSV · HTML · Markdown · TXT</p>
            <div class="row center">
              <button type="button" class="primary" onClick={() => picker.current?.click()}>{t('choose_files')}</button>
              <label class="picker">
                <span class="away">{t('doc_kind')}</span>
                <select value={kind.value} onChange={(event) => { kind.value = event.currentTarget.value }}>
                  <option value="general">{t('kind_general')}</option>
                  <option value="contract">{t('kind_contract')}</option>
                  <option value="standard:용역">{t('kind_standard_service')}</option>
                </select>
              </label>
            </div>
            <input ref={picker} type="file" multiple class="away" tabIndex={-1} aria-label={t('choose_files')}
              onChange={(event) => { sendFiles(Array.from(event.currentTarget.files ?? [])); event.currentTarget.value = '' }} />
          </div>
          {listError.value !== null && (
            <ProblemCard error={listError.value}><button type="button" onClick={() => void load()}>{t('try_again')}</button></ProblemCard>
          )}
          {(sendings.value.length > 0 || queue.length > 0) && (
            <section aria-label={t('queue')}>
              <h2>{t('queue')} <span class="count">{sendings.value.length + queue.length}</span></h2>
              <ul class="doc-list">
                {sendings.value.map((one) => <SendingRow key={one.key} sending={one} />)}
                {queue.map((one) => <DocumentRow key={one.id} doc={one} />)}
              </ul>
            </section>
          )}
          <section aria-label={t('library')}>
            <h2>{t('library')} <span class="count">{ready.length}</span></h2>
            {list.value === null && listError.value === null && <p class="dim">{t('loading')}</p>}
            {gaveWay.value && <p class="note" role="status">{t('samples_gave_way')}</p>}
            {replaced.value.map((name) => (
              <p class="note" role="status" key={name}>
                <span class="grow">{t('doc_replaced', { name: cleanLine(name) })}</span>
                <button type="button" class="ghost small" aria-label={t('close')} title={t('close')}
                  onClick={() => { replaced.value = replaced.peek().filter((one) => one !== name) }}><Icon name="close" size={15} /></button>
              </p>
            ))}
            {list.value !== null && ready.length === 0 && <p class="dim">{t(samples.value > 0 ? 'no_documents_samples' : 'no_documents', { n: samples.value })}</p>}
            <ul class="doc-list">{ready.map((one) => <DocumentRow key={one.id} doc={one} />)}</ul>
          </section>
        </div>
        <SearchBox />
      </div>
    </div>
  )
}

function SendingRow({ sending }: { sending: Sending }) {
  const name = cleanLine(sending.name)
  const isBad = sending.error !== null
  return (
    <li class={isBad ? 'doc is-failed' : 'doc'}>
      <Icon name={isBad ? 'warn' : 'upload'} />
      <div class="grow">
        <div class="doc-name">{name}</div>
        {isBad ? <p class="bad" role="alert">{wordsOf(sending.error).detail ?? wordsOf(sending.error).title}</p>
          : <progress max={1} value={sending.share} aria-label={t('sending_n', { name })} />}
      </div>
      {isBad && <button type="button" class="small" onClick={sending.again}>{t('try_again')}</button>}
      <button type="button" class="ghost small" onClick={sending.stop} aria-label={t('cancel_n', { name })} title={t('cancel')}><Icon name="close" size={15} /></button>
    </li>
  )
}

function shareOf(doc: Document): number | null {
  const { progress } = doc
  if (typeof progress === 'number' && Number.isFinite(progress)) return Math.max(0, Math.min(1, progress > 1 ? progress / 100 : progress))
  if (progress && typeof progress === 'object' && progress.total > 0) return Math.min(1, progress.done / progress.total)
  return null
}

function DocumentRow({ doc }: { doc: Document }) {
  const [error, setError] = useState<unknown>(null)
  const name = cleanLine(doc.name)
  const tell = (what: 'pause' | 'resume' | 'cancel' | 'retry') => async () => {
    setError(null)
    await api.tellDocument(doc.id, what).catch(setError)
    await load()
  }
  const remove = async () => {
    if (!(await confirmed(t('delete_document'), t('delete_document_sure', { name }), t('delete')))) return
    await api.deleteDocument(doc.id).catch(setError)
    await load()
  }
  const share = shareOf(doc)
  const isReady = doc.status === 'ready'
  const facts = [
    isReady && doc.passages ? t('passages_n', { n: number(doc.passages) }) : null,
    doc.pages ? t('pages_n', { n: number(doc.pages) }) : null,
    doc.bytes ? bytes(doc.bytes) : null,
    doc.at ? moment(doc.at) : doc.changed_at ? moment(doc.changed_at * 1000) : null,
  ].filter(Boolean)
  const button = (label: Key, icon: 'pause' | 'play' | 'close' | 'retry' | 'trash', act: () => Promise<void>) => (
    <button type="button" class="ghost small" onClick={() => void act()} aria-label={`${name}: ${t(label)}`} title={t(label)}><Icon name={icon} size={15} /></button>
  )
  return (
    <li class={`doc is-${doc.status}`}>
      <Icon name={doc.status === 'failed' ? 'warn' : 'file'} />
      <div class="grow">
        {isReady
          ? <button type="button" class="link doc-name" onClick={() => showSource({ document: doc.id, title: doc.title || doc.name, quote: '' })}>{name}</button>
          : <div class="doc-name">{name}</div>}
        <p class="doc-facts">
          <span class={`status is-${doc.status}`}>{t(STATUS[doc.status])}</span>
          {doc.kind && doc.kind !== 'general' && <span class="tag">{kindName(doc.kind)}</span>}
          {facts.map((fact) => <span key={String(fact)}>{fact}</span>)}
        </p>
        {isMoving(doc) && (share === null
          ? <progress aria-label={`${name}: ${t(STATUS[doc.status])}`} />
          : <progress max={1} value={share} aria-label={`${name}: ${t(STATUS[doc.status])}`} />)}
        {doc.status === 'failed' && <p class="bad">{cleanLine(said(doc) || doc.reason || t('went_wrong'))}</p>}
        {error !== null && <p class="bad" role="alert">{wordsOf(error).detail ?? wordsOf(error).title}</p>}
      </div>
      {isMoving(doc) && button('pause', 'pause', tell('pause'))}
      {doc.status === 'paused' && button('resume', 'play', tell('resume'))}
      {(isMoving(doc) || doc.status === 'paused') && button('cancel', 'close', tell('cancel'))}
      {(doc.status === 'failed' || doc.status === 'cancelled') && button('try_again', 'retry', tell('retry'))}
      {!isMoving(doc) && button('delete', 'trash', remove)}
    </li>
  )
}

function kindName(name: string | { standard: string }): string {
  if (typeof name !== 'string') return `${t('kind_standard')}: ${cleanLine(name.standard)}`
  if (name === 'contract' || name === 'user') return t('kind_contract')
  return name.startsWith('standard') ? t('kind_standard') : cleanLine(name)
}

// The documents: uploads, their progress, the library and a search box.

import { effect, signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'

import * as api from '../api'
import { announce } from '../announce'
import { sanitizeLine } from '../sanitize-text'
import { formatBytes, formatTime, formatNumber, localized, t, type MessageKey } from '../i18n'
import { documents, documentsError, isSampleDocument, samplesReplaced, loadDocuments, sampleCount } from '../documents'
import type { DocumentInfo, IngestState } from '../api-types'
import { downloadBlob } from '../export-thread'
import { askConfirmation } from './confirm'
import { AUTOMATIC_KIND, CollectionField, DocumentSettings, kindName, KindPicker } from './document-settings'
import { Icon } from './icons'
import { ProblemCard, problemText } from './problem-card'
import { SearchBox } from './search'
import { showSource } from './sources'

interface Upload {
  key: string
  name: string
  share: number
  error: unknown
  stop: () => void
  again: () => void
}

/** Time between two looks at the documents: while one is processed, while none is, and while the page is not seen. */
const BUSY_POLL_MS = 500
const IDLE_POLL_MS = 6000
const HIDDEN_POLL_MS = 10_000

const uploads = signal<Upload[]>([])
const uploadKind = signal(AUTOMATIC_KIND)
const uploadCollection = signal('')

const STATUS_LABELS: Record<IngestState, MessageKey> = {
  queued: 'doc_queued', reading: 'doc_reading', indexing: 'doc_indexing', ready: 'doc_ready', failed: 'doc_failed',
  paused: 'doc_paused', cancelled: 'doc_cancelled', removing: 'doc_removing',
}

/** Whether the server is still processing the document. */
const isInProgress = (one: DocumentInfo) => one.status === 'queued' || one.status === 'reading' || one.status === 'indexing'

async function reloadDocuments(): Promise<void> {
  const before = documents.peek()
  const hadSamples = !samplesReplaced.peek()
  await loadDocuments()
  for (const one of documents.peek() ?? []) {
    const was = before?.find((old) => old.id === one.id)
    if (was && isInProgress(was) && !isInProgress(one)) announce(`${sanitizeLine(one.name)}: ${t(STATUS_LABELS[one.status])}`)
  }
  if (hadSamples && samplesReplaced.peek()) announce(t('samples_gave_way'))
}

/** Names of documents that were replaced by an upload with the same name. */
const replacedNames = signal<string[]>([])

/** Further files wait in the queue. */
const MAX_PARALLEL_UPLOADS = 3
let activeUploads = 0
const queuedUploads: (() => void)[] = []

function uploadFile(file: Blob, name: string): void {
  const key = api.randomId()
  const change = (some: Partial<Upload>) => {
    uploads.value = uploads.value.map((one) => (one.key === key ? { ...one, ...some } : one))
  }
  const drop = () => {
    uploads.value = uploads.value.filter((one) => one.key !== key)
  }
  const kind = uploadKind.value === AUTOMATIC_KIND ? undefined : uploadKind.value
  const chosen = { name, kind, collection: uploadCollection.value.trim() }
  const begin = () => {
    if (!uploads.peek().some((one) => one.key === key)) return next()
    const { done, stop } = api.uploadDocument(file, chosen, (share) => change({ share }))
    change({ stop: () => { stop(); drop() }, error: null })
    done.then(
      (taken) => {
        drop()
        // Shown at once, before the next look.
        documents.value = [...(documents.peek() ?? []).filter((one) => one.id !== taken.id), taken]
        if (taken.replaced) {
          replacedNames.value = [...replacedNames.peek().filter((one) => one !== name), name]
          announce(t('doc_replaced', { name: sanitizeLine(name) }))
        }
        void reloadDocuments()
      },
      (error) => { if (!(error instanceof DOMException)) change({ error, share: 0 }) },
    ).finally(next)
  }
  const next = () => {
    activeUploads -= 1
    queuedUploads.shift()?.()
  }
  const queue = () => {
    const go = () => { activeUploads += 1; begin() }
    if (activeUploads < MAX_PARALLEL_UPLOADS) go()
    else queuedUploads.push(go)
  }
  uploads.value = [...uploads.value, { key, name, share: 0, error: null, stop: drop, again: queue }]
  queue()
}

export function uploadFiles(files: Iterable<File>): void {
  for (const file of files) uploadFile(file, file.name || t('pasted_file'))
}

export function Documents() {
  const [isOver, setOver] = useState(false)
  const picker = useRef<HTMLInputElement>(null)
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>
    let isLeft = false
    // Polls often while a document is being processed, else rarely. Every load sets the timer anew, also one after an upload.
    const stop = effect(() => {
      const wait = (documents.value ?? []).some(isInProgress) ? BUSY_POLL_MS : IDLE_POLL_MS
      const tick = () => {
        clearTimeout(timer)
        if (!isLeft) timer = setTimeout(() => void reloadDocuments().finally(tick), document.hidden ? HIDDEN_POLL_MS : wait)
      }
      tick()
    })
    void reloadDocuments()
    return () => {
      isLeft = true
      clearTimeout(timer)
      stop()
    }
  }, [])
  useEffect(() => {
    const paste = (event: ClipboardEvent) => {
      const files = Array.from(event.clipboardData?.files ?? [])
      const text = event.clipboardData?.getData('text/plain') ?? ''
      const isField = event.target instanceof HTMLElement && event.target.closest('input, textarea')
      if (files.length > 0) uploadFiles(files)
      else if (!isField && text.trim().length > 200) uploadFile(new Blob([text], { type: 'text/plain' }), t('pasted_text_name'))
      else return
      event.preventDefault()
    }
    addEventListener('paste', paste)
    return () => removeEventListener('paste', paste)
  }, [])

  const all = documents.value ?? []
  const queue = all.filter((one) => one.status !== 'ready')
  const ready = all.filter((one) => one.status === 'ready')
  return (
    <div class="documents-grid">
      <div class="documents-main">
        <h1>{t('documents')}</h1>
        <p class="dim">{t('documents_about')}</p>
        <div class={isOver ? 'drop is-over' : 'drop'}
          onDragOver={(event) => { event.preventDefault(); setOver(true) }}
          onDragLeave={() => setOver(false)}
          onDrop={(event) => { event.preventDefault(); setOver(false); uploadFiles(Array.from(event.dataTransfer?.files ?? [])) }}>
          <Icon name="upload" size={26} />
          <p><strong>{t('drop_here')}</strong></p>
          <p class="dim">HWPX · HWP · PDF · DOCX · XLSX · CSV · HTML · Markdown · TXT</p>
          <div class="row center">
            <button type="button" class="primary" onClick={() => picker.current?.click()}>{t('choose_files')}</button>
            <KindPicker value={uploadKind.value} hasAutomatic choose={(kind) => { uploadKind.value = kind }} />
            <CollectionField value={uploadCollection.value} change={(name) => { uploadCollection.value = name }} />
          </div>
          <input ref={picker} type="file" multiple class="away" tabIndex={-1} aria-label={t('choose_files')}
            onChange={(event) => { uploadFiles(Array.from(event.currentTarget.files ?? [])); event.currentTarget.value = '' }} />
        </div>
        {documentsError.value !== null && (
          <ProblemCard error={documentsError.value}><button type="button" onClick={() => void reloadDocuments()}>{t('try_again')}</button></ProblemCard>
        )}
        {(uploads.value.length > 0 || queue.length > 0) && (
          <section aria-label={t('queue')}>
            <h2>{t('queue')} <span class="count">{uploads.value.length + queue.length}</span></h2>
            <ul class="doc-list">
              {uploads.value.map((one) => <UploadRow key={one.key} sending={one} />)}
              {queue.map((one) => <DocumentRow key={one.id} doc={one} />)}
            </ul>
          </section>
        )}
        <section aria-label={t('library')}>
          <h2>{t('library')} <span class="count">{ready.length}</span></h2>
          {documents.value === null && documentsError.value === null && <p class="dim">{t('loading')}</p>}
          {samplesReplaced.value && <p class="note" role="status">{t('samples_gave_way')}</p>}
          {replacedNames.value.map((name) => (
            <p class="note" role="status" key={name}>
              <span class="grow">{t('doc_replaced', { name: sanitizeLine(name) })}</span>
              <button type="button" class="ghost small" aria-label={t('close')} title={t('close')}
                onClick={() => { replacedNames.value = replacedNames.peek().filter((one) => one !== name) }}><Icon name="close" size={15} /></button>
            </p>
          ))}
          {documents.value !== null && ready.length === 0 && <p class="dim">{t(sampleCount.value > 0 ? 'no_documents_samples' : 'no_documents', { n: sampleCount.value })}</p>}
          <ul class="doc-list">{ready.map((one) => <DocumentRow key={one.id} doc={one} />)}</ul>
        </section>
      </div>
      <SearchBox />
    </div>
  )
}

function UploadRow({ sending }: { sending: Upload }) {
  const name = sanitizeLine(sending.name)
  const isBad = sending.error !== null
  return (
    <li class={isBad ? 'doc is-failed' : 'doc'}>
      <Icon name={isBad ? 'warn' : 'upload'} />
      <div class="grow">
        <div class="doc-name">{name}</div>
        {isBad ? <p class="bad" role="alert">{problemText(sending.error).detail ?? problemText(sending.error).title}</p>
          : <progress max={1} value={sending.share} aria-label={t('sending_n', { name })} />}
      </div>
      {isBad && <button type="button" class="small" onClick={sending.again}>{t('try_again')}</button>}
      <button type="button" class="ghost small" onClick={sending.stop} aria-label={t('cancel_n', { name })} title={t('cancel')}><Icon name="close" size={15} /></button>
    </li>
  )
}

function DocumentRow({ doc }: { doc: DocumentInfo }) {
  const [error, setError] = useState<unknown>(null)
  const [isEditing, setEditing] = useState(false)
  const name = sanitizeLine(doc.name)
  const tell = (what: 'pause' | 'resume' | 'cancel' | 'retry') => async () => {
    setError(null)
    await api.changeDocument(doc.id, what).catch(setError)
    await reloadDocuments()
  }
  const remove = async () => {
    if (!(await askConfirmation(t('delete_document'), t('delete_document_sure', { name }), t('delete')))) return
    await api.deleteDocument(doc.id).catch(setError)
    await reloadDocuments()
  }
  const save = async () => {
    setError(null)
    await api.fetchDocumentFile(doc.id).then((file) => downloadBlob(doc.name, file), setError)
  }
  const isReady = doc.status === 'ready'
  const facts = [
    isReady && doc.passages ? t('passages_n', { n: formatNumber(doc.passages) }) : null,
    doc.pages ? t('pages_n', { n: formatNumber(doc.pages) }) : null,
    doc.bytes ? formatBytes(doc.bytes) : null,
    formatTime(doc.changed_at * 1000),
  ].filter(Boolean)
  const button = (label: MessageKey, icon: 'pause' | 'play' | 'close' | 'retry' | 'trash' | 'download', act: () => Promise<void>) => (
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
          <span class={`status is-${doc.status}`}>{t(STATUS_LABELS[doc.status])}</span>
          {isSampleDocument(doc.id) && <span class="tag">{t('sample')}</span>}
          {doc.kind !== 'general' && <span class="tag">{kindName(doc.kind)}</span>}
          {doc.collection !== '' && <span class="tag">{sanitizeLine(doc.collection)}</span>}
          {facts.map((fact) => <span key={String(fact)}>{fact}</span>)}
        </p>
        {isInProgress(doc) && <progress max={1} value={doc.progress} aria-label={`${name}: ${t(STATUS_LABELS[doc.status])}`} />}
        {doc.status === 'failed' && <p class="bad">{sanitizeLine(localized(doc) || doc.reason || t('went_wrong'))}</p>}
        {error !== null && <p class="bad" role="alert">{problemText(error).detail ?? problemText(error).title}</p>}
        {isEditing && <DocumentSettings doc={doc} done={() => { setEditing(false); void reloadDocuments() }} />}
      </div>
      {isInProgress(doc) && button('pause', 'pause', tell('pause'))}
      {doc.status === 'paused' && button('resume', 'play', tell('resume'))}
      {(isInProgress(doc) || doc.status === 'paused') && button('cancel', 'close', tell('cancel'))}
      {(doc.status === 'failed' || doc.status === 'cancelled') && button('try_again', 'retry', tell('retry'))}
      {!isInProgress(doc) && !isSampleDocument(doc.id) && (
        <button type="button" class={isEditing ? 'ghost small is-on' : 'ghost small'} aria-expanded={isEditing} onClick={() => setEditing(!isEditing)}
          aria-label={`${name}: ${t('doc_settings')}`} title={t('doc_settings')}><Icon name="edit" size={15} /></button>
      )}
      {button('download_original', 'download', save)}
      {!isInProgress(doc) && button('delete', 'trash', remove)}
    </li>
  )
}

// The files of a chat, above its composer, and the button that attaches more.

import { useEffect, useRef, useState } from 'preact/hooks'

import { attachments, openAttachments, removeAttachment } from '../attachments'
import { localized, t } from '../i18n'
import { sanitizeLine } from '../sanitize-text'
import { kindName } from './document-settings'
import { Icon } from './icons'
import { problemText } from './problem-card'
import { showSource } from './sources'

export function AttachmentList({ thread }: { thread: string | null }) {
  const [error, setError] = useState<unknown>(null)
  useEffect(() => {
    setError(null)
    void openAttachments(thread)
  }, [thread])
  const { documents, uploads, thread: shown } = attachments.value
  if (thread === null || shown !== thread || (documents.length === 0 && uploads.length === 0)) return null
  const remove = (id: string) => removeAttachment(thread, id).then(() => setError(null), setError)
  return (
    <section class="attachments" aria-label={t('attachments')}>
      <ul>
        {documents.map((one) => {
          const name = sanitizeLine(one.name)
          const isFailed = one.status === 'failed'
          return (
            <li key={one.id} class={`attachment is-${one.status}`}>
              <Icon name={isFailed ? 'warn' : 'file'} size={15} />
              {one.status === 'ready'
                ? <button type="button" class="link" onClick={() => showSource({ document: one.id, title: one.title || one.name, quote: '' })}>{name}</button>
                : <span>{name}</span>}
              {one.status === 'ready' && one.kind !== 'general' && <span class="tag">{kindName(one.kind)}</span>}
              {isFailed && <span class="bad">{sanitizeLine(localized(one) || t('doc_failed'))}</span>}
              {!isFailed && one.status !== 'ready' && <span class="dim" role="status">{t('doc_reading')}</span>}
              <button type="button" class="ghost small" onClick={() => void remove(one.id)} aria-label={t('delete_n', { title: name })} title={t('delete')}><Icon name="close" size={13} /></button>
            </li>
          )
        })}
        {uploads.map((one) => (
          <li key={one.key} class={one.error === null ? 'attachment' : 'attachment is-failed'}>
            <Icon name={one.error === null ? 'upload' : 'warn'} size={15} />
            <span>{sanitizeLine(one.name)}</span>
            {one.error === null ? <progress max={1} value={one.share} aria-label={t('sending_n', { name: sanitizeLine(one.name) })} />
              : <span class="bad" role="alert">{problemText(one.error).detail ?? problemText(one.error).title}</span>}
            <button type="button" class="ghost small" onClick={one.stop} aria-label={t('cancel_n', { name: sanitizeLine(one.name) })} title={t('cancel')}><Icon name="close" size={13} /></button>
          </li>
        ))}
      </ul>
      {error !== null && <p class="bad" role="alert">{problemText(error).title}</p>}
    </section>
  )
}

export function AttachButton({ attach }: { attach: (files: File[]) => void }) {
  const picker = useRef<HTMLInputElement>(null)
  return (
    <>
      <button type="button" class="ghost small" onClick={() => picker.current?.click()} aria-label={t('attach')} title={t('attach_about')}><Icon name="clip" size={16} /></button>
      <input ref={picker} type="file" multiple class="away" tabIndex={-1} aria-label={t('attach')}
        onChange={(event) => { attach(Array.from(event.currentTarget.files ?? [])); event.currentTarget.value = '' }} />
    </>
  )
}

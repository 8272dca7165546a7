// The confirmation dialog for deletions.

import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'

import { t } from '../i18n'

interface Confirmation {
  title: string
  text: string
  yes: string
  answer: (isYes: boolean) => void
}

const pendingConfirmation = signal<Confirmation | null>(null)

export function askConfirmation(title: string, text: string, yes: string): Promise<boolean> {
  const asker = document.activeElement
  return new Promise((resolve) => {
    pendingConfirmation.value = {
      title, text, yes,
      answer: (isYes) => {
        pendingConfirmation.value = null
        resolve(isYes)
        // A dialog that is taken out of the page gives the focus back to nobody.
        requestAnimationFrame(() => { if (asker instanceof HTMLElement && asker.isConnected && document.activeElement === document.body) asker.focus() })
      },
    }
  })
}

export function ConfirmDialog() {
  const dialog = useRef<HTMLDialogElement>(null)
  const now = pendingConfirmation.value
  useEffect(() => {
    if (now) dialog.current?.showModal()
  }, [now])
  if (!now) return null
  return (
    <dialog ref={dialog} class="dialog small" aria-labelledby="confirm-title" onCancel={() => now.answer(false)}>
      <h2 id="confirm-title">{now.title}</h2>
      <p>{now.text}</p>
      <div class="row end">
        <button type="button" onClick={() => now.answer(false)}>{t('cancel')}</button>
        <button type="button" class="danger" onClick={() => now.answer(true)}>{now.yes}</button>
      </div>
    </dialog>
  )
}

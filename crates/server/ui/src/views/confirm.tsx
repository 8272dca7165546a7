// Asks before something is gone.

import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'

import { t } from '../i18n'

interface Asked {
  title: string
  text: string
  yes: string
  answer: (isYes: boolean) => void
}

const asked = signal<Asked | null>(null)

export function ask(title: string, text: string, yes: string): Promise<boolean> {
  return new Promise((resolve) => {
    asked.value = {
      title, text, yes,
      answer: (isYes) => {
        asked.value = null
        resolve(isYes)
      },
    }
  })
}

export function Confirm() {
  const dialog = useRef<HTMLDialogElement>(null)
  const now = asked.value
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

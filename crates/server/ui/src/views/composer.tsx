// The input box for questions.

import { effect, signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'

import { t } from '../i18n'
import { ImeComposer } from '../ime'
import { saveDraft, loadDraft } from '../pending-messages'
import { Icon } from './icons'

/** The text being written in the open thread. It survives a reload. */
export const draft = signal('')
let draftThread: string | null | undefined
effect(() => {
  const text = draft.value
  if (draftThread !== undefined) saveDraft(draftThread, text)
})

/** Shows the draft of a thread. */
export function openDraft(thread: string | null): void {
  if (thread === draftThread) return
  draftThread = thread
  draft.value = loadDraft(thread)
}

/** Keeps what is being written when a new thread gets its id, or when its thread is gone. */
export function moveDraft(thread: string | null): void {
  if (draftThread !== undefined && draftThread !== thread) saveDraft(draftThread, '')
  draftThread = thread
  saveDraft(thread, draft.value)
}

/** Incremented to focus the box. */
export const composerFocusRequests = signal(0)

interface ComposerProps {
  placeholder: string
  canSend: boolean
  send: (text: string) => void
  /** Called when the user tries to send although `canSend` is false. */
  refuse: () => void
  stop: (() => void) | null
  isStopping: boolean
  children?: ComponentChildren
}

export function ComposerBox({ placeholder, canSend, send, refuse, stop, isStopping, children }: ComposerProps) {
  const box = useRef<HTMLTextAreaElement>(null)
  const ime = useRef(new ImeComposer()).current

  useLayoutEffect(() => {
    const one = box.current
    if (!one) return
    one.style.height = 'auto'
    one.style.height = `${Math.min(one.scrollHeight, 220)}px`
  }, [draft.value])

  useEffect(() => {
    // On a touch screen, focus would open the keyboard.
    if (matchMedia('(pointer: fine)').matches || composerFocusRequests.value > 0) box.current?.focus()
  }, [composerFocusRequests.value])

  const submit = () => {
    // After a composition the box may already contain a syllable that the signal does not have yet.
    const text = (box.current?.value ?? draft.value).trim()
    if (text === '') return
    if (!canSend) {
      refuse()
      return
    }
    draft.value = ''
    if (box.current) box.current.value = ''
    send(text)
  }

  return (
    <form class="composer" onSubmit={(event) => { event.preventDefault(); submit() }}>
      <textarea
        ref={box}
        rows={1}
        value={draft.value}
        placeholder={placeholder}
        aria-label={placeholder}
        enterkeyhint="send"
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => { draft.value = event.currentTarget.value }}
        onCompositionStart={() => ime.start()}
        onCompositionUpdate={(event) => ime.update(event.data)}
        onCompositionEnd={(event) => { if (ime.end(event.data, event.timeStamp)) setTimeout(submit) }}
        onBlur={() => ime.blur()}
        onKeyDown={(event) => {
          const decision = ime.keydown(event, event.timeStamp)
          if (decision !== 'leave') event.preventDefault()
          if (decision === 'send') setTimeout(submit)
        }}
      />
      <div class="composer-row">
        <div class="composer-tools">{children}</div>
        {/* Separate keys: if one element changed from stop to send during a click, the click would also send. */}
        {stop && (
          <button key="stop" type="button" class="round stop" onClick={stop} disabled={isStopping} aria-label={t(isStopping ? 'stopping' : 'stop')} title={t(isStopping ? 'stopping' : 'stop')}>
            <Icon name="stop" />
          </button>
        )}
        {/* While a run works, a question can be put in line. */}
        {(!stop || draft.value.trim() !== '') && (
          <button key="send" type="submit" class="round send" aria-disabled={!canSend} disabled={draft.value.trim() === ''}
            aria-label={t(stop ? 'send_queued' : 'send')} title={t(stop ? 'send_queued' : 'send')}>
            <Icon name="send" />
          </button>
        )}
      </div>
    </form>
  )
}

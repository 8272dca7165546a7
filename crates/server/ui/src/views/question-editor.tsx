// Edits a question in its place. Sending it starts a branch.

import { useEffect, useRef, useState } from 'preact/hooks'

import { t } from '../i18n'
import { ImeComposer } from '../ime'

export function QuestionEditor({ text, send, cancel }: { text: string; send: (text: string) => void; cancel: () => void }) {
  const [value, setValue] = useState(text)
  const box = useRef<HTMLTextAreaElement>(null)
  const ime = useRef(new ImeComposer()).current
  useEffect(() => {
    box.current?.focus()
    box.current?.setSelectionRange(text.length, text.length)
  }, [])
  const submit = () => {
    const written = (box.current?.value ?? value).trim()
    if (written !== '') send(written)
  }
  return (
    <form class="question-editor" onSubmit={(event) => { event.preventDefault(); submit() }}>
      <textarea ref={box} rows={Math.min(10, Math.max(2, value.split('\n').length))} value={value} aria-label={t('edit')} spellcheck={false}
        onInput={(event) => setValue(event.currentTarget.value)}
        onCompositionStart={() => ime.start()}
        onCompositionUpdate={(event) => ime.update(event.data)}
        onCompositionEnd={(event) => { if (ime.end(event.data, event.timeStamp)) setTimeout(submit) }}
        onBlur={() => ime.blur()}
        onKeyDown={(event) => {
          if (event.key === 'Escape' && !event.isComposing) {
            event.stopPropagation()
            cancel()
            return
          }
          const decision = ime.keydown(event, event.timeStamp)
          if (decision !== 'leave') event.preventDefault()
          if (decision === 'send') setTimeout(submit)
        }} />
      <p class="dim">{t('edit_about')}</p>
      <div class="row">
        <button type="submit" class="primary" disabled={value.trim() === ''}>{t('send')}</button>
        <button type="button" onClick={cancel}>{t('cancel')}</button>
      </div>
    </form>
  )
}

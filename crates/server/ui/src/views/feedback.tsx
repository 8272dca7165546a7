// Thumbs up and down for an answer, with a reason.

import { useState } from 'preact/hooks'

import * as api from '../api'
import type { FeedbackRating } from '../api-types'
import { conversation, setFeedback } from '../conversation'
import { t } from '../i18n'
import { Icon } from './icons'
import { problemText } from './problem-card'

export function Feedback({ run }: { run: string }) {
  const { thread, feedback } = conversation.value
  const given = feedback.get(run)
  const [isNoting, setNoting] = useState(false)
  const [note, setNote] = useState('')
  const [error, setError] = useState<unknown>(null)
  if (thread === null) return null
  const store = async (rating: FeedbackRating | null, text: string) => {
    try {
      await api.putFeedback(thread, run, rating, text)
      setFeedback(run, rating === null ? null : { rating, note: text })
      setError(null)
    } catch (failed) {
      setError(failed)
    }
  }
  // A second click shows the rating with its reason, to be changed or removed. It never deletes what somebody wrote.
  const rate = (rating: FeedbackRating) => {
    const isGiven = given?.rating === rating
    setNoting(!isGiven || !isNoting)
    setNote(given?.note ?? '')
    if (!isGiven) void store(rating, given?.note ?? '')
  }
  const thumb = (rating: FeedbackRating, label: string) => (
    <button type="button" class={given?.rating === rating ? 'ghost small is-on' : 'ghost small'} aria-pressed={given?.rating === rating}
      onClick={() => rate(rating)} aria-label={label} title={given?.rating === rating && given.note !== '' ? given.note : label}>
      <Icon name={rating === 'up' ? 'thumb_up' : 'thumb_down'} size={15} />
    </button>
  )
  return (
    <>
      {thumb('up', t('feedback_up'))}
      {thumb('down', t('feedback_down'))}
      {isNoting && given && (
        <form class="feedback-note" onSubmit={(event) => { event.preventDefault(); setNoting(false); void store(given.rating, note.trim()) }}>
          <input type="text" value={note} maxLength={2000} placeholder={t('feedback_note')} aria-label={t('feedback_note')} onInput={(event) => setNote(event.currentTarget.value)} />
          <button type="submit" class="small">{t('save')}</button>
          <button type="button" class="link" onClick={() => { setNoting(false); void store(null, '') }}>{t('feedback_remove')}</button>
          <button type="button" class="ghost small" onClick={() => setNoting(false)} aria-label={t('close')} title={t('close')}><Icon name="close" size={13} /></button>
        </form>
      )}
      {error !== null && <span class="bad" role="alert">{problemText(error).title}</span>}
    </>
  )
}

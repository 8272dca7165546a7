// A run that waits for a person. What is approved is exactly what is shown.

import { useState } from 'preact/hooks'

import { clean } from '../clean'
import { answer, stop, type Turn } from '../conversation'
import { isObject } from '../fold'
import { said, t } from '../i18n'
import type { Json, Question } from '../types'
import { Labelled, pretty } from './activity'
import { Icon } from './icons'

export function Questions({ turn, questions }: { turn: Turn; questions: Question[] }) {
  const [answers, setAnswers] = useState<Record<string, Json>>({})
  const [isSending, setSending] = useState(false)
  const give = async (id: string, value: Json) => {
    const all = { ...answers, [id]: value }
    setAnswers(all)
    // All are answered together: a run that goes on with half of them would only ask again.
    if (questions.every((question) => question.id in all)) {
      setSending(true)
      await answer(turn, all)
      setSending(false)
      setAnswers({})
    }
  }
  return (
    <div class="questions">
      {questions.map((question) => (
        <Ask key={question.id} question={question} isDone={question.id in answers} isSending={isSending}
          give={(value) => void give(question.id, value)} />
      ))}
      <button type="button" class="ghost small" disabled={isSending} onClick={() => void stop(turn)}>{t('stop_instead')}</button>
    </div>
  )
}

interface AskProps {
  question: Question
  isDone: boolean
  isSending: boolean
  give: (value: Json) => void
}

function Ask({ question, isDone, isSending, give }: AskProps) {
  const [text, setText] = useState('')
  const asked = isObject(question.question) ? question.question : { en: pretty(question.question) }
  const words = said({ ko: textOf(asked.ko), en: textOf(asked.en) })
  const isOff = isDone || isSending
  if (asked.type === 'approve_tool') {
    return (
      <section class="card approval" aria-label={t('approval')}>
        <header>
          <Icon name="shield" />
          <strong>{t('approve_tool', { name: clean(String(asked.name ?? '')) })}</strong>
        </header>
        <p class="dim">{t(asked.why === 'injection' ? 'why_injection' : 'why_policy')}</p>
        {question.problem && <p class="bad">{clean(question.problem)}</p>}
        <Labelled label={t('exact_arguments')} text={pretty(asked.arguments ?? null)} />
        {longWords(asked.arguments).map(([name, words]) => <Labelled key={name} label={t('to_read', { name })} text={words} />)}
        <label class="field">
          <span>{t('note_optional')}</span>
          <input type="text" value={text} maxLength={500} disabled={isOff} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <div class="row">
          <button type="button" class="primary" disabled={isOff} onClick={() => give(judged(true, text))}>
            <Icon name="check" size={16} />{t('approve')}
          </button>
          <button type="button" disabled={isOff} onClick={() => give(judged(false, text))}>
            <Icon name="close" size={16} />{t('deny')}
          </button>
        </div>
      </section>
    )
  }
  if (question.kind === 'effect_unknown') {
    return (
      <section class="card approval" aria-label={t('question')}>
        <header>
          <Icon name="shield" />
          <strong>{t('unknown_outcome', { name: clean(String(asked.name ?? asked.call ?? '')) })}</strong>
        </header>
        <p class="dim">{t('why_unknown')}</p>
        {question.problem && <p class="bad">{clean(question.problem)}</p>}
        {asked.arguments !== undefined && <Labelled label={t('exact_arguments')} text={pretty(asked.arguments)} />}
        <label class="field">
          <span>{t('what_it_gave')}</span>
          <input type="text" value={text} maxLength={4000} disabled={isOff} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <div class="row">
          <button type="button" class="primary" disabled={isOff} onClick={() => give({ result: text.trim() === '' ? null : text.trim() })}>
            <Icon name="check" size={16} />{t('it_happened')}
          </button>
          <button type="button" disabled={isOff} onClick={() => give({ retry: true })}>
            <Icon name="retry" size={16} />{t('it_did_not')}
          </button>
        </div>
      </section>
    )
  }
  return (
    <form class="card approval" aria-label={t('question')} onSubmit={(event) => { event.preventDefault(); give(text) }}>
      <p>{clean(words || pretty(question.question))}</p>
      {question.problem && <p class="bad">{clean(question.problem)}</p>}
      <label class="field">
        <span>{t('your_answer')}</span>
        <input type="text" value={text} disabled={isOff} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <div class="row"><button type="submit" class="primary" disabled={isOff || text.trim() === ''}>{t('send')}</button></div>
    </form>
  )
}

function judged(approve: boolean, note: string): Json {
  return note.trim() === '' ? { approve } : { approve, note: note.trim() }
}

/** Arguments that are easier to judge with their line breaks. */
function longWords(value: Json | undefined): [string, string][] {
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([name, one]): [string, string][] => (typeof one === 'string' && one.includes('\n') ? [[name, one]] : []))
}

function textOf(value: Json | undefined): string | null {
  return typeof value === 'string' ? value : null
}

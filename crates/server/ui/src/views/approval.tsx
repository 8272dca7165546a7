// The questions of a paused run: approvals of tool calls and others. The arguments shown are exactly those that run.

import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'

import { sanitizeText } from '../sanitize-text'
import { answerQuestions, cancelTurn, conversation, type Turn } from '../conversation'
import { isJsonObject } from '../transcript'
import { localized, t } from '../i18n'
import { parseJsonObject } from '../json-search'
import type { Json, QuestionInfo } from '../api-types'
import { LabelledText, formatJson } from './activity'
import { Icon } from './icons'
import { PausedStateEditor, type PausedPlace } from './paused-state-editor'

export function Questions({ turn, questions }: { turn: Turn; questions: QuestionInfo[] }) {
  const place = { thread: conversation.value.thread ?? '', agent: turn.run.value?.agent || turn.agent }
  return (
    <QuestionForms questions={questions} place={place} send={(answers) => answerQuestions(turn, answers)}>
      <button type="button" class="ghost small" onClick={() => void cancelTurn(turn)}>{t('stop_instead')}</button>
    </QuestionForms>
  )
}

interface QuestionFormsProps {
  questions: QuestionInfo[]
  place: PausedPlace
  send: (answers: Record<string, Json>) => Promise<void>
  children?: ComponentChildren
}

/** The forms for the questions of one run. */
export function QuestionForms({ questions, place, send, children }: QuestionFormsProps) {
  const [answers, setAnswers] = useState<Record<string, Json>>({})
  const [isSending, setSending] = useState(false)
  const give = async (id: string, value: Json) => {
    const all = { ...answers, [id]: value }
    setAnswers(all)
    // All questions are answered together: with only some answers the run would pause again.
    if (questions.every((question) => question.id in all)) {
      setSending(true)
      await send(all)
      setSending(false)
      setAnswers({})
    }
  }
  return (
    <div class="questions">
      {questions.map((question) => (
        <QuestionForm key={question.id} question={question} place={place} isDone={question.id in answers} isSending={isSending}
          give={(value) => void give(question.id, value)} />
      ))}
      {children}
    </div>
  )
}

interface QuestionFormProps {
  question: QuestionInfo
  place: PausedPlace
  isDone: boolean
  isSending: boolean
  give: (value: Json) => void
}

function QuestionForm({ question, place, isDone, isSending, give }: QuestionFormProps) {
  const [text, setText] = useState('')
  const content: { [key: string]: Json } = isJsonObject(question.question) ? question.question : { en: formatJson(question.question) }
  const words = localized({ ko: stringOrNull(content.ko), en: stringOrNull(content.en) })
  const isOff = isDone || isSending
  const [edited, setEdited] = useState<string | null>(null)
  const given = edited === null ? null : parseJsonObject(edited)
  const changed: { [key: string]: Json } = given && JSON.stringify(given) !== JSON.stringify(content.arguments) ? { arguments: given } : {}
  if (content.type === 'approve_tool') {
    return (
      <section class="card approval" aria-label={t('approval')}>
        <header>
          <Icon name="shield" />
          <strong>{t('approve_tool', { name: sanitizeText(String(content.name ?? '')) })}</strong>
        </header>
        <p class="dim">{t(content.why === 'injection' ? 'why_injection' : 'why_policy')}</p>
        {question.problem && <p class="bad">{sanitizeText(question.problem)}</p>}
        {edited === null ? (
          <>
            <LabelledText label={t('exact_arguments')} text={formatJson(content.arguments ?? null)} />
            {longArguments(content.arguments).map(([name, words]) => <LabelledText key={name} label={t('to_read', { name })} text={words} />)}
            <button type="button" class="link" disabled={isOff} onClick={() => setEdited(formatJson(content.arguments ?? {}))}>{t('edit_arguments')}</button>
          </>
        ) : (
          <label class="field">
            <span>{t('arguments_run')}</span>
            <textarea class="mono" rows={Math.min(14, edited.split('\n').length + 1)} value={edited} disabled={isOff} spellcheck={false}
              onInput={(event) => setEdited(event.currentTarget.value)} />
            {given === undefined && <span class="bad" role="alert">{t('not_json_object')}</span>}
            <button type="button" class="link" disabled={isOff} onClick={() => setEdited(null)}>{t('discard_edit')}</button>
          </label>
        )}
        <label class="field">
          <span>{t('note_optional')}</span>
          <input type="text" value={text} maxLength={500} disabled={isOff} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <div class="row">
          <button type="button" class="primary" disabled={isOff || given === undefined} onClick={() => give(approvalAnswer({ approve: true, ...changed }, text))}>
            <Icon name="check" size={16} />{t('approve_once')}
          </button>
          {content.why === 'policy' && (
            <button type="button" disabled={isOff || given === undefined} onClick={() => give(approvalAnswer({ approve: true, always: true, ...changed }, text))}>
              <Icon name="check" size={16} />{t('approve_always')}
            </button>
          )}
          <button type="button" class="deny" disabled={isOff} onClick={() => give(approvalAnswer({ approve: false }, text))}>
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
          <strong>{t('unknown_outcome', { name: sanitizeText(String(content.name ?? content.call ?? '')) })}</strong>
        </header>
        <p class="dim">{t('why_unknown')}</p>
        {question.problem && <p class="bad">{sanitizeText(question.problem)}</p>}
        {content.arguments !== undefined && <LabelledText label={t('exact_arguments')} text={formatJson(content.arguments)} />}
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
  if (question.kind === 'breakpoint') {
    return (
      <section class="card approval" aria-label={t('breakpoint')}>
        <header><Icon name="pause" /><strong>{t(content.pause === 'after' ? 'paused_after' : 'paused_before', { node: sanitizeText(question.node) })}</strong></header>
        <p class="dim">{t('paused_about')}</p>
        <PausedStateEditor place={place} isDisabled={isOff} resume={() => give(true)} />
      </section>
    )
  }
  return (
    <form class="card approval" aria-label={t('question')} onSubmit={(event) => { event.preventDefault(); give(text) }}>
      <p>{sanitizeText(words || formatJson(question.question))}</p>
      {question.problem && <p class="bad">{sanitizeText(question.problem)}</p>}
      <label class="field">
        <span>{t('your_answer')}</span>
        <input type="text" value={text} disabled={isOff} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <div class="row"><button type="submit" class="primary" disabled={isOff || text.trim() === ''}>{t('send')}</button></div>
    </form>
  )
}

function approvalAnswer(answer: { [key: string]: Json }, note: string): Json {
  return note.trim() === '' ? answer : { ...answer, note: note.trim() }
}

/** Text arguments with line breaks. They are shown a second time with the line breaks rendered. */
function longArguments(value: Json | undefined): [string, string][] {
  if (!isJsonObject(value)) return []
  return Object.entries(value).flatMap(([name, one]): [string, string][] => (typeof one === 'string' && one.includes('\n') ? [[name, one]] : []))
}

function stringOrNull(value: Json | undefined): string | null {
  return typeof value === 'string' ? value : null
}

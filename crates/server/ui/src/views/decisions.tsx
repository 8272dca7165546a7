// The decisions of people in a turn: what was asked, what was answered, and when. They stay after the run went on.

import { sanitizeText } from '../sanitize-text'
import { isJsonObject } from '../transcript'
import { formatDateTime, localized, t } from '../i18n'
import type { DecisionInfo, Json } from '../api-types'
import { LabelledText, formatJson } from './activity'
import { Icon } from './icons'

export function Decisions({ decisions, hasEnded }: { decisions: DecisionInfo[]; hasEnded: boolean }) {
  const shown = decisions.filter((one) => one.answered !== null || hasEnded)
  if (shown.length === 0) return null
  return (
    <ol class="decisions" aria-label={t('decisions')}>
      {shown.map((one) => <li key={`${one.id}.${one.asked}`}><DecisionRow decision={one} /></li>)}
    </ol>
  )
}

function DecisionRow({ decision }: { decision: DecisionInfo }) {
  const question: { [key: string]: Json } = isJsonObject(decision.question) ? decision.question : {}
  const answer: { [key: string]: Json } = isJsonObject(decision.answer) ? decision.answer : {}
  const isTool = question.type === 'approve_tool'
  const isDenied = decision.answered === null || (isTool && answer.approve !== true)
  const edited = isTool && answer.arguments !== undefined ? answer.arguments : null
  const note = typeof answer.note === 'string' ? answer.note : null
  return (
    <details class={isDenied ? 'decision is-denied' : 'decision'}>
      <summary>
        <Icon name={isDenied ? 'close' : 'check'} size={15} />
        <span class="grow">{decisionTitle(decision, question)} <strong>{decisionText(decision, question, answer)}</strong></span>
        {edited !== null && <span class="tag warm">{t('arguments_edited')}</span>}
        <time dateTime={new Date(decision.answered ?? decision.asked).toISOString()}>{formatDateTime(decision.answered ?? decision.asked)}</time>
      </summary>
      <p class="dim">{t('asked_at', { time: formatDateTime(decision.asked) })}</p>
      {note !== null && <LabelledText label={t('note')} text={note} />}
      {edited !== null && <LabelledText label={t('arguments_run')} text={formatJson(edited)} />}
      {question.arguments !== undefined && <LabelledText label={t(edited === null ? 'arguments' : 'arguments_proposed')} text={formatJson(question.arguments)} />}
      {!isTool && decision.answered !== null && <LabelledText label={t('your_answer')} text={formatJson(decision.answer ?? null)} />}
    </details>
  )
}

function decisionTitle(decision: DecisionInfo, question: { [key: string]: Json }): string {
  if (decision.kind === 'breakpoint') return t('breakpoint')
  if (typeof question.name === 'string') return sanitizeText(question.name)
  const words = localized({ ko: typeof question.ko === 'string' ? question.ko : null, en: typeof question.en === 'string' ? question.en : null })
  return sanitizeText(words || formatJson(decision.question)).slice(0, 200)
}

function decisionText(decision: DecisionInfo, question: { [key: string]: Json }, answer: { [key: string]: Json }): string {
  if (decision.answered === null) return t('decision_none')
  if (decision.kind === 'breakpoint') return t('decision_continued')
  if (question.type === 'approve_tool') {
    if (answer.approve !== true) return t('decision_denied')
    return t(answer.always === true ? 'decision_always' : 'decision_approved')
  }
  if (decision.kind === 'effect_unknown') return t('retry' in answer ? 'it_did_not' : 'it_happened')
  return sanitizeText(typeof decision.answer === 'string' ? decision.answer : formatJson(decision.answer ?? null)).slice(0, 200)
}

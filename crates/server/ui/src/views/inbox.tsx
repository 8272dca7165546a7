// Everything that waits for a person, over all threads.

import { useEffect, useState } from 'preact/hooks'

import * as api from '../api'
import { formatDateTime, t } from '../i18n'
import { inboxError, loadInbox, waitingQuestions } from '../inbox'
import { threads } from '../agents-and-threads'
import { navigate } from '../route'
import type { Json, WaitingQuestion } from '../api-types'
import { agentName } from './agent-picker'
import { QuestionForms } from './approval'
import { Icon } from './icons'
import { ProblemCard } from './problem-card'
import { threadTitle } from './sidebar'

export function Inbox() {
  useEffect(() => { void loadInbox() }, [])
  const [isElsewhere, setElsewhere] = useState(false)
  const groups = groupByRun(waitingQuestions.value)
  return (
    <div class="inbox scroller" tabIndex={-1}>
      <div class="column">
        <h1>{t('inbox')}</h1>
        <p class="dim">{t('inbox_about')}</p>
        {inboxError.value !== null && <ProblemCard error={inboxError.value}><button type="button" onClick={() => void loadInbox()}>{t('try_again')}</button></ProblemCard>}
        {isElsewhere && <p class="note" role="status"><Icon name="check" size={15} />{t('answered_elsewhere')}</p>}
        {groups.length === 0 && inboxError.value === null && <p class="dim" role="status">{t('inbox_empty')}</p>}
        {groups.map((questions) => <WaitingRun key={questions[0]?.run ?? ''} questions={questions} answered={setElsewhere} />)}
      </div>
    </div>
  )
}

interface WaitingRunProps {
  questions: WaitingQuestion[]
  /** Called after an answer, with whether another client was faster. */
  answered: (isElsewhere: boolean) => void
}

function WaitingRun({ questions, answered }: WaitingRunProps) {
  const [error, setError] = useState<unknown>(null)
  const first = questions[0]
  if (!first) return null
  const thread = threads.value.find((one) => one.id === first.thread)
  const send = async (answers: Record<string, Json>) => {
    setError(null)
    try {
      await api.resumeRun(first.thread, first.run, answers)
      answered(false)
    } catch (failed) {
      if (api.isConflict(failed)) answered(true)
      else setError(failed)
    }
    await loadInbox()
  }
  return (
    <section class="waiting-run" aria-label={thread ? threadTitle(thread) : t('untitled')}>
      <header>
        <strong class="grow">{thread ? threadTitle(thread) : t('untitled')}</strong>
        <span class="dim">{agentName(first.agent)}{first.since !== null && <> · {t('waiting_since', { time: formatDateTime(first.since) })}</>}</span>
        <button type="button" class="link" onClick={() => navigate({ view: 'chat', thread: first.thread })}>{t('open_thread')}</button>
      </header>
      <QuestionForms questions={questions} place={first} send={send} />
      {error !== null && <ProblemCard error={error} />}
    </section>
  )
}

function groupByRun(questions: WaitingQuestion[]): WaitingQuestion[][] {
  const runs = new Map<string, WaitingQuestion[]>()
  for (const one of questions) runs.set(one.run, [...(runs.get(one.run) ?? []), one])
  return [...runs.values()]
}

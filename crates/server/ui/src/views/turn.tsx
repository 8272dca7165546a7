// One turn: the question, the activity of the agent, the answer and its sources.

import { useEffect, useMemo, useRef } from 'preact/hooks'

import { announce } from '../announce'
import { sanitizeText } from '../sanitize-text'
import { conversation, retryTurn, watchTurn, type Turn } from '../conversation'
import { buildTranscript, type ModelCall, type RunView } from '../transcript'
import { formatCost, formatNumber, localized, t } from '../i18n'
import { selectedAgent, isExtractive, modelOfAgent } from '../agents-and-threads'
import { activityDetail, inspectorOpen } from '../settings'
import { citedNumbers, renumberCitations } from '../quotes-and-citations'
import { Activity } from './activity'
import { agentName } from './agent-picker'
import { Questions } from './approval'
import { ModelBadge } from './model-badge'
import { CopyButton } from './copy-button'
import { Icon } from './icons'
import { inspectedTurn, inspectTurn } from './inspected-turn'
import { Markdown } from './markdown'
import { ProblemCard } from './problem-card'
import { showSource, Sources } from './sources'

interface TurnViewProps {
  turn: Turn
  isLast: boolean
  retry: (turn: Turn) => void
  edit: (turn: Turn) => void
}

/** Longer questions are collapsed. */
const LONG_QUESTION_CHARS = 4000

export function TurnView({ turn, isLast, retry, edit }: TurnViewProps) {
  const run = turn.run.value
  const { known } = conversation.value
  const id = turn.id.value
  const earlier = useMemo(() => new Set([...known].flatMap(([name, of]) => (of === id ? [] : [name]))), [known, id])
  const transcript = useMemo(() => (run ? buildTranscript(run, earlier) : null), [run, earlier])
  const storedAnswer = turn.storedAnswer.value
  const isLive = run ? run.status === 'running' || run.status === 'waiting' : storedAnswer === null && turn.connection.value.state !== 'done'
  // A question that has not reached the server shows no progress.
  const isUnsent = id === null && turn.connection.value.state === 'lost'
  const text = storedAnswer && (run === null || run.status === 'finished') ? storedAnswer.text : (transcript?.text ?? storedAnswer?.text ?? '')
  const sources = useMemo(
    () => (storedAnswer && storedAnswer.sources.length > 0 ? storedAnswer.sources : (transcript?.sources ?? [])),
    [storedAnswer, JSON.stringify(transcript?.sources ?? null)],
  )
  const order = citedNumbers(text, sources.map((source) => source.number))
  const cited = useMemo(
    () => order.flatMap((n, at) => sources.filter((source) => source.number === n).slice(0, 1).map((source) => ({ ...source, shown: at + 1 }))),
    [order.join(), sources],
  )
  const used = transcript?.models.at(-1)
  const who = run?.agent || turn.agent || selectedAgent.value
  const model = used ?? modelOfAgent(who)
  useAnnounceEnd(run, cited.length)

  const load = () => {
    if (!turn.run.peek() && turn.id.peek() !== null) watchTurn(turn)
  }
  const isInspected = inspectorOpen.value && inspectedTurn.value === turn
  return (
    <article class={isLast ? 'turn is-last' : 'turn'} aria-label={t('turn')}>
      {turn.question !== '' && (
        <div class="asked">
          <div class="bubble">
            <span class="away">{t('you')}: </span>
            {turn.question.length > LONG_QUESTION_CHARS ? (
              <details><summary>{sanitizeText(turn.question.slice(0, 200))}…</summary>{sanitizeText(turn.question)}</details>
            ) : sanitizeText(turn.question)}
          </div>
          <button type="button" class="ghost small" onClick={() => edit(turn)} aria-label={t('edit')} title={t('edit')}>
            <Icon name="edit" size={15} />
          </button>
        </div>
      )}
      <div class="answer" data-run={turn.id.value ?? ''} data-status={run?.status ?? ''}>
        <header class="answer-head">
          <strong>{agentName(who)}</strong>
          {model && <ModelBadge model={{ ...(modelOfAgent(who) ?? {}), ...model }} />}
        </header>
        {!isUnsent && (isLive || activityDetail.value !== 'quiet') && (turn.id.value !== null || isLive) && (
          <Activity run={run} items={transcript?.items ?? []} isLive={isLive} load={load} />
        )}
        <ConnectionStatus turn={turn} />
        {text !== '' && <Markdown text={text} sources={cited} cite={showSource} />}
        {isLive && !isUnsent && text === '' && <div class="waiting" aria-hidden="true"><i /><i /><i /></div>}
        {run?.status === 'paused' && <Questions turn={turn} questions={run.questions} />}
        {run?.status === 'cancelled' && <p class="note"><Icon name="stop" size={15} />{t('was_stopped')}</p>}
        {run?.status === 'failed' && run.failure && <RunFailure run={run} turn={turn} />}
        {turn.error.value !== null && <ProblemCard error={turn.error.value} />}
        {!isLive && <Sources sources={cited} />}
        {!isLive && run?.status !== 'paused' && (
          <footer class="answer-foot">
            {text !== '' && <CopyButton text={renumberCitations(text, order)} label={t('copy_answer')} />}
            {turn.question !== '' && (
              <button type="button" class="ghost small" onClick={() => retry(turn)} aria-label={t('retry')} title={t('retry')}>
                <Icon name="retry" size={15} />
              </button>
            )}
            {turn.id.value !== null && (
              <button type="button" class={isInspected ? 'ghost small is-on' : 'ghost small'} aria-pressed={isInspected}
                onClick={() => { load(); inspectTurn(turn) }} aria-label={t('inspect')} title={t('inspect')}>
                <Icon name="graph" size={15} />
              </button>
            )}
            {transcript && transcript.models.length > 0 && <TokensAndCost models={transcript.models} />}
          </footer>
        )}
      </div>
    </article>
  )
}

/** Announces the end of a run to screen readers, not every word of it. */
function useAnnounceEnd(run: RunView | null, sources: number) {
  const before = useRef(run?.status)
  useEffect(() => {
    const was = before.current
    before.current = run?.status
    if (was !== 'running') return
    if (run?.status === 'finished') announce(sources > 0 ? t('answer_ready_sources', { n: sources }) : t('answer_ready'))
    else if (run?.status === 'paused') announce(t('approval_needed'))
    else if (run?.status === 'failed') announce(t('run_failed'))
    else if (run?.status === 'cancelled') announce(t('was_stopped'))
  }, [run?.status])
}

function ConnectionStatus({ turn }: { turn: Turn }) {
  const connection = turn.connection.value
  if (turn.stopping.value) return <p class="note is-live" role="status">{t('stopping')}</p>
  if (connection.state !== 'lost') return null
  return (
    <p class="note is-live" role="status">
      <Icon name="retry" size={15} />
      {turn.id.value === null
        ? t(connection.tries > 1 ? 'unsent_n' : 'unsent', { n: connection.tries })
        : t(connection.tries > 1 ? 'reconnecting_n' : 'reconnecting', { n: connection.tries })}
    </p>
  )
}

function RunFailure({ run, turn }: { run: RunView; turn: Turn }) {
  const { code, message, node, ...words } = run.failure ?? { code: '', message: '' }
  const explanation = localized(words)
  return (
    <div class="card problem" role="alert">
      <Icon name="warn" />
      <div class="grow">
        <strong>{t('run_failed')}</strong>
        {explanation !== '' && <p>{sanitizeText(explanation)}</p>}
        <p class="failure-message"><code>{sanitizeText(message)}</code></p>
        <p class="dim">{t('failed_code', { code: sanitizeText(code) })}{node && <> · {t('failed_node', { node: sanitizeText(node) })}</>}</p>
        <p class="dim">{t('failed_way_out')}</p>
        <div class="row"><button type="button" onClick={() => void retryTurn(turn)}>{t('go_on')}</button></div>
      </div>
    </div>
  )
}

export function TokensAndCost({ models }: { models: ModelCall[] }) {
  const tokens = models.reduce((sum, one) => sum + (one.input_tokens ?? 0) + (one.output_tokens ?? 0), 0)
  const isEstimate = models.some((one) => one.counted === 'estimated' || isExtractive(one))
  const costs = models.map((one) => (isExtractive(one) ? 0 : one.cost_micros))
  const known = costs.every((one) => one !== undefined && one !== null)
  const sum = known ? costs.reduce<number>((total, one) => total + (one ?? 0), 0) : null
  if (tokens === 0) return null
  return (
    <span class="spent" title={t('tokens_and_cost')}>
      {t(isEstimate ? 'tokens_estimated' : 'tokens', { n: formatNumber(tokens) })} · {sum === null ? t('cost_unknown') : formatCost(sum)}
    </span>
  )
}

// One turn: the question, the activity of the agent, the answer and its sources.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks'

import { announce } from '../announce'
import { sanitizeText } from '../sanitize-text'
import { cancelTurn, conversation, isBehindAnother, refusedTurn, retryTurn, sendAgain, watchTurn, type Turn } from '../conversation'
import { answerWithSources } from '../export-thread'
import { isServerReachable } from '../server-status'
import { buildTranscript, isModelFailure, modelOfFailedRun, modelOfWords, type ModelCall, type RunView } from '../transcript'
import { formatCost, formatNumber, localized, t } from '../i18n'
import { selectedAgent, findAgent, isChatAgent, isExtractive } from '../agents-and-threads'
import { modelList, modelOfChat } from '../models'
import { activityDetail, inspectorOpen } from '../settings'
import { citedNumbers, renumberCitations } from '../citation-marks'
import type { NumberedSource } from '../quotes-and-citations'
import { Activity } from './activity'
import { agentName } from './agent-picker'
import { Questions } from './approval'
import { ModelBadge, shortModelName } from './model-badge'
import { CopyButton } from './copy-button'
import { Decisions } from './decisions'
import { Feedback } from './feedback'
import { GraphResult } from './graph-result'
import { Icon } from './icons'
import { ImageList } from './image-list'
import { inspectedTurn, inspectTurn } from './inspected-turn'
import { Markdown } from './markdown'
import { ProblemCard } from './problem-card'
import { QuestionEditor } from './question-editor'
import { showSource, Sources } from './sources'
import { TurnVersions } from './turn-versions'

interface TurnViewProps {
  turn: Turn
  isLast: boolean
  /** Asks the question again, or another one in its place, on a branch. */
  askInstead: (turn: Turn, text: string) => void
}

/** The share of the context from which on it is shown. */
const MIN_SHOWN_CONTEXT = 0.05

/** Longer questions are collapsed. */
const LONG_QUESTION_CHARS = 4000

export function TurnView({ turn, isLast, askInstead }: TurnViewProps) {
  const [isEditing, setEditing] = useState(false)
  const run = turn.run.value
  const { known } = conversation.value
  const id = turn.id.value
  const earlier = useMemo(() => new Set([...known].flatMap(([name, of]) => (of === id ? [] : [name]))), [known, id])
  const transcript = useMemo(() => (run ? buildTranscript(run, earlier) : null), [run, earlier])
  const storedAnswer = turn.storedAnswer.value
  const connection = turn.connection.value.state
  // Nothing more comes of a run that cannot be followed.
  const isLive = connection !== 'refused' && (run ? run.status === 'running' || run.status === 'waiting' : storedAnswer === null && connection !== 'done')
  // A question behind another one waits for its turn.
  const isQueued = id !== null && isLive && (run === null || run.status === 'waiting') && isBehindAnother(turn)
  // A question that has not reached the server shows no progress.
  const isUnsent = id === null && connection === 'lost'
  const text = storedAnswer && (run === null || run.status === 'finished') ? storedAnswer.text : (transcript?.text ?? storedAnswer?.text ?? '')
  const sources = useMemo(
    () => (storedAnswer && storedAnswer.sources.length > 0 ? storedAnswer.sources : (transcript?.sources ?? [])),
    [storedAnswer, JSON.stringify(transcript?.sources ?? null)],
  )
  const order = citedNumbers(text, sources.map((source) => source.number), !isLive)
  const cited = useMemo(
    () => order.flatMap((n, at) => sources.filter((source) => source.number === n).slice(0, 1).map((source) => ({ ...source, shown: at + 1 }))),
    [order.join(), sources],
  )
  const who = run?.agent || turn.agent || selectedAgent.value
  const expected = modelOfChat(who, conversation.value.thread)
  const model = run && transcript ? modelOfWords(run, transcript, expected)
    : storedAnswer ? storedAnswer.model && { name: storedAnswer.model }
    : isLive ? expected : null
  useAnnounceEnd(run, cited.length)
  // Rendered blocks keep their handler, so it reads the newest text.
  const newestText = useRef(text)
  newestText.current = text
  const cite = (source: NumberedSource) => showSource({ ...source, answer: newestText.current })

  const load = () => {
    if (!turn.run.peek() && turn.id.peek() !== null) watchTurn(turn)
  }
  const isInspected = inspectorOpen.value && inspectedTurn.value === turn
  return (
    <article class={isLast ? 'turn is-last' : 'turn'} aria-label={t('turn')}>
      {turn.question !== '' && isEditing && (
        <QuestionEditor text={turn.question} cancel={() => setEditing(false)} send={(written) => { setEditing(false); askInstead(turn, written) }} />
      )}
      {turn.question !== '' && !isEditing && (
        <div class="asked">
          <div class="bubble">
            <span class="away">{t('you')}: </span>
            {turn.question.length > LONG_QUESTION_CHARS ? (
              <details><summary>{sanitizeText(turn.question.slice(0, 200))}…</summary>{sanitizeText(turn.question)}</details>
            ) : sanitizeText(turn.question)}
            <ImageList images={turn.images} />
          </div>
          <div class="asked-acts">
            <TurnVersions turn={turn} />
            {id !== null && !isQueued && (
              <button type="button" class="ghost small" onClick={() => setEditing(true)} aria-label={t('edit')} title={t('edit')}>
                <Icon name="edit" size={15} />
              </button>
            )}
          </div>
        </div>
      )}
      <div class="answer" data-run={turn.id.value ?? ''} data-status={run?.status ?? ''}>
        <header class="answer-head">
          <strong>{agentName(who)}</strong>
          {model && !isQueued && <ModelBadge model={{ ...(expected?.name === model.name ? expected : {}), ...model }} />}
        </header>
        {!isUnsent && !isQueued && (isLive || activityDetail.value !== 'quiet') && (turn.id.value !== null || isLive) && (
          <Activity run={run} items={transcript?.items ?? []} isLive={isLive} load={load} />
        )}
        <ConnectionStatus turn={turn} />
        {isQueued && (
          <p class="note is-live" role="status">
            <span class="grow">{t(turn.question === '' ? 'queued_elsewhere' : 'queued')}</span>
            <button type="button" class="link" onClick={() => void cancelTurn(turn)}>{t('cancel')}</button>
          </p>
        )}
        <Decisions decisions={run ? run.decisions : turn.storedDecisions.value} hasEnded={run?.status === 'cancelled'} />
        {text !== '' && <Markdown text={text} sources={cited} cite={cite} />}
        {!isChatAgent(who) && run?.status === 'finished' && <GraphResult run={run} />}
        {isLive && !isUnsent && !isQueued && text === '' && <div class="waiting" aria-hidden="true"><i /><i /><i /></div>}
        {run?.status === 'paused' && <Questions turn={turn} questions={run.questions} />}
        {run?.status === 'cancelled' && <p class="note"><Icon name="stop" size={15} />{t('was_stopped')}</p>}
        {run?.status === 'failed' && run.failure && (
          <RunFailure run={run} turn={turn} chosen={expected?.name ?? null} used={transcript ? modelOfFailedRun(transcript.models) : null} answerAnew={() => askInstead(turn, turn.question)} />
        )}
        {turn.notice.value !== null && <p class="note" role="status"><Icon name="check" size={15} />{t(turn.notice.value)}</p>}
        {turn.error.value !== null && (
          <ProblemCard error={turn.error.value}>
            {refusedTurn.value === turn && <button type="button" onClick={() => sendAgain(turn)}>{t('send_again')}</button>}
          </ProblemCard>
        )}
        {!isLive && <Sources sources={cited} show={cite} />}
        {!isLive && run?.status !== 'paused' && refusedTurn.value !== turn && (
          <footer class="answer-foot">
            {text !== '' && <CopyButton text={() => answerWithSources(renumberCitations(text, order), cited, t('sources'))} label={t('copy_answer')} />}
            {turn.question !== '' && (
              <button type="button" class="ghost small" onClick={() => askInstead(turn, turn.question)} aria-label={t('retry')} title={t('retry')}>
                <Icon name="retry" size={15} />
              </button>
            )}
            {turn.id.value !== null && (
              <button type="button" class={isInspected ? 'ghost small is-on' : 'ghost small'} aria-pressed={isInspected}
                onClick={() => { load(); inspectTurn(turn) }} aria-label={t('inspect')} title={t('inspect')}>
                <Icon name="graph" size={15} />
              </button>
            )}
            {id !== null && text !== '' && <Feedback run={id} />}
            {isLast && transcript && <ContextMeter models={transcript.models} agent={who} />}
            {transcript && <TokensAndCost models={transcript.models} hasUnknownUsage={transcript.hasUnknownUsage} />}
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
        : `${t(connection.tries > 1 ? 'reconnecting_n' : 'reconnecting', { n: connection.tries })} ${t(isServerReachable.value ? 'goes_on_there' : 'goes_on_later')}`}
    </p>
  )
}

interface RunFailureProps {
  run: RunView
  turn: Turn
  /** The model that the chat has now. */
  chosen: string | null
  /** The model that the run goes on with. */
  used: string | null
  answerAnew: () => void
}

function RunFailure({ run, turn, chosen, used, answerAnew }: RunFailureProps) {
  const { code, message, node, ...words } = run.failure ?? { code: '', message: '' }
  const explanation = localized(words)
  // A model that a chat cannot choose does a small task for an agent, whatever model the chat has.
  const isOtherModel = used !== null && chosen !== null && used !== chosen && modelList.value?.options.some((one) => one.model.name === used) === true
  return (
    <div class="card problem" role="alert">
      <Icon name="warn" />
      <div class="grow">
        <strong>{t('run_failed')}</strong>
        {explanation !== '' && <p>{sanitizeText(explanation)}</p>}
        {isModelFailure(code) && <p class="dim">{t('failed_way_out')}</p>}
        {isOtherModel && <p class="dim">{t('retry_keeps_model', { used: shortModelName(used), chosen: shortModelName(chosen) })}</p>}
        <div class="row">
          <button type="button" onClick={() => void retryTurn(turn)}>{t('go_on')}</button>
          {isOtherModel && turn.question !== '' && <button type="button" onClick={answerAnew}>{t('retry')}</button>}
        </div>
        <details class="failure-details" open={explanation === ''}>
          <summary>{t('details')}</summary>
          <p class="failure-message"><code>{sanitizeText(message)}</code></p>
          <p class="dim">{t('failed_code', { code: sanitizeText(code) })}{node && <> · {t('failed_node', { node: sanitizeText(node) })}</>}</p>
        </details>
      </div>
    </div>
  )
}

/** How much of the context the last answer took. */
function ContextMeter({ models, agent }: { models: ModelCall[]; agent: string }) {
  const all = findAgent(agent)?.context_tokens ?? 0
  const used = models.findLast((one) => one.purpose === 'answer')?.input_tokens ?? models.at(-1)?.input_tokens ?? 0
  // A bar that looks empty says nothing.
  if (all === 0 || used < all * MIN_SHOWN_CONTEXT) return null
  const label = t('context_meter', { used: formatNumber(used), all: formatNumber(all) })
  return <meter class="context-meter" min={0} max={all} high={all * 0.8} value={Math.min(used, all)} aria-label={label} title={`${label}. ${t('context_about')}`} />
}

function TokensAndCost({ models, hasUnknownUsage }: { models: ModelCall[]; hasUnknownUsage: boolean }) {
  const tokens = models.reduce((sum, one) => sum + (one.input_tokens ?? 0) + (one.output_tokens ?? 0), 0)
  const isEstimate = models.some((one) => one.counted === 'estimated' || isExtractive(one))
  const costs = models.map((one) => (isExtractive(one) ? 0 : one.cost_micros))
  const known = costs.every((one) => one !== undefined && one !== null)
  const sum = known ? costs.reduce<number>((total, one) => total + (one ?? 0), 0) : null
  if (hasUnknownUsage) return <span class="spent" title={t('tokens_and_cost')}>{t('tokens_unknown')}</span>
  if (tokens === 0) return null
  return (
    <span class="spent" title={t('tokens_and_cost')}>
      {t(isEstimate ? 'tokens_estimated' : 'tokens', { n: formatNumber(tokens) })} · {sum === null ? t('cost_unknown') : formatCost(sum)}
    </span>
  )
}

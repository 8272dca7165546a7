// The chat view: the turns of the open thread and the composer.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

import { announce } from '../announce'
import { ApiProblem } from '../api'
import { askAgent, busyTurn, conversation, withdrawQuestion, openConversation, closeConversation, refreshConversation, cancelTurn, type Turn } from '../conversation'
import { t } from '../i18n'
import { selectedAgent, agents, agentsError, chooseAgent, loadAgents, loadThreads, threads } from '../agents-and-threads'
import { navigate } from '../route'
import { AgentPicker, Welcome } from './agent-picker'
import { ComposerBox, draft, composerFocusRequests, moveDraft, openDraft } from './composer'
import { Icon } from './icons'
import { inspectNewestTurn } from './inspected-turn'
import { ProblemCard, problemText } from './problem-card'
import { newConversation } from './sidebar'
import { TurnView } from './turn'

/** Number of turns rendered at first. A button shows earlier ones. */
const TURNS_SHOWN = 30

export function Chat({ thread }: { thread: string | null }) {
  useEffect(() => {
    if (thread === null) closeConversation()
    else void openConversation(thread)
  }, [thread])

  useLayoutEffect(() => openDraft(thread), [thread])

  useEffect(() => {
    // Another tab may have added a turn.
    const look = () => {
      if (!document.hidden) void refreshConversation()
    }
    addEventListener('focus', look)
    document.addEventListener('visibilitychange', look)
    return () => {
      removeEventListener('focus', look)
      document.removeEventListener('visibilitychange', look)
    }
  }, [])

  const { turns, state, error } = conversation.value
  const [shown, setShown] = useState(TURNS_SHOWN)
  useEffect(() => setShown(TURNS_SHOWN), [thread])
  const scroller = useRef<HTMLDivElement>(null)
  const end = useStickToEnd(scroller, thread)
  const [isFirst, setFirst] = useState(false)

  const current = threads.value.find((one) => one.id === thread)
  useEffect(() => {
    if (current?.agent) chooseAgent(current.agent)
  }, [current?.agent])

  const busy = busyTurn()
  const send = async (text: string) => {
    if (busyTurn() || isFirst) return
    setFirst(conversation.value.thread === null)
    end.stick()
    inspectNewestTurn()
    const failed = await askAgent(selectedAgent.value, text, (id) => {
      moveDraft(id)
      navigate({ view: 'chat', thread: id })
      void loadThreads()
    })
    setFirst(false)
    if (failed !== null) {
      draft.value = text
      announce(problemText(failed).title)
      setProblem(failed)
    } else setProblem(null)
  }
  const [problem, setProblem] = useState<unknown>(null)
  useEffect(() => setProblem(null), [thread])

  const retry = (turn: Turn) => void send(turn.question)
  const edit = (turn: Turn) => {
    draft.value = turn.question
    composerFocusRequests.value += 1
  }
  const from = Math.max(0, turns.length - shown)
  return (
    <div class="chat">
      <div class="scroller" ref={scroller} onScroll={end.scrolled}>
        {state === 'ready' && turns.length === 0 && !isFirst && (
          agentsError.value !== null && agents.value.length === 0 ? (
            <div class="column"><ProblemCard error={agentsError.value}>
              <button type="button" onClick={() => void loadAgents()}>{t('try_again')}</button>
            </ProblemCard></div>
          ) : <Welcome ask={(text) => void send(text)} />
        )}
        {state === 'loading' && <div class="column"><p class="dim pad" role="status">{t('loading')}</p></div>}
        {state === 'failed' && (
          <div class="column">
            {error instanceof ApiProblem && error.status === 404 ? (
              <div class="card gone" role="alert">
                <strong>{t('no_such_thread')}</strong>
                <p class="dim">{t('no_such_thread_more')}</p>
                <div class="row"><button type="button" class="primary" onClick={newConversation}>{t('new_conversation')}</button></div>
              </div>
            ) : (
              <ProblemCard error={error}>
                <button type="button" onClick={() => thread !== null && void openConversation(thread)}>{t('try_again')}</button>
              </ProblemCard>
            )}
          </div>
        )}
        <div class="column turns" role="log" aria-live="off" aria-label={t('conversation')} tabIndex={-1}>
          {from > 0 && <button type="button" class="more" onClick={() => setShown(shown + TURNS_SHOWN)}>{t('earlier_turns', { n: from })}</button>}
          {turns.slice(from).map((turn, at) => (
            <TurnView key={turn.key} turn={turn} isLast={from + at === turns.length - 1} retry={retry} edit={edit} />
          ))}
        </div>
      </div>
      <div class="dock">
        {!end.isAtEnd && turns.length > 0 && (
          <button type="button" class="to-end" onClick={end.stick} aria-label={t('to_end')} title={t('to_end')}><Icon name="down" size={16} /></button>
        )}
        {problem !== null && <ProblemCard error={problem} />}
        <ComposerBox
          canSend={busy === null && !isFirst && selectedAgent.value !== '' && turns.at(-1)?.run.value?.status !== 'paused'}
          send={(text) => void send(text)}
          stop={busy === null ? null : busy.id.value !== null ? () => void cancelTurn(busy) : () => { draft.value = withdrawQuestion(busy) }}
          isStopping={busy?.stopping.value ?? false}
        >
          <AgentPicker isDisabled={busy !== null} />
          <span class="hint">{t('enter_hint')}</span>
        </ComposerBox>
      </div>
    </div>
  )
}

/** Keeps the end in view while an answer streams, unless the user has scrolled up. */
function useStickToEnd(scroller: { current: HTMLDivElement | null }, thread: string | null) {
  const isStuck = useRef(true)
  const [isAtEnd, setAtEnd] = useState(true)
  useEffect(() => {
    isStuck.current = true
  }, [thread])
  useLayoutEffect(() => {
    const one = scroller.current
    if (!one) return
    const content = one.lastElementChild
    const follow = () => {
      if (isStuck.current) one.scrollTop = one.scrollHeight
    }
    const watching = new ResizeObserver(follow)
    if (content) watching.observe(content)
    watching.observe(one)
    return () => watching.disconnect()
  }, [])
  return {
    isAtEnd,
    scrolled: () => {
      const one = scroller.current
      if (!one) return
      const atEnd = one.scrollHeight - one.scrollTop - one.clientHeight < 60
      isStuck.current = atEnd
      setAtEnd(atEnd)
    },
    stick: () => {
      isStuck.current = true
      const one = scroller.current
      if (one) one.scrollTop = one.scrollHeight
    },
  }
}

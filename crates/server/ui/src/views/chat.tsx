// The chat view: the turns of the open thread and the composer.

import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

import { announce } from '../announce'
import * as api from '../api'
import { ApiProblem } from '../api'
import { attachFiles, openAttachments } from '../attachments'
import { askAgent, askInsteadOf, busyTurn, conversation, isSending, pausedTurn, refusedTurn, takeBackQuestion, withdrawQuestion, openConversation, closeConversation, refreshConversation, cancelTurn, type Turn } from '../conversation'
import { t } from '../i18n'
import { addDraftImages, draftImages } from '../images'
import { selectedAgent, agents, agentsError, chooseAgent, isChatAgent, isExtractive, leaveHiddenAgent, loadAgents, loadThreads, threads } from '../agents-and-threads'
import { parseJsonObject } from '../json-search'
import { DEFAULT_CHAT_SETTINGS, modelOfChat, newChatSettings, settingsForNewThread } from '../models'
import { navigate } from '../route'
import { sanitizeLine } from '../sanitize-text'
import { lookForChanges } from '../watch-thread'
import { AgentPicker, Welcome } from './agent-picker'
import { AttachButton, AttachmentList } from './attachments'
import { ChatSettingsDialog, ModelPicker } from './chat-settings'
import { ComposerBox, draft, moveDraft, openDraft } from './composer'
import { Icon } from './icons'
import { DraftImages } from './image-list'
import { inspectNewestTurn } from './inspected-turn'
import { ProblemCard, problemText } from './problem-card'
import { newConversation } from './sidebar'
import { TurnView } from './turn'

/** Time between two looks whether the open conversation was changed elsewhere. */
const CHANGES_POLL_MS = 4000

/** Number of turns rendered at first. A button shows earlier ones. */
const TURNS_SHOWN = 30

export function Chat({ thread }: { thread: string | null }) {
  useEffect(() => {
    if (thread === null) closeConversation()
    else void openConversation(thread)
  }, [thread])

  useLayoutEffect(() => openDraft(thread), [thread])

  useEffect(() => {
    // Another tab may have added a turn, answered a question or deleted the conversation. A run that is followed tells itself.
    const look = () => {
      if (!document.hidden && busyTurn.peek() === null) void lookForChanges()
    }
    addEventListener('focus', look)
    document.addEventListener('visibilitychange', look)
    const timer = setInterval(look, CHANGES_POLL_MS)
    return () => {
      removeEventListener('focus', look)
      document.removeEventListener('visibilitychange', look)
      clearInterval(timer)
    }
  }, [])

  // Why the server refused the question that came back into the input box.
  const [refusal, setRefusal] = useState<{ thread: string | null; error: unknown } | null>(null)
  const seenKey = useRef(api.apiKeyChanges.value)
  useEffect(() => {
    if (seenKey.current === api.apiKeyChanges.value) return
    seenKey.current = api.apiKeyChanges.value
    setRefusal(null)
    if (thread !== null && conversation.value.state === 'failed') void openConversation(thread)
    else void refreshConversation()
  }, [api.apiKeyChanges.value])

  const { turns, state, error } = conversation.value
  const [shown, setShown] = useState(TURNS_SHOWN)
  useEffect(() => setShown(TURNS_SHOWN), [thread])
  const scroller = useRef<HTMLDivElement>(null)
  const end = useStickToEnd(scroller, thread, turns.length > 0)
  const newestEnd = useRef(end)
  newestEnd.current = end
  const [isFirst, setFirst] = useState(false)

  const current = threads.value.find((one) => one.id === thread)
  useEffect(() => {
    if (current?.agent) chooseAgent(current.agent)
  }, [current?.agent])
  useEffect(() => { if (thread === null) leaveHiddenAgent() }, [thread, agents.value])

  const busy = busyTurn.value
  const paused = pausedTurn.value
  const send = async (text: string) => {
    if (isSending.value || isFirst) return
    const isInput = !isChatAgent(selectedAgent.value)
    if (isInput && parseJsonObject(text) === undefined) {
      draft.value = text
      setProblem(new Error(t('not_json_object')))
      return
    }
    const images = draftImages.value
    const settings = newChatSettings.value
    draftImages.value = []
    setFirst(conversation.value.thread === null)
    end.stick()
    inspectNewestTurn()
    const failed = await askAgent(selectedAgent.value, text, isInput, settingsForNewThread(settings), images, (id) => {
      newChatSettings.value = DEFAULT_CHAT_SETTINGS
      moveDraft(id)
      navigate({ view: 'chat', thread: id })
      void loadThreads()
    })
    setFirst(false)
    if (failed !== null) {
      draft.value = text
      draftImages.value = images
      announce(problemText(failed).title)
      setProblem(failed)
    } else setProblem(null)
  }
  const [problem, setProblem] = useState<unknown>(null)
  useEffect(() => setProblem(null), [thread])

  // What the server refuses comes back into the input box, unless something else is being written there.
  const refused = refusedTurn.value
  useEffect(() => {
    if (refused === null || draft.peek() !== '') return
    const isDeleted = conversation.value.state === 'deleted'
    const { text, images, error, settings } = takeBackQuestion(refused)
    if (settings !== null) {
      newChatSettings.value = { ...DEFAULT_CHAT_SETTINGS, ...settings }
      moveDraft(null)
      closeConversation()
      navigate({ view: 'chat', thread: null }, 'replace')
    }
    draft.value = text
    draftImages.value = images
    announce(problemText(error).title)
    setRefusal(isDeleted ? null : { thread: settings === null ? thread : null, error })
  }, [refused])
  useEffect(() => { if (isSending.value) setRefusal(null) }, [isSending.value])

  const attach = async (files: File[]) => {
    if (files.length === 0) return
    const images = files.filter((file) => file.type.startsWith('image/'))
    const readable = files.filter((file) => !images.includes(file))
    const model = modelOfChat(current?.agent ?? selectedAgent.value, thread)
    const canSee = model !== null && !isExtractive(model)
    setRefusedImages(canSee ? [] : images.map((file) => file.name || t('pasted_file')))
    if (canSee && images.length > 0) await addDraftImages(images).catch(() => setProblem(new Error(t('image_broken'))))
    if (readable.length === 0) return
    try {
      let target = thread
      if (target === null) {
        target = (await api.createThread(selectedAgent.value, settingsForNewThread(newChatSettings.value))).id
        newChatSettings.value = DEFAULT_CHAT_SETTINGS
        moveDraft(target)
        await openAttachments(target)
        navigate({ view: 'chat', thread: target })
        void loadThreads()
      }
      attachFiles(target, readable, t('pasted_file'))
    } catch (failed) {
      setProblem(failed)
    }
  }
  const [refusedImages, setRefusedImages] = useState<string[]>([])
  useEffect(() => setRefusedImages([]), [thread])
  useEffect(() => () => { draftImages.value = [] }, [thread])
  useEffect(() => {
    const take = (files: FileList | undefined, event: Event) => {
      if (event.defaultPrevented || !files || files.length === 0) return
      event.preventDefault()
      void attach(Array.from(files))
    }
    const drop = (event: DragEvent) => take(event.dataTransfer?.files, event)
    const paste = (event: ClipboardEvent) => take(event.clipboardData?.files, event)
    addEventListener('drop', drop)
    addEventListener('paste', paste)
    return () => {
      removeEventListener('drop', drop)
      removeEventListener('paste', paste)
    }
  })

  // The same function always: a turn whose properties stay the same is not rendered again.
  const askInstead = useCallback((turn: Turn, text: string) => {
    newestEnd.current.stick()
    inspectNewestTurn()
    void askInsteadOf(turn, turn.agent || selectedAgent.value, text).then(setProblem)
  }, [])
  // Why a question cannot be sent now. Shown when the user tries to.
  const [isBlocked, setBlocked] = useState(false)
  useEffect(() => setBlocked(false), [thread, paused])
  const from = Math.max(0, turns.length - shown)
  return (
    <div class="chat">
      <div class="scroller" ref={scroller} onScroll={end.scrolled}>
        {state === 'ready' && turns.length === 0 && !isFirst && (
          agentsError.value !== null && agents.value.length === 0 ? (
            <div class="column"><ProblemCard error={agentsError.value}>
              <button type="button" onClick={() => void loadAgents()}>{t('try_again')}</button>
            </ProblemCard></div>
          ) : <Welcome thread={thread} ask={(text) => void send(text)} />
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
            <TurnView key={turn.key} turn={turn} isLast={from + at === turns.length - 1} askInstead={askInstead} />
          ))}
        </div>
      </div>
      <div class="dock">
        {!end.isAtEnd && turns.length > 0 && (
          <button type="button" class="to-end" onClick={end.stick} aria-label={t('to_end')} title={t('to_end')}><Icon name="down" size={16} /></button>
        )}
        {problem !== null && <ProblemCard error={problem} />}
        {refusal !== null && refusal.thread === thread && <ProblemCard error={refusal.error} />}
        {state === 'deleted' && (
          <p class="note blocked" role="alert">
            <Icon name="warn" size={15} />
            <span class="grow">{t('thread_deleted')}</span>
            <button type="button" class="link" onClick={() => { if (draft.value !== '') moveDraft(null); newConversation() }}>{t('new_conversation')}</button>
          </p>
        )}
        {refusedImages.length > 0 && <p class="note bad" role="alert"><Icon name="warn" size={15} />{t('image_refused', { names: refusedImages.map(sanitizeLine).join(', ') })}</p>}
        <AttachmentList thread={thread} />
        <DraftImages />
        {isBlocked && paused && (
          <p class="note blocked" role="alert">
            <Icon name="shield" size={15} />
            <span class="grow">{t('blocked_by_question')}</span>
            <button type="button" class="link" onClick={() => showQuestion(scroller.current)}>{t('show_question')}</button>
          </p>
        )}
        <ComposerBox
          placeholder={t(isChatAgent(selectedAgent.value) ? 'ask_here' : 'input_here')}
          canSend={!isSending.value && !isFirst && selectedAgent.value !== '' && paused === null && state !== 'deleted'}
          send={(text) => void send(text)}
          refuse={() => { if (paused) setBlocked(true) }}
          stop={busy === null ? null : busy.id.value !== null ? () => void cancelTurn(busy) : () => { draft.value = withdrawQuestion(busy) }}
          isStopping={busy?.stopping.value ?? false}
        >
          <AttachButton attach={(files) => void attach(files)} />
          <AgentPicker isDisabled={busy !== null} />
          <ModelPicker thread={thread} />
          <span class="hint">{t(busy === null || paused ? 'enter_hint' : 'enter_hint_queue')}</span>
        </ComposerBox>
      </div>
      <ChatSettingsDialog thread={thread} />
    </div>
  )
}

function showQuestion(scroller: HTMLElement | null): void {
  const question = scroller?.querySelector<HTMLElement>('.questions')
  question?.scrollIntoView({ block: 'center' })
  question?.querySelector<HTMLElement>('button, input, textarea')?.focus()
}

/** Keeps the end in view while an answer streams, unless the user has scrolled up. The start screen is shown from its top. */
function useStickToEnd(scroller: { current: HTMLDivElement | null }, thread: string | null, hasTurns: boolean) {
  const isStuck = useRef(true)
  const isConversation = useRef(hasTurns)
  isConversation.current = hasTurns
  const [isAtEnd, setAtEnd] = useState(true)
  useEffect(() => {
    isStuck.current = true
  }, [thread])
  useLayoutEffect(() => {
    const one = scroller.current
    if (!one) return
    const content = one.lastElementChild
    const follow = () => {
      if (isStuck.current && isConversation.current) one.scrollTop = one.scrollHeight
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

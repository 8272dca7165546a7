// The list of threads: search, open, rename, delete.

import { useEffect, useRef, useState } from 'preact/hooks'

import * as api from '../api'
import { sanitizeLine } from '../sanitize-text'
import { conversation, closeConversation } from '../conversation'
import { t, type MessageKey } from '../i18n'
import { ImeComposer } from '../ime'
import { announce } from '../announce'
import { deleteLater, deletionError, pendingDeletions, undoDeletion } from '../deleted-threads'
import { isSearchingThreads, loadPinnedThreads, loadThreads, pinnedThreads, threadQuery, threads, threadsError, nextThreadsCursor } from '../agents-and-threads'
import { navigate, currentRoute } from '../route'
import type { ThreadInfo } from '../api-types'
import { agentName } from './agent-picker'
import { composerFocusRequests } from './composer'
import { Icon } from './icons'
import { problemText } from './problem-card'

export function newConversation(): void {
  closeConversation()
  navigate({ view: 'chat', thread: null })
  composerFocusRequests.value += 1
}

/** The title of a thread. A thread without a title shows its first question. */
export function threadTitle(thread: ThreadInfo): string {
  const { thread: open, turns } = conversation.value
  const firstQuestion = thread.id === open ? (turns[0]?.question ?? '').trim().split('\n')[0] : ''
  return sanitizeLine(thread.title) || sanitizeLine(firstQuestion ?? '') || t('untitled')
}

export function Sidebar({ leave }: { leave: () => void }) {
  useEffect(() => {
    const timer = setTimeout(() => void loadThreads(), threadQuery.value === '' ? 0 : 200)
    return () => clearTimeout(timer)
  }, [threadQuery.value])
  const open = currentRoute.value.view === 'chat' ? currentRoute.value.thread : null
  return (
    <div class="threads">
      <button type="button" class="new" onClick={() => { newConversation(); leave() }}>
        <Icon name="plus" size={16} /><span>{t('new_conversation')}</span><kbd>Ctrl K</kbd>
      </button>
      <label class="search">
        <Icon name="search" size={15} />
        <span class="away">{t('search_threads')}</span>
        <input type="search" value={threadQuery.value} placeholder={t('search_threads')} onInput={(event) => { threadQuery.value = event.currentTarget.value }} />
      </label>
      {threadsError.value !== null && (
        <p class="note bad" role="alert">{problemText(threadsError.value).title} <button type="button" class="link" onClick={() => void loadThreads()}>{t('try_again')}</button></p>
      )}
      <nav aria-label={t('threads')} class="thread-list">
        {threadGroups().map(([day, list]) => (
          <section key={day}>
            <h2>{t(day)}</h2>
            <ul>
              {list.map((thread) => <ThreadRow key={thread.id} thread={thread} isOpen={thread.id === open} leave={leave} />)}
            </ul>
          </section>
        ))}
        {threads.value.length === 0 && threadsError.value === null && (
          <p class="dim pad">{t(isSearchingThreads.value ? 'looking_on' : threadQuery.value === '' ? 'no_threads' : 'nothing_found')}</p>
        )}
        {nextThreadsCursor.value !== null && !isSearchingThreads.value && <button type="button" class="more" onClick={() => void loadThreads(true)}>{t('more')}</button>}
      </nav>
      <DeletedThreads />
    </div>
  )
}

/** What was deleted a moment ago, with a button to undo it. */
function DeletedThreads() {
  const failed = deletionError.value
  useEffect(() => {
    if (pendingDeletions.value.length === 0) {
      void loadThreads()
      void loadPinnedThreads()
    }
  }, [pendingDeletions.value.length === 0])
  return (
    <div class="deleted" role="status">
      {pendingDeletions.value.map(({ thread, title }) => (
        <p key={thread} class="note"><span class="grow">{t('deleted_n', { title })}</span><button type="button" class="link" onClick={() => undoDeletion(thread)}>{t('undo')}</button></p>
      ))}
      {failed !== null && <p class="note bad">{problemText(failed).title}</p>}
    </div>
  )
}

/** Pinned threads first, without those that are being deleted. A search shows what it found. */
function threadGroups(): [MessageKey, ThreadInfo[]][] {
  const deleted = new Set(pendingDeletions.value.map((one) => one.thread))
  const isShown = (one: ThreadInfo) => !deleted.has(one.id)
  const pinned = threadQuery.value === '' ? pinnedThreads.value.filter(isShown) : []
  const others = threads.value.filter((one) => isShown(one) && !pinned.some((same) => same.id === one.id))
  return [...(pinned.length > 0 ? [['pinned', pinned] as [MessageKey, ThreadInfo[]]] : []), ...groupByDate(others)]
}

function groupByDate(list: ThreadInfo[]): [MessageKey, ThreadInfo[]][] {
  const today = new Date().setHours(0, 0, 0, 0)
  const groups = new Map<MessageKey, ThreadInfo[]>()
  for (const thread of list) {
    const at = thread.updated
    const day: MessageKey = at >= today ? 'today' : at >= today - 86_400_000 ? 'yesterday' : at >= today - 6 * 86_400_000 ? 'this_week' : 'earlier'
    groups.set(day, [...(groups.get(day) ?? []), thread])
  }
  return [...groups]
}

function ThreadRow({ thread, isOpen, leave }: { thread: ThreadInfo; isOpen: boolean; leave: () => void }) {
  const [isRenaming, setRenaming] = useState(false)
  const title = threadTitle(thread)
  const remove = () => {
    deleteLater(thread.id, title)
    announce(t('deleted_n', { title }))
    if (conversation.value.thread === thread.id) newConversation()
  }
  const pin = async () => {
    try {
      await api.updateThread(thread.id, { pinned: !thread.pinned })
      await Promise.all([loadThreads(), loadPinnedThreads()])
    } catch (error) {
      threadsError.value = error
    }
  }
  const rename = async (next: string) => {
    setRenaming(false)
    if (next === '' || next === title) return
    try {
      await api.renameThread(thread.id, next)
      await loadThreads()
    } catch (error) {
      threadsError.value = error
    }
  }
  if (isRenaming) return <li class="thread is-renaming"><RenameForm title={title} done={(next) => void rename(next)} /></li>
  return (
    <li class={isOpen ? 'thread is-open' : 'thread'}>
      <a href={`/t/${encodeURIComponent(thread.id)}`} aria-current={isOpen ? 'page' : undefined}
        onClick={(event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return
          event.preventDefault()
          navigate({ view: 'chat', thread: thread.id })
          leave()
        }}>
        <span class="thread-title">{title}</span>
        {thread.active && <span class="thread-active" title={t('thread_active')}><span class="away">{t('thread_active')}</span></span>}
        {thread.agent && <span class="thread-agent">{agentName(thread.agent)}</span>}
      </a>
      <span class="thread-tools">
        <button type="button" class={thread.pinned ? 'ghost small is-on' : 'ghost small'} aria-pressed={thread.pinned} onClick={() => void pin()}
          aria-label={t(thread.pinned ? 'unpin_n' : 'pin_n', { title })} title={t(thread.pinned ? 'unpin' : 'pin')}><Icon name="pin" size={14} /></button>
        <button type="button" class="ghost small" onClick={() => setRenaming(true)} aria-label={t('rename_n', { title })} title={t('rename')}><Icon name="edit" size={14} /></button>
        <button type="button" class="ghost small" onClick={remove} aria-label={t('delete_n', { title })} title={t('delete')}><Icon name="trash" size={14} /></button>
      </span>
    </li>
  )
}

function RenameForm({ title, done }: { title: string; done: (next: string) => void }) {
  const box = useRef<HTMLInputElement>(null)
  const ime = useRef(new ImeComposer()).current
  const isOver = useRef(false)
  useEffect(() => box.current?.select(), [])
  const finish = (next: string) => {
    if (isOver.current) return
    isOver.current = true
    done(next)
  }
  const submit = () => finish(box.current?.value.trim() ?? '')
  return (
    <input ref={box} type="text" defaultValue={title} maxLength={200} aria-label={t('new_title')}
      onCompositionStart={() => ime.start()}
      onCompositionUpdate={(event) => ime.update(event.data)}
      onCompositionEnd={(event) => { if (ime.end(event.data, event.timeStamp)) setTimeout(submit) }}
      onBlur={submit}
      onKeyDown={(event) => {
        if (event.key === 'Escape' && !event.isComposing) finish('')
        const decision = ime.keydown(event, event.timeStamp)
        if (decision !== 'leave') event.preventDefault()
        if (decision === 'send') setTimeout(submit)
      }} />
  )
}

// The layout of the page and its keyboard shortcuts.

import { useEffect, useRef, useState } from 'preact/hooks'

import { announcement } from './announce'
import { conversation } from './conversation'
import { language, setLanguage, t } from './i18n'
import { selectedAgent, threads } from './agents-and-threads'
import { modelOfChat } from './models'
import { navigate, currentRoute, inspectorLinkFromQuery } from './route'
import { isServerReachable } from './server-status'
import { inspectorOpen, isInspectorFull } from './settings'
import { waitingQuestions } from './inbox'
import { agentName } from './views/agent-picker'
import { ModelBadge } from './views/model-badge'
import { Chat } from './views/chat'
import { composerFocusRequests } from './views/composer'
import { ConfirmDialog } from './views/confirm'
import { ConnectDialog } from './views/connect-model'
import { uploadFiles } from './views/documents'
import { DocumentsAndMemory } from './views/documents-and-memory'
import { Evals } from './views/evals'
import { ExportMenu } from './views/export-menu'
import { Icon, Logo } from './views/icons'
import { Inbox } from './views/inbox'
import { Inspector } from './views/inspector'
import { ApiKeyDialog, Settings, settingsOpen } from './views/settings'
import { PanelResizer } from './views/panel-resizer'
import { Runs } from './views/runs'
import { SaveCaseDialog } from './views/save-case'
import { Usage } from './views/usage'
import { newConversation, Sidebar, threadTitle } from './views/sidebar'
import { closeSource, openSource, SourcePanel } from './views/sources'

/** Screens on which a panel covers the chat, as the style sheet says. */
const PANEL_COVERS = '(max-width: 820px)'

export function App() {
  const [isDrawerOpen, setDrawer] = useState(false)
  const here = currentRoute.value
  const thread = here.view === 'chat' ? here.thread : null
  const current = threads.value.find((one) => one.id === thread)
  const model = modelOfChat(current?.agent ?? selectedAgent.value, thread)

  useEffect(() => {
    document.documentElement.lang = language.value
    const what = here.view !== 'chat' ? t(here.view) : current ? threadTitle(current) : null
    document.title = what ? `${what} · ${t('name')}` : t('name')
  }, [language.value, here, current])

  // A source belongs to its chat. On a narrow screen the panels cover the chat, so none stays open over another one.
  const placeBefore = useRef({ thread, view: here.view })
  useEffect(() => {
    const before = placeBefore.current
    placeBefore.current = { thread, view: here.view }
    const isOtherThread = before.thread !== thread
    const isNarrow = matchMedia(PANEL_COVERS).matches
    if ((isOtherThread && before.thread !== null) || (isNarrow && (isOtherThread || before.view !== here.view))) closeSource()
    if (isOtherThread && isNarrow && inspectorLinkFromQuery(location.search) === null) inspectorOpen.value = false
  }, [thread, here.view])

  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.isComposing || document.querySelector('dialog[open]')) return
      const isField = event.target instanceof HTMLElement && event.target.closest('input, textarea, select')
      const key = event.key.toLowerCase()
      const mod = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey
      if (mod && key === 'k') newConversation()
      else if (mod && key === 'i') toggleInspector()
      else if (mod && key === 'b') setDrawer((open) => !open)
      else if (event.key === '/' && !isField && !event.ctrlKey && !event.metaKey) composerFocusRequests.value += 1
      else if (event.key === 'Escape') {
        if (openSource.value) closeSource()
        else if (isDrawerOpen) setDrawer(false)
        else return
      } else return
      event.preventDefault()
    }
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  }, [isDrawerOpen])

  useEffect(() => {
    // A file dropped anywhere is uploaded. By default the browser would navigate to it.
    const over = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes('Files')) return
      event.preventDefault()
      event.dataTransfer.dropEffect = 'copy'
    }
    const drop = (event: DragEvent) => {
      const files = Array.from(event.dataTransfer?.files ?? [])
      // In a chat the files are attached to it.
      if (event.defaultPrevented || files.length === 0 || currentRoute.peek().view === 'chat') return
      event.preventDefault()
      uploadFiles(files)
      navigate({ view: 'documents' })
    }
    addEventListener('dragover', over)
    addEventListener('drop', drop)
    return () => {
      removeEventListener('dragover', over)
      removeEventListener('drop', drop)
    }
  }, [])

  const panel = openSource.value ? 'source' : inspectorOpen.value && here.view === 'chat' ? 'inspector' : null
  const isFull = panel === 'inspector' && isInspectorFull.value
  const shell = ['shell', isDrawerOpen ? 'has-drawer' : '', panel ? 'has-panel' : '', isFull ? 'is-full' : ''].join(' ')
  return (
    <div class={shell}>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); composerFocusRequests.value += 1 }}>{t('skip')}</a>
      <aside class="sidebar" aria-label={t('threads')}>
        <div class="brand"><Logo /><span class="brand-name">{t('name')}</span></div>
        <Sidebar leave={() => setDrawer(false)} />
        <nav class="places" aria-label={t('places')}>
          <NavigationLink icon="file" label={t('documents')} isOn={here.view === 'documents' || here.view === 'memory'} act={() => { navigate({ view: 'documents' }); setDrawer(false) }} href="/documents" />
          <NavigationLink icon="shield" label={t('inbox')} count={waitingQuestions.value.length} isOn={here.view === 'inbox'} act={() => { navigate({ view: 'inbox' }); setDrawer(false) }} href="/inbox" />
          <NavigationLink icon="list" label={t('runs')} isOn={here.view === 'runs'} act={() => { navigate({ view: 'runs' }); setDrawer(false) }} href="/runs" />
          <NavigationLink icon="check" label={t('evals')} isOn={here.view === 'evals'} act={() => { navigate({ view: 'evals', set: null }); setDrawer(false) }} href="/evals" />
          <NavigationLink icon="chart" label={t('usage')} isOn={here.view === 'usage'} act={() => { navigate({ view: 'usage' }); setDrawer(false) }} href="/usage" />
          <button type="button" class="place" onClick={() => { settingsOpen.value = true; setDrawer(false) }}><Icon name="gear" /><span>{t('settings')}</span></button>
          <div class="tongues" role="group" aria-label={t('language')}>
            <button type="button" lang="ko" aria-pressed={language.value === 'ko'} onClick={() => setLanguage('ko')}>한국어</button>
            <button type="button" lang="en" aria-pressed={language.value === 'en'} onClick={() => setLanguage('en')}>English</button>
          </div>
        </nav>
      </aside>
      <button type="button" class="veil" tabIndex={-1} aria-label={t('close')} onClick={() => setDrawer(false)} />
      <main id="main">
        <header class="top">
          <button type="button" class="ghost only-narrow" aria-label={t('threads')} aria-expanded={isDrawerOpen} onClick={() => setDrawer(!isDrawerOpen)}><Icon name="menu" /></button>
          <div class="top-title">
            {here.view !== 'chat' ? (
              <a class="back" href="/" onClick={(event) => { event.preventDefault(); navigate({ view: 'chat', thread: conversation.value.thread }) }}>
                <Icon name="chat" size={16} />{t('back_to_chat')}
              </a>
            ) : (
              <strong>{current ? threadTitle(current) : agentName(selectedAgent.value)}</strong>
            )}
          </div>
          {model && <ModelBadge model={model} />}
          {here.view === 'chat' && current && <ExportMenu thread={current} />}
          {here.view === 'chat' && (
            <button type="button" class={panel === 'inspector' ? 'ghost is-on' : 'ghost'} aria-pressed={panel === 'inspector'} onClick={toggleInspector}
              aria-label={t('inspector')} title={`${t('inspector')} (Ctrl I)`}><Icon name="graph" /></button>
          )}
        </header>
        {!isServerReachable.value && <p class="note bad unreachable" role="alert"><Icon name="warn" size={15} />{t('unreachable')}</p>}
        {here.view === 'documents' || here.view === 'memory' ? <DocumentsAndMemory view={here.view} /> : here.view === 'inbox' ? <Inbox /> : here.view === 'runs' ? <Runs /> : here.view === 'usage' ? <Usage /> : here.view === 'evals' ? <Evals set={here.set} /> : <Chat thread={here.thread} />}
      </main>
      {panel && <div class="side">{!isFull && <PanelResizer />}{panel === 'source' ? <SourcePanel /> : <Inspector />}</div>}
      <Settings />
      <ConnectDialog />
      <ApiKeyDialog />
      <SaveCaseDialog />
      <ConfirmDialog />
      <div class="away" role="status" aria-live="polite">{announcement.value}</div>
    </div>
  )
}

function toggleInspector() {
  if (openSource.value) {
    closeSource()
    inspectorOpen.value = true
  } else inspectorOpen.value = !inspectorOpen.value
}

function NavigationLink({ icon, label, count = 0, isOn, act, href }: { icon: 'file' | 'shield' | 'list' | 'chart' | 'check'; label: string; count?: number; isOn: boolean; act: () => void; href: string }) {
  return (
    <a class={isOn ? 'place is-on' : 'place'} href={href} aria-current={isOn ? 'page' : undefined}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return
        event.preventDefault()
        act()
      }}>
      <Icon name={icon} /><span class="grow">{label}</span>
      {count > 0 && <span class="count" aria-label={t('inbox_n', { n: count })}>{count}</span>}
    </a>
  )
}

// The choice of an agent, and the welcome view with suggested questions.

import { useEffect } from 'preact/hooks'

import { sanitizeText, sanitizeLine } from '../sanitize-text'
import { language, localized, t, type MessageKey } from '../i18n'
import { selectedAgent, findAgent, menuAgents, chooseAgent } from '../agents-and-threads'
import { answerableStarters, documents, loadDocuments } from '../documents'
import { modelOfChat } from '../models'
import { ConnectCard } from './connect-model'
import { ModelBadge } from './model-badge'
import { Icon, Logo, type IconName } from './icons'

const AGENT_LABELS: Record<string, MessageKey> = {
  assistant: 'agent_assistant',
  contract: 'agent_contract',
  react: 'agent_react',
  docqa: 'agent_docqa',
}

const AGENT_ICONS: Record<string, IconName> = { assistant: 'chat', contract: 'quote', react: 'tool', docqa: 'file' }

export function agentName(id: string): string {
  const key = AGENT_LABELS[id]
  return key ? t(key) : sanitizeText(id || t('agent'))
}

export function AgentPicker({ isDisabled }: { isDisabled: boolean }) {
  return (
    <label class="picker">
      <span class="away">{t('agent')}</span>
      <select value={selectedAgent.value} disabled={isDisabled} onChange={(event) => chooseAgent(event.currentTarget.value)}>
        {menuAgents.value.map((one) => <option key={one.id} value={one.id}>{agentName(one.id)}</option>)}
      </select>
    </label>
  )
}

export function Welcome({ thread, ask }: { thread: string | null; ask: (text: string) => void }) {
  const chosen = findAgent(selectedAgent.value)
  const model = modelOfChat(selectedAgent.value, thread)
  const starters = answerableStarters(chosen?.starters?.[language.value] ?? [], documents.value)
  const own = starters.length === 0 ? (documents.value ?? []).filter((one) => one.status === 'ready') : []
  useEffect(() => void loadDocuments(), [])
  return (
    <div class="welcome">
      <div class="welcome-head">
        <Logo />
        <h1>{t('welcome')}</h1>
        <p class="dim">{t('welcome_more')}</p>
      </div>
      <ConnectCard />
      <div class="agents" role="radiogroup" aria-label={t('agent')}>
        {menuAgents.value.map((one) => (
          <button key={one.id} type="button" role="radio" aria-checked={one.id === selectedAgent.value}
            class={one.id === selectedAgent.value ? 'agent is-on' : 'agent'} onClick={() => chooseAgent(one.id)}
            tabIndex={one.id === selectedAgent.value ? 0 : -1}
            onKeyDown={(event) => moveSelection(event)}>
            <span class="agent-icon"><Icon name={AGENT_ICONS[one.id] ?? 'spark'} /></span>
            <span class="agent-name">{agentName(one.id)}</span>
            <span class="agent-about">{sanitizeText(localized(one))}</span>
          </button>
        ))}
      </div>
      {starters.length > 0 && (
        <div class="starters">
          <h2>{t('try_asking')}</h2>
          <ul>
            {starters.map((text) => (
              <li key={text}>
                <button type="button" onClick={() => ask(text)}><span>{sanitizeText(text)}</span><Icon name="arrow" size={15} /></button>
              </li>
            ))}
          </ul>
        </div>
      )}
      {own.length > 0 && (
        <p class="dim welcome-own">
          {t('ask_about_own', { n: own.length, names: own.slice(0, 3).map((one) => sanitizeLine(one.title || one.name)).join(' · ') + (own.length > 3 ? ' …' : '') })}
        </p>
      )}
      {model && <p class="welcome-model"><ModelBadge model={model} isLong /></p>}
    </div>
  )
}

/** Moves the selection in the radio group with the arrow keys. */
function moveSelection(event: KeyboardEvent) {
  const by = event.key === 'ArrowRight' || event.key === 'ArrowDown' ? 1 : event.key === 'ArrowLeft' || event.key === 'ArrowUp' ? -1 : 0
  if (by === 0) return
  event.preventDefault()
  const all = menuAgents.value
  const at = all.findIndex((one) => one.id === selectedAgent.value)
  const next = all[(at + by + all.length) % all.length]
  if (!next) return
  chooseAgent(next.id)
  const group = (event.currentTarget as HTMLElement).parentElement
  requestAnimationFrame(() => (group?.querySelector('[aria-checked=true]') as HTMLElement | null)?.focus())
}

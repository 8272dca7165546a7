// The agents to choose from, with questions to begin with.

import { useEffect } from 'preact/hooks'

import { clean, cleanLine } from '../clean'
import { lang, said, t, type Key } from '../i18n'
import { agent, agentOf, agents, chooseAgent, modelOf } from '../lists'
import { askable, documents, loadDocuments } from '../shelf'
import type { Agent } from '../types'
import { ModelBadge } from './badge'
import { Icon, Logo, type IconName } from './icons'

const NAMES: Record<string, Key> = {
  assistant: 'agent_assistant',
  contract: 'agent_contract',
  react: 'agent_react',
  docqa: 'agent_docqa',
}

const ICONS: Record<string, IconName> = { assistant: 'chat', contract: 'quote', react: 'tool', docqa: 'file' }

export function agentName(one: Agent | undefined, id: string): string {
  if (one?.title) return clean(said(one.title))
  const key = NAMES[id]
  return key ? t(key) : clean(id || t('agent'))
}

export function AgentPicker({ isDisabled }: { isDisabled: boolean }) {
  return (
    <label class="picker">
      <span class="away">{t('agent')}</span>
      <select value={agent.value} disabled={isDisabled} onChange={(event) => chooseAgent(event.currentTarget.value)}>
        {agents.value.map((one) => <option key={one.id} value={one.id}>{agentName(one, one.id)}</option>)}
      </select>
    </label>
  )
}

export function Welcome({ ask }: { ask: (text: string) => void }) {
  const chosen = agentOf(agent.value)
  const model = modelOf(agent.value)
  const starters = askable(chosen?.starters?.[lang.value] ?? [], documents.value)
  const own = starters.length === 0 ? (documents.value ?? []).filter((one) => one.status === 'ready') : []
  useEffect(() => void loadDocuments(), [])
  return (
    <div class="welcome">
      <div class="welcome-head">
        <Logo />
        <h1>{t('welcome')}</h1>
        <p class="dim">{t('welcome_more')}</p>
      </div>
      <div class="agents" role="radiogroup" aria-label={t('agent')}>
        {agents.value.map((one) => (
          <button key={one.id} type="button" role="radio" aria-checked={one.id === agent.value}
            class={one.id === agent.value ? 'agent is-on' : 'agent'} onClick={() => chooseAgent(one.id)}
            tabIndex={one.id === agent.value ? 0 : -1}
            onKeyDown={(event) => roam(event)}>
            <span class="agent-icon"><Icon name={ICONS[one.id] ?? 'spark'} /></span>
            <span class="agent-name">{agentName(one, one.id)}</span>
            <span class="agent-about">{clean(said(one))}</span>
          </button>
        ))}
      </div>
      {starters.length > 0 && (
        <div class="starters">
          <h2>{t('try_asking')}</h2>
          <ul>
            {starters.map((text) => (
              <li key={text}>
                <button type="button" onClick={() => ask(text)}><span>{clean(text)}</span><Icon name="arrow" size={15} /></button>
              </li>
            ))}
          </ul>
        </div>
      )}
      {own.length > 0 && (
        <p class="dim welcome-own">
          {t('ask_about_own', { n: own.length, names: own.slice(0, 3).map((one) => cleanLine(one.title || one.name)).join(' · ') + (own.length > 3 ? ' …' : '') })}
        </p>
      )}
      {model && <p class="welcome-model"><ModelBadge model={model} isLong /></p>}
    </div>
  )
}

/** Arrow keys move between the choices of a group. */
function roam(event: KeyboardEvent) {
  const by = event.key === 'ArrowRight' || event.key === 'ArrowDown' ? 1 : event.key === 'ArrowLeft' || event.key === 'ArrowUp' ? -1 : 0
  if (by === 0) return
  event.preventDefault()
  const all = agents.value
  const at = all.findIndex((one) => one.id === agent.value)
  const next = all[(at + by + all.length) % all.length]
  if (!next) return
  chooseAgent(next.id)
  const group = (event.currentTarget as HTMLElement).parentElement
  requestAnimationFrame(() => (group?.querySelector('[aria-checked=true]') as HTMLElement | null)?.focus())
}

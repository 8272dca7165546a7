// The badge with the name of a model. The built-in extractive model is marked as not being an LLM.

import { sanitizeText } from '../sanitize-text'
import { localized, t } from '../i18n'
import { isExtractive } from '../agents-and-threads'

interface BadgeModel {
  name: string
  kind?: string
  ko?: string
  en?: string
}

export function ModelBadge({ model, isLong = false }: { model: BadgeModel; isLong?: boolean }) {
  const offline = isExtractive(model)
  const about = localized(model) || (offline ? t('offline_about') : '')
  return (
    <span class={offline ? 'badge offline' : 'badge'} title={sanitizeText([model.name, about].filter(Boolean).join(': '))}>
      <span class="dot" aria-hidden="true" />
      <span class="badge-name">{sanitizeText(shortModelName(model.name))}</span>
      {offline && <span class="badge-kind">{isLong ? t('offline_long') : t('not_llm')}</span>}
    </span>
  )
}

/** The model name without the URL of an OpenAI-compatible server. The full name is in the tooltip. */
export function shortModelName(name: string): string {
  return name.startsWith('openai-compatible:') ? name.slice(name.lastIndexOf('#') + 1) : name
}

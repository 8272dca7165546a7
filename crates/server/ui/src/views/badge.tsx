// Who answers, said honestly: a built-in that only quotes is never taken for a language model.

import { clean } from '../clean'
import { said, t } from '../i18n'
import { isExtractive } from '../lists'

interface Shown {
  name: string
  kind: string
  ko?: string
  en?: string
}

export function ModelBadge({ model, isLong = false }: { model: Shown; isLong?: boolean }) {
  const offline = isExtractive(model)
  const about = said(model) || (offline ? t('offline_about') : '')
  return (
    <span class={offline ? 'badge offline' : 'badge'} title={clean(about)}>
      <span class="dot" aria-hidden="true" />
      <span class="badge-name">{clean(model.name)}</span>
      {offline && <span class="badge-kind">{isLong ? t('offline_long') : t('not_llm')}</span>}
    </span>
  )
}

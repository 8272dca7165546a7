// A card that shows an error, with buttons for what to do next.

import type { ComponentChildren } from 'preact'

import { ApiProblem } from '../api'
import { sanitizeText } from '../sanitize-text'
import { TooLongError } from '../conversation'
import { localized, t } from '../i18n'
import { Icon } from './icons'

export function problemText(error: unknown): { title: string; detail: string | null } {
  // What the server says about these is for programmers.
  if (error instanceof ApiProblem && error.status === 401) return { title: t('key_wanted'), detail: t('key_wanted_more') }
  if (error instanceof TooLongError) return { title: t('question_too_long'), detail: null }
  if (error instanceof ApiProblem) {
    return { title: localized({ ko: error.ko, en: error.en }), detail: error.detail ? sanitizeText(localized(error.detail)) : null }
  }
  return { title: t('went_wrong'), detail: error instanceof Error ? sanitizeText(error.message) : null }
}

export function ProblemCard({ error, children }: { error: unknown; children?: ComponentChildren }) {
  const { title, detail } = problemText(error)
  return (
    <div class="card problem" role="alert">
      <Icon name="warn" />
      <div class="grow">
        <strong>{title}</strong>
        {detail && <p class="dim">{detail}</p>}
        {children && <div class="row">{children}</div>}
      </div>
    </div>
  )
}

// What went wrong, and the way out.

import type { ComponentChildren } from 'preact'

import { Problem } from '../api'
import { clean } from '../clean'
import { said, t } from '../i18n'
import { Icon } from './icons'

export function wordsOf(error: unknown): { title: string; detail: string | null } {
  if (error instanceof Problem) {
    return { title: said({ ko: error.ko, en: error.en }), detail: error.detail ? clean(said(error.detail)) : null }
  }
  return { title: t('went_wrong'), detail: error instanceof Error ? clean(error.message) : null }
}

export function ProblemCard({ error, children }: { error: unknown; children?: ComponentChildren }) {
  const { title, detail } = wordsOf(error)
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

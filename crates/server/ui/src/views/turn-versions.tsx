// Switches between the versions of a turn.

import { conversation, showVersion, type Turn } from '../conversation'
import { turnVersions } from '../branches'
import { t } from '../i18n'
import { Icon } from './icons'

export function TurnVersions({ turn }: { turn: Turn }) {
  const id = turn.id.value
  const versions = id === null ? [] : turnVersions(conversation.value.runs, id)
  const place = versions.findIndex((run) => run.id === id)
  if (versions.length < 2 || place === -1) return null
  const go = (by: number) => {
    const to = versions[place + by]
    if (to) void showVersion(to.id)
  }
  return (
    <span class="versions" role="group" aria-label={t('versions')}>
      <button type="button" class="ghost small" disabled={place === 0} onClick={() => go(-1)} aria-label={t('version_before')} title={t('version_before')}><span class="turner is-back"><Icon name="chevron" size={14} /></span></button>
      <span class="versions-count">{place + 1}/{versions.length}</span>
      <button type="button" class="ghost small" disabled={place === versions.length - 1} onClick={() => go(1)} aria-label={t('version_after')} title={t('version_after')}><Icon name="chevron" size={14} /></button>
    </span>
  )
}

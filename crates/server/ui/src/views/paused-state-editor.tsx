// Changes the state of a paused run, where its pause is shown.

import { useState } from 'preact/hooks'

import * as api from '../api'
import { t } from '../i18n'
import { parseJsonObject } from '../json-search'
import { formatJson } from './activity'
import { Icon } from './icons'
import { ProblemCard } from './problem-card'

/** The thread of a paused run, and its agent. */
export interface PausedPlace {
  thread: string
  agent: string
}

/** The buttons of a breakpoint. `resume` continues the run. */
export function PausedStateEditor({ place, isDisabled, resume }: { place: PausedPlace; isDisabled: boolean; resume: () => void }) {
  const { thread, agent } = place
  const [text, setText] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const attempt = async (work: () => Promise<void>) => {
    setBusy(true)
    setError(null)
    await work().catch(setError)
    setBusy(false)
  }
  const load = () => attempt(async () => setText(formatJson((await api.fetchState(thread, undefined, agent)).state)))
  const isOff = isDisabled || isBusy
  const problem = error !== null && <ProblemCard error={error} />
  if (text === null) {
    return (
      <>
        <div class="row wrap">
          <button type="button" class="primary" disabled={isOff} onClick={resume}><Icon name="play" size={16} />{t('resume')}</button>
          <button type="button" disabled={isOff} onClick={() => void load()}><Icon name="edit" size={16} />{t('edit_state')}</button>
        </div>
        {problem}
      </>
    )
  }
  const state = parseJsonObject(text)
  const save = () => attempt(async () => {
    if (state === undefined) return
    await api.putState(thread, agent, state)
    resume()
  })
  return (
    <form class="state-editor" onSubmit={(event) => { event.preventDefault(); void save() }}>
      <label class="field">
        <span>{t('edit_paused_state_about')}</span>
        <textarea class="mono" rows={Math.min(16, text.split('\n').length + 1)} value={text} spellcheck={false} disabled={isOff} onInput={(event) => { setText(event.currentTarget.value); setError(null) }} />
      </label>
      {state === undefined && <p class="bad" role="alert">{t('not_json_object')}</p>}
      <div class="row wrap">
        <button type="submit" class="primary" disabled={isOff || state === undefined}><Icon name="play" size={16} />{t('save_and_resume')}</button>
        <button type="button" disabled={isOff} onClick={() => { setText(null); setError(null) }}>{t('cancel')}</button>
      </div>
      {problem}
    </form>
  )
}

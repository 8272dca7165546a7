// The form for a case of an evaluation.

import { useState } from 'preact/hooks'

import { agents } from '../agents-and-threads'
import type { EvalCaseInfo, EvalExpectation } from '../api-types'
import { expectsSomething, linesOf } from '../evals'
import { t, type MessageKey } from '../i18n'
import { agentName } from './agent-picker'
import { ProblemCard } from './problem-card'

interface EvalCaseFormProps {
  given: EvalCaseInfo
  /** Whether the evaluation that takes the case has a name. */
  hasSetName?: boolean
  save: (changed: EvalCaseInfo) => Promise<void>
  cancel: () => void
}

const lines = (list: string[] | null | undefined) => (list ?? []).join('\n')

export function EvalCaseForm({ given, hasSetName = true, save, cancel }: EvalCaseFormProps) {
  const [one, setCase] = useState(given)
  // Lists are edited as text, so that a line can be empty while it is typed.
  const [texts, setTexts] = useState({
    before: lines(given.before), contains: lines(given.expect.contains), lacks: lines(given.expect.lacks), sources: lines(given.expect.sources), tools: lines(given.expect.tools),
  })
  const [checks, setChecks] = useState({ sources: Array.isArray(given.expect.sources), tools: Array.isArray(given.expect.tools) })
  const [error, setError] = useState<unknown>(null)
  const [isSaving, setSaving] = useState(false)

  const { sources: _sources, tools: _tools, ...others } = one.expect
  const expect: EvalExpectation = {
    ...others,
    contains: linesOf(texts.contains),
    lacks: linesOf(texts.lacks),
    ...(checks.sources ? { sources: linesOf(texts.sources) } : {}),
    ...(checks.tools ? { tools: linesOf(texts.tools) } : {}),
  }
  const isComplete = one.id.trim() !== '' && one.ask.trim() !== '' && expectsSomething(expect)
  const submit = async () => {
    setSaving(true)
    setError(null)
    try {
      await save({ ...one, id: one.id.trim(), fails: one.fails?.trim() || undefined, before: linesOf(texts.before), expect })
    } catch (wrong) {
      setError(wrong)
    }
    setSaving(false)
  }
  const area = (key: keyof typeof texts, label: MessageKey, rows = 2) => (
    <label class="field">
      <span>{t(label)}</span>
      <textarea class="wide" rows={rows} value={texts[key]} onInput={(event) => setTexts({ ...texts, [key]: event.currentTarget.value })} />
    </label>
  )
  const checked = (key: keyof typeof checks, label: MessageKey) => (
    <div class="field">
      <label class="check"><input type="checkbox" checked={checks[key]} onChange={(event) => setChecks({ ...checks, [key]: event.currentTarget.checked })} />{t(label)}</label>
      {checks[key] && <textarea class="wide" rows={2} aria-label={t(label)} value={texts[key]} onInput={(event) => setTexts({ ...texts, [key]: event.currentTarget.value })} />}
    </div>
  )
  // An expectation that is empty is left out: what is not said is not looked at.
  const setExpect = <Key extends 'route' | 'model_calls' | 'most_cost'>(key: Key, value: EvalExpectation[Key] | '') => {
    const { [key]: _before, ...rest } = one.expect
    setCase({ ...one, expect: value === '' ? rest : { ...rest, [key]: value } })
  }
  const agentIds = [...new Set([one.agent, ...agents.value.map(({ id }) => id)])].filter((id) => id !== '')
  return (
    <form class="eval-form" onSubmit={(event) => { event.preventDefault(); void submit() }}>
      <div class="row">
        <label class="field grow"><span>{t('eval_case_id')}</span>
          <input type="text" maxLength={100} value={one.id} onInput={(event) => setCase({ ...one, id: event.currentTarget.value })} /></label>
        <label class="field"><span>{t('agent')}</span>
          <select value={one.agent} onChange={(event) => setCase({ ...one, agent: event.currentTarget.value })}>
            {agentIds.map((id) => <option key={id} value={id}>{agentName(id)}</option>)}
          </select></label>
      </div>
      <label class="field"><span>{t('question')}</span>
        <textarea class="wide" rows={2} value={one.ask} onInput={(event) => setCase({ ...one, ask: event.currentTarget.value })} /></label>
      {area('contains', 'eval_contains')}
      {area('lacks', 'eval_lacks', 1)}
      {checked('sources', 'eval_sources')}
      {checked('tools', 'eval_tools')}
      <details>
        <summary>{t('eval_more')}</summary>
        {area('before', 'eval_before')}
        <div class="row">
          <label class="field grow"><span>{t('eval_route')}</span>
            <input type="text" value={one.expect.route ?? ''} onInput={(event) => setExpect('route', event.currentTarget.value.trim())} /></label>
          <label class="field grow"><span>{t('eval_model_calls')}</span>
            <input type="number" min="0" value={one.expect.model_calls ?? ''} onInput={(event) => setExpect('model_calls', event.currentTarget.value === '' ? '' : Number(event.currentTarget.value))} /></label>
          <label class="field grow"><span>{t('eval_most_cost')}</span>
            <input type="number" min="0" step="any" value={one.expect.most_cost ?? ''} onInput={(event) => setExpect('most_cost', event.currentTarget.value === '' ? '' : Number(event.currentTarget.value))} /></label>
        </div>
        <label class="field"><span>{t('eval_fails')}</span>
          <input type="text" value={one.fails ?? ''} onInput={(event) => setCase({ ...one, fails: event.currentTarget.value })} /></label>
      </details>
      {!isComplete && <p class="dim">{t('eval_incomplete')}</p>}
      {error !== null && <ProblemCard error={error} />}
      <div class="row end">
        <button type="button" onClick={cancel}>{t('cancel')}</button>
        <button type="submit" class="primary" disabled={!isComplete || !hasSetName || isSaving}>{t('save')}</button>
      </div>
    </form>
  )
}

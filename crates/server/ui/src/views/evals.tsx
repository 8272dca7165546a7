// The evaluation view: sets of test cases, their runs over models and prompts, and the results.

import { useEffect, useState } from 'preact/hooks'

import type { EvalCaseInfo, EvalRunInfo, EvalSetInfo } from '../api-types'
import { selectedAgent } from '../agents-and-threads'
import { deleteEvalCase, deleteEvalSet, evalSets, fetchEvalSet, isSetName, loadEvalSets, newSetName, putEvalCase, startEvalRun, stopEvalRun, variantsOf } from '../evals'
import { formatDateTime, localized, t, type MessageKey } from '../i18n'
import { modelList } from '../models'
import { navigate } from '../route'
import { sanitizeLine, sanitizeText } from '../sanitize-text'
import { agentName } from './agent-picker'
import { askConfirmation } from './confirm'
import { EvalCaseForm } from './eval-case-form'
import { EvalResults } from './eval-results'
import { EvalSetNameField } from './eval-set-name'
import { Icon } from './icons'
import { shortModelName } from './model-badge'
import { ProblemCard } from './problem-card'

/** Variants that a run may have. */
const MAX_VARIANTS = 8
/** How often a run that goes on is looked at. */
const POLL_MS = 700

export function Evals({ set }: { set: string | null }) {
  return (
    <div class="evals scroller" tabIndex={-1}>
      <div class="column wide">{set === null ? <EvalSetListView /> : <EvalSetView key={set} name={set} />}</div>
    </div>
  )
}

function EvalSetListView() {
  const [error, setError] = useState<unknown>(null)
  const [typed, setTyped] = useState<string | null>(null)
  const [isAdding, setAdding] = useState(false)
  const load = () => { setError(null); loadEvalSets().catch(setError) }
  useEffect(load, [])
  const list = evalSets.value
  const name = typed ?? newSetName(t('eval_set_name_proposed'), list?.sets.map((one) => one.name) ?? [])
  const open = (set: string) => navigate({ view: 'evals', set })
  return (
    <>
      <h1>{t('evals')}</h1>
      <p class="dim">{t('evals_about')}</p>
      {error !== null && <ProblemCard error={error}><button type="button" onClick={load}>{t('try_again')}</button></ProblemCard>}
      {list === null && error === null && <p class="dim" role="status">{t('loading')}</p>}
      {list?.sets.length === 0 && !isAdding && <p class="card eval-empty">{t('evals_empty')}</p>}
      {list && list.sets.length > 0 && (
        <ul class="eval-sets">
          {list.sets.map((one) => (
            <li key={one.name}>
              <button type="button" class="link" onClick={() => open(one.name)}>{sanitizeLine(one.name)}</button>
              <span class="dim">{t('eval_cases_n', { n: one.cases })}</span>
              {one.passed !== null && one.passed !== undefined && <span class={one.passed === one.cases ? 'eval-score is-good' : 'eval-score'}>{t('eval_passed', { n: one.passed, all: one.cases })}</span>}
              {one.ended_at && <span class="dim">{formatDateTime(one.ended_at)}</span>}
              {one.problem && <span class="bad">{sanitizeText(one.problem)}</span>}
            </li>
          ))}
        </ul>
      )}
      {list?.may_change && !isAdding && <button type="button" onClick={() => setAdding(true)}><Icon name="plus" size={15} />{t('eval_new_set')}</button>}
      {isAdding && (
        <section class="card eval-new">
          <EvalSetNameField name={name} change={setTyped} />
          <EvalCaseForm given={emptyCase()} hasSetName={isSetName(name)} cancel={() => setAdding(false)} save={async (made) => { await putEvalCase(name, made.id, made); open(name) }} />
        </section>
      )}
    </>
  )
}

const emptyCase = (): EvalCaseInfo => ({ id: '', agent: selectedAgent.value, before: [], ask: '', expect: { contains: [], lacks: [] } })

function EvalSetView({ name }: { name: string }) {
  const [set, setSet] = useState<EvalSetInfo | null>(null)
  const [error, setError] = useState<unknown>(null)
  const [editing, setEditing] = useState<string | null>(null)
  const load = async () => {
    try {
      setSet(await fetchEvalSet(name))
      setError(null)
    } catch (wrong) {
      setError(wrong)
    }
  }
  useEffect(() => { void load() }, [])
  const isRunning = set?.run?.status === 'running'
  useEffect(() => {
    if (!isRunning) return
    const timer = setTimeout(() => void load(), POLL_MS)
    return () => clearTimeout(timer)
  }, [set])
  const act = async (what: () => Promise<void>) => {
    try {
      await what()
      await load()
    } catch (wrong) {
      setError(wrong)
    }
  }
  const removeSet = async () => {
    if (!(await askConfirmation(t('eval_delete_set'), t('eval_delete_set_sure', { name }), t('delete')))) return
    try {
      await deleteEvalSet(name)
      navigate({ view: 'evals', set: null })
    } catch (wrong) {
      setError(wrong)
    }
  }
  const save = (id: string) => async (changed: EvalCaseInfo) => {
    await putEvalCase(name, id, changed)
    setEditing(null)
    await load()
  }
  return (
    <>
      <button type="button" class="link eval-back" onClick={() => navigate({ view: 'evals', set: null })}>‹ {t('evals')}</button>
      <div class="row eval-title">
        <h1 class="grow">{sanitizeLine(name)}</h1>
        {set?.may_change && <button type="button" class="ghost" onClick={() => void removeSet()} aria-label={t('eval_delete_set')} title={t('eval_delete_set')}><Icon name="trash" /></button>}
      </div>
      {error !== null && <ProblemCard error={error}><button type="button" onClick={() => void load()}>{t('try_again')}</button></ProblemCard>}
      {set === null && error === null && <p class="dim" role="status">{t('loading')}</p>}
      {set && (
        <>
          <p class="dim">{t(set.documents === 'samples' ? 'eval_on_samples' : 'eval_on_library')}</p>
          {set.may_change && <RunPanel run={set.run ?? null} start={(variants) => act(() => startEvalRun(name, variants))} stop={() => act(() => stopEvalRun(name))} />}
          <section aria-label={t('eval_results')}>
            <h2>{t('eval_results')}</h2>
            <EvalResults reports={set.reports} cases={set.cases} />
          </section>
          <section aria-label={t('eval_cases')}>
            <h2>{t('eval_cases')} <span class="dim">{set.cases.length}</span></h2>
            <ul class="eval-cases">
              {set.cases.map((one) => (
                <li key={one.id}>
                  {editing === one.id ? <EvalCaseForm given={one} save={save(one.id)} cancel={() => setEditing(null)} /> : (
                    <div class="row">
                      <div class="grow">
                        <strong>{sanitizeLine(one.ask)}</strong>
                        <p class="dim">{agentName(one.agent)} · {sanitizeLine(one.id)}<Expected label={'eval_contains_short'} list={one.expect.contains} /><Expected label={'eval_expects_lacks'} list={one.expect.lacks} /><Expected label={'eval_expects_sources'} list={one.expect.sources} isExact /><Expected label={'eval_expects_tools'} list={one.expect.tools} isExact /></p>
                      </div>
                      {set.may_change && <button type="button" class="ghost small" onClick={() => setEditing(one.id)} aria-label={t('eval_edit_n', { name: sanitizeLine(one.id) })} title={t('eval_edit')}><Icon name="edit" size={15} /></button>}
                      {set.may_change && <button type="button" class="ghost small" onClick={() => void removeCase(name, one.id, set.cases.length === 1, act)} aria-label={t('delete_n', { title: sanitizeLine(one.id) })} title={t('delete')}><Icon name="trash" size={15} /></button>}
                    </div>
                  )}
                </li>
              ))}
            </ul>
            {set.may_change && (editing === '' ? <section class="card"><EvalCaseForm given={emptyCase()} cancel={() => setEditing(null)} save={(made) => save(made.id)(made)} /></section>
              : <button type="button" onClick={() => setEditing('')}><Icon name="plus" size={15} />{t('eval_add_case')}</button>)}
          </section>
        </>
      )}
    </>
  )
}

interface ExpectedProps {
  label: MessageKey
  list: string[] | null | undefined
  /** Whether an empty list means that there must be none. */
  isExact?: boolean
}

/** One expectation in the summary of a case. */
function Expected({ label, list, isExact = false }: ExpectedProps) {
  if (!list || (list.length === 0 && !isExact)) return null
  return <> · {t(label)} {list.length === 0 ? t('eval_nothing') : sanitizeLine(list.join(', '))}</>
}

async function removeCase(set: string, id: string, isLast: boolean, act: (what: () => Promise<void>) => Promise<void>): Promise<void> {
  if (!(await askConfirmation(t('eval_delete_case'), t(isLast ? 'eval_delete_last_sure' : 'eval_delete_case_sure', { name: sanitizeLine(id) }), t('delete')))) return
  if (!isLast) return act(() => deleteEvalCase(set, id))
  await deleteEvalCase(set, id)
  navigate({ view: 'evals', set: null })
}

interface RunPanelProps {
  run: EvalRunInfo | null
  start: (variants: ReturnType<typeof variantsOf>) => Promise<void>
  stop: () => Promise<void>
}

/** Chooses models and prompts, and shows how far a run is. */
function RunPanel({ run, start, stop }: RunPanelProps) {
  const options = modelList.value?.options ?? []
  const [models, setModels] = useState<(string | null)[]>([null])
  const [prompts, setPrompts] = useState<string[]>([])
  const variants = variantsOf(models, prompts)
  const isRunning = run?.status === 'running'
  const toggle = (model: string | null, isOn: boolean) => setModels(isOn ? [...models, model] : models.filter((one) => one !== model))
  return (
    <section class="card eval-run" aria-label={t('eval_run')}>
      <fieldset disabled={isRunning}>
        <legend>{t('eval_models')}</legend>
        <div class="row wrap">
          <label class="check"><input type="checkbox" checked={models.includes(null)} onChange={(event) => toggle(null, event.currentTarget.checked)} />{t('eval_own_model', { name: sanitizeLine(shortModelName(options.find((one) => one.is_default)?.id ?? '')) })}</label>
          {options.filter((one) => !one.is_default).map((one) => (
            <label key={one.id} class="check"><input type="checkbox" checked={models.includes(one.id)} onChange={(event) => toggle(one.id, event.currentTarget.checked)} />{sanitizeLine(shortModelName(one.id))}</label>
          ))}
        </div>
        {prompts.map((prompt, at) => (
          <label key={at} class="field"><span>{t('eval_prompt_n', { n: at + 1 })}</span>
            <textarea class="wide" rows={2} maxLength={8000} value={prompt} placeholder={t('instructions_example')} onInput={(event) => setPrompts(prompts.with(at, event.currentTarget.value))} /></label>
        ))}
        <button type="button" class="link" onClick={() => setPrompts([...prompts, ''])}>{t('eval_add_prompt')}</button>
      </fieldset>
      <div class="row">
        {isRunning ? <button type="button" onClick={() => void stop()}><Icon name="stop" size={15} />{t('stop')}</button>
          : <button type="button" class="primary" disabled={variants.length === 0 || variants.length > MAX_VARIANTS} onClick={() => void start(variants)}><Icon name="play" size={15} />{t('eval_run')}</button>}
        {variants.length > 1 && !isRunning && <span class={variants.length > MAX_VARIANTS ? 'bad' : 'dim'}>{t('eval_variants_n', { n: variants.length, all: MAX_VARIANTS })}</span>}
        {isRunning && run && <><progress max={run.total} value={run.done} aria-label={t('eval_progress')} /><span class="dim" role="status">{run.done}/{run.total} {sanitizeLine(run.case ?? '')}</span></>}
        {run?.status === 'stopped' && <span class="dim" role="status">{t('eval_stopped')}</span>}
      </div>
      {run?.status === 'interrupted' && (
        <div class="row wrap" role="status">
          <span class="grow">{t('eval_interrupted', { n: run.done, all: run.total, time: formatDateTime(run.started_at) })}</span>
          <button type="button" onClick={() => void start(run.variants)}>{t('eval_run_again')}</button>
        </div>
      )}
      {run?.status === 'failed' && <p class="bad" role="alert">{sanitizeText(localized({ en: run.en, ko: run.ko }))}</p>}
    </section>
  )
}

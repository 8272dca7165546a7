// Saves a run as a case of an evaluation: on the server, or as a file for whoever may not change evaluations.

import { signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'

import type { EvalCaseInfo } from '../api-types'
import { evalCaseToml } from '../eval-case'
import { evalSets, isSetName, loadEvalSets, newSetName, putEvalCase } from '../evals'
import { downloadText } from '../export-thread'
import { t } from '../i18n'
import { navigate } from '../route'
import { sanitizeLine } from '../sanitize-text'
import { EvalCaseForm } from './eval-case-form'
import { EvalSetNameField } from './eval-set-name'
import { Icon } from './icons'
import { ProblemCard } from './problem-card'

/** The case to save, as the run was. */
const caseToSave = signal<EvalCaseInfo | null>(null)

export function saveAsCase(given: EvalCaseInfo): void {
  caseToSave.value = given
}

/** The value of the menu entry for a new set. */
const NEW_SET = ''

export function SaveCaseDialog() {
  const dialog = useRef<HTMLDialogElement>(null)
  const given = caseToSave.value
  const [chosen, setChosen] = useState<string | null>(null)
  const [typed, setTyped] = useState<string | null>(null)
  const [error, setError] = useState<unknown>(null)
  useEffect(() => {
    if (!given) return
    setError(null)
    setChosen(null)
    setTyped(null)
    loadEvalSets().catch(setError)
    dialog.current?.showModal()
  }, [given])
  if (!given) return null
  const close = () => { caseToSave.value = null }
  const list = evalSets.value
  const current = chosen ?? list?.sets[0]?.name ?? NEW_SET
  const name = typed ?? newSetName(t('eval_set_name_proposed'), list?.sets.map((one) => one.name) ?? [])
  const set = current === NEW_SET ? name : current
  const download = () => downloadText(`case-${given.id.slice(0, 8)}.toml`, evalCaseToml(given), 'application/toml')
  const save = async (made: EvalCaseInfo) => {
    await putEvalCase(set, made.id, made)
    close()
    navigate({ view: 'evals', set })
  }
  return (
    <dialog ref={dialog} class="dialog wide" aria-labelledby="save-case-title" onClose={close}>
      <header class="panel-head">
        <h2 id="save-case-title" class="grow">{t('save_case')}</h2>
        <button type="button" class="ghost" onClick={download} aria-label={t('save_case_file')} title={t('save_case_file')}><Icon name="download" /></button>
        <button type="button" class="ghost" onClick={close} aria-label={t('close')}><Icon name="close" /></button>
      </header>
      <div class="dialog-body">
        <p class="dim">{t('save_case_about')}</p>
        {error !== null && <ProblemCard error={error} />}
        {list && !list.may_change && <p class="note">{t('save_case_admin')}</p>}
        {list?.may_change && (
          <>
            <div class="row">
              {list.sets.length > 0 && (
                <label class="field grow"><span>{t('eval_set')}</span>
                  <select value={current} onChange={(event) => setChosen(event.currentTarget.value)}>
                    {list.sets.map((one) => <option key={one.name} value={one.name}>{sanitizeLine(one.name)}</option>)}
                    <option value={NEW_SET}>{t('eval_new_set')}…</option>
                  </select></label>
              )}
              {current === NEW_SET && <EvalSetNameField name={name} change={setTyped} />}
            </div>
            <EvalCaseForm given={given} hasSetName={isSetName(set)} save={save} cancel={close} />
          </>
        )}
      </div>
    </dialog>
  )
}

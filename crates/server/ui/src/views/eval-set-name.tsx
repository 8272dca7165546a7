// The field for the name of a new evaluation.

import { isSetName } from '../evals'
import { t } from '../i18n'

export function EvalSetNameField({ name, change }: { name: string; change: (name: string) => void }) {
  const isGood = isSetName(name)
  return (
    <div class="grow">
      <label class="field"><span>{t('eval_set_name')}</span>
        <input type="text" maxLength={40} value={name} aria-invalid={!isGood} aria-describedby="eval-set-name-rule" onInput={(event) => change(event.currentTarget.value)} /></label>
      <p id="eval-set-name-rule" class={isGood ? 'dim' : 'bad'}>{t('eval_set_name_rule')}</p>
    </div>
  )
}

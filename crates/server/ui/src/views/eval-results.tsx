// What came of an evaluation: one row for each case, one column for each model or prompt it was asked with.

import type { AgentEvalReport, EvalCaseInfo, EvalCaseOutcome, EvalChange } from '../api-types'
import { failureWords } from '../eval-failures'
import { changesOfCase, orderedReports } from '../evals'
import { formatCost, formatDateTime, formatDuration, formatNumber, t, type MessageKey } from '../i18n'
import { modelList } from '../models'
import { sanitizeLine, sanitizeText } from '../sanitize-text'
import { Icon } from './icons'
import { shortModelName } from './model-badge'
import { TableFrame } from './table-frame'

/** Reports that are shown side by side. */
const MAX_COLUMNS = 8

const CHANGE_LABELS: Record<EvalChange['change'], MessageKey> = {
  broke: 'change_broke', mended: 'change_mended', answer: 'change_answer', model_calls: 'change_calls', cost: 'change_cost', new: 'change_new', gone: 'change_gone',
}

export function EvalResults({ reports, cases }: { reports: AgentEvalReport[]; cases: EvalCaseInfo[] }) {
  const shown = orderedReports(reports.slice(0, MAX_COLUMNS), (modelList.value?.options ?? []).map(({ id }) => id))
  if (shown.length === 0) return <p class="dim">{t('eval_no_reports')}</p>
  const ids = [...new Set(shown.flatMap((report) => (report.cases ?? []).map((one) => one.id ?? '')))]
  return (
    <TableFrame name="table-frame" label={t('eval_results')}>
      <table class="eval-results">
        <thead>
          <tr><th scope="col">{t('eval_case')}</th>{shown.map((report, at) => <th key={at} scope="col"><ReportHead report={report} /></th>)}</tr>
        </thead>
        <tbody>
          {ids.map((id) => (
            <tr key={id}>
              <th scope="row"><CaseName id={id} ask={cases.find((one) => one.id === id)?.ask ?? ''} /></th>
              {shown.map((report, at) => <td key={at}><Outcome report={report} outcome={(report.cases ?? []).find((one) => one.id === id)} /></td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  )
}

/** The question of a case. One that is no case any more has its name only. */
function CaseName({ id, ask }: { id: string; ask: string }) {
  if (ask === '') return <>{sanitizeLine(id)}</>
  return <>{sanitizeLine(ask).slice(0, 200)}<small class="dim eval-case-name">{sanitizeLine(id)}</small></>
}

function ReportHead({ report }: { report: AgentEvalReport }) {
  const cases = report.cases ?? []
  const passed = cases.filter(isPassed).length
  const cost = cases.reduce((sum, one) => sum + (one.observed?.cost_micros ?? 0), 0)
  const instructions = report.variant?.instructions
  const changes = (report.changes ?? []).length
  return (
    <>
      <span class="eval-model">{sanitizeLine(shortModelName(report.model ?? '')) || t('model')}</span>
      {instructions && <small class="dim" title={sanitizeText(instructions)}>“{sanitizeLine(instructions).slice(0, 60)}”</small>}
      <span class={passed === cases.length ? 'eval-score is-good' : 'eval-score'}>{t('eval_passed', { n: passed, all: cases.length })}</span>
      <small class="dim">{formatDateTime(report.ended_at ?? 0)}{cost > 0 && <> · {formatCost(cost)}</>}{changes > 0 && <> · {t('eval_changes', { n: formatNumber(changes) })}</>}</small>
    </>
  )
}

const isPassed = (one: EvalCaseOutcome) => (one.failures ?? []).length === 0 && !one.known

function Outcome({ report, outcome }: { report: AgentEvalReport; outcome: EvalCaseOutcome | undefined }) {
  if (!outcome) return <span class="dim">–</span>
  const failures = outcome.failures ?? []
  const kind = outcome.known ? 'known' : failures.length === 0 ? 'passed' : 'failed'
  const label: MessageKey = kind === 'known' ? 'eval_known' : kind === 'passed' ? 'eval_held' : 'eval_not_held'
  const changes = changesOfCase(report, outcome.id ?? '')
  const answer = sanitizeText(outcome.observed?.response ?? '')
  return (
    <div class={`outcome is-${kind}`}>
      <p class="outcome-head">
        <Icon name={kind === 'passed' ? 'check' : 'warn'} size={14} /><span>{t(label)}</span>
        {changes.map((one, at) => <span key={at} class={`tag change-${one.change}`}>{t(CHANGE_LABELS[one.change])}</span>)}
        <span class="dim">{formatDuration(outcome.observed?.ms ?? 0)}</span>
      </p>
      {outcome.known && <p class="dim">{sanitizeText(outcome.known)}</p>}
      {failures.map(failureWords).map(({ label, expected, was }, at) => (
        <p key={at} class="expectation">
          {sanitizeLine(label)}: {expected !== null && <del>{sanitizeText(expected).slice(0, 300)}</del>}{expected !== null && was !== null && ' → '}{was !== null && <ins>{sanitizeText(was).slice(0, 300)}</ins>}
        </p>
      ))}
      <details>
        <summary>{sanitizeLine(answer).slice(0, 90) || t('eval_no_answer')}</summary>
        <p class="outcome-answer">{answer}</p>
        {changes.map((one, at) => one.change === 'answer' && <p key={at} class="outcome-answer dim">{t('eval_before_answer')} {sanitizeText(one.before)}</p>)}
      </details>
    </div>
  )
}

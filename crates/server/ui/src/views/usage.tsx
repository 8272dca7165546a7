// The usage view: tokens and cost by day, agent, model and key, and the budget of the month.

import { useEffect, useState } from 'preact/hooks'

import * as api from '../api'
import type { UsageInfo } from '../api-types'
import { formatCost, formatNumber, formatWon, language, t } from '../i18n'
import { sanitizeLine } from '../sanitize-text'
import { hasUnknownPrice, knownCost } from '../usage'
import { agentName } from './agent-picker'
import { ProblemCard } from './problem-card'
import { TableFrame } from './table-frame'

const PERIODS = [7, 30, 90] as const

interface UsageRow {
  name: string
  /** Runs, or calls of a model. */
  count: number
  input_tokens: number
  output_tokens: number
  cost_micros: number | null
}

export function Usage() {
  const [days, setDays] = useState<number>(30)
  const [usage, setUsage] = useState<UsageInfo | null>(null)
  const [error, setError] = useState<unknown>(null)
  const load = () => {
    setError(null)
    api.fetchUsageOfDays(days, -new Date().getTimezoneOffset()).then(setUsage, setError)
  }
  useEffect(load, [days])
  const isPriceUnknown = usage !== null && hasUnknownPrice(usage)
  const day = (start: number) => new Date(start).toLocaleDateString(language.value === 'ko' ? 'ko-KR' : 'en-GB', { month: 'short', day: 'numeric', weekday: 'short' })
  return (
    <div class="usage-view scroller" tabIndex={-1}>
      <div class="column wide">
        <h1>{t('usage')}</h1>
        <div class="row">
          <p class="dim grow">{t('usage_about')}</p>
          <label class="picker">
            <span class="away">{t('period')}</span>
            <select value={String(days)} onChange={(event) => setDays(Number(event.currentTarget.value))}>
              {PERIODS.map((one) => <option key={one} value={String(one)}>{t('last_days', { n: one })}</option>)}
            </select>
          </label>
        </div>
        {error !== null && <ProblemCard error={error}><button type="button" onClick={load}>{t('try_again')}</button></ProblemCard>}
        {usage === null && error === null && <p class="dim" role="status">{t('loading')}</p>}
        {usage && (
          <>
            <dl class="usage-total">
              <div><dt>{t('runs')}</dt><dd>{formatNumber(usage.runs)}</dd></div>
              <div><dt>{t('tokens_in')}</dt><dd>{formatNumber(usage.input_tokens)}</dd></div>
              <div><dt>{t('tokens_out')}</dt><dd>{formatNumber(usage.output_tokens)}</dd></div>
              <div><dt>{t('cost')}</dt><dd><Cost micros={knownCost(usage, isPriceUnknown)} rate={usage.krw_per_usd} /></dd></div>
            </dl>
            {usage.evals && <p class="usage-note usage-evals">{t('usage_evals', { n: formatNumber(usage.evals.runs) })}<PartCost micros={knownCost(usage.evals, isPriceUnknown)} rate={usage.krw_per_usd} /></p>}
            {usage.deleted && <p class="usage-note usage-deleted">{t('usage_deleted', { n: formatNumber(usage.deleted.runs) })}<PartCost micros={knownCost(usage.deleted, isPriceUnknown)} rate={usage.krw_per_usd} /></p>}
            {!usage.complete && <p class="dim usage-note">{t('usage_incomplete')}</p>}
            {isPriceUnknown && <p class="dim usage-note">{t('usage_no_price')}</p>}
            {usage.budget && <Budget budget={usage.budget} rate={usage.krw_per_usd} />}
            <UsageSection title={t('by_day')} count={t('runs')} rate={usage.krw_per_usd} rows={(usage.by_day ?? []).map((one) => ({ ...one, cost_micros: knownCost(one, isPriceUnknown), name: day(one.start), count: one.runs }))} />
            <UsageSection title={t('by_agent')} count={t('runs')} rate={usage.krw_per_usd} rows={(usage.by_agent ?? []).map((one) => ({ ...one, cost_micros: knownCost(one, isPriceUnknown), name: agentName(one.name), count: one.runs }))} />
            <UsageSection title={t('by_model')} count={t('calls')} rate={usage.krw_per_usd} rows={(usage.by_model ?? []).map((one) => ({ ...one, name: sanitizeLine(one.name), count: one.calls }))} />
            <UsageSection title={t('by_key')} count={t('runs')} rate={usage.krw_per_usd} rows={(usage.by_key ?? []).map((one) => ({ ...one, cost_micros: knownCost(one, isPriceUnknown), name: sanitizeLine(one.name) || t('no_key'), count: one.runs }))} />
          </>
        )}
      </div>
    </div>
  )
}

function Cost({ micros, rate }: { micros: number | null; rate: number | null | undefined }) {
  return <>{formatCost(micros)}{micros !== null && rate ? <span class="dim won"><span class="won-dot"> · </span>{formatWon(micros, rate)}</span> : null}</>
}

/** The cost of a part of the sum, after its name. */
function PartCost({ micros, rate }: { micros: number | null; rate: number | null | undefined }) {
  return micros === null ? <> ({t('usage_cost_unknown')})</> : <> · <Cost micros={micros} rate={rate} /></>
}

function Budget({ budget: { limit_micros, spent_micros }, rate }: { budget: NonNullable<UsageInfo['budget']>; rate: number | null | undefined }) {
  const isSpent = spent_micros >= limit_micros
  return (
    <section class={isSpent ? 'card problem' : 'card'} aria-label={t('budget')}>
      <div class="grow">
        <strong>{t('budget')}</strong>
        <p><Cost micros={spent_micros} rate={rate} /> / <Cost micros={limit_micros} rate={rate} /></p>
        <meter min={0} max={limit_micros} high={limit_micros * 0.8} value={Math.min(spent_micros, limit_micros)} aria-label={t('budget')} />
        <p class="dim">{t(isSpent ? 'budget_spent' : 'budget_about')}</p>
      </div>
    </section>
  )
}

function UsageSection({ title, count, rows, rate }: { title: string; count: string; rows: UsageRow[]; rate: number | null | undefined }) {
  if (rows.length === 0) return null
  return (
    <section>
      <h2>{title}</h2>
      <TableFrame name="table-frame" label={title}>
        {/* With roles: on a narrow screen the style sheet lays the rows out as a grid, and a browser takes their meaning away with the layout. */}
        <table class="usage" role="table">
          <thead role="rowgroup">
            <tr role="row"><th scope="col" role="columnheader"><span class="away">{title}</span></th>{[count, t('tokens_in'), t('tokens_out'), t('cost')].map((head) => <th key={head} scope="col" role="columnheader">{head}</th>)}</tr>
          </thead>
          <tbody role="rowgroup">
            {rows.map((row) => (
              <tr key={row.name} role="row">
                <th scope="row" role="rowheader">{row.name}</th>
                {[row.count, row.input_tokens, row.output_tokens].map((number, at) => <td key={at} role="cell">{formatNumber(number)}</td>)}
                <td role="cell"><Cost micros={row.cost_micros} rate={rate} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
    </section>
  )
}

// Evaluations: sets of questions with expected answers, stored by the server in the files of `doran eval agent`.

import { signal } from '@preact/signals'

import { fetchJson, sendCommand } from './api'
import * as client from './api-client'
import type { AgentEvalReport, EvalCaseInfo, EvalChange, EvalExpectation, EvalSetList, EvalVariant } from './api-types'

/** The sets; null until they are loaded. */
export const evalSets = signal<EvalSetList | null>(null)

export async function loadEvalSets(): Promise<void> {
  evalSets.value = await fetchJson(client.listEvalsCall())
}

export const fetchEvalSet = (set: string) => fetchJson(client.getEvalCall({ set }))
export const putEvalCase = (set: string, id: string, json: EvalCaseInfo) => sendCommand(client.putEvalCaseCall({ set, case: id }, json))
export const deleteEvalCase = (set: string, id: string) => sendCommand(client.deleteEvalCaseCall({ set, case: id }))
export const deleteEvalSet = (set: string) => sendCommand(client.deleteEvalCall({ set }))
export const startEvalRun = (set: string, variants: EvalVariant[]) => sendCommand(client.startEvalRunCall({ set }, { variants }))
export const stopEvalRun = (set: string) => sendCommand(client.stopEvalRunCall({ set }))

/** Whether a name can name a set: it becomes a file name. */
export function isSetName(name: string): boolean {
  return /^[\p{L}\p{N}_][\p{L}\p{N}_-]{0,39}$/u.test(name)
}

/** A name for a new set: `proposed`, with a number if there is such a set already. */
export function newSetName(proposed: string, taken: readonly string[]): string {
  for (let at = 1; ; at++) {
    const name = at === 1 ? proposed : `${proposed}-${at}`
    if (!taken.includes(name)) return name
  }
}

/** Every model with every instruction. A model that is null is the one each agent has. */
export function variantsOf(models: (string | null)[], instructions: string[]): EvalVariant[] {
  const prompts = [null, ...new Set(instructions.map((one) => one.trim()).filter((one) => one !== ''))]
  return models.flatMap((model) => prompts.map((prompt) => ({ ...(model === null ? {} : { model }), ...(prompt === null ? {} : { instructions: prompt }) })))
}

/** Reports in the order in which models and instructions are chosen: the own model of the agents first, then those of the list. */
export function orderedReports(reports: AgentEvalReport[], models: string[]): AgentEvalReport[] {
  const place = ({ variant }: AgentEvalReport) => {
    if (!variant.model) return -1
    const at = models.indexOf(variant.model)
    return at === -1 ? models.length : at
  }
  return [...reports].sort((left, right) => place(left) - place(right) || Number(Boolean(left.variant.instructions)) - Number(Boolean(right.variant.instructions)) || left.ended_at - right.ended_at)
}

/** The lines of a text that hold something. */
export function linesOf(text: string): string[] {
  return text.split('\n').map((line) => line.trim()).filter((line) => line !== '')
}

/** Whether something is expected. A case that expects nothing could not fail. */
export function expectsSomething(expect: EvalExpectation): boolean {
  return Object.values(expect).some((one) => one !== null && one !== undefined && !(Array.isArray(one) && one.length === 0)) || expect.tools?.length === 0 || expect.sources?.length === 0 || expect.path?.length === 0
}

/** The changes of a case since the report before. */
export function changesOfCase(report: AgentEvalReport, id: string): EvalChange[] {
  return (report.changes ?? []).filter((one) => one.id === id)
}

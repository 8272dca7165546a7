// The turn that the inspector shows.

import { computed, signal } from '@preact/signals'

import { conversation, type Turn } from '../conversation'
import { inspectorOpen } from '../settings'
import { openSource } from './sources'

const chosenTurn = signal<Turn | null>(null)

/** The chosen turn if it still exists, else the newest. */
export const inspectedTurn = computed(() => {
  const { turns } = conversation.value
  return chosenTurn.value && turns.includes(chosenTurn.value) ? chosenTurn.value : (turns.at(-1) ?? null)
})

export function inspectTurn(turn: Turn): void {
  if (inspectorOpen.value && inspectedTurn.value === turn && openSource.value === null) {
    inspectorOpen.value = false
    return
  }
  chosenTurn.value = turn
  openSource.value = null
  inspectorOpen.value = true
}

/** Shows the run with this id, if one of the turns has it. */
export function inspectRun(id: string): boolean {
  const turn = conversation.value.turns.find((one) => one.id.value === id)
  if (!turn) return false
  chosenTurn.value = turn
  openSource.value = null
  inspectorOpen.value = true
  return true
}

/** Follows the newest turn again, for example after a new question. */
export function inspectNewestTurn(): void {
  chosenTurn.value = null
}

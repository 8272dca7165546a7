// Which turn the inspector looks at.

import { computed, signal } from '@preact/signals'

import { conversation, type Turn } from '../conversation'
import { inspectorOpen } from '../settings'
import { openSource } from './sources'

const chosen = signal<Turn | null>(null)

/** The chosen one while it is there, else the newest. */
export const inspected = computed(() => {
  const { turns } = conversation.value
  return chosen.value && turns.includes(chosen.value) ? chosen.value : (turns.at(-1) ?? null)
})

export function inspect(turn: Turn): void {
  if (inspectorOpen.value && inspected.value === turn && openSource.value === null) {
    inspectorOpen.value = false
    return
  }
  chosen.value = turn
  openSource.value = null
  inspectorOpen.value = true
}

/** A new question moves the eye to its own run. */
export function inspectNewest(): void {
  chosen.value = null
}

// Says to a screen reader what a sighted person sees at a glance. Never word by word while an answer comes.

import { signal } from '@preact/signals'

export const announcement = signal('')

export function announce(text: string): void {
  // The same words twice must be a change, or they are not said again.
  announcement.value = announcement.value === text ? `${text}\u00a0` : text
}

// Announces changes to screen readers. A streaming answer is announced once at its end, not word by word.

import { signal } from '@preact/signals'

export const announcement = signal('')

export function announce(text: string): void {
  // A live region is read again only if its text changes, so a repeated text gets a trailing space.
  announcement.value = announcement.value === text ? `${text}\u00a0` : text
}

// What answers are found in: documents of one's own, or the samples, which are searched while there is nothing else.

import { signal } from '@preact/signals'

import * as api from './api'
import about from './samples.json'
import type { Document } from './types'

export const documents = signal<Document[] | null>(null)
export const documentsError = signal<unknown>(null)
/** How many samples are searched. */
export const samples = signal(0)
/** Whether the samples gave way to documents while this page was open. */
export const gaveWay = signal(false)

export async function loadDocuments(): Promise<void> {
  try {
    const { documents: got, samples: there } = await api.documents()
    const before = samples.peek()
    samples.value = there ?? (isOwn(got) ? 0 : before)
    gaveWay.value = isOwn(got) && (gaveWay.peek() || before > 0)
    documents.value = got
    documentsError.value = null
  } catch (error) {
    documentsError.value = error
  }
}

/** Whether something of one's own can be found. */
function isOwn(all: Document[]): boolean {
  return all.some((one) => one.status === 'ready')
}

/** The collection that the demonstration puts the samples into. */
const COLLECTION = 'samples'

/** The proposed questions whose answers can be there. */
export function askable(starters: readonly string[], all: Document[] | null): string[] {
  const hasSamples = all === null || !isOwn(all) || all.some((one) => one.collection === COLLECTION)
  const questions = new Set([...about.ko, ...about.en])
  return hasSamples ? [...starters] : starters.filter((one) => !questions.has(one))
}

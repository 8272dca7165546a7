// The uploaded documents, and the sample documents that are searched while no document was uploaded.

import { signal } from '@preact/signals'

import * as api from './api'
import sampleQuestions from './sample-questions.json'
import type { DocumentInfo } from './api-types'

export const documents = signal<DocumentInfo[] | null>(null)
export const documentsError = signal<unknown>(null)
/** Number of sample documents that are searched. */
export const sampleCount = signal(0)
/** Whether uploaded documents replaced the samples while this page was open. */
export const samplesReplaced = signal(false)

export async function loadDocuments(): Promise<void> {
  try {
    const { documents: got, samples: there } = await api.fetchDocuments()
    const before = sampleCount.peek()
    sampleCount.value = there ?? (hasReadyDocument(got) ? 0 : before)
    samplesReplaced.value = hasReadyDocument(got) && (samplesReplaced.peek() || before > 0)
    documents.value = got
    documentsError.value = null
  } catch (error) {
    documentsError.value = error
  }
}

/** Whether an uploaded document can be searched. */
function hasReadyDocument(all: DocumentInfo[]): boolean {
  return all.some((one) => one.status === 'ready')
}

/** The collection that holds the sample documents in demo mode. */
const SAMPLES_COLLECTION = 'samples'

/** Whether a document is one of the samples of the fictional company. */
export function isSampleDocument(id: string): boolean {
  return id.startsWith('samples/') || (documents.value ?? []).some((one) => one.id === id && one.collection === SAMPLES_COLLECTION)
}

/** The suggested questions that the current documents can answer. */
export function answerableStarters(starters: readonly string[], all: DocumentInfo[] | null): string[] {
  const hasSamples = all === null || !hasReadyDocument(all) || all.some((one) => one.collection === SAMPLES_COLLECTION)
  const questions = new Set([...sampleQuestions.ko, ...sampleQuestions.en])
  return hasSamples ? [...starters] : starters.filter((one) => !questions.has(one))
}

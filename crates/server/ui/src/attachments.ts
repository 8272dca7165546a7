// Files that are attached to the open chat. Only this chat finds them, and they are deleted with it.

import { signal } from '@preact/signals'

import * as api from './api'
import type { DocumentInfo } from './api-types'

/** A file on its way to the server. */
export interface AttachmentUpload {
  key: string
  name: string
  share: number
  error: unknown
  stop: () => void
}

interface Attachments {
  thread: string | null
  documents: DocumentInfo[]
  uploads: AttachmentUpload[]
}

export const attachments = signal<Attachments>({ thread: null, documents: [], uploads: [] })

/** Time between two looks while a file is read. */
const POLL_MS = 700

const isInProgress = (one: DocumentInfo) => ['queued', 'reading', 'indexing'].includes(one.status)

/** Whether a file is still sent or read. A question that is asked now would not find it. */
export function isReadingAttachments({ documents, uploads }: Attachments): boolean {
  return uploads.some((one) => one.error === null) || documents.some(isInProgress)
}

let timer: ReturnType<typeof setTimeout> | undefined

/** Shows the attachments of a thread. */
export async function openAttachments(thread: string | null): Promise<void> {
  clearTimeout(timer)
  if (attachments.peek().thread !== thread) attachments.value = { thread, documents: [], uploads: [] }
  if (thread === null) return
  const documents = await api.fetchDocuments(thread).then((got) => got.documents, () => null)
  if (attachments.peek().thread !== thread) return
  if (documents) attachments.value = { ...attachments.peek(), documents }
  if (attachments.peek().documents.some(isInProgress)) timer = setTimeout(() => void openAttachments(thread), POLL_MS)
}

/** Sends files to a thread. */
export function attachFiles(thread: string, files: Iterable<File>, fallbackName: string): void {
  for (const file of files) attachFile(thread, file, file.name || fallbackName)
}

function attachFile(thread: string, file: File, name: string): void {
  const key = api.randomId()
  const update = (change: (all: AttachmentUpload[]) => AttachmentUpload[]) => {
    if (attachments.peek().thread === thread) attachments.value = { ...attachments.peek(), uploads: change(attachments.peek().uploads) }
  }
  const drop = () => update((all) => all.filter((one) => one.key !== key))
  const set = (some: Partial<AttachmentUpload>) => update((all) => all.map((one) => (one.key === key ? { ...one, ...some } : one)))
  const { done, stop } = api.uploadDocument(file, { name, thread }, (share) => set({ share }))
  update((all) => [...all, { key, name, share: 0, error: null, stop: () => { stop(); drop() } }])
  done.then(
    () => { drop(); void openAttachments(thread) },
    (error) => { if (!(error instanceof DOMException)) set({ error, stop: drop }) },
  )
}

export async function removeAttachment(thread: string, id: string): Promise<void> {
  await api.deleteDocument(id, thread)
  await openAttachments(thread)
}

// Exports a conversation as Markdown or JSON. What people and models said is copied as it is.

import type { AnswerSource, MessageInfo } from './api-types'

export interface ExportLabels {
  user: string
  agent: string
  sources: string
}

/** `note` says what the file leaves out, if anything. */
export function threadAsMarkdown(title: string, messages: MessageInfo[], labels: ExportLabels, note: string | null = null): string {
  const parts = [`# ${title.replace(/\s+/g, ' ')}`, ...(note === null ? [] : [`> ${note}`])]
  for (const message of messages) {
    if (message.role !== 'user' && message.role !== 'assistant') continue
    const name = message.role === 'user' ? labels.user : labels.agent
    parts.push(`**${name}** · ${new Date(message.at).toISOString()}`, message.text)
    if (message.sources && message.sources.length > 0) {
      parts.push([`${labels.sources}:`, '', ...message.sources.map(sourceLine)].join('\n'))
    }
  }
  return `${parts.join('\n\n')}\n`
}

const sourceName = ({ title, article, clause }: AnswerSource) => [title, article, clause].filter(Boolean).join(' ')

function sourceLine(source: AnswerSource): string {
  return `- [${source.number}] ${sourceName(source)}: “${source.quote.replace(/\s+/g, ' ').trim()}”`
}

/** An answer with the names of the sources behind its numbers, to be pasted elsewhere. `sources` are numbered as in the text. */
export function answerWithSources(text: string, sources: (AnswerSource & { shown: number })[], label: string): string {
  if (sources.length === 0) return text
  return `${text}\n\n${label}:\n${sources.map((source) => `[${source.shown}] ${sourceName(source)}`).join('\n')}`
}

/** A file name that every system accepts. */
export function exportFileName(title: string, extension: 'md' | 'json'): string {
  const safe = title.replace(/[\\/:*?"<>|\u0000-\u001f]+/g, ' ').replace(/\s+/g, ' ').trim().slice(0, 80)
  return `${safe === '' || /^\.+$/.test(safe) ? 'conversation' : safe}.${extension}`
}

export function downloadText(name: string, text: string, type: string): void {
  downloadBlob(name, new Blob([text], { type: `${type};charset=utf-8` }))
}

export function downloadBlob(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob)
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}

// Exports a conversation as Markdown or JSON. What people and models said is copied as it is.

import type { AnswerSource, MessageInfo } from './api-types'

export interface ExportLabels {
  user: string
  agent: string
  sources: string
}

export function threadAsMarkdown(title: string, messages: MessageInfo[], labels: ExportLabels): string {
  const parts = [`# ${title.replace(/\s+/g, ' ')}`]
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

function sourceLine(source: AnswerSource): string {
  const place = [source.title, source.article, source.clause].filter(Boolean).join(' ')
  return `- [${source.number}] ${place}: “${source.quote.replace(/\s+/g, ' ').trim()}”`
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

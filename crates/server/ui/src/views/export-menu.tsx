// The menu that exports a conversation.

import { useRef, useState } from 'preact/hooks'

import * as api from '../api'
import { downloadText, exportFileName, threadAsMarkdown } from '../export-thread'
import { t } from '../i18n'
import { conversation } from '../conversation'
import { turnVersions } from '../branches'
import type { ThreadInfo } from '../api-types'
import { agentName } from './agent-picker'
import { Icon } from './icons'
import { problemText } from './problem-card'
import { threadTitle } from './sidebar'

export function ExportMenu({ thread }: { thread: ThreadInfo }) {
  const menu = useRef<HTMLDetailsElement>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const save = async (extension: 'md' | 'json') => {
    try {
      // What is shown is what is saved: the versions that are chosen.
      const { tip, runs, turns } = conversation.value.thread === thread.id ? conversation.value : { tip: null, runs: [], turns: [] }
      const { messages } = await api.fetchMessages(thread.id, tip)
      const left = turns.reduce((sum, turn) => sum + Math.max(0, turnVersions(runs, turn.id.value ?? '').length - 1), 0)
      const title = threadTitle(thread)
      const labels = { user: t('you'), agent: agentName(thread.agent ?? ''), sources: t('sources') }
      const text = extension === 'md'
        ? threadAsMarkdown(title, messages, labels, left > 0 ? t('export_left_out', { n: left }) : null)
        : JSON.stringify({ thread: thread.id, title, agent: thread.agent, messages }, null, 2)
      downloadText(exportFileName(title, extension), text, extension === 'md' ? 'text/markdown' : 'application/json')
      setProblem(null)
      if (menu.current) menu.current.open = false
    } catch (error) {
      setProblem(problemText(error).title)
    }
  }
  return (
    <details ref={menu} class="export" onKeyDown={(event) => { if (event.key === 'Escape' && menu.current) menu.current.open = false }}>
      <summary class="ghost" aria-label={t('export')} title={t('export')}><Icon name="download" /></summary>
      <div class="export-choices">
        <button type="button" class="ghost" onClick={() => void save('md')}>{t('export_markdown')}</button>
        <button type="button" class="ghost" onClick={() => void save('json')}>{t('export_json')}</button>
        {problem !== null && <p class="bad" role="alert">{problem}</p>}
      </div>
    </details>
  )
}

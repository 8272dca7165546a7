// What answers draw on: the documents and the memory, side by side as two parts of one page.

import { useEffect, useRef } from 'preact/hooks'

import { t } from '../i18n'
import { navigate, pathFromRoute } from '../route'
import { Documents } from './documents'
import { Memory } from './memory'

type Part = 'documents' | 'memory'

const PARTS: Part[] = ['documents', 'memory']

export function DocumentsAndMemory({ view }: { view: Part }) {
  const scroller = useRef<HTMLDivElement>(null)
  useEffect(() => { if (scroller.current) scroller.current.scrollTop = 0 }, [view])
  return (
    <div ref={scroller} class="documents scroller" tabIndex={-1}>
      <nav class="parts" aria-label={t('documents_and_memory')}>
        {PARTS.map((part) => (
          <a key={part} href={pathFromRoute({ view: part })} aria-current={part === view ? 'page' : undefined}
            onClick={(event) => {
              if (event.ctrlKey || event.metaKey || event.shiftKey) return
              event.preventDefault()
              navigate({ view: part })
            }}>{t(part)}</a>
        ))}
      </nav>
      {view === 'documents' ? <Documents /> : <Memory />}
    </div>
  )
}

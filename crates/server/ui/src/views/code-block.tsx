// A code block with its language, a copy button and colours.

import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'

import type { CodeToken } from '../highlight'
import { t } from '../i18n'
import { CopyButton } from './copy-button'

/** Longer code stays plain. */
const MAX_HIGHLIGHTED_CHARS = 40_000

/** Code is coloured when it has not changed for this long. While it streams, every change would colour all of it again. */
const HIGHLIGHT_DELAY_MS = 150

export function CodeBlock({ language, text }: { language: string; text: string }) {
  const [highlighted, setHighlighted] = useState<{ text: string; tokens: CodeToken[] } | null>(null)
  useEffect(() => {
    if (language === '' || text.length > MAX_HIGHLIGHTED_CHARS) return
    let isCurrent = true
    const timer = setTimeout(() => {
      // Without the colours the code is still readable, so a failed download is not an error.
      import('../highlight').then(({ highlightCode }) => {
        const tokens = highlightCode(language.toLowerCase(), text)
        if (isCurrent && tokens) setHighlighted({ text, tokens })
      }, () => undefined)
    }, HIGHLIGHT_DELAY_MS)
    return () => {
      isCurrent = false
      clearTimeout(timer)
    }
  }, [language, text])
  return (
    <figure class="code">
      <figcaption>
        <span>{language || t('code')}</span>
        <CopyButton text={text} />
      </figcaption>
      <pre tabIndex={0}><code>{highlighted?.text === text ? highlighted.tokens.map(renderToken) : text}</code></pre>
    </figure>
  )
}

function renderToken(token: CodeToken): ComponentChildren {
  return typeof token === 'string' ? token : <span class={`code-${token.kind}`}>{token.children.map(renderToken)}</span>
}

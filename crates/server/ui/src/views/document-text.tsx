// A part of a document as rendered Markdown, with the words of a quote highlighted.

import type { ComponentChildren, Ref } from 'preact'
import { useMemo } from 'preact/hooks'

import { MARK_END, MARK_START } from '../marked-document'
import { parseBlock, splitBlocks } from '../markdown/blocks'
import { renderBlock } from './markdown'

/** `text` has `MARK_START` and `MARK_END` around the words to highlight. `first` is the first highlighted element. */
export function DocumentMarkdown({ text, first }: { text: string; first: Ref<HTMLElement> }) {
  return useMemo(() => {
    let isMarked = false
    let isFirst = true
    // Highlighted words may span several blocks, so the state is kept from one text to the next.
    const renderText = (value: string): ComponentChildren => value.split(new RegExp(`([${MARK_START}${MARK_END}])`)).map((piece) => {
      if (piece === MARK_START || piece === MARK_END) {
        isMarked = piece === MARK_START
        return null
      }
      if (!isMarked || piece === '') return piece
      const ref = isFirst ? { ref: first } : {}
      isFirst = false
      return <mark {...ref}>{piece}</mark>
    })
    const blocks = splitBlocks(text).flatMap(parseBlock)
    return <div class="markdown">{blocks.map((block) => renderBlock(block, { sources: [], cite: () => undefined, renderText }))}</div>
  }, [text])
}

// A code block in the syntax of Mermaid: the diagram, or its source where it cannot be drawn. What draws it is loaded on demand and gives
// shapes; only elements and text nodes are made of them, so nothing in the source becomes markup or a link.

import { useEffect, useState } from 'preact/hooks'

import type { DrawnDiagram, Shape } from '../diagram/diagram'
import { t } from '../i18n'
import { CodeBlock } from './code-block'
import { CopyButton } from './copy-button'

/** A diagram is drawn when its source has not changed for this long. */
const DRAW_DELAY_MS = 150

const LINE_HEIGHT = 18

export function DiagramBlock({ source }: { source: string }) {
  const [drawn, setDrawn] = useState<{ source: string; diagram: DrawnDiagram | null } | null>(null)
  const [isSource, setSource] = useState(false)
  useEffect(() => {
    let isCurrent = true
    const timer = setTimeout(() => {
      // Without the diagram the source is still readable, so a failed download is not an error.
      import('../diagram/diagram').then(({ drawDiagram }) => {
        if (isCurrent) setDrawn({ source, diagram: drawDiagram(source) })
      }, () => undefined)
    }, DRAW_DELAY_MS)
    return () => {
      isCurrent = false
      clearTimeout(timer)
    }
  }, [source])
  const diagram = drawn?.source === source ? drawn.diagram : null
  if (!diagram || isSource) {
    return (
      <>
        <CodeBlock language="mermaid" text={source} />
        {diagram && <button type="button" class="link" onClick={() => setSource(false)}>{t('diagram_show')}</button>}
      </>
    )
  }
  const { kind, count, width, height, shapes } = diagram
  return (
    <figure class="code diagram-block">
      <figcaption>
        <span class="grow">{t('diagram')}</span>
        <button type="button" class="link" onClick={() => setSource(true)}>{t('diagram_source')}</button>
        <CopyButton text={source} />
      </figcaption>
      <div class="diagram-area" tabIndex={0} role="region" aria-label={t('diagram')}>
        <svg class="diagram" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={t(kind === 'flowchart' ? 'diagram_flowchart' : 'diagram_sequence', { n: count })}>
          {shapes.map((shape, at) => <DiagramShape key={at} shape={shape} />)}
        </svg>
      </div>
    </figure>
  )
}

function DiagramShape({ shape }: { shape: Shape }) {
  switch (shape.t) {
    case 'path':
      return <path class={`shape-${shape.kind}`} d={shape.d} />
    case 'rect':
      return <rect class={`shape-${shape.kind}`} x={shape.x} y={shape.y} width={shape.width} height={shape.height} rx={shape.rx} />
    case 'circle':
      return <circle class={`shape-${shape.kind}`} cx={shape.x} cy={shape.y} r={shape.r} />
    case 'text':
      return (
        <text text-anchor={shape.anchor}>
          {shape.lines.map((line, at) => <tspan key={at} x={shape.x} y={shape.y + 4.5 + (at - (shape.lines.length - 1) / 2) * LINE_HEIGHT}>{line}</tspan>)}
        </text>
      )
  }
}

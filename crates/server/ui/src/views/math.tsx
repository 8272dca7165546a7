// A formula, written in LaTeX and shown as MathML. The renderer is loaded on demand.

import { useLayoutEffect, useRef, useState } from 'preact/hooks'

/** Longer formulas are shown as their source. */
const MAX_FORMULA_CHARS = 4000

type Temml = typeof import('temml')['default']

let renderer: Temml | null = null

export function Formula({ source, isDisplay, delimited }: { source: string; isDisplay: boolean; delimited: string }) {
  const target = useRef<HTMLSpanElement>(null)
  const [isLoaded, setLoaded] = useState(renderer !== null)
  const [isBroken, setBroken] = useState(source.length > MAX_FORMULA_CHARS)

  useLayoutEffect(() => {
    setBroken(source.length > MAX_FORMULA_CHARS)
    if (source.length > MAX_FORMULA_CHARS) return
    if (renderer === null) {
      let isCurrent = true
      import('temml').then((module) => {
        renderer = module.default
        if (isCurrent) setLoaded(true)
      }, () => undefined)
      return () => {
        isCurrent = false
      }
    }
    if (!target.current) return
    try {
      // Commands that set links, styles or classes need `trust`.
      renderer.render(source, target.current, { displayMode: isDisplay, throwOnError: true, trust: false, maxSize: [20, 20], maxExpand: 200 })
    } catch {
      // Half a formula, as while it streams, or one that the renderer does not know.
      setBroken(true)
    }
  }, [source, isDisplay, isLoaded])

  if (!isLoaded || isBroken) return <span class="formula-source">{delimited}</span>
  return <span key="formula" ref={target} class={isDisplay ? 'formula is-display' : 'formula'} />
}

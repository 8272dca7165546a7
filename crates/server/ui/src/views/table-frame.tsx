// The frame of a table that may be wider than its place: it scrolls sideways, and says so where columns are out of sight.

import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'

import { t } from '../i18n'

export function TableFrame({ name, label, children }: { name: string; label: string; children: ComponentChildren }) {
  const frame = useRef<HTMLDivElement>(null)
  const [isWide, setWide] = useState(false)
  useEffect(() => {
    const element = frame.current
    if (!element || typeof ResizeObserver === 'undefined') return
    const observer = new ResizeObserver(() => setWide(element.scrollWidth > element.clientWidth + 1))
    observer.observe(element)
    for (const child of element.children) observer.observe(child)
    return () => observer.disconnect()
  }, [])
  return (
    <>
      {isWide && <p class="scroll-hint">{t('scroll_sideways')}</p>}
      <div ref={frame} class={name} tabIndex={0} role="region" aria-label={label}>{children}</div>
    </>
  )
}

// The edge of the side panel. Dragging it, or the arrow keys, change the width of the panel.

import { panelWidth } from '../settings'
import { t } from '../i18n'

const MIN_WIDTH = 320
const KEY_STEP = 32
/** Room that is left for the conversation. */
const MIN_REST = 420

function setWidth(width: number): void {
  panelWidth.value = Math.round(Math.max(MIN_WIDTH, Math.min(innerWidth - MIN_REST, width)))
}

export function PanelResizer() {
  const width = () => panelWidth.value ?? document.querySelector('.side')?.clientWidth ?? MIN_WIDTH
  return (
    <div class="resizer" role="separator" aria-orientation="vertical" aria-label={t('panel_resize')} tabIndex={0}
      aria-valuemin={MIN_WIDTH} aria-valuemax={Math.max(MIN_WIDTH, innerWidth - MIN_REST)} aria-valuenow={width()}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={(event) => { if (event.currentTarget.hasPointerCapture(event.pointerId)) setWidth(innerWidth - event.clientX) }}
      onKeyDown={(event) => {
        const by = event.key === 'ArrowLeft' ? KEY_STEP : event.key === 'ArrowRight' ? -KEY_STEP : 0
        if (by === 0) return
        event.preventDefault()
        setWidth(width() + by)
      }} />
  )
}

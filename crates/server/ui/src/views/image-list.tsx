// Images of a question, drawn on canvases.

import { useEffect, useRef, useState } from 'preact/hooks'

import { draftImages, imageOfDataUrl } from '../images'
import { t } from '../i18n'
import { Icon } from './icons'

/** The longest side of a shown image, in pixels. */
const SHOWN_SIDE = 320

export function ImageList({ images, remove }: { images: string[]; remove?: (at: number) => void }) {
  if (images.length === 0) return null
  return (
    <ul class="images" aria-label={t('images')}>
      {images.map((url, at) => (
        <li key={url.slice(-40) + at}>
          <ImageCanvas url={url} label={t('image_n', { n: at + 1 })} />
          {remove && <button type="button" class="ghost small" onClick={() => remove(at)} aria-label={t('image_remove_n', { n: at + 1 })} title={t('delete')}><Icon name="close" size={13} /></button>}
        </li>
      ))}
    </ul>
  )
}

/** The images of the question that is being written. */
export function DraftImages() {
  return <ImageList images={draftImages.value} remove={(at) => { draftImages.value = draftImages.value.filter((_, other) => other !== at) }} />
}

function ImageCanvas({ url, label }: { url: string; label: string }) {
  const target = useRef<HTMLCanvasElement>(null)
  const [isBroken, setBroken] = useState(false)
  useEffect(() => {
    let isCurrent = true
    const blob = imageOfDataUrl(url)
    if (!blob) {
      setBroken(true)
      return
    }
    createImageBitmap(blob).then((picture) => {
      const canvas = target.current
      if (isCurrent && canvas) {
        const scale = Math.min(1, SHOWN_SIDE / Math.max(picture.width, picture.height))
        canvas.width = Math.max(1, Math.round(picture.width * scale))
        canvas.height = Math.max(1, Math.round(picture.height * scale))
        canvas.getContext('2d')?.drawImage(picture, 0, 0, canvas.width, canvas.height)
        canvas.dataset['drawn'] = 'true'
      }
      picture.close()
    }, () => { if (isCurrent) setBroken(true) })
    return () => {
      isCurrent = false
    }
  }, [url])
  if (isBroken) return <span class="dim">{t('image_broken')}</span>
  return <canvas ref={target} role="img" aria-label={label} width={1} height={1} />
}

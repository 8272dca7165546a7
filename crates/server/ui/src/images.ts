// Images that belong to a question. They are made smaller in the browser, sent as text, and shown on a canvas: the page loads no image
// from any address.

import { signal } from '@preact/signals'

/** As the server takes them. */
export const MAX_IMAGES = 4
/** The most characters of all images of a question together. The server takes a little more. */
const MAX_IMAGE_CHARS = 440_000
/** Models make larger images smaller themselves. */
const MAX_SIDE = 1568
const MIN_SIDE = 320

/** The images of the question that is being written. */
export const draftImages = signal<string[]>([])

/** Adds images to the question. Throws if a file cannot be read as an image. */
export async function addDraftImages(files: File[]): Promise<void> {
  const room = MAX_IMAGES - draftImages.value.length
  const share = Math.floor(MAX_IMAGE_CHARS / MAX_IMAGES)
  for (const file of files.slice(0, room)) {
    const made = await encodeImage(file, share)
    draftImages.value = [...draftImages.value, made]
  }
}

/** The image as a data URL of at most so many characters. */
async function encodeImage(file: Blob, most: number): Promise<string> {
  const picture = await createImageBitmap(file)
  try {
    for (let side = MAX_SIDE; side >= MIN_SIDE; side *= 0.75) {
      const scale = Math.min(1, side / Math.max(picture.width, picture.height))
      const canvas = new OffscreenCanvas(Math.max(1, Math.round(picture.width * scale)), Math.max(1, Math.round(picture.height * scale)))
      const context = canvas.getContext('2d')
      if (!context) throw new Error('no canvas')
      // A picture without a background of its own would become black as JPEG.
      context.fillStyle = '#ffffff'
      context.fillRect(0, 0, canvas.width, canvas.height)
      context.drawImage(picture, 0, 0, canvas.width, canvas.height)
      const url = await dataUrl(await canvas.convertToBlob({ type: 'image/jpeg', quality: 0.85 }))
      if (url.length <= most) return url
    }
    throw new Error('too large')
  } finally {
    picture.close()
  }
}

async function dataUrl(blob: Blob): Promise<string> {
  const bytes = new Uint8Array(await blob.arrayBuffer())
  let text = ''
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000))
  return `data:${blob.type};base64,${btoa(text)}`
}

/** The bytes of a data URL with an image, or null. */
export function imageOfDataUrl(url: string): Blob | null {
  const found = /^data:(image\/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/=]+)$/.exec(url)
  if (!found) return null
  try {
    const text = atob(found[2] ?? '')
    return new Blob([Uint8Array.from(text, (one) => one.charCodeAt(0))], { type: found[1] ?? '' })
  } catch {
    return null
  }
}

/** The images of a stored message. Only data that came with it counts, never an address. */
export function imagesOfParts(parts: readonly { type: string }[]): string[] {
  return parts.flatMap((part) => (part.type === 'image' && 'url' in part && typeof part.url === 'string' && part.url.startsWith('data:image/') ? [part.url] : []))
}

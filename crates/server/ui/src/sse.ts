// Parses server-sent events from chunks of bytes. A chunk may end anywhere, even inside a character.

export interface SseFrame {
  id: string | null
  event: string
  data: string
}

/** Takes chunks of bytes and returns complete frames. An incomplete frame at the end of the stream is dropped. */
export class SseParser {
  #decoder = new TextDecoder('utf-8')
  #rest = ''
  #id: string | null = null
  #event = ''
  #data: string[] = []
  #started = false

  push(bytes: Uint8Array): SseFrame[] {
    let text = this.#decoder.decode(bytes, { stream: true })
    if (!this.#started && text !== '') {
      this.#started = true
      if (text.startsWith('\uFEFF')) text = text.slice(1)
    }
    this.#rest += text
    const frames: SseFrame[] = []
    let from = 0
    for (;;) {
      const end = nextLineBreak(this.#rest, from)
      if (end === -1) break
      const isPair = this.#rest[end] === '\r' && this.#rest[end + 1] === '\n'
      // A carriage return at the end of a chunk may be the first half of a CRLF.
      if (this.#rest[end] === '\r' && end + 1 === this.#rest.length) break
      const frame = this.#line(this.#rest.slice(from, end))
      if (frame) frames.push(frame)
      from = end + (isPair ? 2 : 1)
    }
    this.#rest = this.#rest.slice(from)
    return frames
  }

  #line(line: string): SseFrame | null {
    if (line === '') {
      if (this.#data.length === 0) {
        this.#event = ''
        this.#id = null
        return null
      }
      const frame = { id: this.#id, event: this.#event || 'message', data: this.#data.join('\n') }
      this.#event = ''
      this.#data = []
      this.#id = null
      return frame
    }
    if (line.startsWith(':')) return null
    const colon = line.indexOf(':')
    const field = colon === -1 ? line : line.slice(0, colon)
    let value = colon === -1 ? '' : line.slice(colon + 1)
    if (value.startsWith(' ')) value = value.slice(1)
    if (field === 'data') this.#data.push(value)
    else if (field === 'event') this.#event = value
    else if (field === 'id' && !value.includes('\0')) this.#id = value
    return null
  }
}

function nextLineBreak(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 10 || code === 13) return at
  }
  return -1
}

// When Enter sends. A syllable that is still being composed must neither send half a message nor be lost, and one
// Enter must send once, in every order in which browsers tell of it.
//
// - Chrome and Edge: keydown (229, composing), compositionend, sometimes a second keydown.
// - Safari: compositionend first, then keydown with 229 that is not composing.
// - Chrome on a Mac may send a plain 13 while the syllable is not committed yet.
//
// Hangul has no candidates to choose from, so Enter means "done and send": the send waits until the syllable is in the
// box. For other scripts Enter chooses a candidate and sends nothing.

export interface KeyPress {
  key: string
  keyCode: number
  isComposing: boolean
  shiftKey: boolean
  ctrlKey?: boolean
  metaKey?: boolean
  altKey?: boolean
  repeat?: boolean
}

export type EnterDecision =
  /** Not ours: the browser does what it does. */
  | 'leave'
  /** Nothing happens, and the browser adds no line either. */
  | 'swallow'
  /** Send what is in the box once this task is over. */
  | 'send'
  /** Send once the composition has ended. */
  | 'send-after-composition'

/** How long after the end of a composition a key may still belong to it. */
const COMPOSITION_TAIL_MS = 50

const HANGUL = /^[\uac00-\ud7a3\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\ud7b0-\ud7ff]+$/

export class ImeComposer {
  #isComposing = false
  #text = ''
  #endedAt = -Infinity
  #sendAfter = false
  #sentAt = -Infinity

  start(): void {
    this.#isComposing = true
    this.#text = ''
  }

  update(text: string): void {
    this.#isComposing = true
    // The composition goes on with other letters: the Enter before did not end it.
    if (text !== this.#text) this.#sendAfter = false
    this.#text = text
  }

  /** Whether the message is to be sent now that the composition is over. */
  end(text: string, now: number): boolean {
    this.#isComposing = false
    this.#text = text
    this.#endedAt = now
    const send = this.#sendAfter
    this.#sendAfter = false
    if (send) this.#sentAt = now
    return send
  }

  /** The box lost the focus: a send that waits for a composition waits no longer. */
  blur(): void {
    this.#isComposing = false
    this.#sendAfter = false
  }

  keydown(key: KeyPress, now: number): EnterDecision {
    if (key.key !== 'Enter') return 'leave'
    if (key.shiftKey || key.altKey) return 'leave'
    const isComposing = key.isComposing || this.#isComposing
    const isTail = now - this.#endedAt < COMPOSITION_TAIL_MS
    if (isComposing) {
      if (!HANGUL.test(this.#text)) return 'leave'
      this.#sendAfter = true
      return 'send-after-composition'
    }
    // The same Enter, told once more after the composition it ended.
    if (now - this.#sentAt < COMPOSITION_TAIL_MS || key.repeat) return 'swallow'
    if (isTail && key.keyCode === 229 && !HANGUL.test(this.#text)) return 'swallow'
    this.#sentAt = now
    return 'send'
  }
}

// Decides when Enter sends, with an input method editor (IME). A syllable that is still being composed must be neither
// cut off nor lost, and one Enter must send once. Browsers report these events in different orders:
//
// - Chrome and Edge: keydown (229, composing), compositionend, sometimes a second keydown.
// - Safari: compositionend first, then keydown with 229 that is not composing.
// - Chrome on a Mac may send a plain 13 while the syllable is not committed yet.
//
// Hangul has no candidate list, so Enter means "finish and send": sending waits until the syllable is in the box. In
// other scripts Enter chooses a candidate and does not send.

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
  /** Not handled: the browser acts as usual. */
  | 'leave'
  /** Ignored, and the browser must not insert a line break. */
  | 'swallow'
  /** Send the text of the box after the current event. */
  | 'send'
  /** Send once the composition has ended. */
  | 'send-after-composition'

/** A key event within this time after a composition may still belong to it. */
const COMPOSITION_TAIL_MS = 50

const HANGUL = /^[\uac00-\ud7a3\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\ud7b0-\ud7ff]+$/

export class ImeComposer {
  #isComposing = false
  #text = ''
  #endedAt = -Infinity
  #sendAfter = false
  /** When a composition ended that an Enter had waited for. */
  #sentAt = -Infinity

  start(): void {
    this.#isComposing = true
    this.#text = ''
  }

  update(text: string): void {
    this.#isComposing = true
    // The composition continues with other letters, so the earlier Enter did not end it.
    if (text !== this.#text) this.#sendAfter = false
    this.#text = text
  }

  /** Ends a composition. Returns whether the message is to be sent now. */
  end(text: string, now: number): boolean {
    this.#isComposing = false
    this.#text = text
    this.#endedAt = now
    const send = this.#sendAfter
    this.#sendAfter = false
    if (send) this.#sentAt = now
    return send
  }

  /** The box lost focus: cancels a pending send. */
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
    // The same key press, reported again after the composition it ended.
    if (now - this.#sentAt < COMPOSITION_TAIL_MS || key.repeat) return 'swallow'
    if (isTail && key.keyCode === 229 && !HANGUL.test(this.#text)) return 'swallow'
    return 'send'
  }
}

// Removes misleading characters from text of models, tools, files and users: terminal escape codes, control characters
// and bidirectional overrides. Such text is always inserted as text, never as markup.

const ANSI = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g
const BIDI = /[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]/g

/** Removes escape codes and control characters. Bidirectional overrides become a visible replacement character. */
export function sanitizeText(text: string): string {
  return text.replace(ANSI, '').replace(CONTROL, '').replace(BIDI, '\ufffd')
}

/** As `sanitizeText`, on one line. For titles and file names. */
export function sanitizeLine(text: string): string {
  return sanitizeText(text).replace(/\s+/g, ' ').trim()
}

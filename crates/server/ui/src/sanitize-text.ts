// Text of models, tools, files and people, made harmless to look at. It is always set as text, never as markup; here
// go the characters that would mislead the eye: terminal codes, reversed reading order, invisible signs.

const ANSI = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g
const BIDI = /[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]/g

/** The text without terminal codes and control characters; overrides of the reading order become a visible sign. */
export function sanitizeText(text: string): string {
  return text.replace(ANSI, '').replace(CONTROL, '').replace(BIDI, '\ufffd')
}

/** As `clean`, on one line. For titles and file names. */
export function sanitizeLine(text: string): string {
  return sanitizeText(text).replace(/\s+/g, ' ').trim()
}

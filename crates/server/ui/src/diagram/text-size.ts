// How wide a label is, estimated by its characters: nothing is measured, so a diagram is the same everywhere.

const WIDE = /[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60]|[\u{1f300}-\u{1faff}]/u

/** The width of a line in pixels, at 13 px. */
export function textWidth(line: string): number {
  let width = 0
  for (const one of line) width += WIDE.test(one) ? 13.5 : /[A-Z@%mwMW]/.test(one) ? 9.5 : /[il.,:;'| ]/.test(one) ? 4.5 : 7.6
  return width
}

/** The lines of a label, broken at blanks where they would be longer than so many Latin letters. */
export function textLines(label: string, most: number): string[] {
  const lines: string[] = []
  for (const given of label.split('\n')) {
    let line = ''
    for (const word of given.split(/\s+/)) {
      const longer = line === '' ? word : `${line} ${word}`
      if (line !== '' && textWidth(longer) > most * 7.6) {
        lines.push(line)
        line = word
      } else line = longer
    }
    lines.push(line)
  }
  return lines
}

// Reads sequence diagrams in the syntax of Mermaid. What is not understood gives null.

import { labelText } from './flowchart'

export type SequenceItem =
  | { t: 'message'; from: number; to: number; text: string; isDashed: boolean; head: 'arrow' | 'cross' | 'none' }
  | { t: 'note'; from: number; to: number; side: 'over' | 'left' | 'right'; text: string }
  | { t: 'begin'; kind: string; text: string }
  | { t: 'else'; text: string }
  | { t: 'end' }

export interface SequenceDiagram {
  participants: string[]
  items: SequenceItem[]
  isNumbered: boolean
}

const MAX_PARTICIPANTS = 20
const MAX_ITEMS = 200

const MESSAGE = /^(.+?)\s*(<<-->>|<<->>|-->>|->>|-->|->|--x|-x|--\)|-\))\s*[+-]?\s*([^:]+?)\s*(?::\s*(.*))?$/
const NOTE = /^note\s+(over|left of|right of)\s+([^:]+):\s*(.*)$/i

export function parseSequence(source: string): SequenceDiagram | null {
  const lines = source.split(/\r?\n/).map((line) => line.replace(/%%.*$/, '').trim()).filter((line) => line !== '')
  if (!/^sequenceDiagram$/i.test(lines.shift() ?? '')) return null
  const ids: string[] = []
  const made: SequenceDiagram = { participants: [], items: [], isNumbered: false }
  const participant = (id: string, label?: string) => {
    let at = ids.indexOf(id)
    if (at === -1) {
      at = ids.push(id) - 1
      made.participants.push(labelText(id))
    }
    if (label !== undefined) made.participants[at] = labelText(label)
    return at
  }
  let depth = 0
  for (const line of lines) {
    const declared = /^(?:create\s+)?(?:participant|actor)\s+(.+?)(?:\s+as\s+(.+))?$/i.exec(line)
    const block = /^(loop|alt|opt|par|critical|break|rect)\b\s*(.*)$/i.exec(line)
    const middle = /^(?:else|and|option)\b\s*(.*)$/i.exec(line)
    const note = NOTE.exec(line)
    const message = MESSAGE.exec(line)
    if (declared) participant(declared[1] ?? '', declared[2])
    else if (/^autonumber\b/i.test(line)) made.isNumbered = true
    else if (/^(activate|deactivate|title|accTitle|accDescr)\b/i.test(line)) continue
    else if (block) {
      depth += 1
      made.items.push({ t: 'begin', kind: (block[1] ?? '').toLowerCase(), text: block[1]?.toLowerCase() === 'rect' ? '' : labelText(block[2] ?? '') })
    } else if (middle && depth > 0) made.items.push({ t: 'else', text: labelText(middle[1] ?? '') })
    else if (/^end$/i.test(line) && depth > 0) {
      depth -= 1
      made.items.push({ t: 'end' })
    } else if (note) {
      const [first = '', last = first] = (note[2] ?? '').split(',').map((one) => one.trim())
      const side = (note[1] ?? '').toLowerCase()
      made.items.push({ t: 'note', from: participant(first), to: participant(last), side: side === 'over' ? 'over' : side === 'left of' ? 'left' : 'right', text: labelText(note[3] ?? '') })
    } else if (message) {
      const arrow = message[2] ?? ''
      made.items.push({
        t: 'message', from: participant(message[1] ?? ''), to: participant(message[3] ?? ''), text: labelText(message[4] ?? ''),
        isDashed: arrow.includes('--'), head: arrow.includes('x') ? 'cross' : arrow === '->' || arrow === '-->' ? 'none' : 'arrow',
      })
    } else return null
    if (made.participants.length > MAX_PARTICIPANTS || made.items.length > MAX_ITEMS) return null
  }
  return made.participants.length > 0 && depth === 0 ? made : null
}

// Sets breakpoints before and after the nodes of a graph.

import { breakpointsOf, toggleBreakpoint, type BreakpointSide } from '../breakpoints'
import { sanitizeText } from '../sanitize-text'
import { t } from '../i18n'

export function BreakpointList({ agent, nodes }: { agent: string; nodes: string[] }) {
  const set = breakpointsOf(agent)
  const count = set.before.length + set.after.length
  const box = (node: string, side: BreakpointSide) => (
    <td>
      <input type="checkbox" checked={set[side].includes(node)} onChange={() => toggleBreakpoint(agent, node, side)}
        aria-label={`${sanitizeText(node)}: ${t(side === 'before' ? 'before_node' : 'after_node')}`} />
    </td>
  )
  if (nodes.length === 0) return null
  return (
    <details class="breakpoints">
      <summary>{t('breakpoints')}{count > 0 && <span class="tag warm">{count}</span>}</summary>
      <p class="dim">{t('breakpoints_about')}</p>
      <table>
        <thead><tr><th>{t('node')}</th><th>{t('before_node')}</th><th>{t('after_node')}</th></tr></thead>
        <tbody>{nodes.map((node) => <tr key={node}><td><code>{sanitizeText(node)}</code></td>{box(node, 'before')}{box(node, 'after')}</tr>)}</tbody>
      </table>
    </details>
  )
}

// A JSON value as a tree that can be searched.

import { useState } from 'preact/hooks'

import { sanitizeText } from '../sanitize-text'
import { childPath, matchingPaths } from '../json-search'
import { t } from '../i18n'
import type { Json } from '../api-types'
import { CopyButton } from './copy-button'
import { Icon } from './icons'
import { formatJson } from './activity'

/** Longer texts are cut. */
const MAX_TEXT_CHARS = 2000

interface JsonTreeProps {
  label: string
  value: Json
  /** Paths that a step changed. */
  changed: ReadonlySet<string>
}

export function JsonTree({ label, value, changed }: JsonTreeProps) {
  const [query, setQuery] = useState('')
  const found = query.trim() === '' ? null : matchingPaths(value, query.trim())
  return (
    <div class="json-tree">
      <div class="labelled-head"><span>{label}</span><CopyButton text={() => formatJson(value)} /></div>
      <label class="search">
        <Icon name="search" size={14} />
        <span class="away">{t('state_search')}</span>
        <input type="search" value={query} placeholder={t('state_search')} onInput={(event) => setQuery(event.currentTarget.value)} />
      </label>
      {found?.size === 0 && <p class="dim" role="status">{t('state_no_match')}</p>}
      <ul class="tree"><TreeNode name="" path="" value={value} changed={changed} found={found} isOpen /></ul>
    </div>
  )
}

interface TreeNodeProps {
  name: string
  path: string
  value: Json
  changed: ReadonlySet<string>
  /** The paths to show. Null shows all. */
  found: ReadonlySet<string> | null
  isOpen?: boolean
}

function TreeNode({ name, path, value, changed, found, isOpen = false }: TreeNodeProps) {
  const isChanged = [...changed].some((one) => one === path || one.startsWith(`${path}.`) || one.startsWith(`${path}[`))
  const [toggled, setToggled] = useState<boolean | null>(null)
  if (found && !found.has(path)) return null
  const label = name === '' ? null : <code class="tree-name">{sanitizeText(name)}</code>
  const mark = isChanged && path !== '' ? <span class="tag warm">{t('state_changed')}</span> : null
  if (typeof value !== 'object' || value === null || Object.keys(value).length === 0) {
    const text = sanitizeText(typeof value === 'string' ? value : JSON.stringify(value))
    return <li>{label}<span class={`tree-${value === null ? 'null' : typeof value}`}>{text.length > MAX_TEXT_CHARS ? `${text.slice(0, MAX_TEXT_CHARS)}…` : text}</span>{mark}</li>
  }
  const open = toggled ?? (isOpen || found !== null || isChanged)
  const entries: [string, Json][] = Array.isArray(value) ? value.map((one, at) => [String(at), one]) : Object.entries(value)
  const children = open && (
    <ul>{entries.map(([key, one]) => (
      <TreeNode key={key} name={key} path={childPath(path, key, Array.isArray(value))} value={one} changed={changed} found={found} />
    ))}</ul>
  )
  if (name === '') return <li class="tree-root">{children}</li>
  return (
    <li>
      <button type="button" class="tree-toggle" aria-expanded={open} onClick={() => setToggled(!open)}>
        <span class={open ? 'turner is-open' : 'turner'}><Icon name="chevron" size={12} /></span>{label}
        <span class="dim">{Array.isArray(value) ? `[${value.length}]` : `{${entries.length}}`}</span>
      </button>
      {mark}
      {children}
    </li>
  )
}

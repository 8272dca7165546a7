// The kind and the collection of a document: the fields of an upload, and the form that changes them later.

import { useState } from 'preact/hooks'

import * as api from '../api'
import type { DocumentInfo, DocumentKind } from '../api-types'
import { documents } from '../documents'
import { t } from '../i18n'
import { sanitizeLine } from '../sanitize-text'
import { problemText } from './problem-card'

/** The kind as the server takes it. */
export function kindId(kind: DocumentKind): string {
  return typeof kind === 'string' ? kind : `standard:${kind.standard}`
}

export function kindName(kind: Exclude<DocumentKind, 'general'>): string {
  return kind === 'contract' ? t('kind_contract') : `${t('kind_standard')}: ${sanitizeLine(kind.standard)}`
}

/** The kinds of standard contracts that are offered. */
const STANDARDS = ['standard:용역']

/** The choice that leaves the kind to the server, which recognises contracts. */
export const AUTOMATIC_KIND = 'auto'

export function KindPicker({ value, choose, hasAutomatic = false }: { value: string; choose: (kind: string) => void; hasAutomatic?: boolean }) {
  const kinds = [...(hasAutomatic ? [AUTOMATIC_KIND] : []), 'general', 'contract', ...STANDARDS]
  const label = (kind: string) => (kind === AUTOMATIC_KIND ? t('kind_automatic') : kind === 'general' ? t('kind_general') : kind === 'contract' ? t('kind_contract')
    : kind === 'standard:용역' ? t('kind_standard_service') : `${t('kind_standard')}: ${sanitizeLine(kind.slice('standard:'.length))}`)
  return (
    <label class="picker">
      <span class="away">{t('doc_kind')}</span>
      <select value={value} onChange={(event) => choose(event.currentTarget.value)}>
        {[...new Set([...kinds, value])].map((kind) => <option key={kind} value={kind}>{label(kind)}</option>)}
      </select>
    </label>
  )
}

/** The names of the collections that there are. */
export function collectionNames(all: DocumentInfo[]): string[] {
  return [...new Set(all.map((one) => one.collection).filter((name) => name !== ''))].sort((left, right) => left.localeCompare(right))
}

export function CollectionField({ value, change }: { value: string; change: (name: string) => void }) {
  return (
    <label class="picker">
      <span class="away">{t('collection')}</span>
      <input type="text" list="collections" value={value} maxLength={100} placeholder={t('collection_none')} onInput={(event) => change(event.currentTarget.value)} />
      <datalist id="collections">{collectionNames(documents.value ?? []).map((name) => <option key={name} value={name} />)}</datalist>
    </label>
  )
}

export function DocumentSettings({ doc, done }: { doc: DocumentInfo; done: () => void }) {
  const [kind, setKind] = useState(kindId(doc.kind))
  const [collection, setCollection] = useState(doc.collection)
  const [error, setError] = useState<unknown>(null)
  const save = async () => {
    try {
      await api.updateDocument(doc.id, { kind, collection: collection.trim() })
      done()
    } catch (failed) {
      setError(failed)
    }
  }
  return (
    <form class="doc-settings row" onSubmit={(event) => { event.preventDefault(); void save() }}>
      <KindPicker value={kind} choose={setKind} />
      <CollectionField value={collection} change={setCollection} />
      <button type="submit" class="small primary" disabled={kind === kindId(doc.kind) && collection.trim() === doc.collection}>{t('save')}</button>
      <button type="button" class="small" onClick={done}>{t('cancel')}</button>
      {error !== null && <p class="bad" role="alert">{problemText(error).detail ?? problemText(error).title}</p>}
      <p class="dim">{t('doc_settings_about')}</p>
    </form>
  )
}

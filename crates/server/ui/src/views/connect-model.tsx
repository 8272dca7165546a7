// Connects a language model: a server on this machine or a provider with a key. Shown on the first visit, from the model
// menu and in the settings.

import { signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'

import { announce } from '../announce'
import * as api from '../api'
import { isExtractive } from '../agents-and-threads'
import type { ModelOffers, ModelTest, OfferedModelProvider, OfferedModelServer } from '../api-types'
import { formatDuration, localized, t } from '../i18n'
import { modelList, reloadModels } from '../models'
import { OWN_SERVER, parseOwnModel } from '../own-model'
import { sanitizeLine, sanitizeText } from '../sanitize-text'
import { loadSetting, saveSetting } from '../settings'
import { Icon } from './icons'
import { ProblemCard } from './problem-card'

export const connectDialogOpen = signal(false)
const isCardDismissed = signal(loadSetting('connect-card') === 'closed')

/** The card of the first visit: no language model answers yet. */
export function ConnectCard() {
  const list = modelList.value
  const active = list?.options.find((one) => one.is_default)
  const isWanted = list !== null && list.may_change && active !== undefined && isExtractive(active.model) && !isCardDismissed.value
  const [offers, setOffers] = useState<ModelOffers | null>(null)
  useEffect(() => {
    if (isWanted) api.fetchModelOffers().then(setOffers, () => setOffers(null))
  }, [isWanted])
  if (!isWanted) return null
  const found = offers ? [...offers.servers.map((one) => one.name), ...offers.providers.filter((one) => one.key !== 'none').map((one) => one.name)] : []
  return (
    <section class="card connect-card" aria-labelledby="connect-card-title">
      <Icon name="spark" />
      <div class="grow">
        <h2 id="connect-card-title">{t('connect_title')}</h2>
        <p class="dim">{t('connect_about')}</p>
        {found.length > 0 && <p class="connect-found"><Icon name="check" size={15} />{t('connect_found', { names: found.map(sanitizeLine).join(', ') })}</p>}
        <div class="row">
          <button type="button" class="primary" onClick={() => { connectDialogOpen.value = true }}>{t('connect_model')}</button>
          <button type="button" onClick={() => { isCardDismissed.value = true; saveSetting('connect-card', 'closed') }}>{t('later')}</button>
        </div>
      </div>
    </section>
  )
}

export function ConnectDialog() {
  const dialog = useRef<HTMLDialogElement>(null)
  const isOpen = connectDialogOpen.value
  useEffect(() => {
    if (isOpen) dialog.current?.showModal()
  }, [isOpen])
  if (!isOpen) return null
  const close = () => { connectDialogOpen.value = false }
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="connect-title" onClose={close}>
      <header class="panel-head">
        <h2 id="connect-title" class="grow">{t('connect_model')}</h2>
        <button type="button" class="ghost" onClick={close} aria-label={t('close')}><Icon name="close" /></button>
      </header>
      <div class="dialog-body"><ConnectForm close={close} /></div>
    </dialog>
  )
}

/** Where a model comes from: a server that was found, a provider, or an id that the user writes. */
type Place = { kind: 'server'; server: OfferedModelServer } | { kind: 'provider'; provider: OfferedModelProvider } | { kind: 'own' }

const placeId = (place: Place) => (place.kind === 'server' ? `server ${place.server.base_url}` : place.kind === 'provider' ? `provider ${place.provider.id}` : 'own')

/** The places in the order of the menu: what can be used at once comes first. */
export function placesOf(offers: ModelOffers): Place[] {
  const provider = (one: OfferedModelProvider): Place => ({ kind: 'provider', provider: one })
  return [
    ...offers.servers.map((server): Place => ({ kind: 'server', server })),
    ...offers.providers.filter((one) => one.key !== 'none').map(provider),
    ...offers.providers.filter((one) => one.key === 'none').map(provider),
    { kind: 'own' },
  ]
}

function ConnectForm({ close }: { close: () => void }) {
  const [offers, setOffers] = useState<ModelOffers | null>(null)
  const [chosen, setChosen] = useState<string | null>(null)
  const [error, setError] = useState<unknown>(null)
  const look = async () => {
    try {
      setOffers(await api.fetchModelOffers())
      setError(null)
    } catch (failed) {
      setError(failed)
    }
  }
  useEffect(() => void look(), [])
  if (error !== null) return <ProblemCard error={error}><button type="button" onClick={() => void look()}>{t('try_again')}</button></ProblemCard>
  if (!offers) return <p class="dim" role="status">{t('connect_looking')}</p>
  const places = placesOf(offers)
  const place = places.find((one) => placeId(one) === chosen) ?? places[0]
  const option = (one: Place) => <option key={placeId(one)} value={placeId(one)}>{placeLabel(one)}</option>
  const inGroup = (isIn: (one: Place) => boolean) => places.filter(isIn).map(option)
  return (
    <>
      <section>
        <h3><label for="connect-place">{t('connect_place')}</label></h3>
        <div class="row">
          <select id="connect-place" class="grow" value={place ? placeId(place) : ''} onChange={(event) => setChosen(event.currentTarget.value)}>
            {offers.servers.length > 0 && <optgroup label={t('connect_local')}>{inGroup((one) => one.kind === 'server')}</optgroup>}
            <optgroup label={t('connect_ready')}>{inGroup((one) => one.kind === 'provider' && one.provider.key !== 'none')}</optgroup>
            <optgroup label={t('connect_key_needed')}>{inGroup((one) => one.kind === 'provider' && one.provider.key === 'none')}</optgroup>
            <option value="own">{t('connect_own')}</option>
          </select>
          <button type="button" class="ghost" onClick={() => void look()} aria-label={t('connect_again')} title={t('connect_again')}><Icon name="retry" size={16} /></button>
        </div>
        {offers.servers.length === 0 && <p class="dim">{t('connect_no_servers')}</p>}
      </section>
      {place && <PlaceForm key={placeId(place)} place={place} keyChanged={() => void look()} close={close} />}
    </>
  )
}

function placeLabel(place: Place): string {
  if (place.kind === 'own') return t('connect_own')
  if (place.kind === 'server') return `${sanitizeLine(place.server.name)} · ${sanitizeLine(place.server.base_url)}`
  const { name, key, variable } = place.provider
  return key === 'none' ? sanitizeLine(name) : `${sanitizeLine(name)} · ${key === 'stored' ? t('key_stored') : sanitizeLine(variable)}`
}

function PlaceForm({ place, keyChanged, close }: { place: Place; keyChanged: () => void; close: () => void }) {
  const provider = place.kind === 'provider' ? place.provider : null
  const [names, setNames] = useState<string[] | null>(place.kind === 'server' ? place.server.models : null)
  const [model, setModel] = useState(place.kind === 'server' ? (place.server.models[0] ?? '') : '')
  const [test, setTest] = useState<ModelTest | null>(null)
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const hasKey = provider !== null && provider.key !== 'none'
  const [own, setOwn] = useState({ text: '', name: '', key: '' })
  const { isServer, needsName } = parseOwnModel(own.text, own.name)
  // What was said about a model does not hold for another one.
  const change = (to: string) => {
    setModel(to)
    setTest(null)
    setError(null)
  }
  const write = (changed: Partial<typeof own>) => {
    const now = { ...own, ...changed }
    setOwn(now)
    change(parseOwnModel(now.text, now.name).id)
  }
  const act = async (work: () => Promise<void>) => {
    setBusy(true)
    setError(null)
    try {
      if (isServer && own.key.trim() !== '') {
        await api.storeModelKey(OWN_SERVER, own.key.trim())
        setOwn((now) => ({ ...now, key: '' }))
      }
      await work()
    } catch (failed) {
      setError(failed)
    }
    setBusy(false)
  }
  useEffect(() => {
    if (provider && hasKey) {
      void act(async () => {
        const found = await api.fetchProviderModels(provider.id)
        setNames(found)
        setModel((now) => now || (found[0] ?? ''))
      })
    }
  }, [hasKey])
  const runTest = () => act(async () => {
    setTest(null)
    const result = await api.testModel(model)
    setTest(result)
    announce(result.ok ? t('test_ok', { time: formatDuration(result.ms) }) : t('test_failed'))
  })
  const use = () => act(async () => {
    await api.chooseDefaultModel(model)
    await reloadModels()
    announce(t('model_chosen', { name: model }))
    close()
  })
  const add = () => act(async () => {
    await api.addModel(model)
    await reloadModels()
    announce(t('model_added', { name: model }))
    close()
  })
  const isLoading = place.kind === 'server' && place.server.loading
  return (
    <>
      {provider && <KeySection provider={provider} keyChanged={keyChanged} />}
      {isLoading && <p class="note">{t('connect_loading')}</p>}
      {(provider === null || hasKey) && !isLoading && (
        <form class="connect-model" onSubmit={(event) => { event.preventDefault(); void use() }}>
          <h3><label for="connect-model">{t('model')}</label></h3>
          {names && names.length > 0 ? (
            <select id="connect-model" class="wide" value={model} onChange={(event) => change(event.currentTarget.value)}>
              {names.map((one) => <option key={one} value={one}>{sanitizeLine(one)}</option>)}
            </select>
          ) : (
            <input id="connect-model" type="text" class="wide" value={place.kind === 'own' ? own.text : model} spellcheck={false} autocomplete="off"
              placeholder={provider ? `${provider.id}:…` : 'http://127.0.0.1:9000/v1'}
              onInput={(event) => (place.kind === 'own' ? write({ text: event.currentTarget.value }) : change(event.currentTarget.value.trim()))} />
          )}
          {place.kind === 'own' && <p class="dim">{t('connect_own_about')}</p>}
          {place.kind === 'own' && isServer && (
            <>
              {needsName && (
                <label class="field"><span>{t('connect_own_model')}</span>
                  <input type="text" class="wide" value={own.name} spellcheck={false} autocomplete="off" onInput={(event) => write({ name: event.currentTarget.value })} /></label>
              )}
              <label class="field"><span>{t('connect_own_key')}</span>
                <input type="password" class="wide" value={own.key} autocomplete="off" spellcheck={false} onInput={(event) => { setOwn({ ...own, key: event.currentTarget.value }); setTest(null); setError(null) }} /></label>
              <p class="dim">{t('connect_own_key_about')}</p>
              {model !== '' && <p class="dim">{t('connect_own_form', { id: model })}</p>}
            </>
          )}
          {provider && <p class="dim">{t('connect_cloud', { name: sanitizeLine(provider.name) })}</p>}
          {test && <TestResult test={test} />}
          {error !== null && <ProblemCard error={error} />}
          <div class="row end">
            <button type="button" disabled={isBusy || model === ''} onClick={() => void runTest()}>{t(isBusy ? 'connect_busy' : 'test_model')}</button>
            <button type="button" disabled={isBusy || model === ''} onClick={() => void add()} title={t('model_add_about')}>{t('model_add')}</button>
            <button type="submit" class="primary" disabled={isBusy || model === ''}>{t('model_use')}</button>
          </div>
        </form>
      )}
      {!(provider === null || hasKey) && error !== null && <ProblemCard error={error} />}
    </>
  )
}

function TestResult({ test }: { test: ModelTest }) {
  if (test.ok) {
    return (
      <p class="note good" role="status">
        <Icon name="check" size={15} />
        <span>{t('test_ok', { time: formatDuration(test.ms) })} {test.text && <q>{sanitizeLine(test.text).slice(0, 200)}</q>}</span>
      </p>
    )
  }
  return (
    <div class="note bad" role="alert">
      <Icon name="warn" size={15} />
      <div>
        <strong>{t('test_failed')}</strong>
        <p>{sanitizeText(localized(test.error))}</p>
        <p><code>{sanitizeText(test.error?.message ?? '')}</code></p>
      </div>
    </div>
  )
}

function KeySection({ provider, keyChanged }: { provider: OfferedModelProvider; keyChanged: () => void }) {
  const [text, setText] = useState('')
  const [error, setError] = useState<unknown>(null)
  const [isReplacing, setReplacing] = useState(false)
  const store = async () => {
    try {
      await api.storeModelKey(provider.id, text.trim())
      setText('')
      setReplacing(false)
      setError(null)
      keyChanged()
    } catch (failed) {
      setError(failed)
    }
  }
  const remove = async () => {
    await api.deleteModelKey(provider.id).catch(setError)
    keyChanged()
  }
  const name = sanitizeLine(provider.name)
  if (provider.key !== 'none' && !isReplacing) {
    return (
      <p class="key-known">
        <Icon name="check" size={15} />
        <span class="grow">{provider.key === 'stored' ? t('key_is_stored', { name }) : t('key_is_in_environment', { name, variable: provider.variable })}</span>
        <button type="button" class="link" onClick={() => setReplacing(true)}>{t('key_replace')}</button>
        {provider.key === 'stored' && <button type="button" class="link" onClick={() => void remove()}>{t('delete')}</button>}
      </p>
    )
  }
  return (
    <form class="provider-key" onSubmit={(event) => { event.preventDefault(); void store() }}>
      <h3><label for="provider-key">{t('provider_key', { name })}</label></h3>
      <div class="row">
        <input id="provider-key" type="password" class="grow" value={text} autocomplete="off" spellcheck={false} onInput={(event) => { setText(event.currentTarget.value); setError(null) }} />
        <button type="submit" class="primary" disabled={text.trim() === ''}>{t('key_store')}</button>
      </div>
      <p class="dim">{t('provider_key_about', { name })}</p>
      {error !== null && <ProblemCard error={error} />}
    </form>
  )
}

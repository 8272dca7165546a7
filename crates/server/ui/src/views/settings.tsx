// The settings dialog and the API key dialog.

import { signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'

import * as api from '../api'
import { sanitizeText } from '../sanitize-text'
import { formatCost, language, formatNumber, localized, setLanguage, t, type Language } from '../i18n'
import { isExtractive, loadAgents, loadThreads, models } from '../agents-and-threads'
import { conversation } from '../conversation'
import { activityDetail, theme, type ActivityDetail, type Theme } from '../settings'
import type { UsageInfo } from '../api-types'
import { Icon } from './icons'

export const settingsOpen = signal(false)

export function Settings() {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    if (settingsOpen.value) dialog.current?.showModal()
  }, [settingsOpen.value])
  if (!settingsOpen.value) return null
  const close = () => {
    dialog.current?.close()
    settingsOpen.value = false
  }
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="settings-title" onClose={close}
      onClick={(event) => { if (event.target === dialog.current) close() }}>
      <header class="panel-head">
        <h2 id="settings-title" class="grow">{t('settings')}</h2>
        <button type="button" class="ghost" onClick={close} aria-label={t('close')}><Icon name="close" /></button>
      </header>
      <div class="dialog-body">
        <RadioChoice<Language> label={t('language')} value={language.value} set={setLanguage} options={[['ko', '한국어'], ['en', 'English']]} />
        <RadioChoice<Theme> label={t('theme')} value={theme.value} set={(next) => { theme.value = next }}
          options={[['system', t('theme_system')], ['light', t('theme_light')], ['dark', t('theme_dark')]]} />
        <RadioChoice<ActivityDetail> label={t('detail')} value={activityDetail.value} set={(next) => { activityDetail.value = next }}
          options={[['quiet', t('detail_quiet')], ['steps', t('detail_steps')], ['all', t('detail_all')]]} />
        <ModelList />
        <UsageTable />
        <section>
          <h3>{t('api_key')}</h3>
          <ApiKeyForm />
          <p class="dim">{t('api_key_about')}</p>
        </section>
        <section>
          <h3>{t('shortcuts')}</h3>
          <dl class="keys">
            <dt><kbd>Ctrl</kbd> <kbd>K</kbd></dt><dd>{t('new_conversation')}</dd>
            <dt><kbd>Ctrl</kbd> <kbd>I</kbd></dt><dd>{t('inspector')}</dd>
            <dt><kbd>Ctrl</kbd> <kbd>B</kbd></dt><dd>{t('threads')}</dd>
            <dt><kbd>/</kbd></dt><dd>{t('key_focus')}</dd>
            <dt><kbd>Esc</kbd></dt><dd>{t('key_escape')}</dd>
            <dt><kbd>Shift</kbd> <kbd>Enter</kbd></dt><dd>{t('key_newline')}</dd>
          </dl>
        </section>
      </div>
    </dialog>
  )
}

interface RadioChoiceProps<T extends string> {
  label: string
  value: T
  set: (value: T) => void
  options: [T, string][]
}

function RadioChoice<T extends string>({ label, value, set, options }: RadioChoiceProps<T>) {
  return (
    <fieldset class="choice">
      <legend>{label}</legend>
      <div class="segments">
        {options.map(([name, words]) => (
          <label key={name} class={name === value ? 'is-on' : ''}>
            <input type="radio" name={label} checked={name === value} onChange={() => set(name)} />
            <span lang={name === 'ko' || name === 'en' ? name : undefined}>{words}</span>
          </label>
        ))}
      </div>
    </fieldset>
  )
}

function ModelList() {
  const list = models.value ?? []
  if (list.length === 0) return null
  return (
    <section>
      <h3>{t('models')}</h3>
      <ul class="plain">
        {list.map((model, at) => (
          <li key={model.name} class="model">
            <code>{sanitizeText(model.name)}</code>
            {at === 0 && <span class="tag on">{t('in_use')}</span>}
            {isExtractive(model) && <span class="tag warm">{t('not_llm')}</span>}
            <p class="dim">{sanitizeText(localized(model))}</p>
          </li>
        ))}
      </ul>
    </section>
  )
}

function UsageTable() {
  const [all, setAll] = useState<UsageInfo | null>(null)
  const [one, setOne] = useState<UsageInfo | null>(null)
  const { thread } = conversation.value
  useEffect(() => {
    api.fetchUsage().then(setAll, () => setAll(null))
    if (thread !== null) api.fetchUsage(thread).then(setOne, () => setOne(null))
  }, [])
  if (!all && !one) return null
  const row = (label: string, usage: { input_tokens: number; output_tokens: number; cost_micros: number | null }) => (
    <tr><th scope="row">{label}</th><td>{formatNumber(usage.input_tokens)}</td><td>{formatNumber(usage.output_tokens)}</td><td>{formatCost(usage.cost_micros)}</td></tr>
  )
  return (
    <section>
      <h3>{t('usage')}</h3>
      <table class="usage">
        <thead><tr><th scope="col"><span class="away">{t('what')}</span></th><th scope="col">{t('tokens_in')}</th><th scope="col">{t('tokens_out')}</th><th scope="col">{t('cost')}</th></tr></thead>
        <tbody>
          {one && row(t('this_thread'), one)}
          {one?.by_model?.map((model) => row(`${sanitizeText(model.name)} ×${formatNumber(model.calls)}`, model))}
          {all && row(t('everything'), all)}
        </tbody>
      </table>
    </section>
  )
}

function ApiKeyForm() {
  const [text, setText] = useState('')
  const [isUsed, setUsed] = useState(api.hasApiKey())
  return (
    <form class="row" onSubmit={(event) => {
      event.preventDefault()
      api.setApiKey(text)
      setText('')
      setUsed(api.hasApiKey())
      void loadAgents()
      void loadThreads()
    }}>
      <label class="grow">
        <span class="away">{t('api_key')}</span>
        <input type="password" class="wide" value={text} autocomplete="off" spellcheck={false}
          placeholder={isUsed ? t('api_key_set') : t('api_key')} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button type="submit" class="primary">{t('use')}</button>
    </form>
  )
}

export function ApiKeyDialog() {
  const dialog = useRef<HTMLDialogElement>(null)
  const isWanted = api.needsApiKey.value
  useEffect(() => {
    if (isWanted) dialog.current?.showModal()
  }, [isWanted])
  if (!isWanted) return null
  return (
    <dialog ref={dialog} class="dialog small" aria-labelledby="key-title" onClose={() => { api.needsApiKey.value = false }}>
      <h2 id="key-title">{t('key_wanted')}</h2>
      <p>{t('key_wanted_more')}</p>
      <ApiKeyForm />
      <p class="dim">{t('api_key_about')}</p>
    </dialog>
  )
}

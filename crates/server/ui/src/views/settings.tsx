// The settings dialog and the API key dialog.

import { signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'

import * as api from '../api'
import { sanitizeText } from '../sanitize-text'
import { language, localized, setLanguage, t, type Language } from '../i18n'
import * as modelStore from '../models'
import { isExtractive, loadPinnedThreads, loadThreads } from '../agents-and-threads'
import { navigate } from '../route'
import { activityDetail, theme, type ActivityDetail, type Theme } from '../settings'
import { connectDialogOpen } from './connect-model'
import { Icon } from './icons'
import { ProblemCard, problemText } from './problem-card'

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
        <section>
          <h3>{t('memory')}</h3>
          <p class="dim">{t('memory_about')}</p>
          <button type="button" onClick={() => { close(); navigate({ view: 'memory' }) }}>{t('memory_open')}</button>
        </section>
        <section class="server-key">
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
  const list = modelStore.modelList.value
  const [error, setError] = useState<unknown>(null)
  if (!list || list.options.length === 0) return null
  const change = async (work: Promise<unknown>) => {
    setError(null)
    await work.catch(setError)
    await modelStore.reloadModels()
  }
  return (
    <section>
      <h3>{t('models')}</h3>
      <ul class="plain">
        {list.options.map(({ id, model, is_default, added }) => (
          <li key={id} class="model">
            <code>{sanitizeText(id)}</code>
            {is_default && <span class="tag on">{t('model_is_default')}</span>}
            {isExtractive(model) && <span class="tag warm">{t('not_llm')}</span>}
            {list.may_change && !is_default && (
              <span class="model-acts">
                <button type="button" class="link" onClick={() => void change(api.chooseDefaultModel(id))}>{t('model_use')}</button>
                {added && <button type="button" class="link" onClick={() => void change(api.removeModel(id))} aria-label={t('delete_n', { title: id })}>{t('delete')}</button>}
              </span>
            )}
            <p class="dim">{sanitizeText(localized(model))}</p>
          </li>
        ))}
      </ul>
      {error !== null && <ProblemCard error={error} />}
      {list.may_change && <button type="button" onClick={() => { settingsOpen.value = false; connectDialogOpen.value = true }}><Icon name="plus" size={15} />{t('connect_model')}</button>}
    </section>
  )
}

function ApiKeyForm() {
  const [text, setText] = useState('')
  const [isWrong, setWrong] = useState(false)
  const [error, setError] = useState<unknown>(null)
  // A key that the server refused is not in use.
  const isUsed = api.apiKeyChanges.value >= 0 && api.hasApiKey() && !api.needsApiKey.value
  const use = async () => {
    setError(null)
    setWrong(false)
    try {
      if (!(await api.tryApiKey(text))) return setWrong(true)
      setText('')
      void modelStore.reloadModels()
      void loadThreads()
      void loadPinnedThreads()
    } catch (failed) {
      setError(failed)
    }
  }
  return (
    <form class="row" onSubmit={(event) => { event.preventDefault(); void use() }}>
      <label class="grow">
        <span class="away">{t('api_key')}</span>
        <input type="password" class="wide" value={text} autocomplete="off" spellcheck={false}
          aria-invalid={isWrong} placeholder={isUsed ? t('api_key_set') : t('api_key')} onInput={(event) => { setText(event.currentTarget.value); setWrong(false) }} />
      </label>
      <button type="submit" class="primary">{t('use')}</button>
      {isWrong && <p class="bad whole-row" role="alert">{t('key_wrong')}</p>}
      {error !== null && <p class="bad whole-row" role="alert">{problemText(error).title}</p>}
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

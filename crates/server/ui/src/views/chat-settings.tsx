// The model menu of a chat, and the dialog with its temperature and instructions.

import { signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'

import { isExtractive } from '../agents-and-threads'
import { t } from '../i18n'
import { changeChatSettings, hasOwnSettings, modelList, settingsOfChat } from '../models'
import { sanitizeLine } from '../sanitize-text'
import { connectDialogOpen } from './connect-model'
import { Icon } from './icons'
import { shortModelName } from './model-badge'
import { ProblemCard } from './problem-card'

/** The value of the menu entry that opens the dialog to connect a model. */
const CONNECT = '\u0000connect'

const chatSettingsOpen = signal(false)

export function ModelPicker({ thread }: { thread: string | null }) {
  const list = modelList.value
  const [failed, setFailed] = useState(false)
  if (!list || (list.options.length < 2 && !list.may_change)) return null
  const settings = settingsOfChat(thread)
  const { model } = settings
  const isKnown = list.options.some((one) => one.id === model)
  const choose = async (value: string) => {
    setFailed(false)
    if (value === CONNECT) connectDialogOpen.value = true
    else await changeChatSettings(thread, { model: value === '' ? null : value }).catch(() => setFailed(true))
  }
  const label = (one: { id: string; model: { name: string; kind?: string } }) =>
    sanitizeLine(shortModelName(one.id)) + (isExtractive(one.model) ? ` (${t('not_llm')})` : '')
  return (
    <>
      <label class="picker model-picker">
        <span class="away">{t('model')}</span>
        {/* The key shows the choice again after the entry that opens the dialog. */}
        <select key={`${model}-${connectDialogOpen.value}`} value={model ?? ''} onChange={(event) => void choose(event.currentTarget.value)}>
          {list.options.filter((one) => one.is_default).map((one) => <option key={one.id} value="">{t('model_default', { name: label(one) })}</option>)}
          {list.options.filter((one) => !one.is_default).map((one) => <option key={one.id} value={one.id}>{label(one)}</option>)}
          {model !== null && !isKnown && <option value={model}>{t('model_gone', { name: sanitizeLine(model) })}</option>}
          {list.may_change && <option value={CONNECT}>{t('connect_model')}…</option>}
        </select>
      </label>
      <button type="button" class={hasOwnSettings(settings) ? 'ghost small is-on' : 'ghost small'} onClick={() => { chatSettingsOpen.value = true }}
        aria-label={t('chat_settings')} title={t('chat_settings')}><Icon name="sliders" size={16} /></button>
      {failed && <span class="bad" role="alert">{t('went_wrong')}</span>}
    </>
  )
}

export function ChatSettingsDialog({ thread }: { thread: string | null }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const isOpen = chatSettingsOpen.value
  const [temperature, setTemperature] = useState<number | null>(null)
  const [instructions, setInstructions] = useState('')
  const [error, setError] = useState<unknown>(null)
  useEffect(() => {
    if (!isOpen) return
    const now = settingsOfChat(thread)
    setTemperature(now.temperature)
    setInstructions(now.instructions)
    setError(null)
    dialog.current?.showModal()
  }, [isOpen])
  if (!isOpen) return null
  const close = () => { chatSettingsOpen.value = false }
  const save = async () => {
    try {
      await changeChatSettings(thread, { temperature, instructions: instructions.trim() })
      close()
    } catch (failed) {
      setError(failed)
    }
  }
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="chat-settings-title" onClose={close}>
      <header class="panel-head">
        <h2 id="chat-settings-title" class="grow">{t('chat_settings')}</h2>
        <button type="button" class="ghost" onClick={close} aria-label={t('close')}><Icon name="close" /></button>
      </header>
      <form class="dialog-body" onSubmit={(event) => { event.preventDefault(); void save() }}>
        <p class="dim">{t('chat_settings_about')}</p>
        <section>
          <h3><label for="chat-instructions">{t('instructions')}</label></h3>
          <textarea id="chat-instructions" class="wide" rows={5} maxLength={8000} value={instructions} placeholder={t('instructions_example')}
            onInput={(event) => setInstructions(event.currentTarget.value)} />
        </section>
        <section>
          <h3><label for="chat-temperature">{t('temperature')}</label></h3>
          <div class="row">
            <label class="check"><input type="checkbox" checked={temperature === null} onChange={(event) => setTemperature(event.currentTarget.checked ? null : 0.7)} />{t('temperature_default')}</label>
            <input id="chat-temperature" class="grow" type="range" min="0" max="2" step="0.1" disabled={temperature === null} value={temperature ?? 0.7}
              onInput={(event) => setTemperature(Number(event.currentTarget.value))} />
            <output for="chat-temperature">{temperature === null ? '–' : temperature.toFixed(1)}</output>
          </div>
          <p class="dim">{t('temperature_about')}</p>
        </section>
        {error !== null && <ProblemCard error={error} />}
        <div class="row end">
          <button type="button" onClick={close}>{t('cancel')}</button>
          <button type="submit" class="primary">{t('save')}</button>
        </div>
      </form>
    </dialog>
  )
}

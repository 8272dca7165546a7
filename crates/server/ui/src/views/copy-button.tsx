// A button that copies a text to the clipboard.

import { useEffect, useState } from 'preact/hooks'

import { t } from '../i18n'
import { announce } from '../announce'
import { Icon, type IconName } from './icons'

export function CopyButton({ text, label, icon = 'copy' }: { text: string | (() => string); label?: string; icon?: IconName }) {
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const timer = setTimeout(() => setCopied(false), 1600)
    return () => clearTimeout(timer)
  }, [copied])
  const copy = async () => {
    const value = typeof text === 'string' ? text : text()
    if (await copyText(value)) {
      setCopied(true)
      announce(t('copied'))
    } else announce(t('copy_failed'))
  }
  const words = label ?? t('copy')
  return (
    <button type="button" class="ghost small" onClick={copy} aria-label={words} title={words}>
      <Icon name={copied ? 'check' : icon} size={15} />
    </button>
  )
}

async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    // The clipboard API is missing on pages that are not served from localhost or over HTTPS.
    const box = document.createElement('textarea')
    box.value = text
    box.className = 'away'
    document.body.append(box)
    box.select()
    const done = document.execCommand('copy')
    box.remove()
    return done
  }
}

// Which addresses an answer may link to: other sites and mail, said openly. Nothing else becomes a link, least of all
// an address of this server.

export interface SafeLink {
  href: string
  /** Where it really leads, in ASCII. */
  host: string
}

const SCHEMES = new Set(['http:', 'https:', 'mailto:'])

/** The address as a link, or null when it is none of those allowed. */
export function parseSafeLink(address: string): SafeLink | null {
  const trimmed = address.trim()
  if (trimmed.length > 2048 || /[\u0000-\u0020\u007f-\u00a0\u2028\u2029]/.test(trimmed)) return null
  if (!/^(?:https?:\/\/|mailto:)/i.test(trimmed)) return null
  let url: URL
  try {
    url = new URL(trimmed)
  } catch {
    return null
  }
  if (!SCHEMES.has(url.protocol)) return null
  const host = url.protocol === 'mailto:' ? (url.pathname.split('@').pop() ?? '') : url.host
  return host === '' ? null : { href: url.href, host }
}

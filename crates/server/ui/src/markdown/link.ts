// Decides which URLs in an answer become links: absolute http, https and mailto URLs. Relative URLs, which would point
// to this server, never do.

export interface SafeLink {
  href: string
  /** The actual host, in ASCII. */
  host: string
}

const SCHEMES = new Set(['http:', 'https:', 'mailto:'])

/** Parses a URL. Returns null if it must not become a link. */
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

// Sanitizes the SVG of a graph. Only listed elements and attributes are copied: no styles, no scripts, no URLs.

const SVG_NAMESPACE = 'http://www.w3.org/2000/svg'
const ALLOWED_ELEMENTS = new Set(['svg', 'g', 'rect', 'path', 'text', 'title', 'circle', 'ellipse', 'line', 'polygon', 'tspan'])
const ALLOWED_ATTRIBUTES = new Set([
  'class', 'id', 'd', 'x', 'y', 'x1', 'x2', 'y1', 'y2', 'cx', 'cy', 'r', 'rx', 'ry', 'width', 'height', 'viewBox', 'transform',
  'fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-opacity', 'stroke-dasharray', 'opacity', 'text-anchor',
  'font-size', 'font-family', 'points', 'data-node', 'data-in', 'data-source', 'data-target',
])

interface TrustedTypesPolicy {
  createHTML(text: string): unknown
}

/** The Trusted Types policy that allows parsing. The parsed document is never inserted: allowed parts of it are copied. */
let policy: TrustedTypesPolicy | null | undefined

function parseSvg(text: string): Document {
  const guard = (globalThis as { trustedTypes?: { createPolicy(name: string, rules: object): TrustedTypesPolicy } }).trustedTypes
  policy ??= guard?.createPolicy('doran-picture', { createHTML: (one: string) => one }) ?? null
  // Browsers report a CSP violation for a style sheet even in a document that is never shown.
  const bare = text.replace(/<style[^>]*>[^<]*<\/style>/g, '')
  const given = policy ? policy.createHTML(bare) : bare
  return new DOMParser().parseFromString(given as string, 'image/svg+xml')
}

/** Parses and sanitizes an SVG. Returns null if the text is not SVG. */
export function sanitizeSvg(text: string): SVGSVGElement | null {
  const root = parseSvg(text).documentElement
  if (root.nodeName !== 'svg' || root.namespaceURI !== SVG_NAMESPACE) return null
  return copyAllowed(root, 0) as SVGSVGElement | null
}

function copyAllowed(from: Element, depth: number): Element | null {
  if (depth > 40 || from.namespaceURI !== SVG_NAMESPACE || !ALLOWED_ELEMENTS.has(from.localName)) return null
  const to = document.createElementNS(SVG_NAMESPACE, from.localName)
  for (const { name, value } of Array.from(from.attributes)) {
    if (ALLOWED_ATTRIBUTES.has(name) && !/url\(|javascript:/i.test(value)) to.setAttribute(name, value)
  }
  for (const child of Array.from(from.childNodes)) {
    if (child.nodeType === Node.TEXT_NODE) to.append(child.textContent ?? '')
    else if (child.nodeType === Node.ELEMENT_NODE) {
      const inner = copyAllowed(child as Element, depth + 1)
      if (inner) to.append(inner)
    }
  }
  return to
}

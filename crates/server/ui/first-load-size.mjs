// Prints how much compressed JavaScript the page loads at first, and fails if it is too much: `node first-load-size.mjs FOLDER`.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'

const MAX_FIRST_LOAD_BYTES = 180 * 1024

const folder = process.argv[2] ?? 'dist'
const read = (name) => readFileSync(join(folder, name), 'utf8')

/** The scripts of the page with everything they import at once. What `import()` names is loaded on demand. */
function firstLoad() {
  const waiting = [...read('index.html').matchAll(/(?:src|href)="\/([^"?]+\.js)/g)].map(([, name]) => name)
  const found = new Set()
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    if (found.has(name)) continue
    found.add(name)
    waiting.push(...[...read(name).matchAll(/(?:^|[;}])import[^(;]*?["'`]\.\/([^"'`]+\.js)["'`]/g)].map(([, other]) => other))
  }
  return [...found].sort()
}

const names = firstLoad()
const bytes = names.reduce((sum, name) => sum + gzipSync(read(name), { level: 9 }).length, 0)
console.log(`ui: the first load is ${(bytes / 1024).toFixed(1)} KB of compressed JavaScript (${names.join(', ')}); at most ${MAX_FIRST_LOAD_BYTES / 1024} KB`)
if (names.length === 0 || bytes > MAX_FIRST_LOAD_BYTES) {
  console.error('ui: too much is loaded at first; load it on demand')
  process.exit(1)
}

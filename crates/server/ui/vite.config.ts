// Builds the page: one script, one style sheet and the renderers that are loaded on demand, with fixed names. The same sources give the same bytes, and a change
// touches few files. Their URLs carry a hash of their content, so browsers may cache them forever.

import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig, type Plugin } from 'vite'

/** Names the files of the page by the bytes that were written: other plugins change a file until then. */
function addressByContent(): Plugin {
  return {
    name: 'address-by-content',
    writeBundle: {
      order: 'post',
      handler({ dir }, bundle) {
        if (dir === undefined) throw new Error('the page is written to no directory')
        const page = join(dir, 'index.html')
        let html = readFileSync(page, 'utf8')
        for (const file of Object.keys(bundle)) {
          const hash = createHash('sha256').update(readFileSync(join(dir, file))).digest('hex').slice(0, 12)
          html = html.replaceAll(`/${file}"`, `/${file}?v=${hash}"`)
        }
        writeFileSync(page, html)
      },
    },
  }
}

/** The licence texts of the libraries that a file contains, as their authors ask for. */
function licenceTexts(): Plugin {
  return {
    name: 'licence-texts',
    enforce: 'post',
    generateBundle(_options, bundle) {
      for (const file of Object.values(bundle)) {
        if (file.type !== 'chunk') continue
        const packages = new Set(file.moduleIds.flatMap((id) => /^(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(id)?.[1] ?? []))
        const texts = [...packages].sort().map((folder) => {
          const name = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one))
          if (!name) throw new Error(`${folder} has no licence text`)
          return `${folder.split('/node_modules/').at(-1)}\n\n${readFileSync(join(folder, name), 'utf8').trim()}`
        })
        if (texts.length > 0) file.code = `/*!\n${texts.join('\n\n').replaceAll('*/', '* /')}\n*/\n${file.code}`
      }
    },
  }
}

export default defineConfig({
  plugins: [licenceTexts(), addressByContent()],
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: 'dist',
    assetsDir: '',
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: true,
    target: 'es2022',
    rolldownOptions: {
      output: { entryFileNames: 'app.js', chunkFileNames: '[name].js', assetFileNames: 'app[extname]' },
    },
  },
  server: { proxy: { '/api': process.env.DORAN ?? 'http://127.0.0.1:7979' } },
  test: { include: ['test/**/*.test.ts'], testTimeout: 120_000 },
} as Parameters<typeof defineConfig>[0])

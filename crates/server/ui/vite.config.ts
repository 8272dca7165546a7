// Builds the page: one script and one style sheet with fixed names. The same sources give the same bytes, and a change
// touches few files. Their URLs carry a hash of their content, so browsers may cache them forever.

import { createHash } from 'node:crypto'
import { defineConfig, type Plugin } from 'vite'

function addressByContent(): Plugin {
  return {
    name: 'address-by-content',
    enforce: 'post',
    generateBundle(_options, bundle) {
      const page = bundle['index.html']
      if (page?.type !== 'asset') throw new Error('the page has no index.html')
      let html = String(page.source)
      for (const file of Object.values(bundle)) {
        if (file.fileName === 'index.html') continue
        const content = file.type === 'chunk' ? file.code : file.source
        const hash = createHash('sha256').update(content).digest('hex').slice(0, 12)
        html = html.replaceAll(`/${file.fileName}"`, `/${file.fileName}?v=${hash}"`)
      }
      page.source = html
    },
  }
}

export default defineConfig({
  plugins: [addressByContent()],
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
      output: { entryFileNames: 'app.js', assetFileNames: 'app[extname]', codeSplitting: false },
    },
  },
  server: { proxy: { '/api': process.env.DORAN ?? 'http://127.0.0.1:7979' } },
  test: { include: ['test/**/*.test.ts'], testTimeout: 120_000 },
} as Parameters<typeof defineConfig>[0])

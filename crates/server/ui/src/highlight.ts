// Colours source code. Loaded on demand, because the grammars are larger than the rest of the page.

import { createLowlight } from 'lowlight'
import bash from 'highlight.js/lib/languages/bash'
import c from 'highlight.js/lib/languages/c'
import cpp from 'highlight.js/lib/languages/cpp'
import csharp from 'highlight.js/lib/languages/csharp'
import css from 'highlight.js/lib/languages/css'
import diff from 'highlight.js/lib/languages/diff'
import dockerfile from 'highlight.js/lib/languages/dockerfile'
import go from 'highlight.js/lib/languages/go'
import ini from 'highlight.js/lib/languages/ini'
import java from 'highlight.js/lib/languages/java'
import javascript from 'highlight.js/lib/languages/javascript'
import json from 'highlight.js/lib/languages/json'
import kotlin from 'highlight.js/lib/languages/kotlin'
import lua from 'highlight.js/lib/languages/lua'
import makefile from 'highlight.js/lib/languages/makefile'
import markdown from 'highlight.js/lib/languages/markdown'
import nginx from 'highlight.js/lib/languages/nginx'
import php from 'highlight.js/lib/languages/php'
import powershell from 'highlight.js/lib/languages/powershell'
import python from 'highlight.js/lib/languages/python'
import r from 'highlight.js/lib/languages/r'
import ruby from 'highlight.js/lib/languages/ruby'
import rust from 'highlight.js/lib/languages/rust'
import scala from 'highlight.js/lib/languages/scala'
import sql from 'highlight.js/lib/languages/sql'
import swift from 'highlight.js/lib/languages/swift'
import typescript from 'highlight.js/lib/languages/typescript'
import xml from 'highlight.js/lib/languages/xml'
import yaml from 'highlight.js/lib/languages/yaml'

const lowlight = createLowlight({
  bash, c, cpp, csharp, css, diff, dockerfile, go, ini, java, javascript, json, kotlin, lua, makefile, markdown, nginx, php,
  powershell, python, r, ruby, rust, scala, sql, swift, typescript, xml, yaml,
})

/** A piece of code. `kind` is the class of highlight.js without its prefix, such as `keyword`. */
export type CodeToken = string | { kind: string; children: CodeToken[] }

interface TreeNode {
  type: string
  value?: string
  properties?: { className?: unknown }
  children?: TreeNode[]
}

/** Returns the pieces of a code block, or null for an unknown language. Their texts joined are the code. */
export function highlightCode(language: string, text: string): CodeToken[] | null {
  if (!lowlight.registered(language)) return null
  return (lowlight.highlight(language, text).children as TreeNode[]).map(toToken)
}

function toToken(node: TreeNode): CodeToken {
  if (node.type === 'text') return node.value ?? ''
  const classes = Array.isArray(node.properties?.className) ? node.properties.className : []
  const kind = /^hljs-([a-z-]+)$/.exec(String(classes[0] ?? ''))?.[1] ?? 'other'
  return { kind, children: (node.children ?? []).map(toToken) }
}

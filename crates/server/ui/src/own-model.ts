// A model that a person writes by hand: the address of a server of their own, or an id.

/** The provider of servers that speak the API of OpenAI. */
export const OWN_SERVER = 'openai-compatible'

export interface OwnModel {
  /** The id for requests. Empty while something is missing. */
  id: string
  /** Whether it is a server, which may need a key. */
  isServer: boolean
  /** Whether the address is there and the name of the model is not. */
  needsName: boolean
}

/** An address with a scheme, or one that begins with a host and a port. `ollama:qwen3:8b` is none: a provider has no dot. */
const ADDRESS = /^(?:https?:\/\/\S+|(?:localhost|[\w-]+(?:\.[\w-]+)+):\d+\S*)$/i

/** Understands `ADDRESS`, `ADDRESS#model`, `openai-compatible:ADDRESS#model` and `provider:model`. `name` is the model, if the text has none. */
export function parseOwnModel(text: string, name: string): OwnModel {
  const written = text.trim()
  const rest = written.startsWith(`${OWN_SERVER}:`) ? written.slice(OWN_SERVER.length + 1) : written
  const [address = '', ...more] = rest.split('#')
  if (!ADDRESS.test(address)) return { id: written.startsWith(`${OWN_SERVER}:`) ? '' : written, isServer: false, needsName: false }
  const model = more.join('#').trim() || name.trim()
  return { id: model === '' ? '' : `${OWN_SERVER}:${baseAddress(address)}#${model}`, isServer: true, needsName: more.join('#').trim() === '' }
}

/** The address under which the routes of the API are. Most servers have them under `/v1`. */
function baseAddress(address: string): string {
  const whole = (/^https?:\/\//i.test(address) ? address : `http://${address}`).replace(/\/+$/, '').replace(/\/(chat\/completions|models)$/, '')
  return /^https?:\/\/[^/]+$/i.test(whole) ? `${whole}/v1` : whole
}

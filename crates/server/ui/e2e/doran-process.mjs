// Runs the real program in a temporary directory. It can be killed and restarted on the same port and data.

import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Starts `doran serve` with these settings. */
export async function startDoran(program, settings = '') {
  const home = mkdtempSync(join(tmpdir(), 'doran-e2e-'))
  writeFileSync(join(home, 'doran.toml'), settings)
  const agentFolder = join(home, '.local/share/doran/agents')
  let child = null
  let port = '0'
  const doranServer = {
    base: '',
    async start() {
      child = spawn(program, ['serve', '--port', port], { cwd: home, env: { HOME: home, PATH: process.env.PATH }, stdio: ['ignore', 'ignore', 'pipe'] })
      doranServer.base = await listening(child)
      port = new URL(doranServer.base).port
    },
    /** Kills the process with SIGKILL. */
    async kill() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGKILL')
      await ended
    },
    /** Writes an agent in a file. The running server reads it soon. */
    writeAgentFile(name, text) {
      mkdirSync(agentFolder, { recursive: true })
      writeFileSync(join(agentFolder, `${name}.toml`), text)
    },
    removeAgentFile(name) {
      rmSync(join(agentFolder, `${name}.toml`))
    },
    async end() {
      await doranServer.kill()
      rmSync(home, { recursive: true, force: true })
    },
  }
  await doranServer.start()
  return doranServer
}

function listening(child) {
  return new Promise((resolve, reject) => {
    let output = ''
    child.stderr.setEncoding('utf8')
    child.stderr.on('data', (more) => {
      output += more
      const place = /http:\/\/127[\d.:]+/.exec(output.slice(output.indexOf('listening')))
      if (place && output.includes('\n')) resolve(place[0])
    })
    child.once('exit', () => reject(new Error(`the server does not start: ${output}`)))
  })
}

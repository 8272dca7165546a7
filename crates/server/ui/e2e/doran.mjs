// A real server of its own, in a directory of its own, that can be killed and started again in the same place.

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Starts `doran serve`, or another program that says where it listens. */
export async function doran(program, args = ['serve', '--port']) {
  const home = mkdtempSync(join(tmpdir(), 'doran-e2e-'))
  let child = null
  let port = '0'
  const house = {
    base: '',
    async start() {
      child = spawn(program, [...args, port], { cwd: home, env: { HOME: home, PATH: process.env.PATH }, stdio: ['ignore', 'ignore', 'pipe'] })
      house.base = await listening(child)
      port = new URL(house.base).port
    },
    /** Ends it as a power cut would. */
    async kill() {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGKILL')
      await ended
    },
    async end() {
      await house.kill()
      rmSync(home, { recursive: true, force: true })
    },
  }
  await house.start()
  return house
}

function listening(child) {
  return new Promise((resolve, reject) => {
    let said = ''
    child.stderr.setEncoding('utf8')
    child.stderr.on('data', (more) => {
      said += more
      const place = /http:\/\/[\d.:]+/.exec(said)
      if (place && said.includes('\n')) resolve(place[0])
    })
    child.once('exit', () => reject(new Error(`the server does not start: ${said}`)))
  })
}

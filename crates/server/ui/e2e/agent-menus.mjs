// Tests of the menus of agents, with the real program and agents in files.

import assert from 'node:assert/strict'
import { askQuestion, waitForAnswer, waitUntilReady } from './page-actions.mjs'

const agentFile = (name, more = '') => `name = "${name}"\nen = "says its name"\nko = "이름을 말합니다"\nstart = "say"\n${more}\n[[node]]\nname = "say"\nuse = "respond"\ntext = "I am ${name}."\nthen = "end"\n`

export const agentMenuTests = [
  {
    name: 'an agent that is hidden is in no menu, can be asked by its name, and is shown where it was asked',
    options: { locale: 'en-GB' },
    async run({ page, base, doranServer, shoot }) {
      doranServer.writeAgentFile('shown-agent', agentFile('shown-agent'))
      doranServer.writeAgentFile('hidden-helper', agentFile('hidden-helper', 'hidden = true'))
      const served = async () => (await (await fetch(`${base}/api/agents`)).json()).agents.map(({ id }) => id)
      for (let at = 0; !(await served()).includes('shown-agent') || !(await served()).includes('hidden-helper'); at++) {
        assert.ok(at < 600, 'the files are not read')
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
      await page.reload()
      await waitUntilReady(page)
      await page.locator('.agent', { hasText: 'shown-agent' }).waitFor()
      assert.equal(await page.locator('.agent', { hasText: 'hidden-helper' }).count(), 0)
      assert.equal(await page.locator('.picker option', { hasText: 'hidden-helper' }).count(), 0)
      await shoot('agent-menu')
      const listed = (await (await fetch(`${base}/v1/models`)).json()).data.map(({ id }) => id)
      assert.ok(listed.includes('shown-agent') && !listed.includes('hidden-helper'), listed.join())
      const body = JSON.stringify({ agent: 'hidden-helper', message: 'who are you?' })
      const run = await (await fetch(`${base}/api/threads/asked-by-name/runs?wait=true`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })).json()
      assert.equal(run.status, 'finished', JSON.stringify(run))
      await page.goto(`${base}/t/asked-by-name`)
      await page.locator('.markdown', { hasText: 'I am hidden-helper.' }).waitFor()
      await page.locator('.picker option:checked', { hasText: 'hidden-helper' }).waitFor({ state: 'attached' })
      await askQuestion(page, 'and now?')
      await waitForAnswer(page)
      await page.locator('.turn.is-last', { hasText: 'I am hidden-helper.' }).waitFor()
      await page.click('.sidebar .new')
      await waitUntilReady(page)
      await page.locator('.agent.is-on').waitFor()
      assert.equal(await page.locator('.agent, .picker option', { hasText: 'hidden-helper' }).count(), 0, 'a new chat offers it')
      for (const name of ['shown-agent', 'hidden-helper']) doranServer.removeAgentFile(name)
    },
  },
]

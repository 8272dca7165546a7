// Entry point of the page.

import { render } from 'preact'

import { App } from './app'
import { refreshListsAfterRuns, loadAgents, loadThreads } from './agents-and-threads'
import { watchLocation } from './route'
import { watchServer } from './server-status'
import { persistSettings } from './settings'
import './style/index.css'

persistSettings()
watchLocation()
refreshListsAfterRuns()
const loadLists = () => {
  void loadAgents()
  void loadThreads()
}
loadLists()
watchServer(loadLists)

const root = document.getElementById('app')
if (root) render(<App />, root)

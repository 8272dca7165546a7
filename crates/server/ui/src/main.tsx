// Entry point of the page.

import { effect } from '@preact/signals'
import { render } from 'preact'

import { App } from './app'
import { refreshListsAfterRuns, loadAgents, loadPinnedThreads, loadThreads } from './agents-and-threads'
import { deleteOnLeave } from './deleted-threads'
import { watchInbox } from './inbox'
import { loadModels } from './models'
import { openedLink, watchLocation } from './route'
import { watchServer } from './server-status'
import { inspectorOpen, persistSettings } from './settings'
import './style/index.css'

persistSettings()
watchLocation()
refreshListsAfterRuns()
const loadLists = () => {
  void loadAgents()
  void loadModels()
  void loadThreads()
  void loadPinnedThreads()
}
loadLists()
watchServer(loadLists)
watchInbox()
deleteOnLeave()
// An address that names a run is followed by the inspector.
effect(() => { if (openedLink.value) inspectorOpen.value = true })

const root = document.getElementById('app')
if (root) render(<App />, root)

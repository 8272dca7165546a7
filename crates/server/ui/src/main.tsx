// Starts the page.

import { render } from 'preact'

import { App } from './app'
import { keepListsFresh, loadAgents, loadThreads } from './lists'
import { watchAddress } from './route'
import { showTheme } from './settings'
import './style/index.css'

showTheme()
watchAddress()
keepListsFresh()
void loadAgents()
void loadThreads()

const root = document.getElementById('app')
if (root) render(<App />, root)

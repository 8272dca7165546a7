// Where Chromium is, and how it is started.

import { existsSync } from 'node:fs'

export const BROWSER_FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync']
const BROWSERS = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome', '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome']

/** The path of a Chromium, if there is one. */
export function findBrowser() {
  return BROWSERS.find((path) => path && existsSync(path))
}

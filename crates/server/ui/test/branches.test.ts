// Branches of a thread, from the runs that the server lists.

import { expect, test } from 'vitest'

import { branchTip, runsOnBranch, turnVersions } from '../src/branches'
import type { RunInfo } from '../src/api-types'

const run = (id: string, from: number | null, first: number | null, last: number | null): RunInfo => ({ id, from, first, last }) as never
const ids = (runs: RunInfo[]) => runs.map(({ id }) => id).join(' ')

/** a(1-3) b(4-6) follows a; a2(7-9) is another version of a; c(10-12) follows a2; b2(13-15) is another version of b. */
const RUNS = [run('b2', 3, 13, 15), run('c', 9, 10, 12), run('a2', 0, 7, 9), run('b', 3, 4, 6), run('a', 0, 1, 3)]

test('the newest branch holds the runs that lead to the newest entry', () => {
  expect(ids(runsOnBranch(RUNS, null))).toBe('b2 a')
  expect(ids(runsOnBranch(RUNS, 12))).toBe('c a2')
  expect(ids(runsOnBranch(RUNS, 6))).toBe('b a')
  expect(ids(runsOnBranch([], null))).toBe('')
})

test('a run that waits for its turn is shown, and one under way reaches the newest entry', () => {
  const queued = run('q', null, null, null)
  const withdrawn = { ...run('w', null, null, null), status: 'cancelled' } as RunInfo
  expect(ids(runsOnBranch([withdrawn, ...RUNS], null))).toBe('b2 a')
  const running = run('r', 15, 16, null)
  expect(ids(runsOnBranch([queued, running, ...RUNS], null))).toBe('q r b2 a')
  expect(ids(runsOnBranch([queued, running, ...RUNS], 12))).toBe('c a2')
})

test('versions of a turn follow the same entry, oldest first', () => {
  expect(ids(turnVersions(RUNS, 'a'))).toBe('a a2')
  expect(ids(turnVersions(RUNS, 'b2'))).toBe('b b2')
  expect(ids(turnVersions(RUNS, 'c'))).toBe('c')
  expect(ids(turnVersions(RUNS, 'other'))).toBe('')
})

test('another version is opened where its newest branch ends', () => {
  expect(branchTip(RUNS, 'a2')).toBe(12)
  expect(branchTip(RUNS, 'b')).toBe(6)
  // The newest entry of the thread needs no number.
  expect(branchTip(RUNS, 'a')).toBe(null)
  expect(branchTip(RUNS, 'b2')).toBe(null)
})

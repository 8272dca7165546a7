// The names of run statuses.

import type { MessageKey } from '../i18n'
import type { RunStatus } from '../transcript'

export const RUN_STATUS_LABELS: Record<RunStatus | 'queued', MessageKey> = {
  queued: 'status_queued', waiting: 'status_waiting', running: 'status_running', paused: 'status_paused', finished: 'status_finished',
  failed: 'status_failed', cancelled: 'status_cancelled',
}
